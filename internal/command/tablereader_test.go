package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/schema"
	public "github.com/attach-uncertainty/attach/tables"
)

const hoursAttach = "../../tables/testdata/hours.attach"

// TestTablesAsCommand checks that the package tables returns the same predictions, notes
// and errors as attach predict.
func TestTablesAsCommand(t *testing.T) {
	const lines = "36.327,141.23,0.45227,12.278\n-0.44532,1292.7,0.30451,11.257\n"
	withHeader := "temperature,age,load,voltage\n" + lines
	type row struct {
		ID          string  `parquet:"id"`
		Voltage     float64 `parquet:"voltage"`
		Load        float32 `parquet:"load"`
		Temperature float64 `parquet:"temperature"`
		Age         float64 `parquet:"age"`
	}
	var parquetFile bytes.Buffer
	if err := parquet.Write(&parquetFile, []row{{"x", 12.278, 0.45227, 36.327, 141.23}, {"y", 11.257, 0.30451, -0.44532, 1292.7}}); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, text, message string }{
		{"rows.csv", withHeader, ""},
		{"lines.csv", lines, ""},
		{"order.csv", "hours,voltage,id,load,temperature,age\n3,12.278,a,0.45227,36.327,141.23\n", ""},
		{"quoted.csv", `"temperature","age","load","voltage"` + "\n" + strings.ReplaceAll(lines, ",", `,`), ""},
		{"semicolons.csv", strings.ReplaceAll(withHeader, ",", ";"), ""},
		{"tabs.tsv", strings.ReplaceAll(withHeader, ",", "\t"), ""},
		{"blanks.txt", strings.ReplaceAll(withHeader, ",", " "), ""},
		{"rows.jsonl", `{"age": 141.23, "load": 0.45227, "voltage": 12.278, "temperature": 36.327, "kind": "a"}` + "\n", ""},
		{"rows.parquet", parquetFile.String(), ""},
		{"missing.csv", strings.Replace(withHeader, "load", "weight", 1), `it lacks the column "load" of the fit`},
		{"twice.csv", strings.Replace(withHeader, "load", "age", 1), "two columns are named"},
		{"comma.csv", strings.ReplaceAll(strings.ReplaceAll(withHeader, ",", ";"), ".", ","), "decimal comma, or thousands separator?"},
		{"gap.csv", withHeader + "1,,3,4\n", `line 4, column "age": the cell is empty; fill it, or leave the row out`},
		{"text.csv", withHeader + "1,x,3,4\n", `line 4, column "age": "x" is not a number`},
		{"short.csv", withHeader + "1,2,3\n", "line 4: it has 3 columns, but earlier lines have 4"},
		{"wide.csv", strings.ReplaceAll(lines, "\n", ",1\n"), "it has 5 columns, and the model takes 4"},
		{"quote.csv", withHeader + "\"1,2,3,4\n5,6,7,8\n", "a quote is not closed"},
		{"header.csv", "temperature,age,load,voltage\n", "there are no rows below its header"},
		{"empty.csv", "", "there are no rows"},
		{"big.jsonl", `{"age": 1e39, "load": 1, "voltage": 1, "temperature": 1}` + "\n", "is too large for float32"},
		{"list.jsonl", "[1, 2]\n", "every line must be a JSON object"},
		{"none.csv", "\x00", ""},
		{"ids.csv", withHeader + "1,9007199254740993,3,4\n", ""},
		{"torn.parquet", parquetFile.String()[:parquetFile.Len()-9], "parquet"},
	}
	useTestRuntime(t)
	b, err := attach.Open(hoursAttach)
	if err != nil {
		t.Fatal(err)
	}
	net, err := featurize.OpenFor(t.Context(), b, "", featurize.Options{Runtime: featurize.Runtime{Library: orttest.Open(t).Library().Path, Provider: "cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range cases {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "out.jsonl")
		os.Remove(out)
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), []string{"predict", hoursAttach, "--x", path, "--provider", "cpu", "-o", out}, nil, &stdout, &stderr)

		var got bytes.Buffer
		table, err := public.Open(t.Context(), path, b, public.Options{Network: net})
		if err == nil {
			for p, e := range predictor.Stream(t.Context(), table.Rows(t.Context())) {
				if err = e; err != nil {
					break
				}
				text, _ := json.Marshal(p)
				fmt.Fprintf(&got, "%s\n", text)
			}
		}
		if code != exitDone {
			if err == nil || !strings.Contains(stderr.String(), err.Error()) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: error %v, and the command says %s", c.name, err, stderr.String())
			}
			continue
		}
		if err != nil || c.message != "" {
			t.Errorf("%s: error %v, want %q; the command gives none", c.name, err, c.message)
			continue
		}
		for _, note := range table.Notes {
			if !strings.Contains(stderr.String(), path+": "+note) {
				t.Errorf("%s: note %q, and the command says %s", c.name, note, stderr.String())
			}
		}
		if notes := strings.Count(stderr.String(), "note: "+path); notes != len(table.Notes) {
			t.Errorf("%s: notes %q, and the command says %s", c.name, table.Notes, stderr.String())
		}
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if !samePredictions(t, got.String(), string(content)) {
			t.Errorf("%s: predicted\n%s, and the command\n%s", c.name, got.String(), content)
		}
	}
}

// samePredictions reports whether a and b, as JSON lines, have the same predictions. b is
// the output of the command, whose lines may also have columns of the input.
func samePredictions(t *testing.T, a, b string) bool {
	t.Helper()
	list, others := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range list {
		var x, y map[string]any
		if i >= len(others) || json.Unmarshal([]byte(list[i]), &x) != nil != (json.Unmarshal([]byte(others[i]), &y) != nil) {
			return false
		}
		for key, v := range x {
			if number, ok := v.(float64); ok && fmt.Sprintf("%.6g", number) == fmt.Sprintf("%.6g", y[key]) {
				continue
			}
			if fmt.Sprint(v) != fmt.Sprint(y[key]) {
				return false
			}
		}
	}
	return len(list) == len(others)
}

// TestTablesEvaluated checks that the package tables evaluates rows with targets or labels
// as attach evaluate does.
func TestTablesEvaluated(t *testing.T) {
	useTestRuntime(t)
	dir := t.TempDir()
	file := func(name string, edit func(lines []string) []string) string {
		content, err := os.ReadFile(models + "tables/" + name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(edit(strings.Split(string(content), "\n")), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Labels in the file begin at 0, but the forest numbers its classes from 1.
	addOne := func(lines []string) []string {
		for i, line := range lines[1:] {
			if k := len(line) - 1; k > 0 {
				lines[i+1] = line[:k] + string(line[k]+1)
			}
		}
		return lines
	}
	forest := filepath.Join(dir, "forest.attach")
	var stderr bytes.Buffer
	if code := Run(t.Context(), []string{"fit", models + "tables/forest.onnx", "--x", file("levels_fit.csv", addOne), "--target", "level", "-o", forest}, nil, io.Discard, &stderr); code != exitDone {
		t.Fatal(stderr.String())
	}
	for _, c := range []struct{ bundle, path string }{
		{hoursAttach, models + "tables/hours_test.csv"},
		{hoursAttach, file("hours_test.csv", func(lines []string) []string { return append(lines, "20,300,0.5,12,") })},
		{forest, file("levels_test.csv", addOne)},
		{forest, models + "tables/levels_test.csv"},
	} {
		b, err := attach.Open(c.bundle)
		if err != nil {
			t.Fatal(err)
		}
		net, err := featurize.OpenFor(t.Context(), b, "", featurize.Options{Runtime: featurize.Runtime{Library: orttest.Open(t).Library().Path, Provider: "cpu"}, KeepInputs: true})
		if err != nil {
			t.Fatal(err)
		}
		defer net.Close()
		var o attach.PredictOptions
		if b.Base.Task == attach.Classification {
			o.Sets = "lac"
		}
		predictor, err := b.Predictor(o)
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr, want bytes.Buffer
		code := Run(t.Context(), []string{"evaluate", c.bundle, "--x", c.path, "--provider", "cpu", "--json"}, nil, &stdout, &stderr)
		var checker *schema.Checker
		if b.Profile != nil {
			checker = b.Profile.NewChecker(false)
		}
		table, err := public.Open(t.Context(), c.path, b, public.Options{Network: net, Targets: b.Base.Targets, Schema: checker})
		if code != exitDone {
			// The command must print the same reason.
			if err == nil || !strings.Contains(stderr.String(), strings.TrimPrefix(err.Error(), c.path+": ")) {
				t.Errorf("%s: error %v, and the command says %s", c.path, err, stderr.String())
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := evaluate.Rows(t.Context(), predictor, table.Rows(t.Context()), evaluate.Options{Schema: checker})
		if err != nil {
			t.Fatal(err)
		}
		for _, note := range table.Notes { // the command puts these notes before those of the evaluation
			e.Notes = append([]evaluate.Note{{Message: note}}, e.Notes...)
		}
		if err := writeJSON(&want, e); err != nil {
			t.Fatal(err)
		}
		if want.String() != stdout.String() {
			t.Errorf("%s: evaluated\n%s, and the command\n%s", c.path, want.String(), stdout.String())
		}
	}
}
