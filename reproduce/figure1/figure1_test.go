package figure1

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestGapToy checks that rows avoid the gap and that toyQuantile returns their true
// quantiles.
func TestGapToy(t *testing.T) {
	const n = 20000
	toy := drawToy(rand.New(rand.NewPCG(1, 0)), n)
	leftCount := 0
	for _, x := range toy.x {
		if !(dataFrom <= x && x < gapFrom || gapTo <= x && x < dataTo) {
			t.Fatalf("a row at %v", x)
		}
		leftCount += int(experiment.Indicator(x < gapFrom))
	}
	if leftCount != n/2 {
		t.Errorf("%d of %d rows left of the gap", leftCount, n)
	}
	for _, tau := range []float64{.025, .5, .8, .975} {
		for _, side := range []bool{true, false} {
			below := 0.
			for i, x := range toy.x {
				if x < gapFrom == side {
					below += experiment.Indicator(toy.y[i] <= toyQuantile(x, tau)) / (n / 2)
				}
			}
			if tolerance := 4 * math.Sqrt(tau*(1-tau)/(n/2)); math.Abs(below-tau) > tolerance {
				t.Errorf("left %v: %v of the rows lie below their quantile %v", side, below, tau)
			}
		}
	}
}

// TestLastHidden checks that the network's last layer computes the median from the features
// that lastHidden returns.
func TestLastHidden(t *testing.T) {
	orttest.Open(t)
	engine, err := fit.New(t.Context(), fit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	toy := drawToy(rand.New(rand.NewPCG(1, 0)), 200)
	head, err := fitHead(t.Context(), engine, toy, 0, ood.Params{"hidden": "6x5", "epochs": 2.})
	if err != nil {
		t.Fatal(err)
	}
	phi := lastHidden(head, toy.x)
	if phi.Rows != 200 || phi.Cols != 5 || slices.Min(phi.Data) != 0 {
		t.Fatalf("features are %d×%d, the least is %v", phi.Rows, phi.Cols, slices.Min(phi.Data))
	}
	out := train.Network{Layers: head.Networks[0].Layers[2:]}.Apply(phi)
	want := experiment.Unsorted(head, experiment.AsColumn(toy.x), []float64{.5})
	for i, v := range out.Data {
		if got := head.Y.Mean[0] + head.Y.Scale[0]*float64(v); math.Abs(got-float64(want.Row(i, 0)[0])) > 1e-5 {
			t.Fatalf("row %d: %v from the features, want the median %v", i, got, want.Row(i, 0)[0])
		}
	}
}

func TestEpistemic(t *testing.T) {
	e, err := newEpistemic("v", []float64{0, 1, 2, 3}, []float64{2.5, 4}, []float64{5, 6, 7, 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := epistemic{name: "v", inside: 1.5, gap: 3.25, beyond: 4.5, gapAUROC: 7. / 8, beyondAUROC: 12.5 / 16, flaggedInside: .25, flaggedGap: 1, flaggedBeyond: .75}
	if e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
}

// TestFigure1 checks that the command runs without a data folder.
func TestFigure1(t *testing.T) {
	t.Setenv("ATTACH_DATA", "")
	out := t.TempDir()
	code, stdout, stderr := experimenttest.Run(t, Experiment, "--seeds", "2", "--epochs", "2", "--out", out)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"2 seeds", "quantile 0.975", "exact, unit norm"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	curves := experimenttest.ReadCSV(t, filepath.Join(out, "figure1.csv"))
	if got := strings.Join(curves[0], ","); got != "x,q0.025,q0.5,q0.65,q0.8,q0.975,score trained,score exact,score exact, unit norm" {
		t.Errorf("columns %s", got)
	}
	if len(curves) != 302 || curves[1][0] != "-0.5" || curves[301][0] != "2.5" {
		t.Errorf("%d lines from %s to %s", len(curves), curves[1][0], curves[len(curves)-1][0])
	}
	if rows := experimenttest.ReadCSV(t, filepath.Join(out, "figure1-rows.csv")); len(rows) != trainRows+1 {
		t.Errorf("%d lines of data", len(rows))
	}
	if rows := experimenttest.ReadCSV(t, filepath.Join(out, "figure1-seeds.csv")); len(rows) != 7 || rows[4][0] != "1" || rows[4][5] != "trained" {
		t.Errorf("results of the seeds: %v", rows)
	}
	experimenttest.Written(t, out, 5000, "figure1.png", "figure1.svg")
}
