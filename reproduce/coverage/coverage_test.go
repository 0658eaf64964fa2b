package coverage

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestCoverage runs two methods on a toy data set twice. The second run finds all results
// saved and prints the same table.
func TestCoverage(t *testing.T) {
	data, out := experimenttest.Yacht(t), t.TempDir()
	run := func() (code int, stdout, stderr string) {
		return experimenttest.Run(t, Experiment, "--data", data, "--sets", "yacht", "--methods", "sqr,quantile-forest", "--seeds", "3", "--epochs", "30",
			"--out", out, "--coverage", ".9", "--parallel", "2")
	}
	code, first, stderr := run()
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	// Of 400 rows, 40 are for testing and 72 are for calibration, so the guarantee is
	// ⌈0.9·73⌉/73.
	for _, want := range []string{"quantile-forest", "   72     3    0.9041", "smoothed 2 of 2"} {
		if !strings.Contains(first, want) {
			t.Errorf("the table lacks %q:\n%s", want, first)
		}
	}
	if !strings.Contains(stderr, "6 of 6") || !strings.Contains(stderr, "left") {
		t.Errorf("progress: %s", stderr)
	}
	if lines := experimenttest.ReadCSV(t, filepath.Join(out, "coverage.csv")); len(lines) != 3 {
		t.Errorf("the CSV is %q", lines)
	}
	if code, again, stderr := run(); code != 0 || stderr != "" || again != first {
		t.Errorf("a second run: exit %d, progress %q, the same table: %v", code, stderr, again == first)
	}
}
