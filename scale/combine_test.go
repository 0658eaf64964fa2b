package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	rowdata "github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestLevels checks the groups of tasks whose parts are combined.
func TestLevels(t *testing.T) {
	starts := make([]int, fanIn*fanIn+1)
	for i := range starts {
		starts[i] = 2 * i
	}
	if got := levels(starts[:fanIn]); got != nil {
		t.Errorf("few tasks have %d levels", len(got))
	}
	got := levels(starts)
	if len(got) != 2 || len(got[0]) != fanIn+1 || got[0][1] != 2*fanIn || !slices.Equal(got[1], []int{0, 2 * fanIn * fanIn}) {
		t.Errorf("the levels are %v", got)
	}
}

// TestCombine checks that workers combine the parts of many small files, that an audit resumes
// from combined parts and from a part that was combined, and that its results have the same bytes
// as those of attach audit.
func TestCombine(t *testing.T) {
	models, err := filepath.Abs("../testmodels")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	attach(t, "fit", models+"/toy_regressor.onnx", "--x", models+"/toy_fit.npz", "--cal", models+"/toy_cal.npz", "--no-intervals", "-o", "m.attach")
	const files, bad = 2*fanIn + 2, "070.npz"
	for i := range files {
		f, err := os.Create(fmt.Sprintf("%03d.npz", i))
		if err != nil {
			t.Fatal(err)
		}
		// An array that the model does not read makes a task of each file.
		padding := rowdata.Array{Shape: []int{maxGroupBytes}, Data: make([]uint8, maxGroupBytes)}
		x := rowdata.Array{Shape: []int{3, 1}, Data: []float32{float32(i % 9), float32(i % 7), float32(i)}}
		if err := npy.WriteNPZ(f, map[string]rowdata.Array{"x": x, "padding": padding}, false); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	attach(t, "audit", "m.attach", "--x", "[0-9]*.npz", "-o", "single")
	good := readFile(t, bad)
	if err := os.WriteFile(bad, []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("bucket", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"out", "file://" + dir + "/bucket"} {
		local := filepath.Base(to)
		if err := os.WriteFile(bad, []byte("PK"), 0o666); err != nil {
			t.Fatal(err)
		}
		// The first parts are not combined, because there are few tasks.
		if out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "00[0-9].npz", "--x", bad, "-o", to).CombinedOutput(); err == nil {
			t.Fatalf("%s", out)
		}
		args := []string{"m.attach", "--x", "[0-9]*.npz", "-o", to}
		if out, err := scaleCommand(t.Context(), t, nil, args...).CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "attach: "+bad+": ") {
			t.Fatalf("%v: %s", err, out)
		}
		var rows []int
		parts, _ := filepath.Glob(local + "/parts/*.parquet")
		for _, path := range parts {
			part, err := audit.OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, part.Rows())
		}
		if want := []int{3 * (10 + fanIn - 1), 3 * (files - 10 - fanIn)}; !slices.Equal(rows, want) || filepath.Base(parts[1]) != "000074-000000000000.parquet" {
			t.Errorf("%v have %d rows, want %d", parts, rows, want)
		}
		// A killed process may leave a part that was combined.
		if out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "001.npz", "--x", bad, "-o", "one"+local).CombinedOutput(); err == nil {
			t.Fatalf("%s", out)
		}
		copyFile(t, "one"+local+"/parts/000000-000000000000.parquet", local+"/parts/000001-000000000000.parquet")
		if err := os.WriteFile(bad, good, 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := scaleCommand(t.Context(), t, nil, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		for _, name := range []string{"audit.json", audit.Scores, audit.Duplicates} {
			if !bytes.Equal(readFile(t, filepath.Join(local, name)), readFile(t, filepath.Join("single", name))) {
				t.Errorf("%s/%s is not what attach audit writes", local, name)
			}
		}
	}
}

// TestScored checks that a job that its runner repeats while parts are combined scores no file.
func TestScored(t *testing.T) {
	dir := t.TempDir()
	s := newStorage()
	for name, content := range map[string]string{runFile: "a", scoredFile: "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for token, want := range map[string][2]bool{"a": {true, true}, "b": {false, false}} {
		if current, scored, err := s.progress(t.Context(), dir, token); err != nil || current != want[0] || scored != want[1] {
			t.Errorf("run %s: %v %v, %v", token, current, scored, err)
		}
	}
	w := &worker{storage: s} // without an engine, so that scoring would panic
	if err := w.score(t.Context(), &scoreFn{Parts: dir, Run: "a"}, []engine.Shard{{}}); err != nil {
		t.Error(err)
	}
	if err := w.score(t.Context(), &scoreFn{Parts: dir, Run: "b"}, []engine.Shard{{}}); err != errReplaced {
		t.Errorf("a replaced run: %v", err)
	}
}

// TestGet checks that get replaces a part that was combined since it was copied, and keeps others.
func TestGet(t *testing.T) {
	bucket, dir := t.TempDir(), t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(bucket, "grown"), "new content")
	write(filepath.Join(dir, "grown"), "old")
	write(filepath.Join(bucket, "equal"), "there")
	write(filepath.Join(dir, "equal"), "here!")
	if err := newStorage().get(t.Context(), "file://"+filepath.ToSlash(bucket), "", func(string) bool { return true }, dir); err != nil {
		t.Fatal(err)
	}
	if grown, equal := readFile(t, filepath.Join(dir, "grown")), readFile(t, filepath.Join(dir, "equal")); string(grown) != "new content" || string(equal) != "here!" {
		t.Errorf("the files hold %q and %q", grown, equal)
	}
}
