package command

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func readme(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestMethodsPage: `attach methods --markdown` prints the tables to put there.
func TestMethodsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/methods.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), methodTables()) {
		t.Error("the tables in docs/reference/methods.md are not what `attach methods --markdown` prints")
	}
}

// TestReadmeCommands: every command that README.md shows can be called so.
func TestReadmeCommands(t *testing.T) {
	calls := shellLines(readme(t))
	if len(calls) < 4 {
		t.Fatalf("README.md shows %d calls of attach: %q", len(calls), calls)
	}
	for _, call := range calls {
		if err := parses(strings.Fields(call)); err != nil {
			t.Errorf("attach %s: %v", call, err)
		}
	}
}

// TestReadmeGo: the Go code that README.md and docs/reference/inputs.md show is that of examples.
func TestReadmeGo(t *testing.T) {
	var examples strings.Builder
	for _, path := range []string{"../../example_test.go", "../../featurize/attached_test.go", "../../tables/example_test.go"} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		examples.Write(content)
	}
	using, err := os.ReadFile("../../docs/reference/inputs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{readme(t), string(using)} {
		blocks := strings.Split(page, "```go\n")[1:]
		if len(blocks) == 0 {
			t.Fatal("README.md or docs/reference/inputs.md shows no Go code")
		}
		for _, block := range blocks {
			code, _, _ := strings.Cut(block, "\n```")
			indented := "\t" + strings.ReplaceAll(code, "\n", "\n\t")
			if !strings.Contains(examples.String(), code+"\n") && !strings.Contains(examples.String(), indented) {
				t.Errorf("no example has\n%s", code)
			}
		}
	}
}

// TestReadmeCommandsCanFail: the check above tells right from wrong.
func TestReadmeCommandsCanFail(t *testing.T) {
	for _, call := range []string{"frob", "inspect", "fit m.onnx --x", "fit m.onnx --frob 3 --x a -o b", "compare m.onnx --x a --test b", "predict m.attach --x a --alpha 2"} {
		if parses(strings.Fields(call)) == nil {
			t.Errorf("attach %s is taken for right", call)
		}
	}
}

// shellLines are the arguments of the indented calls of attach in a Markdown
// text, those over several lines joined.
func shellLines(markdown string) []string {
	var calls []string
	joined := strings.ReplaceAll(markdown, "\\\n", " ")
	for line := range strings.Lines(joined) {
		text, indented := strings.CutPrefix(line, "    ")
		if !indented {
			continue
		}
		for _, prefix := range []string{"attach ", "$ attach ", "go run ./cmd/attach "} {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				rest, _, _ = strings.Cut(rest, " #")
				rest, _, _ = strings.Cut(rest, " | ")
				calls = append(calls, strings.TrimSpace(rest))
			}
		}
	}
	return calls
}

// parses runs a command that is cancelled already, so that it ends once its
// arguments have been read. Only mistakes of usage are errors.
func parses(args []string) error {
	app := newApp(nil, io.Discard, io.Discard)
	replaceWork(app.Commands)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := run(ctx, app, args)
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	return nil
}

// replaceWork leaves out what needs no file and would be done all the same.
func replaceWork(commands []*cli.Command) {
	for _, c := range commands {
		replaceWork(c.Subcommands)
		switch c.Name {
		case "demo", "install", "runtime", "methods", "version", "completion":
			c.Action = func(c *cli.Context) error { return nil }
		}
	}
}
