package shift

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestRealised runs every way with few draws, and checks that coverage is near the guarantee.
func TestRealised(t *testing.T) {
	out := t.TempDir()
	code, _, stderr := experimenttest.Run(t, Realised, "--seeds", "12", "--cal", "300", "--parallel", "1", "--out", out)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := experimenttest.ReadCSV(t, filepath.Join(out, "realised.csv"))
	if len(lines) != 7 {
		t.Fatalf("%d lines, want 7", len(lines))
	}
	for _, line := range lines[1:] {
		coverage, err := strconv.ParseFloat(line[4], 64)
		if err != nil || math.Abs(coverage-.9) > .03 {
			t.Errorf("%s: the coverage is %s (%v)", line[0], line[4], err)
		}
	}
}
