package fusion

import (
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestOneNetwork checks that the command rejects a single network, because a choice needs
// other networks.
func TestOneNetwork(t *testing.T) {
	data, models := experimenttest.Digits(t)
	for _, set := range []string{"mnist_cnn", "clinc_bert"} {
		code, _, stderr := experimenttest.Run(t, Experiment, "--data", data, "--models", models, "--out", t.TempDir(), "--sets", set)
		if code != 1 || !strings.Contains(stderr, "there is one network") {
			t.Errorf("%s: exit %d, %s", set, code, stderr)
		}
	}
}
