package featurize_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// threeOutputs builds a model with three outputs. The first does not come from a linear layer.
// The second has width 2 and the third has width 1, and both come from linear layers.
func threeOutputs(t *testing.T) string {
	return tiny(t, 13, func(b *onnx.Builder, x string) {
		phi := phiOf(b, x)
		y := gemm(b, phi)
		addOutput(b, b.Node("Mul", []string{phi, phi}), "n", h)
		addOutput(b, y)
		addOutput(b, b.Node("Gemm", []string{b.Node("Tanh", []string{phi}), b.Initializer("W1", headW[:h], h, 1)}), "n", 1)
	}, "n", 3)
}

// TestOutputs checks which feature belongs to each output, and that the first output with a
// linear layer is the default.
func TestOutputs(t *testing.T) {
	rt := runtime(t)
	path := threeOutputs(t)
	for _, k := range []struct {
		output, want, feature string
		width                 int
	}{
		{"", "Gemm", "Relu", 2},
		{"Gemm", "Gemm", "Relu", 2},
		{"Gemm_1", "Gemm_1", "attach/inputs-and-outputs", 1}, // a regressor that reads a table
		{"MatMul", "MatMul", "x", 4},                         // an inner tensor as the output
	} {
		i := open(t, rt, path, featurize.Options{Output: k.output}).Info()
		if i.Output != k.want || i.Feature.Tensor != k.feature || i.OutputsWidth != k.width {
			t.Errorf("--model-output %q gives %s, %s, %d columns", k.output, i.Output, i.Feature.Tensor, i.OutputsWidth)
		}
	}
	_, err := openErr(rt, path, featurize.Options{Output: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), `"nowhere"`) || !strings.Contains(err.Error(), `"Gemm_1"`) {
		t.Errorf("error %v does not name the outputs", err)
	}
	if i := open(t, rt, path, featurize.Options{Output: "Mul"}).Info(); !slices.Equal(i.Feature.Of, []string{"x", "Mul"}) {
		t.Errorf("features %v of an output without a linear layer", i.Feature)
	}
}

// TestHiddenStatesBesidePrediction checks that a model with a prediction is not taken for an
// embedding, even if it also returns last hidden states.
func TestHiddenStatesBesidePrediction(t *testing.T) {
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		phi := b.Append(onnx.Node{Op: "Tanh", Inputs: []string{phiOf(b, x)}, Outputs: []string{b.UniqueName("last_hidden_state")}})
		addOutput(b, phi[0], "n", h)
		b.OutputAs("scores", gemm(b, phi[0]), float)
	}, "n", 3)
	if i := open(t, runtime(t), path, featurize.Options{}).Info(); i.Output != "scores" || i.OutputsWidth != 2 {
		t.Errorf("%+v", i)
	}
}

// TestEmbeddingBeforeLogits checks that the layer after an embedding is found, even if the
// embedding is an output. An auxiliary head must not replace the first head.
func TestEmbeddingBeforeLogits(t *testing.T) {
	rt := runtime(t)
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		phi := phiOf(b, x)
		addOutput(b, phi, "n", h)
		addOutput(b, gemm(b, phi))
		addOutput(b, b.Node("MatMul", []string{phi, b.Initializer("aux", headWT, h, c)}))
	}, "n", 3)
	if i := open(t, rt, path, featurize.Options{}).Info(); i.Output != "Gemm" || i.Feature.Tensor != "Relu" {
		t.Errorf("chose %s with %+v", i.Output, i.Feature)
	}
	if i := open(t, rt, path, featurize.Options{Output: "Relu"}).Info(); i.Output != "Relu" || i.Feature.Tensor != "x" || i.Exact {
		t.Errorf("chose %s with %+v", i.Output, i.Feature)
	}
}

// TestNoLinearLayer checks the error, the candidates and the named features of a model
// without a linear layer.
func TestNoLinearLayer(t *testing.T) {
	rt := runtime(t)
	// The model squares its tensors, and one of its inner tensors is an image.
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		y := b.Node("Conv", []string{x, b.Initializer("stem", noise(4*2*9), 4, 2, 3, 3)})
		z := b.Node("GlobalMaxPool", []string{b.Node("Mul", []string{y, y})})
		f := b.Node("Flatten", []string{z})
		addOutput(b, b.Node("Mul", []string{f, f}), "n", 4)
	}, "n", 2, 5, 6)
	_, err := openErr(rt, path, featurize.Options{})
	var noLayer *featurize.NoLinearLayerError
	if !errors.As(err, &noLayer) || !strings.Contains(err.Error(), "Flatten") {
		t.Fatalf("error %v", err)
	}
	shapes := map[string][]int64{}
	for _, k := range noLayer.Info.Candidates {
		shapes[k.Tensor] = k.Shape
	}
	for name, want := range map[string]string{"Mul_1": "[-1,4]", "Flatten": "[-1,4]", "Conv": "[-1,4,3,4]"} {
		if got, _ := json.Marshal(shapes[name]); string(got) != want {
			t.Errorf("candidate %s has shape %s, want %s", name, got, want)
		}
	}
	i, err := featurize.Inspect(context.Background(), path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path, Provider: "cpu"}})
	if err != nil || i.Feature != nil || len(i.Candidates) == 0 {
		t.Errorf("Inspect gives %+v (%v)", i, err)
	}

	x := noise(3 * 60)
	for feature, width := range map[string]int{"Flatten": 4, "Conv": 4, "x": 2} {
		m := open(t, rt, path, featurize.Options{Feature: feature})
		if m.Last() != nil || m.Info().Exact || m.Info().ExactReason == "" || m.Info().Feature.Width != width {
			t.Errorf("--feature-tensor %s: exact %v, width %d", feature, m.Info().Exact, m.Info().Feature.Width)
		}
		got := runAll(t, m, []int{3, 2, 5, 6}, x)
		if feature == "x" {
			checkNear(t, "φ averaged over space", got.Features.Data, planeMeans(x, 30), 1e-5)
		}
		checkNear(t, "logits", got.Logits.Data, runUnedited(t, rt, path, "Mul_1", []int64{3, 2, 5, 6}, x), 1e-6)
	}
	for _, bad := range []string{"nowhere", "stem"} {
		if _, err := openErr(rt, path, featurize.Options{Feature: bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("--feature-tensor %s: %v", bad, err)
		}
	}
}

// TestLongChains checks that models with thousands of nodes open in time, although they
// have too many tensors to probe all of them.
func TestLongChains(t *testing.T) {
	rt := runtime(t)
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		for range 3000 {
			x = b.Node("Relu", []string{x})
		}
		addOutput(b, x, "n", 3, 2)
	}, "n", 3, 2)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	i, err := featurize.Inspect(ctx, path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path}})
	if err != nil || len(i.Candidates) != 20 || i.Candidates[0].Tensor != i.Outputs[0].Name {
		t.Errorf("error %v, candidates %v", err, i.Candidates)
	}
	square := []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}
	path = tiny(t, 13, func(b *onnx.Builder, x string) {
		for range 1000 {
			x = b.Node("Tanh", []string{b.Node("MatMul", []string{x, b.Const(square, 3, 3)})})
		}
		addOutput(b, b.Node("MatMul", []string{x, b.Const(square, 3, 3)}), "n", 3)
	}, "n", 3)
	i, err = featurize.Inspect(ctx, path, featurize.Options{Runtime: featurize.Runtime{Library: rt.Library().Path}, EarlierLayers: 3})
	if err != nil || len(i.Layers) != 3 || ctx.Err() != nil {
		t.Errorf("error %v, layers %v", err, i.Layers)
	}
}

// TestHugeInputs checks models whose inputs are too large for a run on random rows.
func TestHugeInputs(t *testing.T) {
	rt := runtime(t)
	network := func(dims ...any) string {
		return tiny(t, 17, func(b *onnx.Builder, x string) {
			phi := b.Node("ReduceMean", []string{x}, onnx.Attr("axes", []int64{1, 2}), onnx.Attr("keepdims", 0))
			addOutput(b, b.Node("Gemm", []string{b.Node("Reshape", []string{phi, b.Const([]int64{-1, 1})}), b.Const([]float32{1, 2}, 1, 2)}))
		}, dims...)
	}
	m := open(t, rt, network("n", 16000, 16000), featurize.Options{})
	i := m.Info()
	if i.Feature.Width != 1 || i.OutputsWidth != 2 || i.Exact || !strings.Contains(i.ExactReason, "n×16000×16000 are too large") || m.Batch() != 1 {
		t.Errorf("%+v, batch %d", i, m.Batch())
	}
	for _, batch := range []any{"n", 1 << 40} {
		if _, err := openErr(rt, network(batch, 40000, 40000), featurize.Options{}); err == nil || !strings.Contains(err.Error(), "larger than the 4 GiB that a run may take") {
			t.Errorf("a batch of %v: error %v", batch, err)
		}
	}
}

// TestNamedFeature checks that Exact is set only if the named feature is the input of the
// last linear layer, up to its shape.
func TestNamedFeature(t *testing.T) {
	rt := runtime(t)
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		phi := phiOf(b, x)
		addOutput(b, gemm(b, b.Node("Reshape", []string{b.Node("Unsqueeze", []string{phi, b.Const([]int64{1})}), b.Const([]int64{-1, h})})))
	}, "n", 3)
	for feature, exact := range map[string]bool{"Reshape": true, "Unsqueeze": true, "Relu": true, "MatMul": false, "x": false} {
		m := open(t, rt, path, featurize.Options{Feature: feature})
		if m.Info().Exact != exact || (m.Last() != nil) != exact || m.Info().Feature.Tensor != feature {
			t.Errorf("--feature-tensor %s: exact %v (%s), weights known %v", feature, m.Info().Exact, m.Info().ExactReason, m.Last() != nil)
		}
	}
}

// TestDensePrediction checks that a layer that predicts at each position of an input is not
// taken for the last layer of a row.
func TestDensePrediction(t *testing.T) {
	rt := runtime(t)
	for name, build := range map[string]func(b *onnx.Builder, x string){
		"tokens": func(b *onnx.Builder, x string) {
			addOutput(b, b.Node("MatMul", []string{x, b.Initializer("W", headWT, h, c)}), "n", 3, c)
		},
		"flattened tokens": func(b *onnx.Builder, x string) {
			y := b.Node("Gemm", []string{b.Node("Reshape", []string{x, b.Const([]int64{-1, h})}), b.Initializer("W", headWT, h, c)})
			addOutput(b, b.Node("Reshape", []string{y, b.Const([]int64{-1, 3, c})}), "n", 3, c)
		},
	} {
		var noLayer *featurize.NoLinearLayerError
		_, err := openErr(rt, tiny(t, 13, build, "n", 3, h), featurize.Options{})
		if !errors.As(err, &noLayer) || !strings.Contains(err.Error(), "position") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInfoJSON checks the JSON encoding of Info.
func TestInfoJSON(t *testing.T) {
	rt := runtime(t)
	path := tiny(t, 12, func(b *onnx.Builder, x string) {
		addOutput(b, b.Node("Softmax", []string{gemm(b, phiOf(b, x))}))
	}, "n", 3)
	got, err := json.Marshal(open(t, rt, path, featurize.Options{}).Info())
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(got, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "exact_error")
	delete(m, "providers")
	got, _ = json.Marshal(m)
	want := `{"exact":true,"feature":{"node":"node/Gemm","op":"Gemm","tensor":"Relu","width":4},` +
		`"inputs":[{"dtype":"float32","name":"x","shape":[-1,3]}],"ir_version":7,"logits":"Gemm","normaliser":"Softmax","opset":12,` +
		`"output":"Softmax","outputs":[{"dtype":"float32","name":"Softmax","shape":[-1,2]}],"outputs_width":2,"task":"classification"}`
	if string(got) != want {
		t.Errorf("Info is\n%s, want\n%s", got, want)
	}
}

// TestOpenRefuses checks the errors for models that cannot be opened.
func TestOpenRefuses(t *testing.T) {
	rt := runtime(t)
	scalar := tiny(t, 13, func(b *onnx.Builder, x string) {
		addOutput(b, gemm(b, phiOf(b, b.Node("Add", []string{x, b.Input("shift", float)}))))
	}, "n", 3)
	batches := tiny(t, 13, func(b *onnx.Builder, x string) {
		addOutput(b, gemm(b, phiOf(b, b.Node("Add", []string{x, b.Input("shift", float, 1, 3)}))))
	}, 2, 3)
	labels := tiny(t, 13, func(b *onnx.Builder, x string) {
		b.Output(b.Node("ArgMax", []string{gemm(b, phiOf(b, x))}), pb.TensorProto_INT64, 1, c)
	}, "n", 3)
	for name, k := range map[string]struct{ path, says string }{
		"a scalar": {scalar, `"shift" is a scalar`},
		"batches":  {batches, `"shift" takes 1`},
		"labels":   {labels, `"ArgMax"`},
	} {
		_, err := openErr(rt, k.path, featurize.Options{})
		if err == nil || !strings.Contains(err.Error(), k.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
