package labels

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestTargets checks that few of the targets found are right, for normal errors, and that nearly
// all targets in another unit are found. It also checks the kinds of wrong targets.
func TestTargets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pool := targetPool{q: calibrate.QuantileCalibration{Levels: []float64{.05, .5, .95}}, predicted: rows.New(3500, 1), levels: []float64{.05, .95}}
	for i := range pool.predicted.Data {
		m := 20 + 3*r.NormFloat64()
		pool.predicted.Data[i] = float32(m)
		pool.q.Grid = append(pool.q.Grid, float32(m-1.645), float32(m), float32(m+1.645))
		pool.q.Y = append(pool.q.Y, float32(m+r.NormFloat64()))
	}
	dir := t.TempDir()
	c := &targetCell{n: 1500, fraction: .1, kind: "times 10"}
	const draws = 20
	if err := c.measure(t.Context(), pool, draws, 1, dir, 1); err != nil {
		t.Fatal(err)
	}
	for i, rate := range rates() {
		mean, power := stat.Mean(c.falseFractions[i], nil), c.found[i]/draws
		if mean > rate || mean < rate/4 || power != 1 {
			t.Errorf("at %v, a fraction %v is right, and %v is found", rate, mean, power)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "times 10-0.1-0.npz")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	audited := r.Perm(len(pool.q.Y))[:100]
	for _, kind := range targetKinds() {
		given, wrong := (&targetCell{kind: kind, fraction: .1}).corrupt(r, pool.q.Y, audited, 2)
		n, sum := 0, 0.
		for i, at := range audited {
			y := pool.q.Y[at]
			if wrong[i] {
				n++
			}
			if wrong[i] != (given[i] != y) {
				t.Errorf("%s: target %v of %v is marked %v", kind, given[i], y, wrong[i])
			}
			sum += float64(given[i] - y)
		}
		if n != 10 || kind == "swapped" && (sum > 1e-3 || sum < -1e-3) || kind == "shifted" && (sum < 19.9 || sum > 20.1) {
			t.Errorf("%s: %d targets are wrong, and their sum changes by %v", kind, n, sum)
		}
	}
}
