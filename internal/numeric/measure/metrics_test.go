package measure_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/measure"
)

type metricsCase struct {
	Name    string
	In, Out []float64
	measure.Metrics
	FPR, TPR []float64
}

func metricsCases(t *testing.T) []metricsCase {
	b, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []metricsCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 10 {
		t.Fatalf("%d cases", len(cases))
	}
	return cases
}

func TestMetricsAgreeWithScikitLearn(t *testing.T) {
	for _, c := range metricsCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			got, err := measure.Evaluate(c.In, c.Out)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []struct {
				name      string
				got, want float64
			}{
				{"AUROC", got.AUROC, c.AUROC},
				{"FPR95", got.FPR95, c.FPR95},
				{"AUPRIn", got.AUPRIn, c.AUPRIn},
				{"AUPROut", got.AUPROut, c.AUPROut},
				{"FPR95In", got.FPR95In, c.FPR95In},
				{"DetectionError", got.DetectionError, c.DetectionError},
			} {
				if !(math.Abs(m.got-m.want) <= 1e-9) {
					t.Errorf("%s = %v, scikit-learn has %v", m.name, m.got, m.want)
				}
			}
			if auroc, err := measure.AUROC(c.In, c.Out); err != nil || auroc != got.AUROC {
				t.Errorf("AUROC returns %v, %v; Evaluate %v", auroc, err, got.AUROC)
			}
		})
	}
}

func TestMetricsAreInvariant(t *testing.T) {
	for _, c := range metricsCases(t) {
		want, err := measure.Evaluate(c.In, c.Out)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		in, out := slices.Clone(c.In), slices.Clone(c.Out)
		r.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		for _, s := range [][]float64{in, out} {
			for i := range s {
				s[i] *= 1024
			}
		}
		if got, err := measure.Evaluate(in, out); err != nil || got != want {
			t.Errorf("%s: order and scale of the scores matter: %v, %v, want %v", c.Name, got, err, want)
		}
	}
}

func TestMetricsOfEdges(t *testing.T) {
	inf := math.Inf(1)
	got, err := measure.Evaluate([]float64{-inf, 0, math.Copysign(0, -1)}, []float64{inf, 0})
	if err != nil {
		t.Fatal(err)
	}
	// The pairs (−∞,∞) and (−∞,0) are ordered correctly, and so are two pairs (0,∞). Two pairs
	// (0,0) tie.
	if want := 5. / 6; math.Abs(got.AUROC-want) > 1e-12 {
		t.Errorf("AUROC = %v, want %v", got.AUROC, want)
	}
	for _, c := range []struct {
		in, out []float64
		want    string
	}{
		{[]float64{1, 2, math.NaN()}, []float64{1}, "in-domain score 2 is NaN"},
		{[]float64{1}, []float64{math.NaN()}, "out-of-domain score 0 is NaN"},
		{nil, []float64{1}, "in-domain side"},
		{[]float64{1}, nil, "out-of-domain side"},
	} {
		_, err := measure.Evaluate(c.in, c.out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Evaluate(%v, %v): %v, want %q", c.in, c.out, err, c.want)
		}
		if empty := len(c.in) == 0 || len(c.out) == 0; (err != nil && strings.Contains(err.Error(), "no scores")) != empty {
			t.Errorf("Evaluate(%v, %v): %v is ErrEmpty: %v", c.in, c.out, err, !empty)
		}
	}
}

func TestROC(t *testing.T) {
	for _, c := range metricsCases(t) {
		points, err := measure.ROC(c.In, c.Out, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(points) != len(c.FPR) {
			t.Errorf("%s: %d points, scikit-learn has %d", c.Name, len(points), len(c.FPR))
			continue
		}
		for i, p := range points {
			if math.Abs(p.FPR-c.FPR[i])+math.Abs(p.TPR-c.TPR[i]) > 1e-12 {
				t.Errorf("%s: point %d = %v, want %v %v", c.Name, i, p, c.FPR[i], c.TPR[i])
			}
		}
	}
}

func TestROCThinned(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	in, out := make([]float64, 5000), make([]float64, 3000)
	for i := range in {
		in[i] = r.NormFloat64()
	}
	for i := range out {
		out[i] = r.NormFloat64() + 1
	}
	all, err := measure.ROC(in, out, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{2, 3, 10, 200, len(all) - 1} {
		thin, err := measure.ROC(in, out, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(thin) > limit || len(thin) < limit/2 {
			t.Errorf("limit %d: %d points", limit, len(thin))
		}
		if first, last := thin[0], thin[len(thin)-1]; first != all[0] || last != all[len(all)-1] {
			t.Errorf("limit %d: ends %v and %v", limit, first, last)
		}
		for _, p := range thin {
			if !slices.Contains(all, p) {
				t.Errorf("limit %d: %v is not on the curve", limit, p)
			}
		}
	}
	thin, err := measure.ROC(in, out, 200)
	if err != nil {
		t.Fatal(err)
	}
	var area float64
	for i, p := range thin[1:] {
		area += (p.FPR - thin[i].FPR) * (p.TPR + thin[i].TPR) / 2
	}
	if want, _ := measure.AUROC(in, out); math.Abs(area-want) > 1e-3 {
		t.Errorf("area under 200 points %v, under all %v", area, want)
	}
}

func BenchmarkEvaluate(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	in := make([]float64, 100_000)
	for i := range in {
		in[i] = r.NormFloat64()
	}
	for b.Loop() {
		if _, err := measure.Evaluate(in, in); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleEvaluate() {
	in, out := []float64{.1, .2, .2, .4}, []float64{.3, .4, .9}
	m, err := measure.Evaluate(in, out)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("AUROC %.3f, FPR@95 %.2f\n", m.AUROC, m.FPR95)
	// Output: AUROC 0.875, FPR@95 0.25
}
