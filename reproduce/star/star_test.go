package star

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

func TestReadSTAR(t *testing.T) {
	const head = "\"tch\",\"ach_score\",\"cltype\",\"exp\"\n"
	readText := func(text string) (starData, error) {
		return readSTAR(filepath.Join(experimenttest.WriteFile(t, "kdg.csv", text), "kdg.csv"))
	}
	d, err := readText(head + "a,900,\"small\",3\nb,901,reg,NA\nb,902,reg+A,1\nc,903,reg,4\na,NA,small,3\nd,905,small,7\nc,906,reg,5\n")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.small.x.Data, []float32{3, 7}) || !slices.Equal(d.small.y.Data, []float32{900, 905}) ||
		!slices.Equal(d.regular.y.Data, []float32{903, 906}) || !slices.Equal(d.regular.teacher, []string{"c", "c"}) || d.dropped != 2 {
		t.Errorf("read %+v", d)
	}
	for want, text := range map[string]string{
		"is empty":              "",
		"no column \"tch\"":     "cltype,exp,ach_score\n",
		"row 2: column \"exp\"": head + "a,900,small,3\na,900,small,many\n",
		"cltype \"reg\"":        head + "a,900,small,3\na,901,small,4\n",
		"wrong number":          head + "a,900,small\n",
	} {
		if _, err := readText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %q", text, err, want)
		}
	}
}

// TestMeanQuantiles uses a network with known quantiles: x + 12(τ−½) at level τ.
func TestMeanQuantiles(t *testing.T) {
	linear := train.Network{Layers: []train.Layer{{W: blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{1, 1}}}}}
	unit := mlp.Standard{Mean: []float64{0}, Scale: []float64{1}}
	n := mlp.Regression{Networks: []train.Network{linear}, X: unit, Y: unit}
	q := quantilesOf(n, blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: []float32{0, 1, 20}})
	levels := []float64{.1, .5, .905}
	for _, tt := range []struct{ weights, mean []float64 }{
		{[]float64{1, 1, 1}, []float64{7 - 4.8, 7, 7 + 12*.405}},
		{[]float64{2, 1, 0}, []float64{1./3 - 4.8, 1. / 3, 1./3 + 12*.405}},
	} {
		for l, v := range meanQuantiles(q, tt.weights, levels) {
			if math.Abs(v-tt.mean[l]) > 1e-4 {
				t.Errorf("weights %v: mean quantile %v at %v, want %v", tt.weights, v, levels[l], tt.mean[l])
			}
		}
	}
	// Rows 0 and 2 do not overlap, so the 0.25 quantile of the mixture is the median of row
	// 0.
	for l, v := range marginalQuantiles(q, []float64{1, 0, 1}, []float64{.25, .75}) {
		if want := []float64{0, 20}[l]; math.Abs(v-want) > .13 {
			t.Errorf("marginal quantile %v, want %v", v, want)
		}
	}
	if got := empiricalQuantiles([]float64{3, 1, 2}, []float64{1, 1, 8}, []float64{.05, .5, .95}); !slices.Equal(got, []float64{1, 2, 3}) {
		t.Errorf("weighted quantiles %v", got)
	}
}

func TestResample(t *testing.T) {
	groups := []string{"a", "b", "a", "c", "b", "a"}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		rows := resampleGroups(groups, rng)
		c := sampleCounts(rows, len(groups))
		// Groups come with all their rows, except possibly the last group.
		last := groups[rows[len(rows)-1]]
		if len(rows) != 6 || last != "a" && (c[0] != c[2] || c[2] != c[5]) || last != "b" && c[1] != c[4] {
			t.Errorf("groups %v: rows %v", groups, rows)
		}
		if rows := resampleRows(6, rng); len(rows) != 6 || slices.Max(rows) > 5 || slices.Min(rows) < 0 {
			t.Errorf("rows %v", rows)
		}
	}
}

// TestSTAR checks that the command finds a known effect of 6 + 3z, where z is the normal
// quantile of the level. The scores also depend on experience.
func TestSTAR(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	text := "cltype,exp,ach_score,tch\n"
	for i := range 3000 {
		exp, z := rng.IntN(5), rng.NormFloat64()
		kind, score := "reg", 100+2*float64(exp)+4*z
		if i%2 == 0 {
			kind, score = "small", score+6+3*z
		}
		text += fmt.Sprintf("%s,%d,%.3f,%d\n", kind, exp, score, i/20)
	}
	data, out := experimenttest.WriteFile(t, filepath.Join("star", "kdg.csv"), text), t.TempDir()
	code, stdout, stderr := experimenttest.Run(t, Experiment, "--data", data, "--out", out, "--seeds", "6", "--refits", "2", "--epochs", "20", "--averaging", ".9", "--resample", "teachers")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if !strings.Contains(stdout, "1500 children in small classes, 1500 in regular") || !strings.Contains(stderr, "2 of 2") {
		t.Errorf("printed %s\n%s", stdout, stderr)
	}
	records := experimenttest.ReadCSV(t, filepath.Join(out, "star.csv"))
	if len(records) != 10 {
		t.Fatalf("star.csv has %d lines", len(records))
	}
	for _, r := range records[1:] {
		var v [11]float64
		for i := range v {
			v[i], _ = strconv.ParseFloat(r[i], 64)
		}
		if want := 6 + 3*distuv.UnitNormal.Quantile(v[0]); math.Abs(v[1]-want) > 1.2 || !(v[3] < v[4]) {
			t.Errorf("level %v: effect %v in [%v, %v], want %v", v[0], v[1], v[3], v[4], want)
		}
		if math.Abs(v[5]-v[8]) > 1.2 || !(v[9] < v[10]) {
			t.Errorf("level %v: effect on the mixture %v, on the scores %v in [%v, %v]", v[0], v[5], v[8], v[9], v[10])
		}
	}
	experimenttest.Written(t, out, 1000, "star.png", "star.svg")
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ATTACH_DATA", dir)
	experimenttest.Refused(t, Experiment, map[string][]string{
		"rows or teachers":        {"--resample", "schools"},
		"--refits":                {"--refits", "0"},
		"between 0 and 1":         {"--coverage", "95"},
		"at least 2 bootstrap":    {"--seeds", "1"},
		"--averaging":             {"--averaging", "1"},
		"star has no flag --sets": {"--sets", "a"},
	})
	if code, _, stderr := experimenttest.Run(t, Experiment, "--out", dir); code != 1 || !strings.Contains(stderr, "the STAR kindergarten") {
		t.Errorf("without data: exit %d, %q", code, stderr)
	}
}
