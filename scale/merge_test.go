package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/audit"
)

// TestMerge checks that workers merge a large audit, with the bytes that attach audit writes, and
// that a second audit adds files to it. A partition of a large audit has few rows here.
func TestMerge(t *testing.T) {
	makeFolder(t)
	for _, inputs := range []string{"part-[01].npz", "part-*.npz"} {
		args := []string{"m.attach", "--x", inputs, "--file-rows", "1000"}
		attach(t, append([]string{"audit", "-o", "whole"}, args...)...)
		if out, err := scaleCommand(t.Context(), t, nil, append(args, "-o", "out")...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		names, err := filepath.Glob("whole/*.parquet/*.parquet")
		if err != nil || len(names) < 8 {
			t.Fatalf("%v, %v", names, err)
		}
		for _, name := range append(names, "whole/audit.json", "whole/report.html") {
			other := "out" + strings.TrimPrefix(name, "whole")
			want := bytes.ReplaceAll(readFile(t, name), []byte("whole/"), []byte("out/"))
			if !bytes.Equal(readFile(t, other), want) {
				t.Errorf("%s is not what attach audit writes", other)
			}
		}
		if written, _ := filepath.Glob("out/*/*.parquet"); len(written) != len(names) {
			t.Errorf("%v, want %d files", written, len(names))
		}
		if hidden, _ := filepath.Glob("out/.attach*"); hidden != nil {
			t.Errorf("%v are left", hidden)
		}
		if _, err := os.Stat("out/parts"); err == nil {
			t.Error("parts are left")
		}
	}
}

// TestMergeFails checks that the reason of a failed merge is reported, and that the scores stay.
func TestMergeFails(t *testing.T) {
	f := &resultsFn{mergeTask{Folder: t.TempDir(), Prefix: "parts/merge-x-", Round: audit.Round{Name: "results"}}}
	err := f.ProcessElement(t.Context(), 0)
	reason, readErr := os.ReadFile(filepath.Join(f.Folder, "parts", "merge-x-failed"))
	if err == nil || readErr != nil || string(reason) != err.Error() {
		t.Errorf("a merge without a plan: %v, %v", err, readErr)
	}
}
