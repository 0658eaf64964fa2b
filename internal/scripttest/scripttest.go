// Package scripttest runs test scripts that call the command as a user would type it. Each
// folder of scripts is a test package. Therefore go test runs the folders in parallel and
// gives each its own time limit.
package scripttest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/attach-uncertainty/attach/internal/command"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
)

// Main runs the tests of a package of scripts and returns their exit code. It links the
// test binary into the PATH, once under the name of the command and once under that of the
// worker; testscript.Main does this only for the command. When the binary is started under
// one of these names, Main runs the command or the worker instead.
func Main(m *testing.M) int {
	switch strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") {
	case "attach":
		command.Main(func(ctx context.Context) int {
			return command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		})
	case workerName:
		serveCalls()
		return 0
	}
	bin, err := os.MkdirTemp("", "attach-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(bin)
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"attach", workerName} {
		if strings.HasSuffix(self, ".exe") {
			name += ".exe"
		}
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			panic(err)
		}
	}
	os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return m.Run()
}

// Run runs all scripts in the working directory in parallel. In scripts, $MODELS is the
// folder of the test models and $ORT_LIB is the path of libonnxruntime.
func Run(t *testing.T) {
	runtime := orttest.Open(t)
	lib := runtime.Library().Path
	models, err := filepath.Abs("../../../../testmodels")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: ".",
		Setup: func(env *testscript.Env) error {
			// One thread per script is enough, because the scripts run in parallel and
			// already use all cores.
			env.Setenv("GOMAXPROCS", "1")
			env.Setenv("ORT_LIB", lib)
			env.Setenv("MODELS", models)
			w := &worker{env: slices.Clone(env.Vars)}
			env.Values["worker"] = w
			env.Defer(w.stop)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "cuda":
				return runtime.CUDA() == nil, nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"attach":   scriptAttach,
			"fails":    scriptFails,
			"array":    scriptArray,
			"thin":     scriptThin,
			"pack":     scriptPack,
			"hub":      scriptHub,
			"killed":   scriptKilled,
			"held":     scriptHeld,
			"truncate": scriptTruncate,
			"flip":     scriptFlip,
			"replace":  scriptReplace,
			"rezip":    scriptRezip,
			"reseal":   scriptReseal,
			"sleep":    scriptSleep,
			"columns":  scriptColumns,
			"shape":    scriptShape,
			"json":     scriptJSON,
			"entries":  scriptEntries,
		},
	})
}

// scriptFails implements the script command `fails CODE PATTERN ARGS…`. It runs attach and
// checks that attach fails with the exit code. attach must print one sentence to stderr
// that matches the pattern, and nothing to stdout. Its usage may follow the sentence. Every
// file must stay as it was.
func scriptFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails CODE PATTERN ARGS…")
	}
	before := snapshot(ts)
	code, stdout, stderr := runAttach(ts, args[2:])
	if want, _ := strconv.Atoi(args[0]); code != want {
		ts.Fatalf("exit code %d, want %d: %s", code, want, stderr)
	}
	if stdout != "" {
		ts.Fatalf("a failure printed to stdout: %q", stdout)
	}
	line, rest, _ := strings.Cut(stderr, "\n")
	switch {
	case rest != "" && !strings.HasPrefix(rest, "Usage: attach "):
		ts.Fatalf("more than one line on stderr: %q", stderr)
	case !strings.HasPrefix(line, "attach: "):
		ts.Fatalf("stderr is %q, which does not begin with the program's name", line)
	case strings.HasSuffix(line, "."):
		ts.Fatalf("stderr is %q, which ends in a period", line)
	case strings.Contains(line, "goroutine"), strings.Contains(line, "%!"), strings.Contains(line, ".tmp"):
		ts.Fatalf("stderr is %q", line)
	}
	if !regexp.MustCompile(args[1]).MatchString(line) {
		ts.Fatalf("stderr is %q, want a match of %q", line, args[1])
	}
	if after := snapshot(ts); after != before {
		ts.Fatalf("files changed from\n%s\nto\n%s", before, after)
	}
}

// snapshot lists the files in the script's folder with their sizes and times, including
// hidden files.
func snapshot(ts *testscript.TestScript) string {
	var b strings.Builder
	err := filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			fmt.Fprintln(&b, path)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(&b, path, info.Size(), info.ModTime())
		return err
	})
	ts.Check(err)
	return b.String()
}

func scriptSleep(ts *testscript.TestScript, neg bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	time.Sleep(d)
}
