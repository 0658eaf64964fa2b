package hypothesis_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// TestClassShares compares p-values with SciPy. calibrate/testdata/audit.py computed the
// reference.
func TestClassShares(t *testing.T) {
	var reference struct {
		Shares []struct {
			Calibration, Audited []int
			P                    []float64
		}
	}
	raw, err := os.ReadFile("../../../calibrate/testdata/audit.json")
	if err == nil {
		err = json.Unmarshal(raw, &reference)
	}
	if err != nil || len(reference.Shares) == 0 {
		t.Fatal(err)
	}
	for _, s := range reference.Shares {
		shares, err := hypothesis.ClassShares(s.Calibration, s.Audited)
		if err != nil {
			t.Fatal(err)
		}
		for c, share := range shares {
			if math.Abs(share.PValue-s.P[c]) > 1e-9*s.P[c] {
				t.Errorf("%v and %v: class %d has %v, want %v", s.Calibration, s.Audited, c, share.PValue, s.P[c])
			}
		}
	}
	if _, err := hypothesis.ClassShares([]int{1}, []int{1, 2}); err == nil {
		t.Error("classes of different number are compared")
	}
	if _, err := hypothesis.ClassShares([]int{1}, []int{-1}); err == nil {
		t.Error("a negative count is compared")
	}
}

// TestHolm compares adjusted p-values with p.adjust(p, "holm") of R.
func TestHolm(t *testing.T) {
	got := hypothesis.Holm([]float64{.04, .001, .03, .9, .012})
	for i, want := range []float64{.09, .005, .09, .9, .048} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("p-value %d becomes %v, want %v", i, got[i], want)
		}
	}
}
