package compare

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

func TestSummarise(t *testing.T) {
	// numpy.std([.5, .7, .9]) is .16329931618554522.
	s := summarise([]float64{.5, .7, .9})
	if math.Abs(s.Mean-.7) > 1e-15 || math.Abs(s.Std-.16329931618554522) > 1e-15 || s.Max != .9 || s.N != 3 {
		t.Errorf("%+v", s)
	}
	if s := summarise(slices.Repeat([]float64{.1}, 7)); s.Std > 1e-16 {
		t.Errorf("equal values deviate by %v", s.Std)
	}
	if summarise(nil) != (Summary{}) {
		t.Error("something of nothing")
	}
}

func TestWrong(t *testing.T) {
	logits := blas32.General{Rows: 3, Cols: 2, Stride: 3, Data: []float32{1, 0, 9, 0, 1, 9, 2, 2, 9}}
	got := wrong(ood.Batch{Logits: logits, Labels: []int{0, 0, 0}})
	if len(got) != 3 || got[0] || !got[1] || got[2] {
		t.Errorf("%v", got)
	}
	if wrong(ood.Batch{Logits: logits}) != nil || wrong(ood.Batch{Labels: []int{1}}) != nil {
		t.Error("errors are known without labels or logits")
	}
}
