package measure_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood/compare"
)

type bootstrapReference struct {
	Areas []struct {
		Name   string
		Scores []float64
		Wrong  []bool
		AURC   float64
	}
	In, Out   []float64
	Wrong     []bool
	Intervals compare.Intervals
}

func readBootstrapReference(t *testing.T) bootstrapReference {
	b, err := os.ReadFile("testdata/bootstrap.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref bootstrapReference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestAURCAgreesWithNumPy(t *testing.T) {
	ref := readBootstrapReference(t)
	if len(ref.Areas) < 6 {
		t.Fatalf("%d cases", len(ref.Areas))
	}
	for _, c := range ref.Areas {
		got, err := measure.AURC(c.Scores, c.Wrong)
		if err != nil || !(math.Abs(got-c.AURC) < 1e-12) {
			t.Errorf("%s: %v, %v, want %v", c.Name, got, err, c.AURC)
		}
		points, err := measure.RiskCoverage(c.Scores, c.Wrong, 0)
		if err != nil {
			t.Fatal(err)
		}
		wrong := 0.
		for _, w := range c.Wrong {
			if w {
				wrong += 1 / float64(len(c.Wrong))
			}
		}
		if last := points[len(points)-1]; last.Coverage != 1 || math.Abs(last.Risk-wrong) > 1e-12 {
			t.Errorf("%s: the curve ends at %v, want coverage 1 and risk %v", c.Name, last, wrong)
		}
	}
}

func TestRiskCoverage(t *testing.T) {
	got, err := measure.RiskCoverage([]float64{2, 1, 1, 3}, []bool{true, false, true, false}, 0)
	want := []measure.RiskPoint{{.5, .5, 1}, {.75, 2. / 3, 2}, {1, .5, 3}}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %v", got, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("point %d is %v, want %v", i, got[i], want[i])
		}
	}
	scores, wrong := make([]float64, 1000), make([]bool, 1000)
	for i := range scores {
		scores[i], wrong[i] = float64(i), i%7 == 0
	}
	thin, err := measure.RiskCoverage(scores, wrong, 50)
	if err != nil || len(thin) > 50 || len(thin) < 45 || thin[len(thin)-1].Coverage != 1 {
		t.Errorf("%d points, %v", len(thin), err)
	}
	for _, c := range []struct {
		scores []float64
		wrong  []bool
	}{{[]float64{1}, nil}, {nil, nil}, {[]float64{math.NaN()}, []bool{true}}} {
		if _, err := measure.RiskCoverage(c.scores, c.wrong, 0); err == nil {
			t.Errorf("%v and %v have a curve", c.scores, c.wrong)
		}
		if _, err := measure.AURC(c.scores, c.wrong); err == nil {
			t.Errorf("%v and %v have an area", c.scores, c.wrong)
		}
	}
}

// TestBootstrapAgreesWithResampling compares the intervals with scikit-learn metrics of rows
// that NumPy resampled. Both are random. The end of a percentile interval from B resamples has
// a standard error of about √(p(1−p)/B) / density. This error is below 0.01 here, for 6,000
// and 20,000 resamples.
func TestBootstrapAgreesWithResampling(t *testing.T) {
	ref := readBootstrapReference(t)
	drawn, err := measure.Bootstrap(context.Background(), ref.In, ref.Out, 20_000, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	areas, err := measure.BootstrapAURC(context.Background(), ref.In, ref.Wrong, 20_000, 5)
	if err != nil {
		t.Fatal(err)
	}
	got, want := measure.IntervalsOf[compare.Intervals](drawn), ref.Intervals
	for _, c := range []struct {
		name      string
		got, want [2]float64
		tolerance float64
	}{
		{"AUROC", got.AUROC, want.AUROC, .003},
		{"FPR95", got.FPR95, want.FPR95, .01},
		{"AUPRIn", got.AUPRIn, want.AUPRIn, .003},
		{"AUPROut", got.AUPROut, want.AUPROut, .004},
		{"FPR95In", got.FPR95In, want.FPR95In, .01},
		{"DetectionError", got.DetectionError, want.DetectionError, .004},
		{"AURC", measure.Interval(areas), *want.AURC, .003},
	} {
		for i := range c.got {
			if !(math.Abs(c.got[i]-c.want[i]) <= c.tolerance) {
				t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
			}
		}
	}
}

// TestBootstrapCoversAsDeLong compares the width of the interval of AUROC with the closed
// form of DeLong, DeLong & Clarke-Pearson (1988) for a normal interval. The interval must
// also contain the AUROC.
func TestBootstrapCoversAsDeLong(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	in, out := make([]float64, 400), make([]float64, 300)
	for i := range in {
		in[i] = r.NormFloat64()
	}
	for i := range out {
		out[i] = r.NormFloat64() + 1
	}
	auroc, err := measure.AUROC(in, out)
	if err != nil {
		t.Fatal(err)
	}
	placement := func(scores, others []float64, above bool) float64 {
		var v float64
		for _, x := range scores {
			n := 0.
			for _, y := range others {
				if (x > y) == above {
					n++
				}
			}
			d := n/float64(len(others)) - auroc
			v += d * d
		}
		return v / float64(len(scores)-1) / float64(len(scores))
	}
	sigma := math.Sqrt(placement(out, in, true) + placement(in, out, false))
	drawn, err := measure.Bootstrap(context.Background(), in, out, 4000, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	ci := measure.IntervalsOf[compare.Intervals](drawn)
	if got, want := ci.AUROC[1]-ci.AUROC[0], 2*1.96*sigma; math.Abs(got/want-1) > .06 {
		t.Errorf("the interval is %.4f wide, DeLong's %.4f", got, want)
	}
	if ci.AUROC[0] >= auroc || ci.AUROC[1] <= auroc {
		t.Errorf("%v does not hold %v", ci.AUROC, auroc)
	}
}

func TestBootstrapIsSeeded(t *testing.T) {
	ref := readBootstrapReference(t)
	interval := func(seed uint64) compare.Intervals {
		v, err := measure.Bootstrap(context.Background(), ref.In, ref.Out, 50, seed, 0)
		if err != nil {
			t.Fatal(err)
		}
		return measure.IntervalsOf[compare.Intervals](v)
	}
	if interval(1) != interval(1) {
		t.Error("equal seeds give different intervals")
	}
	if interval(1) == interval(2) {
		t.Error("different seeds give equal intervals")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := measure.Bootstrap(ctx, ref.In, ref.Out, 50, 1, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := measure.BootstrapAURC(ctx, ref.In, ref.Wrong, 50, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkBootstrap(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	in := make([]float64, 10_000)
	for i := range in {
		in[i] = r.NormFloat64()
	}
	for b.Loop() {
		if _, err := measure.Bootstrap(context.Background(), in, in, 100, 1, 0); err != nil {
			b.Fatal(err)
		}
	}
}
