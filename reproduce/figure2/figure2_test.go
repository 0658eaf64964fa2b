package figure2

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

func TestCosineToy(t *testing.T) {
	toy := cosineToy{columns: 3, frequency: 5, noise: .3}
	x, y := toy.draw(rand.New(rand.NewPCG(1, 0)), 20000)
	if x.Rows != 20000 || x.Cols != 3 || y.Rows != 20000 || y.Cols != 1 {
		t.Fatalf("x is %d×%d and y %d×%d", x.Rows, x.Cols, y.Rows, y.Cols)
	}
	noise := make([]float64, x.Rows)
	for i := range noise {
		noise[i] = float64(y.Data[i]) - math.Cos(5*float64(x.Data[3*i]))
	}
	if mean, std := stat.MeanStdDev(noise, nil); math.Abs(mean) > .01 || math.Abs(std-.3) > .01 {
		t.Errorf("noise has mean %v and standard deviation %v", mean, std)
	}
	for j := range 3 {
		column := make([]float64, x.Rows)
		for i := range column {
			column[i] = float64(x.Data[3*i+j])
		}
		if mean, std := stat.MeanStdDev(column, nil); math.Abs(mean) > .04 || math.Abs(std-1) > .03 {
			t.Errorf("column %d has mean %v and standard deviation %v", j, mean, std)
		}
	}
}

// line returns a network that computes slope·x + offset.
func line(slope, offset float32) train.Network {
	return train.Network{Layers: []train.Layer{{
		W: blas32.General{Rows: 1, Cols: 1, Stride: 1, Data: []float32{slope}}, B: []float32{offset},
	}}}
}

// TestCrossing measures lines with known crossings. The quantiles at the levels 0.1, 0.5
// and 0.9 are 0.5, x and 1 − x, for x = 0, 1/4, 1/2, 3/4.
func TestCrossing(t *testing.T) {
	identityScale := mlp.Standard{Mean: []float64{0}, Scale: []float64{1}}
	var fits []mlp.Regression
	for _, n := range []train.Network{line(0, .5), line(1, 0), line(-1, 1)} {
		fits = append(fits, mlp.Regression{Networks: []train.Network{n}, X: identityScale, Y: identityScale})
	}
	fits[0].Y = mlp.Standard{Mean: []float64{-.5}, Scale: []float64{2}} // this scale maps 0.5 to 2·0.5 − 0.5 = 0.5
	q := separateQuantiles(fits, experiment.AsColumn([]float64{0, .25, .5, .75}))
	want := []float32{.5, 0, 1, .5, .25, .75, .5, .5, .5, .5, .75, .25}
	if !slices.Equal(q, want) {
		t.Fatalf("quantiles %v, want %v", q, want)
	}
	sorted := sortedRows(q, 3)
	if !slices.Equal(sorted[9:], []float32{.25, .5, .75}) || q[10] != .75 {
		t.Errorf("sorted %v, and the original is now %v", sorted, q)
	}
	c := crossingCurves{set: "lines", x: make([]float64, 4), y: []float64{0, .25, .5, .75}, levels: []float64{.1, .5, .9}}
	c.quantiles = [][]float32{q, sorted, q, sorted}
	results := c.measure(7, 2)
	for i, r := range results {
		rows, pairs := 3./4, 3./8 // equal quantiles do not count as crossing
		if i%2 == 1 {
			rows, pairs = 0, 0
		}
		if r.set != "lines" || r.seed != 7 || r.method != crossingMethods()[i] || r.rowFraction != rows || r.pairFraction != pairs {
			t.Errorf("result %+v, want %v of the rows and %v of the pairs", r, rows, pairs)
		}
	}
	// Sum the pinball loss over rows: τ·(y−q) for y above q, and (1−τ)·(q−y) for y below q.
	low, middle, high := .9*(.5+.25+0)+.1*.25, .5*0., .1*(1+.5+0)+.9*.5
	if got, want := results[0].pinball, (low+middle+high)/12/2; math.Abs(got-want) > 1e-9 {
		t.Errorf("pinball %v, want %v", got, want)
	}
	if got := c.crossingRate(0, []int{0, 2}); got != 1./4 {
		t.Errorf("the outer levels cross in %v of the rows, want 1/4", got)
	}
}

func TestFigure2(t *testing.T) {
	data, out := experimenttest.Yacht(t), t.TempDir()
	run := func() (code int, stdout, stderr string) {
		return experimenttest.Run(t, Experiment, "--data", data, "--sets", "yacht,cos5", "--seeds", "2", "--epochs", "3", "--levels", ".1,.5,.9", "--out", out)
	}
	code, first, stderr := run()
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	rows := experimenttest.ReadCSV(t, filepath.Join(out, "figure2.csv"))
	if got := strings.Join(rows[0], ","); got != "set,seed,levels,rows_crossed,pairs_crossed,pinball" || len(rows) != 1+2*2*4 {
		t.Errorf("%d lines of columns %s", len(rows), got)
	}
	for _, row := range rows[1:] {
		if sorted := strings.HasSuffix(row[2], ", sorted"); sorted && (row[3] != "0" || row[4] != "0") {
			t.Errorf("sorted quantiles cross: %v", row)
		}
	}
	curves := experimenttest.ReadCSV(t, filepath.Join(out, "figure2-curves.csv"))
	if len(curves) != 1+40 || len(curves[0]) != 2+4*3 || curves[0][2] != "separate q0.1" || curves[0][13] != "joint, sorted q0.9" {
		t.Errorf("%d lines of columns %v", len(curves), curves[0])
	}
	experimenttest.Written(t, out, 3000, "figure2.png", "figure2.svg", "figure2-rates.png", "figure2-rates.svg")
	if code, again, _ := run(); code != 0 || again != first {
		t.Errorf("once more: exit %d, other figures:\n%s\n%s", code, first, again)
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("ATTACH_DATA", "")
	experimenttest.Refused(t, Experiment, map[string][]string{
		"there is no set \"mars\"":    {"--sets", "mars"},
		"yacht is a UCI set":          {"--sets", "cos5,yacht"},
		"increase between 0 and 1":    {"--levels", ".5,.1"},
		"at least two":                {"--levels", ".5"},
		"--weight-decay":              {"--weight-decay", "-1"},
		"numbers separated by commas": {"--levels", ".1;.9"},
	})
}
