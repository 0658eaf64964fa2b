package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// TestGapToy holds that rows lie where they should, and have the quantiles that
// are called true.
func TestGapToy(t *testing.T) {
	const n = 20000
	toy := drawToy(rand.New(rand.NewPCG(1, 0)), n)
	left := 0
	for _, x := range toy.x {
		if !(dataFrom <= x && x < gapFrom || gapTo <= x && x < dataTo) {
			t.Fatalf("a row at %v", x)
		}
		left += int(indicator(x < gapFrom))
	}
	if left != n/2 {
		t.Errorf("%d of %d rows left of the gap", left, n)
	}
	for _, tau := range []float64{.025, .5, .8, .975} {
		for _, side := range []bool{true, false} {
			below := 0.
			for i, x := range toy.x {
				if x < gapFrom == side {
					below += indicator(toy.y[i] <= toyQuantile(x, tau)) / (n / 2)
				}
			}
			if error := 4 * math.Sqrt(tau*(1-tau)/(n/2)); math.Abs(below-tau) > error {
				t.Errorf("left %v: %v of the rows lie below their quantile %v", side, below, tau)
			}
		}
	}
}

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

// line is a network of one column and one value: slope·x + offset.
func line(slope, offset float32) heads.Network {
	return heads.Network{Layers: []heads.Layer{{
		W: blas32.General{Rows: 1, Cols: 1, Stride: 1, Data: []float32{slope}}, B: []float32{offset},
	}}}
}

// TestCrossing measures lines that cross where it is known: the levels .1, .5
// and .9 are 0.5, x and 1 − x, on x = 0, 1/4, 1/2, 3/4.
func TestCrossing(t *testing.T) {
	one := heads.Standard{Mean: []float64{0}, Scale: []float64{1}}
	var networks []heads.RegressionNetworks
	for _, n := range []heads.Network{line(0, .5), line(1, 0), line(-1, 1)} {
		networks = append(networks, heads.RegressionNetworks{Networks: []heads.Network{n}, X: one, Y: one})
	}
	networks[0].Y = heads.Standard{Mean: []float64{-.5}, Scale: []float64{2}} // 2·0.5 − 0.5 = 0.5
	q := separateQuantiles(networks, asColumn([]float64{0, .25, .5, .75}))
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
		rows, pairs := 3./4, 3./8 // equal quantiles do not cross
		if i%2 == 1 {
			rows, pairs = 0, 0
		}
		if r.set != "lines" || r.seed != 7 || r.method != crossingMethods()[i] || r.rows != rows || r.pairs != pairs {
			t.Errorf("result %+v, want %v of the rows and %v of the pairs", r, rows, pairs)
		}
	}
	// τ·(y−q) above, (1−τ)·(q−y) below, summed over rows by hand.
	low, middle, high := .9*(.5+.25+0)+.1*.25, .5*0., .1*(1+.5+0)+.9*.5
	if got, want := results[0].pinball, (low+middle+high)/12/2; math.Abs(got-want) > 1e-9 {
		t.Errorf("pinball %v, want %v", got, want)
	}
	if got := c.crossed(0, []int{0, 2}); got != 1./4 {
		t.Errorf("the outer levels cross in %v of the rows, want 1/4", got)
	}
}

// TestLastHidden holds that the features are those that the network's last
// layer makes the median from.
func TestLastHidden(t *testing.T) {
	orttest.Open(t)
	s := settingsWithTrainer(t)
	toy := drawToy(rand.New(rand.NewPCG(1, 0)), 200)
	head, err := heads.FitSQR(t.Context(), asColumn(toy.x), asColumn(toy.y), s.trainer, heads.SQROptions{Hidden: []int{6, 5}, Epochs: 2})
	if err != nil {
		t.Fatal(err)
	}
	phi := lastHidden(head, toy.x)
	if phi.Rows != 200 || phi.Cols != 5 || slices.Min(phi.Data) != 0 {
		t.Fatalf("features are %d×%d, the least is %v", phi.Rows, phi.Cols, slices.Min(phi.Data))
	}
	last := head.Networks[0].Layers[2]
	out := blas32.General{Rows: 200, Cols: 1, Stride: 1, Data: make([]float32, 200)}
	last.Apply(out, phi)
	want := head.Unsorted(asColumn(toy.x), []float64{.5})
	for i, v := range out.Data {
		if got := head.Y.Mean[0] + head.Y.Scale[0]*float64(v); math.Abs(got-want.At(i, 0, 0)) > 1e-5 {
			t.Fatalf("row %d: %v from the features, want the median %v", i, got, want.At(i, 0, 0))
		}
	}
}

func TestEpistemic(t *testing.T) {
	e, err := newEpistemic("v", []float64{0, 1, 2, 3}, []float64{2.5, 4}, []float64{5, 6, 7, 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := epistemic{name: "v", inside: 1.5, gap: 3.25, beyond: 4.5, gapAUROC: 7. / 8, beyondAUROC: 12.5 / 16, alarm: .25, gapHit: 1, farther: .75}
	if e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestFigure1 runs without a folder of data.
func TestFigure1(t *testing.T) {
	orttest.Open(t)
	t.Setenv("ATTACH_DATA", "")
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"figure1", "--seeds", "2", "--epochs", "2", "--out", out}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	for _, want := range []string{"2 seeds", "quantile 0.975", "exact, unit norm"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout.String())
		}
	}
	curves := readCSV(t, filepath.Join(out, "figure1.csv"))
	if got := strings.Join(curves[0], ","); got != "x,q0.025,q0.5,q0.65,q0.8,q0.975,score trained,score exact,score exact, unit norm" {
		t.Errorf("columns %s", got)
	}
	if len(curves) != 302 || curves[1][0] != "-0.5" || curves[301][0] != "2.5" {
		t.Errorf("%d lines from %s to %s", len(curves), curves[1][0], curves[len(curves)-1][0])
	}
	if rows := readCSV(t, filepath.Join(out, "figure1-rows.csv")); len(rows) != figure1Rows+1 {
		t.Errorf("%d lines of data", len(rows))
	}
	if rows := readCSV(t, filepath.Join(out, "figure1-seeds.csv")); len(rows) != 7 || rows[4][0] != "1" || rows[4][5] != "trained" {
		t.Errorf("results of the seeds: %v", rows)
	}
	for _, name := range []string{"figure1.png", "figure1.svg"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() < 5000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFigure2(t *testing.T) {
	orttest.Open(t)
	data, out := toyData(t), t.TempDir()
	args := []string{"figure2", "--data", data, "--sets", "yacht,cos5", "--seeds", "2", "--epochs", "3", "--levels", ".1,.5,.9", "--out", out}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	rows := readCSV(t, filepath.Join(out, "figure2.csv"))
	if got := strings.Join(rows[0], ","); got != "set,seed,levels,rows_crossed,pairs_crossed,pinball" || len(rows) != 1+2*2*4 {
		t.Errorf("%d lines of columns %s", len(rows), got)
	}
	for _, row := range rows[1:] {
		if sorted := strings.HasSuffix(row[2], ", sorted"); sorted && (row[3] != "0" || row[4] != "0") {
			t.Errorf("sorted quantiles cross: %v", row)
		}
	}
	curves := readCSV(t, filepath.Join(out, "figure2-curves.csv"))
	if len(curves) != 1+40 || len(curves[0]) != 2+4*3 || curves[0][2] != "separate q0.1" || curves[0][13] != "joint, sorted q0.9" {
		t.Errorf("%d lines of columns %v", len(curves), curves[0])
	}
	for _, name := range []string{"figure2.png", "figure2.svg", "figure2-rates.png", "figure2-rates.svg"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() < 3000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	first := stdout.String()
	stdout.Reset()
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 || stdout.String() != first {
		t.Errorf("once more: exit %d, other figures:\n%s\n%s", code, first, stdout.String())
	}
}

func TestFigureUsage(t *testing.T) {
	orttest.Open(t)
	t.Setenv("ATTACH_DATA", "")
	for want, args := range map[string][]string{
		"figure1 has no flag --sets":   {"figure1", "--sets", "yacht"},
		"there is no set \"mars\"":     {"figure2", "--sets", "mars"},
		"yacht is a UCI set":           {"figure2", "--sets", "cos5,yacht"},
		"increase between 0 and 1":     {"figure2", "--levels", ".5,.1"},
		"at least two":                 {"figure2", "--levels", ".5"},
		"--weight-decay":               {"figure2", "--weight-decay", "-1"},
		"numbers separated by commas":  {"figure2", "--levels", ".1;.9"},
		"where the data sets are with": {"coverage"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit %d, %q, want one that says %q", args, code, stderr.String(), want)
		}
	}
}

func settingsWithTrainer(t *testing.T) settings {
	t.Helper()
	engine, err := fit.New(t.Context(), fit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return settings{trainer: engine}
}
