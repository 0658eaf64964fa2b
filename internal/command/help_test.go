package command

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/testmodels"
)

// everyCommand calls visit with each command and subcommand, and with the name that a user
// types.
func everyCommand(visit func(name string, c *cli.Command)) {
	var walk func(prefix string, commands []*cli.Command)
	walk = func(prefix string, commands []*cli.Command) {
		for _, c := range commands {
			visit(prefix+c.Name, c)
			walk(prefix+c.Name+" ", c.Subcommands)
		}
	}
	walk("attach ", newApp(nil, io.Discard, io.Discard).Commands)
}

// TestHelpIsShort checks the help of every command. It must have a usage, examples, a summary
// that fits on a line, and at most ten flags in each group, with texts of at most 320
// characters. The help of the program must list every command.
func TestHelpIsShort(t *testing.T) {
	commandCount := 0
	everyCommand(func(name string, c *cli.Command) {
		if n := len([]rune(name + ": " + c.Usage)); c.Usage == "" || n > helpWidth || strings.HasSuffix(c.Usage, ".") {
			t.Errorf("%s: the summary %q has %d characters with the name", name, c.Usage, n)
		}
		if !strings.HasPrefix(c.UsageText, name) || c.CustomHelpTemplate == "" {
			t.Errorf("%s: usage %q, examples %q", name, c.UsageText, c.CustomHelpTemplate)
		}
		flagCount := 0
		for _, g := range groupFlags(c.Flags) {
			flagCount += len(g.flags)
			if len(g.flags) > 10 {
				t.Errorf("%s: %d flags under %q", name, len(g.flags), g.name)
			}
			for _, o := range g.flags {
				_, text := o.describe()
				if n := len([]rune(text)); n > 320 || strings.HasSuffix(text, ".") {
					t.Errorf("%s --%s: %q has %d characters", name, o.name, text, n)
				}
			}
		}
		if flagCount != len(c.Flags) {
			t.Errorf("%s: help shows %d of %d flags", name, flagCount, len(c.Flags))
		}
		for _, g := range commandGroups {
			if slices.Contains(g.commands, c.Name) {
				commandCount++
			}
		}
	})
	total := 0
	for _, g := range commandGroups {
		total += len(g.commands)
	}
	if commandCount != total || commandCount != len(newApp(nil, io.Discard, io.Discard).Commands) {
		t.Errorf("help lists %d of %d commands", commandCount, total)
	}
}

// TestReferencePage checks that docs/reference/commands.md is the output of `attach help
// --markdown`.
func TestReferencePage(t *testing.T) {
	const path = "../../docs/reference/commands.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if code := Run(t.Context(), []string{"help", "--markdown"}, nil, &want, io.Discard); code != exitDone {
		t.Fatal(code)
	}
	if !bytes.Equal(page, want.Bytes()) {
		t.Errorf("%s is out of date: go run ./cmd/attach help --markdown > docs/reference/commands.md", filepath.Clean(path))
	}
}

// TestGateTopic checks that `attach help gates` explains every figure.
func TestGateTopic(t *testing.T) {
	var figures []string
	for _, r := range findTopic("gates").rows {
		figures = append(figures, strings.Split(r[0], ", ")...)
	}
	for _, name := range append(gateFigures(), auditFigures()...) {
		if !slices.Contains(figures, name) {
			t.Errorf("`attach help gates` lacks %s", name)
		}
	}
}

// TestManPage checks that the man page has a section for every command, and uses only known
// requests of the formatter. If groff is installed, it must format the page without
// warnings.
func TestManPage(t *testing.T) {
	var out bytes.Buffer
	if code := Run(t.Context(), []string{"help", "--man"}, nil, &out, io.Discard); code != exitDone {
		t.Fatal(code)
	}
	for line := range strings.Lines(out.String()) {
		request := strings.TrimSpace(strings.SplitN(line, " ", 2)[0])
		if strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I", ".nf", ".fi", ".RS", ".RE"}, request) {
			t.Errorf("%q", line)
		}
	}
	everyCommand(func(name string, c *cli.Command) {
		if !strings.Contains(out.String(), ".SS "+escapeRoff(name)+"\n") {
			t.Errorf("%s is missing", name)
		}
	})
	if man, err := exec.LookPath("groff"); err == nil {
		c := exec.Command(man, "-man", "-Tutf8", "-ww", "-z")
		c.Stdin = bytes.NewReader(out.Bytes())
		if output, err := c.CombinedOutput(); err != nil || len(output) > 0 {
			t.Errorf("groff: %v: %.500s", err, output)
		}
	}
}

// examples returns the calls of attach in the examples of a command.
func examples(c *cli.Command) []string {
	var calls []string
	for line := range strings.Lines(strings.ReplaceAll(c.CustomHelpTemplate, "\\\n", " ")) {
		call, _, _ := strings.Cut(strings.TrimSpace(line), " > ")
		call, _, _ = strings.Cut(call, " && ")
		call, _, _ = strings.Cut(call, " | ")
		call = strings.TrimSuffix(strings.TrimPrefix(call, "source <("), ")")
		if rest, ok := strings.CutPrefix(call, "attach "); ok {
			calls = append(calls, rest)
		}
	}
	return calls
}

// shellFields splits a call into arguments as a shell does. It understands single quotes.
func shellFields(call string) []string {
	var fields []string
	for i, part := range strings.Split(call, "'") {
		if i%2 == 1 {
			fields = append(fields, part)
		} else {
			fields = append(fields, strings.Fields(part)...)
		}
	}
	return fields
}

// demoFolder makes a folder with the models and inputs of `attach demo` and two .attach
// files, and changes to this folder. fit holds additional flags for the fit of the digits.
func demoFolder(t *testing.T, fit ...string) {
	t.Helper()
	useTestRuntime(t)
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", testmodels.FS); err != nil {
		t.Fatal(err)
	}
	digits := []string{"fit", "digits_resnet.onnx", "--x", "digits_fit.npz", "--cal", "digits_cal.npz", "--preprocess", "digits.preprocess.json", "-o", "digits_resnet.attach"}
	toy := []string{"fit", "toy_regressor.onnx", "--x", "toy_fit.npz", "--cal", "toy_cal.npz", "-o", "toy_regressor.attach"}
	mustRun(t, append(digits, fit...)...)
	mustRun(t, append(toy, fit...)...)
}

// TestExamples checks that every command has examples and that they can be parsed. If
// ATTACH_PAGES is set, it also runs them in the folder of `attach demo`, except those of
// serve, demo and install. This takes 15 s.
func TestExamples(t *testing.T) {
	run := os.Getenv("ATTACH_PAGES") != ""
	if run {
		demoFolder(t)
	}
	count := 0
	everyCommand(func(name string, c *cli.Command) {
		calls := examples(c)
		if len(calls) == 0 {
			t.Errorf("%s has no examples", name)
		}
		for _, call := range calls {
			args := shellFields(call)
			if err := parseCall(args); err != nil {
				t.Errorf("%s: attach %s: %v", name, call, err)
			}
			if !run || args[0] == "serve" || args[0] == "demo" || slices.Contains(args, "install") {
				continue
			}
			count++
			var stdout, stderr bytes.Buffer
			// An example of --fail-if may end with the status of a failed gate.
			if code := Run(t.Context(), args, nil, &stdout, &stderr); code != exitDone && !(code == exitGate && slices.Contains(args, "--fail-if")) {
				t.Errorf("%s: attach %s: exit status %d: %s", name, call, code, &stderr)
			}
		}
	})
	if run && count < 25 {
		t.Errorf("%d examples ran", count)
	}
}
