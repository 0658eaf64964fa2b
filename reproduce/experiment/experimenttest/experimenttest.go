// Package experimenttest runs experiments on small data sets in tests.
package experimenttest

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Run runs an experiment as the command does, and returns its exit status and output.
func Run(t *testing.T, e experiment.Experiment, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	orttest.Open(t)
	var out, err bytes.Buffer
	code = experiment.Main(t.Context(), []experiment.Experiment{e}, append([]string{e.Name}, args...), &out, &err)
	return code, out.String(), err.String()
}

// Refused checks that the experiment rejects each list of flags as wrong usage. The key of
// a list must occur in the error message.
func Refused(t *testing.T, e experiment.Experiment, lists map[string][]string) {
	t.Helper()
	for want, args := range lists {
		if code, _, stderr := Run(t, e, args...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %q, want one that says %q", args, code, stderr, want)
		}
	}
}

// Written checks that files exist and have at least a minimum size in bytes.
func Written(t *testing.T, dir string, minimum int64, names ...string) {
	t.Helper()
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < minimum {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// ReadCSV reads all lines of a CSV file, including the header.
func ReadCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// WriteFile writes a file in a new temporary folder and returns the folder.
func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := experiment.WriteText(filepath.Join(dir, name), text); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Yacht writes a UCI set called yacht with random rows, and returns the data folder. The
// noise of the target grows with the first input.
func Yacht(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for range 400 {
		x := rng.Float64()
		fmt.Fprintf(&b, "%.5f %.5f %.5f\n", x, rng.Float64(), 3*x+(.1+x)*rng.NormFloat64())
	}
	return WriteFile(t, filepath.Join("uci", "yacht.txt"), b.String())
}

// Digits prepares data for the network mnist_cnn. The files contain a small digits model,
// digits as mnist images, and letters as the OOD set fashion.
func Digits(t *testing.T) (data, models string) {
	t.Helper()
	data, models = t.TempDir(), t.TempDir()
	for source, destination := range map[string]string{
		"digits_resnet.onnx": filepath.Join(models, "mnist_cnn.onnx"), "digits.preprocess.json": filepath.Join(models, "mnist_cnn.preprocess.json"),
		"digits_fit.npz": filepath.Join(data, "mnist_train.npz"), "digits_test.npz": filepath.Join(data, "mnist_test.npz"),
		"letters.npz": filepath.Join(data, "fashion_test.npz"),
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", "testmodels", source))
		if err == nil {
			err = os.WriteFile(destination, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return data, models
}
