package rowhash

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

func TestInputs(t *testing.T) {
	nan := math.Float32frombits(0x7fc12345)
	for name, c := range map[string]struct {
		a, b  []ood.Tensor
		equal bool
	}{
		"one tensor, whatever its name":      {[]ood.Tensor{{Name: "x", Shape: []int{1, 2}, Data: []float32{1, 2}}}, []ood.Tensor{{Shape: []int{1, 2}, Data: []float32{1, 2}}}, true},
		"0 and −0, gaps":                     {[]ood.Tensor{{Shape: []int{1, 2}, Data: []float32{0, nan}}}, []ood.Tensor{{Shape: []int{1, 2}, Data: []float32{float32(math.Copysign(0, -1)), float32(math.NaN())}}}, true},
		"another number":                     {[]ood.Tensor{{Shape: []int{1, 2}, Data: []float32{1, 2}}}, []ood.Tensor{{Shape: []int{1, 2}, Data: []float32{2, 1}}}, false},
		"tensors in another order":           {[]ood.Tensor{{Name: "a", Shape: []int{1, 1}, Data: []float32{1}}, {Name: "b", Shape: []int{1, 1}, Data: []float32{2}}}, []ood.Tensor{{Name: "b", Shape: []int{1, 1}, Data: []float32{2}}, {Name: "a", Shape: []int{1, 1}, Data: []float32{1}}}, true},
		"tensors that swap names":            {[]ood.Tensor{{Name: "a", Shape: []int{1, 1}, Data: []float32{1}}, {Name: "b", Shape: []int{1, 1}, Data: []float32{2}}}, []ood.Tensor{{Name: "b", Shape: []int{1, 1}, Data: []float32{1}}, {Name: "a", Shape: []int{1, 1}, Data: []float32{2}}}, false},
		"texts that join to the same text":   {[]ood.Tensor{{Shape: []int{1, 2}, Strings: []string{"ab", "c"}}}, []ood.Tensor{{Shape: []int{1, 2}, Strings: []string{"a", "bc"}}}, false},
		"a number that reads like the text":  {[]ood.Tensor{{Shape: []int{1, 1}, Strings: []string{"1"}}}, []ood.Tensor{{Shape: []int{1, 1}, Data: []float32{1}}}, false},
		"a short row, in a block of another": {[]ood.Tensor{{Shape: []int{1, 2}, Data: []float32{1, 2}}}, []ood.Tensor{{Shape: []int{1, 9}, Lengths: []int{2}, Data: []float32{1, 2}}}, true},
	} {
		a, b := Inputs(ood.InputBlock{Tensors: c.a}), Inputs(ood.InputBlock{Tensors: c.b})
		if (a[0] == b[0]) != c.equal {
			t.Errorf("%s: equal is %v", name, a[0] == b[0])
		}
	}
}

// TestInputsOfRaggedRows checks that a row is hashed from its own start if earlier rows
// have other lengths.
func TestInputsOfRaggedRows(t *testing.T) {
	got := Inputs(ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{3, 3, 2}, Lengths: []int{1, 3, 1}, Data: []float32{1, 2, 3, 4, 5, 6, 7, 8, 1, 2}}}})
	if got[0] != got[2] || got[0] == got[1] {
		t.Error(got)
	}
}

func TestFeatures(t *testing.T) {
	x := blas32.General{Rows: 3, Cols: 2, Stride: 3, Data: []float32{1, 2, 0, 1, 2, 9, 1, 3}}
	got := Features(x)
	if got[0] != got[1] || got[0] == got[2] || len(got[0].String()) != 32 {
		t.Error(got)
	}
	if With(got[0], 1) == With(got[0], 2) || With(got[0], 1) == With(got[2], 1) || With(got[0], 0) != With(got[1], float32(math.Copysign(0, -1))) {
		t.Error("a row with another number beside it has no other hash")
	}
	layers := blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: []float32{1, 2, 1}}
	if got := Features(x, layers); got[0] == got[1] {
		t.Error("another layer has no other hash")
	}
}

func BenchmarkInputs(b *testing.B) {
	x := ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{1, 3, 224, 224}, Data: make([]float32, 3*224*224)}}}
	b.SetBytes(4 * 3 * 224 * 224)
	for b.Loop() {
		Inputs(x)
	}
}
