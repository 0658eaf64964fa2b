package featurize_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/pythontest"
)

// pythonScript is a Python program. It runs models in ONNX Runtime with inner tensors declared
// as outputs, and averages these over positions.
const pythonScript = `
import json, sys, numpy as np, onnx, onnxruntime
for path, out, names in json.loads(sys.argv[1]):
    model = onnx.load(path)
    known = {v.name for v in model.graph.output}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(t) for t in names if t not in known)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = session.get_inputs()[0]
    x = np.sin(np.arange(3 * np.prod(given.shape[1:]), dtype=np.float32)).reshape([3] + given.shape[1:])
    values = session.run(names, {given.name: x})
    np.savez(out, x=x, **{f"v{i}": v.reshape(*v.shape[:2], -1).mean(2) for i, v in enumerate(values)})
`

// TestPython compares features, logits and earlier layers with results of Python's onnx and
// onnxruntime packages.
func TestPython(t *testing.T) {
	python := pythontest.Find(t, "numpy", "onnx", "onnxruntime")
	rt := runtime(t)
	var models []*featurize.Model
	var arguments [][]any // arguments of pythonScript: path, archive without .npz, tensors
	for i, name := range []string{"digits_resnet", "digits_vgg", "toy_regressor", "odd/conv1x1", "odd/trailing_softmax", "odd/three_targets"} {
		path := "../testmodels/" + name + ".onnx"
		m := open(t, rt, path, featurize.Options{EarlierLayers: featurize.DefaultEarlierLayers, Batch: 2, Task: attach.Classification}) // so that a regressor of a table reads its last layer too
		models = append(models, m)
		arguments = append(arguments, []any{path, filepath.Join(t.TempDir(), fmt.Sprint(i)), append([]string{m.Info().Feature.Tensor, m.Info().Logits}, tensors(m.Info().Layers)...)})
	}
	list, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command(python, "-c", pythonScript, string(list)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for k, m := range models {
		t.Run(arguments[k][0].(string), func(t *testing.T) {
			archive := arguments[k][1].(string)
			_, x := entry(t, archive, "x")
			b := runAll(t, m, append([]int{3}, m.InputShape()...), x)
			for i, got := range append([]blas32.General{b.Features, b.Logits}, b.Layers...) {
				_, values := entry(t, archive, fmt.Sprintf("v%d", i))
				checkNear(t, arguments[k][2].([]string)[i], got.Data, values, 1e-5)
			}
		})
	}
}
