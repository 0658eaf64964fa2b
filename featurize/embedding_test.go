package featurize

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// TestEmbedding checks that the features of a model whose output is its last hidden states
// are the means of these states over the mask. An unusual text must get a higher score than
// an ordinary one.
func TestEmbedding(t *testing.T) {
	full := openClinc(t)
	g, err := onnx.Load(full.path)
	if err != nil {
		t.Fatal(err)
	}
	const states = "/bert/encoder/layer.1/output/LayerNorm/Add_1_output_0"
	graph := g.Model.GetGraph()
	graph.Node = append(graph.Node, node("Identity", []string{states}, "last_hidden_state"))
	graph.Output = []*pb.ValueInfoProto{onnx.ValueInfo("last_hidden_state", pb.TensorProto_FLOAT, "batch", "sequence", 128)}
	content, err := proto.Marshal(g.Model)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.onnx"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tokenizerFile, tokenizerConfigFile, configFile} {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(full.path), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Runtime: Runtime{Library: orttest.Open(t).Library().Path, Provider: "cpu"}}
	m, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if i := m.Info(); i.Task != attach.Embedding || i.OutputsWidth != 0 || i.Feature.Width != 128 || !m.canPad {
		t.Errorf("%+v", i)
	}
	texts, _ := clincTexts(t, "val.csv")
	texts = texts[:400]
	run := func(m *Model, list ...string) ood.Batch {
		t.Helper()
		b, err := m.All(t.Context(), oneBlock(ood.InputBlock{Tensors: []ood.Tensor{textTensor("", list...)}}), len(list), nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := run(m, texts...)
	o.Feature = states
	other, err := Open(t.Context(), full.path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	named := run(other, texts[:9]...)
	for i := range 9 {
		if !equalUpToRounding(rows.Row(all.Features, i), rows.Row(named.Features, i)) {
			t.Errorf("row %d differs from that of the whole network", i)
		}
	}
	b, err := attach.Fit(t.Context(), attach.FitOptions{Base: m.Base(attach.Embedding), Text: m.Info().Text, Batch: all})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.attach")
	if err := b.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if b, err = attach.Open(path); err != nil {
		t.Fatal(err)
	}
	o.Feature = ""
	a, err := OpenFor(t.Context(), b, "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	predicted, err := a.Texts(t.Context(), p, texts[0], "zxcv qwer zxcv qwer zxcv qwer zxcv")
	if err != nil || predicted[0].Class != -1 || predicted[0].Score >= predicted[1].Score {
		t.Errorf("%+v (%v)", predicted, err)
	}
}
