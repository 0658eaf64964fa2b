package table3

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// TestGPIGradient compares the gradient with central differences.
func TestGPIGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 12
	x, y := make([]float64, n), make([]float64, n)
	params := []float64{.5, .2, .9}
	for i := range n {
		x[i], y[i] = rng.NormFloat64(), rng.NormFloat64()
		params = append(params, y[i]/2+.5*rng.NormFloat64())
	}
	cost := func(params, gradient []float64) float64 {
		parts, err := descriptionParts(x, y, params, gradient)
		if err != nil {
			t.Fatal(err)
		}
		return floats.Sum(parts[:])
	}
	gradient := make([]float64, len(params))
	cost(params, gradient)
	for i := range params {
		const step = 1e-6
		saved := params[i]
		params[i] = saved + step
		above := cost(params, nil)
		params[i] = saved - step
		below := cost(params, nil)
		params[i] = saved
		if want := (above - below) / (2 * step); math.Abs(gradient[i]-want) > 1e-3*(1+math.Abs(want)) {
			t.Errorf("parameter %d: %v, want %v", i, gradient[i], want)
		}
	}
}

// TestGPIAgrees compares with results of the authors' code, which testdata/gpi.m recorded
// for four pairs. These are the four parts of the cost at fixed parameters, and four
// minimal lengths: x → y, y → x, and the mixtures of x and of y. The lengths x → y and y →
// x only have to give the same direction.
func TestGPIAgrees(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "gpi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct{ Parts, Lengths [4]float64 }
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for name, pair := range fixedPairs() {
		x, y := zScores(pair[0][:100]), zScores(pair[1][:100])
		params := []float64{math.Log(5), math.Log(2), math.Log(3)}
		for i, v := range y {
			params = append(params, 2*math.Mod(float64(i+1)*0.41421356237309515, 1)-1+v)
		}
		parts, err := descriptionParts(x, y, params, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := want[name]
		for i, got := range parts {
			if math.Abs(got-w.Parts[i]) > 1e-6*math.Abs(w.Parts[i]) {
				t.Errorf("%s, part %d: %v, want %v", name, i, got, w.Parts[i])
			}
		}
		order := rand.New(rand.NewPCG(1, 1)).Perm(len(x))
		mixtures := [2]float64{mixtureLength(x, order), mixtureLength(y, order)}
		for i, got := range mixtures {
			// Both implementations start the mixture at random, so the tolerance is wide.
			if math.Abs(got-w.Lengths[2+i]) > 3 {
				t.Errorf("%s, mixture %d: %v, want %v", name, i, got, w.Lengths[2+i])
			}
		}
		forward, err := descriptionLength(x, y, order)
		if err != nil {
			t.Fatal(err)
		}
		backward, err := descriptionLength(y, x, order)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name, forward-mixtures[0], w.Lengths[0], backward-mixtures[1], w.Lengths[1])
		reference := w.Lengths[1] + w.Lengths[3] - w.Lengths[0] - w.Lengths[2]
		if (backward > forward) != (reference > 0) {
			t.Errorf("%s: score %v, want the side of %v", name, backward-forward, reference)
		}
	}
}
