package reasons

import (
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

// TestChiSquared checks the p-value against that of a 2×2 table: χ² = 20/3, so p = erfc(√(10/3)).
func TestChiSquared(t *testing.T) {
	got := chiSquared(map[string]int{"a": 10, "b": 20}, map[string]int{"a": 20, "b": 10})
	if want := math.Erfc(math.Sqrt(10. / 3)); math.Abs(got-want) > 1e-12 {
		t.Errorf("p = %v, want %v", got, want)
	}
}

// TestFound checks that all checks find a column that is 1,000 times as large, and that no
// check reports the rows of the fit.
func TestFound(t *testing.T) {
	x := ood.Tensor{Name: "x", Shape: []int{200, 1}}
	for i := range 200 {
		x.Data = append(x.Data, float32(1+i))
	}
	b := ood.InputBlock{Tensors: []ood.Tensor{x}}
	f := newFitted(b)
	if found, _ := f.found(b, []int{0}); found != [numChecks]bool{} {
		t.Errorf("%v report the rows of the fit", found)
	}
	large := clone(x)
	for _, fault := range faults() {
		if fault.name == "× 1,000" && !fault.change(&large, f.columns[0]) {
			t.Fatal("the column cannot be scaled")
		}
	}
	if found, _ := f.found(ood.InputBlock{Tensors: []ood.Tensor{large}}, []int{0}); found != [numChecks]bool{true, true, true, true, true} {
		t.Errorf("%v find the large column", found)
	}
}
