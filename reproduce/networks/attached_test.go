package networks

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// TestAttached checks that Attached lists the detectors in the order in which Fit tries
// them. Each case lacks what the preceding detector needs, so Fit falls back to the next
// one.
func TestAttached(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	randomMatrix := func(rows, cols int) blas32.General {
		m := blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	const n, width, classes = 300, 6, 3
	all := ood.Batch{Features: randomMatrix(n, width), Logits: randomMatrix(n, classes), Layers: []blas32.General{randomMatrix(n, 4)}, Labels: make([]int, n)}
	for i := range all.Labels {
		all.Labels[i] = i % classes
	}
	last := &ood.Linear{Weight: randomMatrix(classes, width), Bias: make([]float32, classes)}
	withoutLayers := all
	withoutLayers.Layers = nil
	featuresOnly := ood.Batch{Features: all.Features}
	var got []string
	for _, o := range []attach.FitOptions{
		{Base: attach.Base{Task: attach.Classification, Layers: []attach.Layer{{}}}, Batch: all, Last: last},
		{Base: attach.Base{Task: attach.Classification}, Batch: withoutLayers, Last: last},
		{Base: attach.Base{Task: attach.Classification}, Batch: withoutLayers},
		{Base: attach.Base{Task: attach.Classification}, Batch: featuresOnly},
	} {
		b, err := attach.Fit(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Detector.Method)
	}
	if got := strings.Join(got, ","); got != Attached {
		t.Errorf("Fit comes to %s, and Attached are %s", got, Attached)
	}
}
