package compare

import (
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

func TestMisclassified(t *testing.T) {
	logits := blas32.General{Rows: 3, Cols: 2, Stride: 3, Data: []float32{1, 0, 9, 0, 1, 9, 2, 2, 9}}
	got := misclassified(ood.Batch{Logits: logits, Labels: []int{0, 0, 0}})
	if len(got) != 3 || got[0] || !got[1] || got[2] {
		t.Errorf("%v", got)
	}
	if misclassified(ood.Batch{Logits: logits}) != nil || misclassified(ood.Batch{Labels: []int{1}}) != nil {
		t.Error("errors without labels or logits")
	}
}
