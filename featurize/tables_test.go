package featurize_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// softmaxRows returns softmax probabilities of rows of logits.
func softmaxRows(m blas32.General) []float32 {
	p := slices.Clone(m.Data)
	for i := range m.Rows {
		row := p[i*m.Cols : (i+1)*m.Cols]
		sum := 0.
		for j, v := range row {
			row[j] = float32(math.Exp(float64(v)))
			sum += float64(row[j])
		}
		for j := range row {
			row[j] /= float32(sum)
		}
	}
	return p
}

// TestTables checks models that the converters of scikit-learn, LightGBM and XGBoost wrote.
// Logits are compared with outputs of ONNX Runtime.
func TestTables(t *testing.T) {
	rt := runtime(t)
	z, err := npy.OpenNPZ("../testmodels/tables/answers.npz")
	if err != nil {
		t.Fatal(err)
	}
	stored := func(name string) []float32 {
		l, err := z.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := l.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := stored("x")
	for _, k := range []struct {
		name, task string
		feature    string // tensor, or concatenated tensors with + between them
		width      int
		classes    string
	}{
		{"logistic", "classification", "variable", 4, "high low middle"},
		{"logistic_binary", "classification", "x", 4, ""},
		{"rest", "classification", "variable+probabilities", 7, ""},
		{"forest", "classification", "x+probabilities", 7, "1 2 3"},
		{"boosting", "classification", "x+proba_output", 7, ""},
		{"svc", "classification", "variable+ovr_output", 7, ""},
		{"mlp", "classification", "next_activations", 16, ""},
		{"mlp_binary", "classification", "next_activations", 16, ""},
		{"lightgbm", "classification", "x+probability_tensor", 7, ""},
		{"xgboost", "classification", "x+probabilities", 7, ""},
		{"linear", "regression", "variable1+variable", 5, ""},
		{"ridge", "regression", "variable1+variable", 5, ""},
		{"forest_regressor", "regression", "x+variable", 5, ""},
		{"svr", "regression", "variable1+variable", 5, ""},
		{"lightgbm_regressor", "regression", "x+variable", 5, ""},
		{"xgboost_regressor", "regression", "x+variable", 5, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			m := open(t, rt, filepath.Join("../testmodels/tables", k.name+".onnx"), featurize.Options{})
			i := m.Info()
			feature, linear := i.Feature.Tensor, true
			if i.Feature.Of != nil {
				feature, linear = strings.Join(i.Feature.Of, "+"), false
			}
			if string(i.Task) != k.task || feature != k.feature || i.Feature.Width != k.width || strings.Join(i.Classes, " ") != k.classes || i.Exact != linear {
				t.Errorf("task %s, feature %s of width %d, classes %v, exact %v (%s)", i.Task, feature, i.Feature.Width, i.Classes, i.Exact, i.ExactReason)
			}
			if base := m.Base(i.Task); base.Standardised == strings.HasPrefix(k.name, "mlp") || base.Residual != (!linear && i.Task == attach.Regression) {
				t.Errorf("standardised %v, residual %v", base.Standardised, base.Residual)
			}
			got := runAll(t, m, []int{50, 4}, x)
			want := stored(k.name)
			switch {
			case k.name == "mlp_binary":
				for r, v := range got.Logits.Data {
					p := 1 / (1 + math.Exp(-float64(v)))
					if math.Abs(p-float64(want[2*r+1])) > 1e-6 {
						t.Fatalf("row %d: %v, want %v", r, p, want[2*r+1])
					}
				}
			case i.Task == attach.Classification && k.name != "svc":
				checkNear(t, "probabilities", softmaxRows(got.Logits), want, 2e-6)
			default:
				checkNear(t, "answers", got.Logits.Data, want, 1e-6)
			}
			if k.name == "logistic" {
				checkNear(t, "scores", got.Logits.Data, stored("logistic_scores"), 1e-5)
			}
			if linear && m.Last() != nil {
				y := rows.New(50, got.Logits.Cols)
				for r := range 50 {
					for c := range y.Cols {
						sum := m.Last().Bias[c]
						for f, v := range rows.Row(got.Features, r) {
							sum += v * rows.Row(m.Last().Weight, c)[f]
						}
						rows.Row(y, r)[c] = sum
					}
				}
				checkNear(t, "Wφ+b", y.Data, got.Logits.Data, 1e-5)
			}
			// Reopening the model with the feature that Info names must give the same
			// features, because .attach files store this name.
			reopened := open(t, rt, filepath.Join("../testmodels/tables", k.name+".onnx"), featurize.Options{Feature: i.Feature.Tensor, Output: i.Output})
			checkNear(t, "features, opened again", runAll(t, reopened, []int{50, 4}, x).Features.Data, got.Features.Data, 0)
		})
	}
	t.Run("inputs and outputs of a network", func(t *testing.T) {
		m := open(t, rt, "../testmodels/tables/mlp.onnx", featurize.Options{Feature: "attach/inputs-and-outputs"})
		want, probabilities := rows.New(50, 7), stored("mlp")
		for r := range 50 {
			copy(rows.Row(want, r), x[4*r:4*r+4])
			copy(rows.Row(want, r)[4:], probabilities[3*r:3*r+3])
		}
		checkNear(t, "features", runAll(t, m, []int{50, 4}, x).Features.Data, want.Data, 2e-6)
		if m.Last() != nil || !m.Base(attach.Classification).Standardised {
			t.Error("the features are still those of the last linear layer")
		}
	})
}

// TestTableRegressor checks which networks have their inputs and predictions as features.
func TestTableRegressor(t *testing.T) {
	rt := runtime(t)
	layers := func(b *onnx.Builder, x string, width, outputs int) {
		phi := b.Node("Relu", []string{b.Node("Gemm", []string{x, b.Initializer("V", make([]float32, width*5), int64(width), 5)})})
		b.Output(b.Node("Gemm", []string{phi, b.Initializer("W", make([]float32, 5*outputs), 5, int64(outputs))}), pb.TensorProto_FLOAT, "n", outputs)
	}
	network := func(outputs, width int) string {
		return tiny(t, 13, func(b *onnx.Builder, x string) { layers(b, x, width, outputs) }, "n", width)
	}
	undeclared := func(width int) string { // only the first layer tells the width
		return tiny(t, 13, func(b *onnx.Builder, x string) { layers(b, x, width, 1) }, "n", "columns")
	}
	unknown := tiny(t, 13, func(b *onnx.Builder, x string) { layers(b, b.Node("Identity", []string{x}), 3, 1) }, "n", "columns")
	inputsAndOutputs := "attach/inputs-and-outputs"
	for name, k := range map[string]struct {
		path, want string
		task       attach.Task
	}{
		"one output":                            {path: network(1, 3), want: inputsAndOutputs},
		"one score of a binary classifier":      {path: network(1, 3), task: attach.Classification, want: "Relu"},
		"two outputs of unknown task":           {path: network(2, 3), want: "Relu"},
		"two targets":                           {path: network(2, 3), task: attach.Regression, want: inputsAndOutputs},
		"256 columns":                           {path: network(1, 256), want: inputsAndOutputs},
		"a flattened image, more than 256 wide": {path: network(1, 257), want: "Relu"},
		"an undeclared width":                   {path: undeclared(3), want: inputsAndOutputs},
		"an undeclared width above 256":         {path: undeclared(257), want: "Relu"},
		"an unknown width":                      {path: unknown, want: "Relu"},
	} {
		m := open(t, rt, k.path, featurize.Options{Task: k.task, EarlierLayers: 1})
		f := m.Info().Feature
		if f.Tensor != k.want || (f.Of == nil) != (k.want == "Relu") || (f.LastLayer == "Relu") != (f.Of != nil) {
			t.Errorf("%s: features %+v, want %s", name, f, k.want)
		}
	}
}

// TestNamesWithoutZipMap checks that class names are found if the model returns
// probabilities as a tensor and not as maps. Names that repeat must not be used.
func TestNamesWithoutZipMap(t *testing.T) {
	rt := runtime(t)
	for name, want := range map[string]string{"logistic": "high low middle", "forest": "1 2 3"} {
		m := load(t, "../testmodels/tables/"+name+".onnx").Proto
		m.Graph.Node = slices.DeleteFunc(m.Graph.Node, func(n *pb.NodeProto) bool { return n.GetOpType() == "ZipMap" })
		m.Graph.Output[1] = onnx.ValueInfo("probabilities", pb.TensorProto_FLOAT, "n", 3)
		path := save(t, m)
		for _, n := range m.Graph.Node {
			for _, a := range n.GetAttribute() {
				switch a.GetName() {
				case "classlabels_strings":
					a.Strings[2] = a.Strings[0]
				case "classlabels_int64s":
					a.Ints[2] = a.Ints[0]
				}
			}
		}
		if withRepeats := open(t, rt, save(t, m), featurize.Options{}).Info(); withRepeats.Classes != nil {
			t.Errorf("%s: classes %v", name, withRepeats.Classes)
		}
		i := open(t, rt, path, featurize.Options{}).Info()
		if strings.Join(i.Classes, " ") != want || i.Task != attach.Classification {
			t.Errorf("%s: classes %v, task %s", name, i.Classes, i.Task)
		}
	}
}

// TestNamesOfSoftmaxTrees checks that class names are found if a tree classifier returns
// probabilities that it computes with a softmax.
func TestNamesOfSoftmaxTrees(t *testing.T) {
	m := load(t, "../testmodels/tables/xgboost.onnx").Proto
	for _, n := range m.Graph.Node {
		if a := onnx.Attribute(n, "classlabels_int64s"); a != nil {
			a.Ints = []int64{5, 6, 7}
		}
	}
	i := open(t, runtime(t), save(t, m), featurize.Options{}).Info()
	if got := strings.Join(i.Classes, " "); got != "5 6 7" {
		t.Errorf("classes %q", got)
	}
}

// TestSVMScores checks the sign of scores for two classes without probabilities. ONNX
// Runtime gives the larger score to the class that it does not predict.
func TestSVMScores(t *testing.T) {
	b := onnx.NewBuilder("svc", 13)
	b.Import("ai.onnx.ml", 1)
	// skl2onnx writes this node for SVC(kernel="linear") of scikit-learn 1.9, fitted on the
	// inputs -1 and 1 with the classes 0 and 1.
	out := b.Append(onnx.Node{
		Op: "SVMClassifier", Domain: "ai.onnx.ml", Inputs: []string{b.Input("x", pb.TensorProto_FLOAT, "n", 1)}, Outputs: []string{b.UniqueName("label"), b.UniqueName("scores")},
		Attrs: []*pb.AttributeProto{
			onnx.Attr("classlabels_ints", []int64{0, 1}), onnx.Attr("coefficients", []float32{.5, -.5}), onnx.Attr("kernel_params", []float32{1, 0, 3}),
			onnx.Attr("kernel_type", "LINEAR"), onnx.Attr("post_transform", "NONE"), onnx.Attr("rho", []float32{0}),
			onnx.Attr("support_vectors", []float32{-1, 1}), onnx.Attr("vectors_per_class", []int64{1, 1}),
		},
	})
	b.Output(out[0], pb.TensorProto_INT64, "n")
	b.Output(out[1], pb.TensorProto_FLOAT, "n", 2)
	model, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	got := runAll(t, open(t, runtime(t), save(t, model), featurize.Options{}), []int{2, 1}, []float32{-2, 3})
	checkNear(t, "logits", got.Logits.Data, []float32{2, -2, -3, 3}, 1e-6)
}

// TestTreesOfSomeColumns checks that the feature contains all columns if different trees
// read different columns.
func TestTreesOfSomeColumns(t *testing.T) {
	stump := []*pb.AttributeProto{
		onnx.Attr("nodes_treeids", []int64{0, 0, 0}), onnx.Attr("nodes_nodeids", []int64{0, 1, 2}), onnx.Attr("nodes_featureids", []int64{0, 0, 0}),
		onnx.Attr("nodes_values", []float32{0, 0, 0}), onnx.Attr("nodes_modes", []string{"BRANCH_LEQ", "LEAF", "LEAF"}),
		onnx.Attr("nodes_truenodeids", []int64{1, 0, 0}), onnx.Attr("nodes_falsenodeids", []int64{2, 0, 0}), onnx.Attr("target_treeids", []int64{0, 0}),
		onnx.Attr("target_nodeids", []int64{1, 2}), onnx.Attr("target_ids", []int64{0, 0}), onnx.Attr("target_weights", []float32{1, 2}), onnx.Attr("n_targets", 1),
	}
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		b.Import("ai.onnx.ml", 3)
		var predictions []string
		for _, columns := range [][]int64{{0, 1}, {2, 3}} {
			extracted := b.Append(onnx.Node{Op: "ArrayFeatureExtractor", Domain: "ai.onnx.ml", Inputs: []string{x, b.Const(columns)}})
			predictions = append(predictions, b.Append(onnx.Node{Op: "TreeEnsembleRegressor", Domain: "ai.onnx.ml", Inputs: extracted, Attrs: stump})...)
		}
		addOutput(b, b.Node("Add", predictions), "n", 1)
	}, "n", 4)
	if i := open(t, runtime(t), path, featurize.Options{}).Info(); !slices.Equal(i.Feature.Of, []string{"x", "Add"}) || i.Feature.Width != 5 {
		t.Errorf("features %+v", i.Feature)
	}
}

// TestTooManyTargets checks that a huge number of targets that do not fit the coefficients
// gives an error and no large allocation.
func TestTooManyTargets(t *testing.T) {
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		b.Import("ai.onnx.ml", 3)
		y := b.Append(onnx.Node{Op: "LinearRegressor", Domain: "ai.onnx.ml", Inputs: []string{x}, Attrs: []*pb.AttributeProto{
			onnx.Attr("coefficients", []float32{1, 2, 3}), onnx.Attr("targets", int64(1)<<60),
		}})
		addOutput(b, y[0], "n", 1)
	}, "n", 3)
	if _, err := openErr(runtime(t), path, featurize.Options{}); err == nil {
		t.Error("it is taken")
	}
}
