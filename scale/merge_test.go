package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/attach-uncertainty/attach/internal/audit"
)

// TestMerge checks that workers merge a large audit, with the bytes that attach audit writes, and
// that a second audit adds files to it. A partition of a large audit has few rows here.
func TestMerge(t *testing.T) {
	makeFolder(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("bucket", 0o777); err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prism.CreateJobServer(t.Context(), prism.Options{Port: port}); err != nil {
		t.Fatal(err)
	}
	if out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "part-[01].npz", "--file-rows", "1000", "-o", "alone", "--verbose").CombinedOutput(); err != nil || strings.Contains(string(out), "workers merged") {
		t.Errorf("without other machines: %v: %s", err, out)
	}
	for _, inputs := range []string{"part-[01].npz", "part-*.npz"} {
		args := []string{"m.attach", "--x", inputs, "--file-rows", "1000"}
		attach(t, append([]string{"audit", "-o", "whole"}, args...)...)
		names, err := filepath.Glob("whole/*.parquet/*.parquet")
		if err != nil || len(names) < 8 {
			t.Fatalf("%v, %v", names, err)
		}
		for _, to := range []string{"out", "file://" + dir + "/bucket"} {
			out, err := scaleCommand(t.Context(), t, nil, append(args, "-o", to, "--verbose", "--runner=universal", fmt.Sprint("--endpoint=localhost:", port), "--environment_type=LOOPBACK")...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "workers merged 4 partitions, round results") && !strings.Contains(string(out), "workers merged 10 partitions, round results") {
				t.Fatalf("%v: %s", err, out)
			}
			local := filepath.Base(to)
			for _, name := range append(names, "whole/audit.json", "whole/report.html") {
				other := local + strings.TrimPrefix(name, "whole")
				if !bytes.Equal(readFile(t, other), readFile(t, name)) {
					t.Errorf("%s is not what attach audit writes", other)
				}
			}
			written, _ := filepath.Glob(local + "/*.parquet/*")
			hidden, _ := filepath.Glob(local + "/.attach*")
			parts, _ := filepath.Glob(local + "/parts/*")
			if len(written) != len(names) || hidden != nil || parts != nil {
				t.Errorf("%s has %v, %v and %v, want %d files", local, written, hidden, parts, len(names))
			}
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

// TestHeaders checks that the header of a part is copied without its rows, even if it is long.
func TestHeaders(t *testing.T) {
	makeFolder(t)
	const name = "000000-000000000000.parquet"
	bucket, local := t.TempDir(), t.TempDir()
	copyFile(t, "single/scores.parquet", filepath.Join(bucket, name))
	if err := os.WriteFile(filepath.Join(bucket, planFile), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, filepath.Join(bucket, name))
	if length := binary.LittleEndian.Uint32(whole[len(whole)-8:]); length < footerBytes {
		t.Fatalf("the footer has only %d bytes", length)
	}
	partial, err := newStorage().getHeaders(t.Context(), "file://"+bucket, local)
	if err != nil || len(partial) != 1 || partial[0] != filepath.Join(local, name) || string(readFile(t, filepath.Join(local, planFile))) != "{}" {
		t.Fatalf("%v, %v", partial, err)
	}
	want, err := audit.OpenFile(filepath.Join(bucket, name))
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.OpenFile(partial[0])
	if err != nil || got.Rows() != want.Rows() {
		t.Fatal(err)
	}
	if err := got.Check(t.Context()); !audit.Damaged(err) {
		t.Errorf("the rows were copied too: %v", err)
	}
	if again, err := newStorage().getHeaders(t.Context(), "file://"+bucket, local); err != nil || again != nil {
		t.Errorf("a part with the same size is copied again: %v, %v", again, err)
	}
}
