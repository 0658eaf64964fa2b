package intervals

import (
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestScores measures a toy data set twice. The second run finds all results saved and
// prints the same table.
func TestScores(t *testing.T) {
	data, out := experimenttest.Yacht(t), t.TempDir()
	run := func() (code int, stdout, stderr string) {
		return experimenttest.Run(t, Scores, "--data", data, "--sets", "yacht", "--methods", "quantile-forest", "--seeds", "2", "--out", out)
	}
	code, first, stderr := run()
	if code != 0 || !strings.Contains(first, "yacht     quantile-forest         0.9") || !strings.Contains(stderr, "2 of 2") {
		t.Fatalf("exit %d: %s\n%s", code, first, stderr)
	}
	if line := strings.Fields(first[strings.Index(first, "yacht"):]); len(line) != 4+3*len(scoreNames()) {
		t.Errorf("the line is %q", line)
	}
	if code, again, stderr := run(); code != 0 || stderr != "" || again != first {
		t.Errorf("a second run: exit %d, progress %q, the same table: %v", code, stderr, again == first)
	}
}
