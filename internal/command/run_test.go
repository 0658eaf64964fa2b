package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
)

// useTestRuntime sets ORT_LIB, so that commands in this process find the runtime library.
func useTestRuntime(t *testing.T) {
	t.Helper()
	t.Setenv("ORT_LIB", orttest.Open(t).Library().Path)
}

const models = "../../testmodels/"

// TestInterruptedFit checks that a fit that would take minutes ends soon after it is
// cancelled, and leaves no files behind.
func TestInterruptedFit(t *testing.T) {
	useTestRuntime(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	var stdout, stderr bytes.Buffer
	started := time.Now()
	code := Run(ctx, []string{
		"fit", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz",
		"--interval-param", "hidden=512,512", "--interval-param", "epochs=100000", "-o", filepath.Join(dir, "m.attach"),
	}, nil, &stdout, &stderr)
	if code != exitFailed || stdout.Len() > 0 || stderr.String() != interrupted+"\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("it went on for %v", took)
	}
	if remaining, _ := filepath.Glob(filepath.Join(dir, "*")); len(remaining) > 0 {
		t.Errorf("left behind: %v", remaining)
	}
	if remaining, _ := filepath.Glob(filepath.Join(dir, ".*")); len(remaining) > 0 {
		t.Errorf("left behind: %v", remaining)
	}
}

// TestInterruptedAtOnce checks that a command prints no results and writes no files if it is
// cancelled before it starts.
func TestInterruptedAtOnce(t *testing.T) {
	useTestRuntime(t)
	dir := t.TempDir()
	fitted := filepath.Join(dir, "fitted.attach")
	var stderr bytes.Buffer
	if code := Run(context.Background(), []string{
		"fit", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--rows", ":300", "--interval-param", "epochs=1", "-o", fitted,
	}, nil, io.Discard, &stderr); code != exitDone {
		t.Fatal(stderr.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"fit", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "-o", filepath.Join(dir, "m.attach")},
		{"features", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "-o", filepath.Join(dir, "f.npz")},
		{"predict", fitted, "--x", models + "toy_test.npz", "-o", filepath.Join(dir, "p.csv")},
		{"predict", fitted, "--x", models + "toy_test.npz"},
		{"evaluate", fitted, "--x", models + "toy_test.npz", "--report", filepath.Join(dir, "e.html")},
		{"compare", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--test", models + "toy_cal.npz", "--ood", models + "toy_test.npz"},
	} {
		var stdout, stderr bytes.Buffer
		code := Run(ctx, args, nil, &stdout, &stderr)
		if code != exitFailed || stdout.Len() > 0 || stderr.String() != interrupted+"\n" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args[0], code, stdout.String(), stderr.String())
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// fullDisk is a writer to a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestFullStdout checks that a command fails if it cannot write its results.
func TestFullStdout(t *testing.T) {
	useTestRuntime(t)
	fitted := filepath.Join(t.TempDir(), "m.attach")
	if code := Run(context.Background(), []string{
		"fit", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--rows", ":300", "--interval-param", "epochs=1", "-o", fitted,
	}, nil, io.Discard, io.Discard); code != exitDone {
		t.Fatal("the fit failed")
	}
	for _, args := range [][]string{
		{"help"},
		{"inspect", models + "toy_regressor.onnx"},
		{"inspect", models + "toy_regressor.onnx", "--json"},
		{"methods"},
		{"methods", "--json"},
		{"methods", "--markdown"},
		{"runtime"},
		{"runtime", "--json"},
		{"predict", fitted, "--x", models + "toy_test.npz"},
		{"evaluate", fitted, "--x", models + "toy_test.npz", "--rows", ":300"},
		{"evaluate", fitted, "--x", models + "toy_test.npz", "--rows", ":300", "--json"},
		{"compare", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--test", models + "toy_cal.npz", "--ood", models + "toy_test.npz", "--methods", "random"},
		{"compare", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--test", models + "toy_cal.npz", "--ood", models + "toy_test.npz", "--methods", "random", "--json"},
	} {
		var stderr bytes.Buffer
		code := Run(context.Background(), args, nil, fullDisk{}, &stderr)
		if code != exitFailed || stderr.String() != "attach: no space left on device\n" {
			t.Errorf("%s: exit code %d, stderr %q", strings.Join(args, " "), code, stderr.String())
		}
	}
}

// TestGateStatus checks that a failed gate has its own exit status, and that the result is
// printed before the failure.
func TestGateStatus(t *testing.T) {
	useTestRuntime(t)
	fitted := filepath.Join(t.TempDir(), "m.attach")
	if code := Run(context.Background(), []string{
		"fit", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--rows", ":300", "--no-detector", "--interval-param", "epochs=1", "-o", fitted,
	}, nil, io.Discard, io.Discard); code != exitDone {
		t.Fatal("the fit failed")
	}
	for _, tt := range []struct {
		gate, message string
		code          int
	}{
		{"coverage<0", "", exitDone},
		{"coverage<.999", "attach: failed: coverage<.999 (it is ", exitGate},
		{"coverage@.5<.999", "attach: --fail-if coverage@.5<.999: these rows have no such figure at 0.5; it needs --level or --alpha\n", exitFailed},
		{"auroc<.5", "attach: --fail-if auroc<.5: these rows have no such figure; it needs --ood\n", exitFailed},
		{"coverage@2<.5", "attach: --fail-if is \"coverage@2<.5\"; it must be violated, or ", exitUsage},
		{"frob>1", "attach: --fail-if is \"frob>1\"; it must be ", exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		code := Run(context.Background(), []string{"evaluate", fitted, "--x", models + "toy_test.npz", "--rows", ":300", "--fail-if", tt.gate}, nil, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stderr.String(), tt.message) || (stdout.Len() > 0) != (code == exitDone || code == exitGate || code == exitFailed) {
			t.Errorf("%s: exit code %d, stdout of %d bytes, stderr %q", tt.gate, code, stdout.Len(), stderr.String())
		}
	}
}

// TestParse checks that flags may stand anywhere, and that a value may look like a flag.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in, rest, x, o string
		json           bool
	}{
		{in: ""},
		{in: "m --json", rest: "m", json: true},
		{in: "--json m", rest: "m", json: true},
		{in: "m --json=false --x=a=b", rest: "m", x: "a=b"},
		{in: "m --x a -o b", rest: "m", x: "a", o: "b"},
		{in: "--x a m -o b n", rest: "m n", x: "a", o: "b"},
		{in: "m -x -1", rest: "m", x: "-1"},
		{in: "- -o -", rest: "-", o: "-"},
		{in: "m -- --x a", rest: "m --x a"},
	} {
		var x, o string
		var json bool
		c := table{{name: "x", dest: &x}, {name: "o", dest: &o}, {name: "json", dest: &json}}.command(cli.Command{Name: "c"}, argument{})
		var rest []string
		var err error
		options := table{c.Flags[0].(*option), c.Flags[1].(*option), c.Flags[2].(*option)}
		c.Action = func(c *cli.Context) error { rest, err = options.parse(c); return err }
		app := &cli.App{Name: "attach", Commands: []*cli.Command{c}}
		if err := app.Run(append([]string{"attach", "c"}, strings.Fields(tt.in)...)); err != nil || strings.Join(rest, " ") != tt.rest || x != tt.x || o != tt.o || json != tt.json {
			t.Errorf("%q is read as %q, --x %q, -o %q, --json %v; error %v", tt.in, rest, x, o, json, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	_, missing := os.Open("no such.file")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{missing, "no such.file: no such file or directory"},
		{errors.Join(errors.New("one"), errors.New("two")), "one; two"},
		{errors.New("plain"), "plain"},
		{errors.New("0" + strings.Repeat("a", 1e6) + "z"), "0" + strings.Repeat("a", 1999) + " … " + strings.Repeat("a", 1999) + "z"},
	} {
		if got := errorText(tt.err); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
