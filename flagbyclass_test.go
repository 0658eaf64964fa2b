package attach

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestPValuesByClass compares p-values by predicted class with those of the Python package
// crepes, which testdata/pvalues.py computed.
func TestPValuesByClass(t *testing.T) {
	raw, err := os.ReadFile("testdata/pvalues.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Scores       []float64
		Predicted    []int
		NewScores    []float64 `json:"fresh_scores"`
		NewPredicted []int     `json:"fresh_predicted"`
		Want         []float64 `json:"p_values"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Want) == 0 {
		t.Fatalf("%d p-values, error %v", len(r.Want), err)
	}
	p := Predictor{o: PredictOptions{FlagByClass: true}, bundle: &Bundle{Calibration: Calibration{OOD: r.Scores, Predicted: r.Predicted}}}
	if err := p.calibrateFlags(); err != nil {
		t.Fatal(err)
	}
	for i, want := range r.Want {
		if got := p.Conformal(r.NewPredicted[i]).PValue(r.NewScores[i]); math.Abs(got-want) > 1e-15 {
			t.Errorf("row %d of class %d: p-value %v, want %v", i, r.NewPredicted[i], got, want)
		}
	}
	if got := p.Conformal(7).PValue(9); got != 1 {
		t.Errorf("of a class that no calibration row is of: p-value %v, want 1", got)
	}
}
