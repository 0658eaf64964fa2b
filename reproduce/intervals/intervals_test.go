package intervals

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// TestCoverageError splits one data set many times. The mean and the standard deviation of
// the coverage must match the theory, although all splits share the same rows. With ties,
// the standard deviation must not be larger.
func TestCoverageError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	const nCal, nTest, alpha, splits = 39, 25, .1, 20000
	for name, draw := range map[string]func() float64{
		"continuous": func() float64 { return float64(float32(rng.NormFloat64())) },
		"ties":       func() float64 { return float64(rng.IntN(8)) },
	} {
		rows := make([]float64, nCal+nTest)
		for i := range rows {
			rows[i] = draw()
		}
		zeroQuantiles := make([]float64, nCal+nTest)
		var covered, closed []float64
		for split := range uint64(splits) {
			rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			cal, test := Ends{zeroQuantiles[:nCal], zeroQuantiles[:nCal], rows[:nCal]}, Ends{zeroQuantiles[nCal:], zeroQuantiles[nCal:], rows[nCal:]}
			c, tied, err := test.Smoothed(cal, alpha, split)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := test.Conformalized(cal, alpha, 1)
			if err != nil {
				t.Fatal(err)
			}
			covered, closed = append(covered, c), append(closed, plain.PICP)
			if name == "continuous" && (tied != 0 || plain.PICP != c) {
				t.Fatalf("without ties: %v tied, %v covered smoothed, %v plainly", tied, c, plain.PICP)
			}
		}
		mean, deviation := stat.MeanStdDev(covered, nil)
		want := CoverageError(nCal, nTest, alpha)
		if z := (mean - hypothesis.ExpectedCoverage(nCal, alpha)) / want * math.Sqrt(splits); math.Abs(z) > 4 {
			t.Errorf("%s: mean coverage %v is %.1f standard errors from the guarantee", name, mean, z)
		}
		if name == "continuous" && math.Abs(deviation/want-1) > .03 {
			t.Errorf("coverage of splits deviates by %v, want %v", deviation, want)
		}
		if name == "ties" && (deviation > want || stat.Mean(closed, nil) < mean+.01) {
			t.Errorf("ties: deviation %v of at most %v, closed intervals cover %v of %v", deviation, want, stat.Mean(closed, nil), mean)
		}
	}
}

func TestUnbounded(t *testing.T) {
	e := Ends{Lower: []float64{0, 0}, Upper: []float64{1, 1}, Y: []float64{.5, 2}}
	m, err := e.Conformalized(e, .05, 2)
	if err != nil || !m.Unbounded || m.PICP != 1 {
		t.Errorf("two rows calibrate a level of 95 %%: %+v, %v", m, err)
	}
}
