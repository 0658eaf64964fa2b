package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

func TestSelection(t *testing.T) {
	orttest.Open(t)
	data, models, out := t.TempDir(), t.TempDir(), t.TempDir()
	writeDigits(t, data, models)
	var stdout, stderr bytes.Buffer
	args := []string{"selection", "--data", data, "--models", models, "--out", out, "--rows", "150,60,60", "--methods", "knn,energy,vim,random,odin"}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr.String())
	}
	for _, want := range []string{"in hindsight, 1 networks", "svhn_preact18: not run", "\nalways energy "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &stdout)
		}
	}
	f, err := os.Open(filepath.Join(out, "selection.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	fixed := map[string]string{} // AUROC
	var choices []string
	for _, r := range records[1:] {
		choices = append(choices, r[1])
		if name, ok := strings.CutPrefix(r[1], "always "); ok {
			fixed[name] = r[3]
		}
	}
	if got, want := strings.Join(choices, "; "), "mean-rank; mixed; shuffled; held-out-classes; corrupted; mean-rank, features alone; always knn; always vim; always energy"; got != want {
		t.Errorf("choices %q, want %q", got, want)
	}
	best := 0.
	for _, text := range fixed {
		v, _ := strconv.ParseFloat(text, 64)
		best = max(best, v)
	}
	for _, r := range records[1:] {
		auroc, _ := strconv.ParseFloat(r[3], 64)
		regret, _ := strconv.ParseFloat(r[5], 64)
		if r[0] != "mnist_cnn" || r[3] != fixed[r[2]] || math.Abs(best-auroc-regret) > 1e-5 {
			t.Errorf("%q, where AUROCs are %v", r, fixed)
		}
	}

	first := stdout.String()
	stdout.Reset()
	stderr.Reset()
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 || stdout.String() != first {
		t.Errorf("a second run exits with %d, says %q and prints\n%s\nwant\n%s", code, stderr.String(), &stdout, first)
	}

	for want, args := range map[string][]string{
		"names none to choose from": {"--methods", "random,odin"},
		"there is no method":        {"--methods", "magic"},
		"--rows is N or":            {"--rows", "x"},
	} {
		stderr.Reset()
		args = append([]string{"selection", "--data", data, "--models", models, "--out", out}, args...)
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit status %d, %q", args, code, stderr.String())
		}
	}
}

func TestPrintSelection(t *testing.T) {
	var b strings.Builder
	err := printSelection(&b, []selectionRecord{
		{Best: .75, Choices: []choice{{"mixed", "knn", .5}, {"always vim", "vim", .75}}},
		{Best: .9, Choices: []choice{{"mixed", "knn", .9}, {"always vim", "vim", .8}}},
	})
	want := "AUROC lost against the best in hindsight, 2 networks\n\nchoice                         mean  largest\n" +
		"always vim                     .050     .100\nmixed                          .125     .250\n"
	if err != nil || b.String() != want {
		t.Errorf("%v\n%swant\n%s", err, &b, want)
	}
}
