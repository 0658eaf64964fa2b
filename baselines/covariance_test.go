package baselines_test

import (
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

func BenchmarkCovarianceFit(b *testing.B) {
	data := newToy()
	x := zeros(10_000, 512)
	for i := range x.Data {
		x.Data[i] = float32(data.rng.NormFloat64())
	}
	for b.Loop() {
		if _, err := fitting.Fit(background, method("covariance"), ood.Training{Batch: ood.Batch{Features: x}}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
