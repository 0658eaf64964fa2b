package shift

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestLabels runs the experiment on made logits, and checks that weights bring the coverage near
// its level.
func TestLabels(t *testing.T) {
	const n, classes = 4000, 3
	rng := rand.New(rand.NewPCG(1, 2))
	logits, labels := make([]float32, n*classes), make([]int64, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = rng.Int64N(classes)
		logits[i*classes+int(labels[i])] += 3 - float32(labels[i])
	}
	var b bytes.Buffer
	if err := npy.WriteNPZ(&b, map[string]rows.Array{
		"features": {Shape: []int{n, classes}, Data: logits}, "logits": {Shape: []int{n, classes}, Data: logits}, "labels": {Shape: []int{n}, Data: labels},
	}, false); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	path := filepath.Join(out, "made.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := experimenttest.Run(t, Experiment, "--x", path, "--seeds", "3", "--out", out)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := experimenttest.ReadCSV(t, filepath.Join(out, "shift-labels.csv"))
	var coverage []float64
	for _, cell := range lines[len(lines)-1][5:9] {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			t.Fatal(err)
		}
		coverage = append(coverage, v)
	}
	if coverage[0] > .85 || coverage[2] < .87 || coverage[3] < .87 {
		t.Errorf("coverage is %v without weights, with weights of covariates, with estimated weights and with true weights", coverage)
	}
}
