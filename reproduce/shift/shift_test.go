package shift

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestShift runs the experiment with few calibration sets, and checks that weights bring the
// coverage near its level.
func TestShift(t *testing.T) {
	out := t.TempDir()
	code, _, stderr := experimenttest.Run(t, Experiment, "--seeds", "8", "--out", out)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := experimenttest.ReadCSV(t, filepath.Join(out, "shift.csv"))
	last := lines[len(lines)-1]
	var coverage []float64
	for _, cell := range last[5:8] {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			t.Fatal(err)
		}
		coverage = append(coverage, v)
	}
	if coverage[0] > .8 || coverage[1] < .88 || coverage[2] < .88 {
		t.Errorf("coverage is %v without weights, with estimated weights and with true weights", coverage)
	}
}
