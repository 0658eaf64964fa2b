package quantile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestInterpolate(t *testing.T) {
	levels, q := []float64{0.1, 0.5, 0.75}, []float32{-1, 3, 4}
	for _, tt := range []struct {
		tau  float64
		want float32
	}{{0.01, -1}, {0.1, -1}, {0.3, 1}, {0.5, 3}, {0.625, 3.5}, {0.75, 4}, {0.9, 4}} {
		if got := Interpolate(levels, q, tt.tau); got != tt.want {
			t.Errorf("quantile at %v is %v, want %v", tt.tau, got, tt.want)
		}
	}
	if got := Interpolate([]float64{0.5}, []float32{7}, 0.9); got != 7 {
		t.Errorf("quantile on a grid of one is %v, want 7", got)
	}
}

func TestInterpolateIncreases(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		levels, q := make([]float64, 9), make([]float32, 9)
		for i := range levels {
			levels[i], q[i] = rng.Float64(), float32(rng.NormFloat64())*1e-3+1e3
		}
		slices.Sort(levels)
		slices.Sort(q)
		taus := make([]float64, 300)
		for i := range taus {
			taus[i] = rng.Float64()
		}
		slices.Sort(taus)
		last := q[0]
		for _, tau := range taus {
			v := Interpolate(levels, q, tau)
			if v < last || v > q[8] {
				t.Fatalf("quantile at %v is %v after %v", tau, v, last)
			}
			last = v
		}
	}
}

// TestWeights checks Weights against Interpolate.
func TestWeights(t *testing.T) {
	levels, q := []float64{0.1, 0.5, 0.75}, []float32{1, 4, 32}
	for _, tau := range []float64{0.05, 0.1, 0.2, 0.5, 0.6, 0.75, 0.99} {
		var got float64
		for i, w := range Weights(levels, tau) {
			got += w * float64(q[i])
		}
		if want := float64(Interpolate(levels, q, tau)); math.Abs(got-want) > 1e-6*want {
			t.Errorf("level %v: %v, not %v", tau, got, want)
		}
	}
}
