package baselines_test

import (
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func TestCompareAll(t *testing.T) {
	data := newToy()
	c := compare.Options{Methods: detectors, Training: data.training(60), Test: data.in(60), OOD: data.out(50), Sweep: true, Parallel: 2}
	r, err := compare.Run(background, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Methods) != len(detectors) || len(r.Skipped) != 0 {
		t.Errorf("%d methods, skipped %v", len(r.Methods), r.Skipped)
	}
	for i, m := range r.Methods {
		want := max(len(fitting.Grid(detectors[i])), 1)
		if m.Name != detectors[i].Name || len(m.Configs) != want || len(m.Failed) != 0 {
			t.Errorf("%s: %d configurations, failed %v", m.Name, len(m.Configs), m.Failed)
		}
	}
	c.Training.Trainer = nil
	trained := 0
	for _, m := range detectors {
		if m.Needs.Trainer {
			trained++
		}
	}
	if r, err = compare.Run(background, c); err != nil || len(r.Skipped) != trained {
		t.Errorf("without a trainer: skipped %v, %v", r.Skipped, err)
	}
}

func BenchmarkCompare(b *testing.B) {
	data := newToy()
	c := compare.Options{Methods: detectors, Sweep: true}
	c.Training.Batch, c.Test, c.OOD = wideBatch(data, 10_000), wideBatch(data, 5_000), wideBatch(data, 5_000)
	for b.Loop() {
		r, err := compare.Run(background, c)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range r.Methods {
			b.ReportMetric(m.FitSeconds, m.Name+"-fit-s")
			b.ReportMetric(m.ScoreMicroseconds, m.Name+"-us/row")
		}
	}
}

// wideBatch returns n random rows with 64 features and 10 logits.
func wideBatch(data *toy, n int) ood.Batch {
	b := ood.Batch{Features: zeros(n, 64), Logits: zeros(n, 10)}
	for i := range b.Features.Data {
		b.Features.Data[i] = float32(data.rng.NormFloat64())
	}
	for i := range b.Logits.Data {
		b.Logits.Data[i] = float32(3 * data.rng.NormFloat64())
	}
	return b
}
