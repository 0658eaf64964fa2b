package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
)

var (
	rewritePages = flag.Bool("rewrite-pages", false, "write what the commands of pages print into the pages")
	demoDone     = flag.String("demo", "", "a folder with attach-demo, as `attach demo` wrote it, and demo.log, what it printed; otherwise the test runs the demo")
)

// onTerminalVariable is the environment variable that makes the command write as on a
// terminal.
const onTerminalVariable = "ATTACH_TEST_TERMINAL"

// TestMain runs the command instead of the tests if the test binary is called attach.
func TestMain(m *testing.M) {
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "attach" {
		var stdout io.Writer = os.Stdout
		if os.Getenv(onTerminalVariable) != "" {
			stdout = shownTerminal{os.Stdout}
		}
		Main(func(ctx context.Context) int { return Run(ctx, os.Args[1:], os.Stdin, stdout, os.Stderr) })
	}
	os.Exit(m.Run())
}

type shownTerminal struct{ io.Writer }

func (shownTerminal) IsTerminal() bool { return true }

// TestPages runs the blocks of the tutorial pages in order. It compares their output with
// the output on the page. CONTRIBUTING.md explains the format of the pages.
func TestPages(t *testing.T) {
	if os.Getenv("ATTACH_PAGES") == "" {
		t.Skip("takes minutes; ATTACH_PAGES=1 runs it")
	}
	shell := newPageShell(t)
	for _, path := range teachingPages(t) {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(path), "../../"), ".md")
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			page := string(content)
			shown := shell.run(t, page, t.Errorf)
			if *rewritePages && shown != page {
				if err := os.WriteFile(path, []byte(shown), 0o666); err != nil {
					t.Fatal(err)
				}
				t.Logf("rewrote %s", path)
			}
		})
	}
}

// teachingPages returns the pages whose blocks TestPages runs.
func teachingPages(t *testing.T) []string {
	t.Helper()
	paths := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/index.md", "../../docs/tutorials/*.md", "../../docs/guides/*.md", "../../docs/concepts/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// TestPageCommands checks that all calls of attach on tutorial pages can be parsed, even in
// blocks that TestPages does not run.
func TestPageCommands(t *testing.T) {
	calls := 0
	for _, path := range teachingPages(t) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range shellCalls(string(content)) {
			calls++
			if err := parseCall(shellFields(call)); err != nil {
				t.Errorf("%s: attach %s: %v", path, call, err)
			}
		}
	}
	if calls < 30 {
		t.Errorf("%d calls of attach, want 30 or more", calls)
	}
}

// TestPageCommandsCanFail checks that TestPageCommands detects wrong calls.
func TestPageCommandsCanFail(t *testing.T) {
	for _, call := range []string{"frob", "inspect", "fit m.onnx --x", "fit m.onnx --frob 3 --x a -o b", "compare m.onnx --x a --test b", "predict m.attach --x a --alpha 2"} {
		if parseCall(shellFields(call)) == nil {
			t.Errorf("attach %s is taken for right", call)
		}
	}
}

var callEnd = regexp.MustCompile(` (#|\||&&|\|\||[12&]?>|<|&$)|;|\)|$`)

// shellCalls returns the calls of attach in the shell blocks of a page, and in indented lines
// that begin with go run ./cmd/.
func shellCalls(page string) (calls []string) {
	lines := strings.Split(page, "\n")
	var code strings.Builder
	for _, b := range parseBlocks(lines) {
		if b.language == "sh" {
			code.WriteString(b.text)
		}
	}
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, "    go run ./cmd/"); ok {
			code.WriteString(text + "\n")
		}
	}
	for line := range strings.Lines(strings.ReplaceAll(code.String(), "\\\n", " ")) {
		for _, part := range strings.Split(line, "&&") {
			if call, ok := strings.CutPrefix(strings.TrimSpace(part), "attach "); ok {
				calls = append(calls, strings.TrimSpace(call[:callEnd.FindStringIndex(call)[0]]))
			}
		}
	}
	return calls
}

// TestPageGo checks the Go code of all pages. It must be part of an example, or be a
// program that builds.
func TestPageGo(t *testing.T) {
	shell := newPageShell(t)
	blocks := 0
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		return shell.checkPageGo(t, path, &blocks)
	})
	if err := errors.Join(err, shell.checkPageGo(t, "../../README.md", &blocks)); err != nil {
		t.Fatal(err)
	}
	if blocks < 2 {
		t.Errorf("%d blocks of Go code", blocks)
	}
}

func (s *pageShell) checkPageGo(t *testing.T, path string, blocks *int) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, b := range parseBlocks(strings.Split(string(content), "\n")) {
		if b.language != "go" {
			continue
		}
		*blocks++
		if err := s.checkGo(t, b.text); err != nil {
			t.Errorf("%s:%d: %v", path, b.first, err)
		}
	}
	return nil
}

// TestPagesCanFail checks that TestPages and TestPageGo detect wrong pages and accept right
// ones. It also checks how output on a page is rewritten.
func TestPagesCanFail(t *testing.T) {
	shell := newPageShell(t)
	const fence = "```"
	page := func(parts ...string) string { return strings.Join(parts, "\n") + "\n" }
	for _, test := range []struct {
		page  string
		wrong string // part of the error, or empty if the page is right
	}{
		{page(fence+"sh", "echo a; echo b", fence, "", fence+"text", "a", "b", fence), ""},
		{page(fence+"sh", "echo a; echo b", fence, "", fence+"text", "a", "c", fence), "prints"},
		{page(fence+"sh", "echo a; echo b", fence, "", fence+"text", "a", fence), "prints"},
		{page(fence+"sh", "seq 9", fence, fence+"text", "1", "2", "...", "9", fence), ""},
		{page(fence+"sh", "seq 9", fence, fence+"text", "1", "2", "...", "8", fence), "prints"},
		{page(fence+"sh", "echo 0.50 of 1,000", fence, fence+"text", "0.501  of 1,001", fence), ""},
		{page(fence+"sh", "echo 0.50", fence, fence+"text", "0.6", fence), "prints"},
		{page(fence+"sh", "echo took 3 s", fence, fence+"text", "took 25 s", fence), ""},
		{page(fence+"sh", "exit 3", fence), "exit status 3"},
		{page("<!-- exit status 3 -->", fence+"sh", "exit 3", fence), ""},
		{page("<!-- not run: no such program -->", fence+"sh", "exit 3", fence, fence+"text", "a", fence), ""},
		{page(fence+"sh", "mkdir d; cd d", fence, fence+"sh", "basename $PWD", fence, fence+"text", "d", fence), ""},
		{page("1. A list:", "", "    "+fence+"sh", "    echo a", "    "+fence, "    "+fence+"text", "    b", "    "+fence), "prints"},
		{page(fence+"sh", "attach predict", fence), "exit status 2"},
		{page("<!-- run: echo x >f -->", fence+"sh", "cat f", fence, fence+"text", "x", fence), ""},
		{page("<!-- nut run: a word misspelt -->", fence+"sh", "true", fence), "comment"},
	} {
		var errs []string
		shell.run(t, test.page, func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) })
		got := strings.Join(errs, "\n")
		if test.wrong == "" && got != "" || !strings.Contains(got, test.wrong) {
			t.Errorf("page\n%s\ngave %q, want %q", test.page, got, test.wrong)
		}
	}
	for code, right := range map[string]bool{"no := such.Program()\n": false, "package main\n\nfunc main() { missing() }\n": false, "package main\n\nfunc main() {}\n": true} {
		if err := shell.checkGo(t, code); (err == nil) != right {
			t.Errorf("Go code\n%s\ngave %v", code, err)
		}
	}
	if got, want := importedModules("import a, b.c as d  # e\n    from f.g import h, i\n"), []string{"a", "b", "f"}; !slices.Equal(got, want) {
		t.Errorf("imported %q, want %q", got, want)
	}
	wrong := page(fence+"sh", "seq 9", fence, fence+"text", "1", "...", "8", fence, "end")
	want := page(fence+"sh", "seq 9", fence, fence+"text", "1", "...", "9", fence, "end")
	if got := shell.run(t, wrong, func(string, ...any) {}); got != want {
		t.Errorf("rewritten to\n%s\nwant\n%s", got, want)
	}
}

// pageShell runs the blocks of pages.
type pageShell struct {
	env     []string
	root    string // root folder of the repository
	demo    string // folder with attach-demo and demo.log, or empty if the demo has not run
	example string // Go code of all examples
}

func newPageShell(t *testing.T) *pageShell {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "attach")); err != nil {
		t.Skip(err)
	}
	s := &pageShell{root: root, demo: *demoDone}
	// With one thread, the numbers do not depend on how many cores the machine has.
	s.env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "ORT_LIB="+orttest.Open(t).Library().Path, "GOMAXPROCS=1",
		"NO_COLOR=1", "TESTMODELS="+filepath.Join(root, "testmodels"))
	var code strings.Builder
	files, err := filepath.Glob(filepath.Join(root, "docs/examples/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, filepath.Join(root, "example_test.go"), filepath.Join(root, "featurize/attached_test.go"), filepath.Join(root, "featurize/serve/example_test.go"), filepath.Join(root, "tables/example_test.go"), filepath.Join(root, "audit/example_test.go")) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(content)
	}
	s.example = code.String()
	return s
}

// demoFolder returns a folder with attach-demo and with demo.log, the output of `attach
// demo`. It runs the demo only once for all pages.
func (s *pageShell) demoFolder(t *testing.T) string {
	if s.demo == "" {
		dir, err := os.MkdirTemp("", "attach-pages")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", "attach demo >demo.log")
		cmd.Dir, cmd.Env = dir, s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("attach demo: %v: %s", err, out)
		}
		s.demo = dir
	}
	return s.demo
}

// pageBlock is a fenced block of a page.
type pageBlock struct {
	language, text, indent string
	first, last            int      // range of lines of the text in the page; last is excluded
	comments               []string // HTML comments directly before the block
	adjacent               bool     // whether only empty lines and comments separate it from the block before
}

var (
	fenceLine   = regexp.MustCompile("^( *)```(\\S*)$")
	commentLine = regexp.MustCompile(`^ *<!-- (.*) -->$`)
)

// parseBlocks returns the fenced blocks of a page.
func parseBlocks(lines []string) (blocks []pageBlock) {
	var comments []string
	adjacent := false
	for i := 0; i < len(lines); i++ {
		if c := commentLine.FindStringSubmatch(lines[i]); c != nil {
			comments = append(comments, c[1])
			continue
		}
		open := fenceLine.FindStringSubmatch(lines[i])
		if open == nil {
			if strings.TrimSpace(lines[i]) != "" {
				comments, adjacent = nil, false
			}
			continue
		}
		b := pageBlock{language: open[2], indent: open[1], first: i + 1, comments: comments, adjacent: adjacent}
		var text strings.Builder
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			text.WriteString(strings.TrimPrefix(lines[i], b.indent) + "\n")
		}
		b.text, b.last = text.String(), i
		blocks, comments, adjacent = append(blocks, b), nil, true
	}
	return blocks
}

// run runs the blocks of a page. It returns the page with the output that they print. It
// calls the function wrong for each block that fails, or whose output differs from the page.
func (s *pageShell) run(t *testing.T, page string, wrong func(format string, args ...any)) string {
	lines := strings.Split(page, "\n")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "page"), 0o777); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "page") // folder in which the next block runs
	printed, checked := "", false
	added := 0 // number of lines that rewritten output has added to the page so far
	for _, b := range parseBlocks(slices.Clone(lines)) {
		if checked && b.adjacent && slices.Contains([]string{"text", "csv", "json"}, b.language) {
			checked = false
			if !sameOutput(printed, b.text) {
				wrong("line %d: the block above prints\n%s\nbut the page shows\n%s", b.first, printed, b.text)
				shown := updatedOutput(printed, b.text)
				for i := range shown {
					shown[i] = strings.TrimRight(b.indent+shown[i], " ")
				}
				lines = slices.Replace(lines, b.first+added, b.last+added, shown...)
				added += len(shown) - (b.last - b.first)
			}
			continue
		}
		checked = false
		options, err := readComments(b.comments)
		if err != nil {
			wrong("line %d: %v", b.first, err)
			continue
		}
		script := ""
		switch {
		case options.notRun:
			continue
		case b.language == "sh":
			script = b.text
		case b.language == "python":
			python, missing := s.python(t, b.text)
			if missing != "" && options.instead == "" {
				t.Logf("line %d and all blocks below: not run, because Python has no %s", b.first, missing)
				return strings.Join(lines, "\n")
			}
			if missing != "" {
				t.Logf("line %d: not run, because Python has no %s", b.first, missing)
				options.instead += "\n"
				options.before += options.instead
				break
			}
			if err := os.WriteFile(filepath.Join(dir, "block.py"), []byte(b.text), 0o666); err != nil {
				t.Fatal(err)
			}
			script = fmt.Sprintf("%q %q\n", python, filepath.Join(dir, "block.py"))
		default:
			continue
		}
		printed, err = s.block(t, dir, &folder, options, script)
		if status := exitStatus(err); status != options.status {
			wrong("line %d: exit status %d, want %d, of\n%s\n%s", b.first, status, options.status, b.text, printed)
			return strings.Join(lines, "\n") // later blocks need the files of this one
		}
		checked = script != ""
	}
	return strings.Join(lines, "\n")
}

// blockOptions holds what the comments before a block say about how to run it.
type blockOptions struct {
	notRun, terminal, demo bool
	status                 int
	before, instead        string
}

func readComments(comments []string) (h blockOptions, err error) {
	for _, c := range comments {
		name, value, _ := strings.Cut(c, ": ")
		if status, ok := strings.CutPrefix(c, "exit status "); ok {
			if h.status, err = strconv.Atoi(status); err != nil {
				return h, err
			}
			continue
		}
		switch {
		case name == "not run" && value != "":
			h.notRun = true
		case c == "on a terminal":
			h.terminal = true
		case c == "in the demo folder":
			h.demo = true
		case name == "run" && value != "":
			h.before += value + "\n"
		case name == "without python" && value != "":
			h.instead = value
		default:
			return h, fmt.Errorf("no such comment: %q", c)
		}
	}
	return h, nil
}

// block runs a script and returns its output. The script starts in *folder. Afterwards,
// *folder is the folder in which it ended.
func (s *pageShell) block(t *testing.T, dir string, folder *string, options blockOptions, script string) (string, error) {
	state := filepath.Join(dir, "state")
	// The demo has run once for all pages. The script gets a copy of its folder and its
	// output.
	prelude := "trap 'pwd >" + state + "' EXIT\n"
	if options.demo {
		prelude += "attach demo >/dev/null\ncd attach-demo\n"
	}
	if strings.Contains(prelude+script, "attach demo") {
		demo := s.demoFolder(t)
		function := fmt.Sprintf("attach() { if [ \"$*\" = demo ]; then cp -R %q . && cat %q; else command attach \"$@\"; fi; }\n",
			filepath.Join(demo, "attach-demo"), filepath.Join(demo, "demo.log"))
		prelude = function + prelude
	}
	if options.before != "" {
		prelude += "{\n" + options.before + "} >/dev/null 2>&1\n"
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", prelude+script)
	cmd.Dir, cmd.Env = *folder, s.env
	if options.terminal {
		cmd.Env = append(slices.Clone(s.env), onTerminalVariable+"=1")
	}
	out, err := cmd.CombinedOutput()
	if now, err := os.ReadFile(state); err == nil {
		*folder = strings.TrimSpace(string(now))
	}
	return strings.ReplaceAll(string(out), filepath.Join(dir, "page"), "/home/you"), err
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

var (
	importLine = regexp.MustCompile(`(?m)^\s*(?:from (\w+)|import ([^#\n]+))`)
	moduleName = regexp.MustCompile(`^\s*(\w+)`)
)

// importedModules returns the top-level modules that a Python program imports.
func importedModules(program string) (modules []string) {
	for _, m := range importLine.FindAllStringSubmatch(program, -1) {
		for _, part := range strings.Split(cmp.Or(m[1], m[2]), ",") {
			modules = append(modules, moduleName.FindStringSubmatch(part)[1])
		}
	}
	return modules
}

// python returns the Python interpreter that ATTACH_PYTHON names. missing is the first module
// of the program that the interpreter lacks, or "". If ATTACH_PYTHON is not set, missing is
// "ATTACH_PYTHON".
func (s *pageShell) python(t *testing.T, program string) (path, missing string) {
	path = os.Getenv("ATTACH_PYTHON")
	if path == "" {
		return "", "ATTACH_PYTHON"
	}
	for _, module := range importedModules(program) {
		find := "import importlib.util, sys; sys.exit(importlib.util.find_spec('" + module + "') is None)"
		if err := exec.CommandContext(t.Context(), path, "-c", find).Run(); err != nil {
			return path, "module " + module
		}
	}
	return path, ""
}

// checkGo returns an error unless code is part of an example or a program that builds.
func (s *pageShell) checkGo(t *testing.T, code string) error {
	code = strings.TrimRight(code, "\n")
	indented := "\t" + strings.ReplaceAll(code, "\n", "\n\t")
	for _, text := range []string{code, indented, strings.ReplaceAll(indented, "\n\t\n", "\n\n")} {
		if strings.Contains(s.example, text+"\n") {
			return nil // go vet ./... checks the examples
		}
	}
	if !strings.HasPrefix(code, "package main\n") {
		return errors.New("no program in docs/examples and no example of a package has this Go code")
	}
	path := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(code+"\n"), 0o666); err != nil {
		return err
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", path)
	cmd.Dir = s.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go vet: %v: %s", err, out)
	}
	return nil
}

const anyLines = "..."

// updatedOutput returns the lines that a page must show instead of those in shown. If shown
// has a line of dots, the result keeps as many lines before and after the dots.
func updatedOutput(printed, shown string) []string {
	all := outputLines(printed)
	oldLines := strings.Split(strings.TrimRight(shown, "\n"), "\n")
	first := slices.IndexFunc(oldLines, isDots)
	if first < 0 {
		return all
	}
	rest := slices.Clone(oldLines)
	slices.Reverse(rest)
	last := slices.IndexFunc(rest, isDots)
	if first+last >= len(all) {
		return all
	}
	return slices.Concat(all[:first], []string{oldLines[first]}, all[len(all)-last:])
}

func isDots(line string) bool { return strings.TrimSpace(line) == anyLines }

func outputLines(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return lines
}

// sameOutput reports whether the output printed is what the page shows. A line of dots
// stands for any number of lines.
func sameOutput(printed, shown string) bool {
	timed := 0 // number of columns with times at the end of the table
	return sameFrom(outputLines(printed), outputLines(shown), &timed)
}

func sameFrom(printed, shown []string, timed *int) bool {
	for i, want := range shown {
		if isDots(want) {
			for skip := 0; skip <= len(printed)-i; skip++ {
				timedAfter := *timed
				if sameFrom(printed[i+skip:], shown[i+1:], &timedAfter) {
					return true
				}
			}
			return false
		}
		if i >= len(printed) || !sameLine(printed[i], want, *timed) {
			return false
		}
		switch {
		case strings.Contains(want, "(µs/row)"):
			*timed = 2 // the columns "fit (s)" and "score (µs/row)"
		case strings.TrimSpace(want) == "":
			*timed = 0
		}
	}
	return len(printed) == len(shown)
}

var (
	durations  = regexp.MustCompile(`\b[\d.,]+ (s|ms|µs|min)\b`)
	digests    = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	timestamps = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?`)
	numbers    = regexp.MustCompile(`\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?`)
)

// sameLine reports whether two lines are equal except for times, digests and white space.
// It ignores the last cells of each line, because they hold times. The argument timed is
// the number of these cells. Numbers may differ by 0.002 plus 1 %, because processors round
// differently.
func sameLine(printed, shown string, timed int) bool {
	var texts [2]string
	var found [2][]float64
	for i, line := range []string{printed, shown} {
		line = durations.ReplaceAllString(line, "TIME $1")
		line = digests.ReplaceAllString(line, "DIGEST")
		line = timestamps.ReplaceAllString(line, "MOMENT")
		cells := strings.Fields(line)
		line = strings.Join(cells[:max(0, len(cells)-timed)], " ")
		texts[i] = numbers.ReplaceAllStringFunc(line, func(n string) string {
			x, err := strconv.ParseFloat(strings.ReplaceAll(n, ",", ""), 64)
			if err != nil {
				return n
			}
			found[i] = append(found[i], x)
			return "N"
		})
	}
	return texts[0] == texts[1] && slices.EqualFunc(found[0], found[1], func(x, y float64) bool {
		return math.Abs(x-y) <= 0.002+0.01*math.Abs(cmp.Or(y, x))
	})
}

// TestMethodsPage checks that docs/reference/methods.md contains the output of `attach
// methods --markdown`.
func TestMethodsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/methods.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte(methodTables())) {
		t.Error("the tables in docs/reference/methods.md are not what `attach methods --markdown` prints")
	}
}

// parseCall returns the usage error of a call, or nil if args can be parsed. It runs the
// command with a cancelled context, so that the command stops after it has read its
// arguments.
func parseCall(args []string) error {
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

// replaceWork replaces the actions of commands that would do their work even with a
// cancelled context.
func replaceWork(commands []*cli.Command) {
	for _, c := range commands {
		replaceWork(c.Subcommands)
		switch c.Name {
		case "demo", "install", "runtime", "methods", "version", "completion":
			c.Action = func(c *cli.Context) error { return nil }
		}
	}
}
