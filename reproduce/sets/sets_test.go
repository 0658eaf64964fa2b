package sets

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

func TestSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, classes = 900, 4
	logits, labels := make([]float32, n*classes), make([]int64, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = rng.Int64N(classes)
		logits[i*classes+int(labels[i])] += 3
	}
	var b, stdout, stderr bytes.Buffer
	err := npy.WriteNPZ(&b, map[string]rows.Array{
		"logits": {Shape: []int{n, classes}, Data: logits}, "labels": {Shape: []int{n}, Data: labels},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "made.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	all := []experiment.Experiment{Experiment}
	if code := experiment.Main(context.Background(), all, []string{"sets", "--x", path, "--cal", "500", "--seeds", "20"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	for _, want := range []string{
		`(?m)^made: 900 rows of 4 classes, 0\.9\d\d of them right, 500 to calibrate on; 20 splits$`,
		`(?m)^  lac +covers 0\.(89|90|91)\d, its worst class 0\.\d+, with 0\.9\d classes$`,
		`(?m)^  raps, by class +covers 0\.9`,
		`(?m)^  error 0\.05: 0\.\d+ accepted, 0\.0[0-4]\d+ of them wrong; exceeded in [0-3] of 20 draws$`,
	} {
		if !regexp.MustCompile(want).Match(stdout.Bytes()) {
			t.Errorf("it does not say %s:\n%s", want, &stdout)
		}
	}
	stderr.Reset()
	if code := experiment.Main(context.Background(), all, []string{"sets", "--x", path}, &stdout, &stderr); code != 1 || !regexp.MustCompile(`more than the 2000 to calibrate on`).Match(stderr.Bytes()) {
		t.Errorf("exit status %d: %s", code, &stderr)
	}
}
