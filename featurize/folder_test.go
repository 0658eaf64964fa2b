package featurize_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// exportedFolder makes a folder with a model of four classes and a config.json.
func exportedFolder(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	model, err := os.ReadFile("../testmodels/odd/trailing_softmax.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"model.onnx": model, "config.json": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFolder checks which classes and which task Inspect reads from config.json, and which
// problems it reports.
func TestFolder(t *testing.T) {
	names := `"id2label": {"1": "b", "0": "a", "3": "d", "2": "c"}`
	for config, want := range map[string]struct {
		classes []string
		task    attach.Task
		unused  string
	}{
		`{` + names + `}`: {classes: []string{"a", "b", "c", "d"}, task: attach.Classification},
		`{"problem_type": "multi_label_classification", ` + names + `}`:                  {classes: []string{"a", "b", "c", "d"}, task: attach.Classification},
		`{"problem_type": "regression", ` + names + `}`:                                  {task: attach.Regression},
		`{"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2", "3": "LABEL_3"}}`: {task: attach.Classification},
		`{"id2label": {"0": "a", "1": "b", "2": "c", "4": "d"}}`:                         {task: attach.Classification, unused: "config.json: its id2label has 4 names, and none for class 3"},
		`{"id2label": {"0": "a"}}`:                                                       {task: attach.Classification, unused: "config.json: it names 1 classes, and the model has 4 outputs"},
		`{"id2label": ["a"]}`:                                                            {task: attach.Classification, unused: "config.json: it is not what exporters write: "},
	} {
		info, err := featurize.Inspect(t.Context(), exportedFolder(t, config), featurize.Options{Runtime: featurize.Runtime{Library: orttest.Open(t).Library().Path, Provider: "cpu"}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(info.Classes, want.classes) || info.Task != want.task || info.MultiLabel != strings.Contains(config, "multi") {
			t.Errorf("%s: classes %q, task %s, several labels %t", config, info.Classes, info.Task, info.MultiLabel)
		}
		if all := strings.Join(info.Unused, "; "); want.unused == "" != (all == "") || !strings.Contains(all, want.unused) {
			t.Errorf("%s: %q cannot be used, want %q", config, all, want.unused)
		}
	}
}

// TestPositionsFromPadding checks that no tokenizer is used if a model takes positions as
// an input and counts them from its padding. The tokenizer would pass wrong positions to
// such a model.
func TestPositionsFromPadding(t *testing.T) {
	dir := t.TempDir()
	b := onnx.NewBuilder("positions", 13)
	ids, positions := b.Input("input_ids", pb.TensorProto_INT64, "n", "T"), b.Input("position_ids", pb.TensorProto_INT64, "n", "T")
	sum := b.Node("Cast", []string{b.Node("Add", []string{ids, positions})}, onnx.Attr("to", float))
	mean := b.Node("ReduceMean", []string{sum}, onnx.Attr("axes", []int64{1}))
	addOutput(b, b.Node("MatMul", []string{mean, b.Initializer("w", []float32{1, 2}, 1, 2)}))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(save(t, m), filepath.Join(dir, "model.onnx")); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := os.ReadFile("../internal/data/tokenizer/testdata/bert.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokenizer, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for kind, taken := range map[string]bool{"bert": true, "roberta": false} {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "`+kind+`"}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if i := open(t, runtime(t), dir, featurize.Options{}).Info(); (i.Text != nil) != taken || (len(i.Unused) == 0) != taken {
			t.Errorf("%s: texts are read: %t (%q)", kind, i.Text != nil, i.Unused)
		}
	}
}
