package command

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// hostileName is a name that begins like a spreadsheet formula and contains HTML and control
// characters. These clear a terminal, ring its bell, begin a new line and reverse the
// direction of writing.
const hostileName = "=1+\x1b[2J\a\nattach: done\r\u202e\u009b<script>"

// writeScopedModel writes a model of 3×4×4 images. The names of its tensors begin with scope.
func writeScopedModel(t *testing.T, path, scope string) {
	t.Helper()
	b := onnx.NewBuilder("g", 13)
	b.SetScope(scope)
	x := b.Input("x", pb.TensorProto_FLOAT, "n", 3, 4, 4)
	w := make([]float32, 48*3)
	for i := range w {
		w[i] = float32(i%5) - 2
	}
	y := b.Node("MatMul", []string{b.Node("Flatten", []string{x}), b.Const(w, 48, 3)})
	b.Output(y, pb.TensorProto_FLOAT, "n", 3)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// checkPlain checks that text is UTF-8 and has only graphic characters and newlines. Unless
// lines is −1, it also checks the number of lines.
func checkPlain(t *testing.T, what, text string, lines int) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Errorf("%s: %q holds %q", what, text, r)
		}
	}
	if !utf8.ValidString(text) || lines >= 0 && strings.Count(text, "\n") != lines {
		t.Errorf("%s: %q is not %d lines of UTF-8", what, text, lines)
	}
}

func TestHostileNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("file names have to be text here")
	}
	useTestRuntime(t)
	dir := t.TempDir()
	model := filepath.Join(dir, "m\x1b\a\n\xff.onnx")
	writeScopedModel(t, model, hostileName+"\xff")
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Run(context.Background(), args, nil, &out, &errs); code != want {
			t.Fatalf("%q: exit code %d: %s", args, code, errs.String())
		}
		return out.String(), errs.String()
	}

	text, _ := run(exitDone, "inspect", model)
	checkPlain(t, "inspect", text, 9)
	text, _ = run(exitDone, "inspect", model, "--json")
	checkPlain(t, "inspect --json", text, -1)
	var info featurize.Info
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		t.Fatal(err)
	}
	if want := hostileName + "\ufffdx"; info.Inputs[0].Name != want {
		t.Errorf("the input's name is %q, want %q", info.Inputs[0].Name, want)
	}
	_, text = run(exitFailed, "inspect", model, "--feature-tensor", hostileName)
	checkPlain(t, "--feature-tensor", text, 1)
	_, text = run(exitFailed, "features", model, "--x", filepath.Join(dir, hostileName+".npy"), "-o", filepath.Join(dir, "f.npz"))
	checkPlain(t, "--x", text, 1)

	images, fitted := filepath.Join(dir, "images"), filepath.Join(dir, hostileName[:8]+".attach")
	classes := []string{"-1", "@a\n\"b\"", "plain"}
	for i, class := range classes {
		writeImages(t, filepath.Join(images, class), i)
	}
	fit := []string{"fit", model, "--x", images, "--folder-labels", "--preprocess", filepath.Join(images, "prep.json"), "--method", "knn", "--layers", "0", "-o", fitted}
	if err := os.WriteFile(fit[6], []byte(`{"do_rescale": true, "rescale_factor": 0.0039}`), 0o666); err != nil {
		t.Fatal(err)
	}
	_, text = run(exitFailed, fit...)
	checkPlain(t, "fit", text, 1)
	if !strings.HasSuffix(text, "is not UTF-8\n") {
		t.Errorf("stderr is %q", text)
	}
	writeScopedModel(t, model, hostileName)
	_, text = run(exitDone, fit...)
	checkPlain(t, "fit", text, -1)

	// The .attach file finds the model again, and no name in a table begins a formula.
	table, text := run(exitDone, "predict", fitted, "--x", images)
	checkPlain(t, "predict", text, -1)
	records, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// On a terminal, the names in results are escaped, too.
	var screen, errs terminalBuffer
	if code := Run(context.Background(), []string{"predict", fitted, "--x", images, "-o", "-"}, nil, &screen, &errs); code != exitDone {
		t.Fatal(errs.String())
	}
	checkPlain(t, "predict on a terminal", screen.String(), strings.Count(table, "\n"))
	if !strings.Contains(screen.String(), `\x1b.png`) {
		t.Errorf("a name is lost in %q", screen.String())
	}
	// Names in a preview are escaped, too. NO_COLOR turns off the colour of flags, which
	// checkPlain would reject.
	t.Setenv("NO_COLOR", "1")
	screen.Reset()
	if code := Run(context.Background(), []string{"predict", fitted, "--x", images}, nil, &screen, &errs); code != exitDone {
		t.Fatal(errs.String())
	}
	checkPlain(t, "preview", screen.String(), -1)
	for _, part := range []string{"  input  ", ` rows; write all rows and columns with -o FILE.csv`} {
		if !strings.Contains(screen.String(), part) {
			t.Errorf("the preview lacks %q: %s", part, screen.String())
		}
	}
	jsonl := filepath.Join(dir, "p.jsonl")
	run(exitDone, "predict", fitted, "--x", images, "-o", jsonl)
	lines, err := os.ReadFile(jsonl)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		var row struct {
			Input, Class_name string
			Class             int
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if want := classes[row.Class]; row.Class_name != want {
			t.Errorf("class %d is %q, want %q", row.Class, row.Class_name, want)
		}
		input, class := row.Input, []string{"-1", "'@a\n\"b\"", "plain"}[row.Class]
		if !strings.HasPrefix(input, "plain") {
			input = "'" + input
		}
		if got := records[i+1]; got[0] != input || got[2] != class {
			t.Errorf("row %d is %q, want %q and %q", i, got, input, class)
		}
	}
}

// writeImages writes images of 4×4 pixels. Their file names begin like spreadsheet
// formulas.
func writeImages(t *testing.T, dir string, seed int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for j := range 40 {
		img := image.NewGray(image.Rect(0, 0, 4, 4))
		for k := range img.Pix {
			img.Pix[k] = byte(k*k*(j+1)*(seed+3) + j*seed)
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("=", j+1)+"\x1b.png"), b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// terminalBuffer acts as a terminal and records its output.
type terminalBuffer struct{ bytes.Buffer }

func (*terminalBuffer) IsTerminal() bool { return true }

// TestTerminal checks that text for a terminal is escaped, even if a write ends in the
// middle of a character. Text for a file must not be escaped, and progress must show on a
// terminal.
func TestTerminal(t *testing.T) {
	text := "é\t世界\x1b[2J\u009b1m\x7f\u202e\u2066\r\x9b\xff𝄞\n\xf0\x9d"
	want := `é	世界\x1b[2J\u009b1m\x7f\u202e\u2066\r\x9b\xff𝄞` + "\n" + `\xf0\x9d`
	for step := 1; step <= len(text); step++ {
		var screen terminalBuffer
		w := escapeOnTerminal(&screen)
		for cut := 0; cut < len(text); cut += step {
			part := text[cut:min(cut+step, len(text))]
			if n, err := io.WriteString(w, part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		closeTerminals(w)
		if screen.String() != want {
			t.Errorf("in parts of %d bytes: %q, want %q", step, screen.String(), want)
		}
	}
	var file bytes.Buffer
	if escapeOnTerminal(&file) != io.Writer(&file) {
		t.Error("a file is taken for a terminal")
	}
	var screen terminalBuffer
	p := newProgress(escapeOnTerminal(&screen), "a\x1b")
	p.set(1, 1)
	if screen.String() != "\r\x1b[K"+`a\x1b: 1 of 1` {
		t.Errorf("progress is %q", screen.String())
	}
}

func TestFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"dog":            "dog",
		"-5":             "-5",
		" -5 ":           " -5 ",
		"+1e-3":          "+1e-3",
		"-inf":           "-inf",
		"1; -2; 3":       "1; -2; 3",
		"=1+1":           "'=1+1",
		"-a":             "'-a",
		"  =1":           "'  =1",
		"\u00a0=1":       "'\u00a0=1",
		"\ufeff=1":       "'\ufeff=1",
		"\"=1":           "'\"=1",
		"＝1":             "'＝1",
		" ＠sum":          "' ＠sum",
		"a;=1":           "a;'=1",
		"a; =1; b":       "a;' =1; b",
		"a,-b":           "a,'-b",
		"a\t@b":          "a\t'@b",
		"a\n+b":          "a\n'+b",
		"\ta":            "'\ta",
		"a=b; c-d":       "a=b; c-d",
		"x|=cmd|' /C'!A": "x|'=cmd|' /C'!A",
	} {
		if got := escapeFormula(text); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}
