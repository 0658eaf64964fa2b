package command

import (
	"bytes"
	"math"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/testmodels"
)

// TestReadmeOutput: the commands that README.md shows print what it shows below
// them, where they are called in a folder with what the demo unpacks. Times may
// differ, and numbers by what another processor rounds otherwise.
func TestReadmeOutput(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // threads of small networks mostly wait for each other
	t.Setenv("ORT_LIB", orttest.Open(t).Library().Path)
	page := readme(t)
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", testmodels.FS); err != nil {
		t.Fatal(err)
	}
	shown := 0
	var stdout, stderr bytes.Buffer
	for block := range strings.SplitSeq(page, "\n\n") {
		if !strings.HasPrefix(block, "    ") {
			continue
		}
		if calls := shellLines(block); calls != nil {
			for _, call := range calls {
				if call == "demo" {
					continue // it takes long, and a script of its own
				}
				stdout.Reset()
				if code := Run(t.Context(), strings.Fields(call), nil, &stdout, &stderr); code != exitDone {
					t.Fatalf("attach %s: exit status %d: %s", call, code, &stderr)
				}
			}
			continue
		}
		shown++
		if line := unlike(stdout.String(), block); line != "" {
			t.Errorf("README.md shows\n%s\nwhich is not what is printed:\n%.2000s", line, stdout.String())
		}
	}
	if shown < 2 {
		t.Errorf("README.md shows the output of %d commands", shown)
	}
}

// TestReadmeOutputCanFail: the comparison tells right from wrong.
func TestReadmeOutputCanFail(t *testing.T) {
	printed := "input,class,score\n0,1,0.9294\n1,0,15.1\n"
	for _, shown := range []string{"    input,class", "    input,class,score\n    0,2,0.9294", "    input,class,score\n    0,1,0.99", "    input,class,score\n    0,1,0.9294\n    1,0,15.1\n    2,0,1"} {
		if unlike(printed, shown) == "" {
			t.Errorf("%q is taken for what is printed", shown)
		}
	}
	if line := unlike(printed, "    input,class,score\n    0,1,0.9295"); line != "" {
		t.Errorf("%q is not taken for what is printed", line)
	}
}

var cellBreak = regexp.MustCompile(`,|\s+`)

// unlike is the first of the lines shown that is not printed, in their order, or
// "".
func unlike(printed, shown string) string {
	var lines [][]string
	for line := range strings.Lines(printed) {
		lines = append(lines, cellBreak.Split(strings.TrimSpace(line), -1))
	}
	times := 0 // columns at the end
	for line := range strings.Lines(shown) {
		want := cellBreak.Split(strings.TrimSpace(line), -1)
		if strings.Contains(line, "µs/row") {
			times = 4 // "fit (s)" and "score (µs/row)" are two words each
		}
		for len(lines) > 0 && !alike(lines[0], want, times) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return strings.TrimSpace(line)
		}
		if lines = lines[1:]; times == 4 {
			times = 2
		}
	}
	return ""
}

// alike compares cells but the last.
func alike(got, want []string, last int) bool {
	if len(got) != len(want) || len(want) < last {
		return false
	}
	for i, cell := range want[:len(want)-last] {
		x, err := strconv.ParseFloat(got[i], 64)
		y, bad := strconv.ParseFloat(cell, 64)
		if err != nil || bad != nil {
			if got[i] != cell {
				return false
			}
		} else if math.Abs(x-y) > .002+.01*math.Abs(y) {
			return false
		}
	}
	return true
}
