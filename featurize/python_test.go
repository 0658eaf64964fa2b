package featurize_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/pythontest"
)

// exposing writes what ONNX Runtime in Python gives for tensors of a model once
// they are outputs of it, averaged over positions.
const exposing = `
import sys, numpy as np, onnx, onnxruntime
path, out, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = onnx.load(path)
known = {v.name for v in model.graph.output}
model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(t) for t in sys.argv[4:] if t not in known)
session = onnxruntime.InferenceSession(model.SerializeToString())
given = session.get_inputs()[0]
x = np.sin(np.arange(n * np.prod(given.shape[1:]), dtype=np.float32)).reshape([n] + given.shape[1:])
values = session.run(sys.argv[4:], {given.name: x})
np.savez(out, x=x, **{f"v{i}": v.reshape(*v.shape[:2], -1).mean(2) for i, v in enumerate(values)})
`

// TestPython compares features, logits and earlier layers with the tensors of
// those names, as another binding of the runtime and another editor of graphs
// give them.
func TestPython(t *testing.T) {
	python := pythontest.Find(t, "numpy", "onnx", "onnxruntime")
	rt := runtime(t)
	for _, name := range []string{"digits_resnet", "digits_vgg", "toy_regressor", "odd/conv1x1", "odd/trailing_softmax", "odd/three_targets"} {
		t.Run(name, func(t *testing.T) {
			path := "../testmodels/" + name + ".onnx"
			m := open(t, rt, path, featurize.Options{EarlierLayers: featurize.DefaultEarlierLayers, Batch: 2})
			want := filepath.Join(t.TempDir(), "python")
			args := append([]string{"-c", exposing, path, want + ".npz", "3", m.Info().Feature.Tensor, m.Info().Logits}, tensors(m.Info().Layers)...)
			if b, err := exec.Command(python, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			_, x := entry(t, want, "x")
			shape := append([]int{3}, m.InputShape()...)
			b := all(t, m, shape, x)
			for i, got := range append([]blas32.General{b.Features, b.Logits}, b.Layers...) {
				_, values := entry(t, want, fmt.Sprintf("v%d", i))
				near(t, args[5+i], got.Data, values, 1e-5)
			}
		})
	}
}
