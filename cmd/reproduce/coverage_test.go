package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// TestCoverageError splits one data set again and again: mean and deviation of
// the coverage are those promised, though splits share all rows.
func TestCoverageError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	const nCal, nTest, alpha, splits = 39, 25, .1, 20000
	for name, draw := range map[string]func() float64{
		"continuous": rng.NormFloat64,
		"ties":       func() float64 { return float64(rng.IntN(8)) },
	} {
		rows := make([]float64, nCal+nTest)
		for i := range rows {
			rows[i] = draw()
		}
		at := make([]float64, nCal+nTest) // quantiles, all 0
		var covered, closed []float64
		for split := range uint64(splits) {
			rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			cal, test := ends{at[:nCal], at[:nCal], rows[:nCal]}, ends{at[nCal:], at[nCal:], rows[nCal:]}
			c, tied, err := test.smoothed(cal, alpha, split)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := test.conformalized(cal, alpha, 1)
			if err != nil {
				t.Fatal(err)
			}
			covered, closed = append(covered, c), append(closed, plain.PICP)
			if name == "continuous" && (tied != 0 || plain.PICP != c) {
				t.Fatalf("without ties: %v tied, %v covered smoothed, %v plainly", tied, c, plain.PICP)
			}
		}
		mean, deviation := stat.MeanStdDev(covered, nil)
		want := coverageError(nCal, nTest, alpha)
		if z := (mean - calibrate.ExpectedCoverage(nCal, alpha)) / want * math.Sqrt(splits); math.Abs(z) > 4 {
			t.Errorf("%s: mean coverage %v is %.1f standard errors from the promise", name, mean, z)
		}
		if name == "continuous" && math.Abs(deviation/want-1) > .03 {
			t.Errorf("coverage of splits deviates by %v, want %v", deviation, want)
		}
		if name == "ties" && (deviation > want || stat.Mean(closed, nil) < mean+.01) {
			t.Errorf("ties: deviation %v of at most %v, closed intervals cover %v of %v", deviation, want, stat.Mean(closed, nil), mean)
		}
	}
}

// TestCoverage runs two methods on a toy, and once more, when nothing is left
// to do.
func TestCoverage(t *testing.T) {
	orttest.Open(t)
	data, out := toyData(t), t.TempDir()
	args := []string{
		"coverage", "--data", data, "--sets", "yacht", "--methods", "sqr,quantile-forest", "--seeds", "3", "--epochs", "30",
		"--out", out, "--coverage", ".9", "--parallel", "2",
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	// 400 rows: 40 to test on, and 72 that calibrate: ⌈.9·73⌉/73.
	for _, want := range []string{"quantile-forest", "   72     3   0.9041", "smoothed 2 of 2"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, stdout.String())
		}
	}
	if !strings.Contains(stderr.String(), "6 of 6") || !strings.Contains(stderr.String(), "left") {
		t.Errorf("progress: %s", stderr.String())
	}
	if raw, err := os.ReadFile(filepath.Join(out, "coverage.csv")); err != nil || bytes.Count(raw, []byte("\n")) != 3 {
		t.Errorf("the CSV is %q, %v", raw, err)
	}
	first := stdout.String()
	stdout.Reset()
	stderr.Reset()
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 || stdout.String() != first {
		t.Errorf("a second run: exit %d, progress %q, the same table: %v", code, stderr.String(), stdout.String() == first)
	}
}
