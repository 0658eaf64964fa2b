package labels

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// TestMeasure checks that few of the labels found are right, for rows of three classes, and that
// nearly all wrong labels are found.
func TestMeasure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := ood.Batch{Logits: rows.New(3500, 3), Labels: make([]int, 3500)}
	for i := range b.Labels {
		b.Labels[i] = r.IntN(3)
		for class := range 3 {
			b.Logits.Data[3*i+class] = float32(r.NormFloat64())
		}
		b.Logits.Data[3*i+b.Labels[i]] += 8
	}
	dir := t.TempDir()
	m, choices := mistakes{"random", .1}, audit.LabelErrorChoices()
	list := []*cell{{mistakes: m, reference: reference{by: choices[1]}}, {mistakes: m, reference: reference{by: choices[0]}}, {mistakes: m, reference: reference{choices[0], .02}}}
	const draws = 20
	if err := measure(t.Context(), newPool("toy", b), 1500, list, draws, 1, dir, 1); err != nil {
		t.Fatal(err)
	}
	c := list[0]
	for i, rate := range rates() {
		mean, power := stat.Mean(c.falseFractions[i], nil), c.found[i]/draws
		if mean > rate || mean < rate/4 || power < .9 || power > 1 {
			t.Errorf("at %v, a fraction %v is right, and %v is found", rate, mean, power)
		}
	}
	if c.bounded/draws < .7 || c.violated > 5 {
		t.Errorf("the bound finds %v and is violated %v times", c.bounded/draws, c.violated)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "toy-random-0.1-*.npz")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}
