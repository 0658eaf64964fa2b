//go:build !race

package attach_test

import (
	"context"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// TestPredictAllocates checks that the number of allocations of Predict is small for any
// number of rows. It is not built with the race detector, which empties sync.Pools at random.
func TestPredictAllocates(t *testing.T) {
	in := classifier(300)
	in.Detector, in.Last = ood.Method{}, sumLayer(3, 8)
	in.Batch.Layers = layersOf(in.Batch)
	in.Base.Layers = []attach.Layer{{Tensor: "relu1"}, {Tensor: "relu2"}}
	p, err := mustFit(t, in).Predictor(attach.PredictOptions{Sets: "lac"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 64} {
		rows := attach.Rows{Batch: in.Batch.Slice(0, n)}
		rows.Labels = nil
		allocations := testing.AllocsPerRun(20, func() {
			if _, err := p.Predict(context.Background(), rows); err != nil {
				t.Fatal(err)
			}
		})
		if allocations > 35 {
			t.Errorf("%v allocations for %d rows", allocations, n)
		}
	}
}
