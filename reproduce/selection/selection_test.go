package selection

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

func TestSelection(t *testing.T) {
	data, models := experimenttest.Digits(t)
	out := t.TempDir()
	run := func() (code int, stdout, stderr string) {
		return experimenttest.Run(t, Experiment, "--data", data, "--models", models, "--out", out, "--rows", "150,60,60", "--methods", "knn,energy,vim,random,odin")
	}
	code, first, stderr := run()
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, want := range []string{"in hindsight, 1 networks", "svhn_preact18: not run", "\nalways energy "} {
		if !strings.Contains(first, want) {
			t.Errorf("the output lacks %q:\n%s", want, first)
		}
	}
	experimenttest.Written(t, out, 500, "selection.png", "selection.svg")
	records := experimenttest.ReadCSV(t, filepath.Join(out, "selection.csv"))
	fixed := map[string]string{} // AUROC by method
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

	if code, again, stderr := run(); code != 0 || stderr != "" || again != first {
		t.Errorf("a second run exits with %d, says %q and prints\n%s\nwant\n%s", code, stderr, again, first)
	}
	t.Setenv("ATTACH_DATA", data)
	experimenttest.Refused(t, Experiment, map[string][]string{
		"names none to choose from": {"--models", models, "--methods", "random,odin"},
		"there is no method":        {"--models", models, "--methods", "magic"},
		"--rows wants N or":         {"--models", models, "--rows", "x"},
	})
}

func TestPrintSelection(t *testing.T) {
	var b strings.Builder
	printRegrets(&b, byRegret([]record{
		{Best: .75, Choices: []choice{{"mixed", "knn", .5}, {"always vim", "vim", .75}}},
		{Best: .9, Choices: []choice{{"mixed", "knn", .9}, {"always vim", "vim", .8}}},
	}), 2)
	want := "AUROC lost against the best in hindsight, 2 networks\n\nchoice                         mean  largest\n" +
		"always vim                     .050     .100\nmixed                          .125     .250\n"
	if b.String() != want {
		t.Errorf("%swant\n%s", &b, want)
	}
}
