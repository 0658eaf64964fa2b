package result

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFloat(t *testing.T) {
	var got []Float
	if err := json.Unmarshal([]byte("[0.25, null, -3e-300]"), &got); err != nil {
		t.Fatal(err)
	}
	if got[0] != .25 || !math.IsNaN(float64(got[1])) || got[2] != -3e-300 {
		t.Errorf("read %v", got)
	}
	text, err := json.Marshal(append(got, Float(math.Inf(1))))
	if err != nil || string(text) != "[0.25,null,-3e-300,null]" {
		t.Errorf("wrote %s, %v", text, err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !os.IsNotExist(err) {
		t.Errorf("an empty folder gives %v", err)
	}
	path := filepath.Join(dir, File)
	if err := os.WriteFile(path, []byte(`{"inputs": "many"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("another file gives %v", err)
	}
}

// TestTooFew checks what an audit without discoveries says: more calibration rows help only if
// the bound finds fewer outliers than the smallest number of discoveries.
func TestTooFew(t *testing.T) {
	a := Audit{Inputs: 20000, MinDiscoveries: 400, Thresholds: []Threshold{{Inputs: 200}}}
	a.FDR, a.Delta, a.Calibration = .1, .05, 499
	for _, tt := range []struct {
		outliers        int
		conditional     bool
		tooFew, unnamed bool
		end             string
	}{
		{0, false, true, false, "; 1 discovery would need at least 199,999 calibration rows"},
		{120, false, true, false, "; 120 discoveries would need at least 1,666 calibration rows"},
		{120, true, true, false, "; 120 discoveries would need at least 9,984 calibration rows"},
		{400, false, false, true, ""},
	} {
		a.Outliers, a.Conditional = tt.outliers, tt.conditional
		if a.TooFew() != tt.tooFew || a.Unnamed() != tt.unnamed {
			t.Errorf("%d outliers: too few rows %v, unnamed %v", tt.outliers, a.TooFew(), a.Unnamed())
		}
		if got, want := a.FewRows(), "with 499 calibration rows there are at least 400 discoveries among 20,000 inputs, or none"+tt.end; tt.tooFew && got != want {
			t.Errorf("%d outliers: %q, not %q", tt.outliers, got, want)
		}
	}
}
