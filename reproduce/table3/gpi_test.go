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

// TestGPIGradient compares the gradient with differences.
func TestGPIGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 12
	x, y := make([]float64, n), make([]float64, n)
	at := []float64{.5, .2, .9}
	for i := range n {
		x[i], y[i] = rng.NormFloat64(), rng.NormFloat64()
		at = append(at, y[i]/2+.5*rng.NormFloat64())
	}
	cost := func(at, gradient []float64) float64 {
		parts, err := describeNoise(x, y, at, gradient)
		if err != nil {
			t.Fatal(err)
		}
		return floats.Sum(parts[:])
	}
	gradient := make([]float64, len(at))
	cost(at, gradient)
	for i := range at {
		const step = 1e-6
		kept := at[i]
		at[i] = kept + step
		above := cost(at, nil)
		at[i] = kept - step
		below := cost(at, nil)
		at[i] = kept
		if want := (above - below) / (2 * step); math.Abs(gradient[i]-want) > 1e-3*(1+math.Abs(want)) {
			t.Errorf("parameter %d: %v, want %v", i, gradient[i], want)
		}
	}
}

// TestGPIAgrees compares with the authors' code, of which testdata/gpi.m wrote what
// it says of four pairs: the cost part by part, what it comes to at its minimum
// (x → y and y → x, mixtures of x and of y), and the decision.
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
		at := []float64{math.Log(5), math.Log(2), math.Log(3)}
		for i, v := range y {
			at = append(at, 2*math.Mod(float64(i+1)*0.41421356237309515, 1)-1+v)
		}
		parts, err := describeNoise(x, y, at, nil)
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
		mixtures := [2]float64{describeMixture(x, order), describeMixture(y, order)}
		for i, got := range mixtures {
			// Where the mixture starts is random, here and there.
			if math.Abs(got-w.Lengths[2+i]) > 3 {
				t.Errorf("%s, mixture %d: %v, want %v", name, i, got, w.Lengths[2+i])
			}
		}
		forward, err := describe(x, y, order)
		if err != nil {
			t.Fatal(err)
		}
		backward, err := describe(y, x, order)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name, forward-mixtures[0], w.Lengths[0], backward-mixtures[1], w.Lengths[1])
		theirs := w.Lengths[1] + w.Lengths[3] - w.Lengths[0] - w.Lengths[2]
		if (backward > forward) != (theirs > 0) {
			t.Errorf("%s: score %v, want the side of %v", name, backward-forward, theirs)
		}
	}
}
