package featurize_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// fourClasses fits a classifier of four classes on random features and logits without a
// model. It returns the .attach file and the rows. If labelled is not set, the rows have no
// labels, so there are no prediction sets.
func fourClasses(t *testing.T, labelled bool) (*attach.Bundle, ood.Batch) {
	t.Helper()
	const n, h, c = 120, 3, 4
	b := ood.Batch{
		Features: blas32.General{Rows: n, Cols: h, Stride: h, Data: noise(n * h)},
		Logits:   blas32.General{Rows: n, Cols: c, Stride: c, Data: noise(n * (h + c))[n*h:]},
	}
	energy, _ := attach.MethodByName("energy")
	in := attach.FitOptions{Base: attach.Base{Task: attach.Classification}, Batch: b, Detector: energy}
	if labelled {
		in.Batch.Labels = make([]int, n)
		for i := range n {
			in.Batch.Labels[i] = i % c
		}
	}
	bundle, err := attach.Fit(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return bundle, b
}

// verify compares exported heads with a .attach file on rows of features.
func verify(t *testing.T, bundle *attach.Bundle, path string, b ood.Batch) (featurize.Agreement, error) {
	o := featurize.Runtime{Library: orttest.Open(t).Library().Path, Provider: "cpu"}
	return featurize.VerifyHeads(t.Context(), bundle, path, o, func(yield func(attach.Rows, error) bool) { yield(attach.Rows{Batch: b}, nil) })
}

// TestVerifyOtherOutputs checks the error if the width of an output does not match the
// .attach file.
func TestVerifyOtherOutputs(t *testing.T) {
	bundle, b := fourClasses(t, true)
	for name, tt := range map[string]struct {
		make func(x graph.Tensor) graph.Tensor
		want string
	}{
		graph.Probabilities: {func(x graph.Tensor) graph.Tensor { return x.Columns(0, 3) }, "has 3 numbers a row, and the .attach file 4"},
		graph.PredictionSet: {func(x graph.Tensor) graph.Tensor { return x.Columns(0, 1) }, "has 1 number a row, and the .attach file 4"},
		graph.OODScore:      {func(x graph.Tensor) graph.Tensor { return x }, "has 4 numbers a row, and the .attach file 1"},
	} {
		to := onnx.NewBuilder("attach", 17)
		x := graph.Wrap(to, to.Input("logits", pb.TensorProto_FLOAT, "rows", 4), pb.TensorProto_FLOAT, 4)
		out := tt.make(x.Mul(1.)).Named(name)
		to.Output(name, pb.TensorProto_FLOAT, "rows", out.Cols())
		for key, value := range map[string]string{"heads_only": "true", "level": ".9", "alpha": ".1", "base_sha256": "", "sets": "lac"} {
			to.AddMetadata("attach."+key, value)
		}
		m, err := to.Model()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "heads.onnx")
		if _, err := onnx.Save(t.Context(), m, "", path); err != nil {
			t.Fatal(err)
		}
		if _, err := verify(t, bundle, path, b); err == nil || !strings.Contains(err.Error(), path+": "+name+" "+tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line that says %q", name, err, tt.want)
		}
	}
}

// TestVerifyOtherBundle checks that exported heads agree with their own .attach file. If
// they have prediction sets and the .attach file has none, VerifyHeads must return an
// error.
func TestVerifyOtherBundle(t *testing.T) {
	bundle, b := fourClasses(t, true)
	path := filepath.Join(t.TempDir(), "heads.onnx")
	if _, err := featurize.Export(t.Context(), bundle, path, featurize.ExportOptions{OnlyHeads: true}); err != nil {
		t.Fatal(err)
	}
	if a, err := verify(t, bundle, path, b.Slice(0, 0)); err != nil || !strings.Contains(a.Disagreement(), "no rows") {
		t.Errorf("no rows agree, or not: %+v, %v", a, err)
	}
	if a, err := verify(t, bundle, path, b); err != nil || a.Disagreement() != "" || a.Rows != 120 {
		t.Fatalf("%+v, error %v", a, err)
	}
	other, _ := fourClasses(t, false)
	if _, err := verify(t, other, path, b); err == nil || !strings.Contains(err.Error(), path+" does not match the .attach file: ") {
		t.Errorf("error %v", err)
	}
}

// TestExportedLevels checks that a level outside [0, 1] acts like the nearest level in [0,
// 1], and NaN acts like 1.
func TestExportedLevels(t *testing.T) {
	bundle, b := fourClasses(t, true)
	for _, sets := range []string{"lac", "aps"} {
		path := filepath.Join(t.TempDir(), "heads.onnx")
		if _, err := featurize.Export(t.Context(), bundle, path, featurize.ExportOptions{OnlyHeads: true, Sets: sets}); err != nil {
			t.Fatal(err)
		}
		s, err := orttest.Open(t).NewSession(t.Context(), load(t, path), []string{"features", "logits", graph.Level}, []string{graph.PredictionSet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		at := func(level float64) string {
			var in []*ort.Tensor
			for _, given := range []struct {
				shape []int64
				data  []float32
			}{{[]int64{120, 3}, b.Features.Data}, {[]int64{120, 4}, b.Logits.Data}, {[]int64{1}, []float32{float32(level)}}} {
				x, err := ort.NewTensor(given.shape, slices.Clone(given.data))
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				in = append(in, x)
			}
			out, err := s.Run(context.Background(), in)
			if err != nil {
				return err.Error()
			}
			defer out[0].Close()
			return fmt.Sprint(out[0].Float32s())
		}
		for level, like := range map[float64]float64{2: 1, math.Inf(1): 1, -.5: 1e-6, -3: 1e-6, math.Inf(-1): 1e-6, 0: 1e-6, 1: .9999999} {
			if got, want := at(level), at(like); got != want {
				t.Errorf("%s at level %v: %.200s, want that at %v, %.200s", sets, level, got, like, want)
			}
		}
		if got := at(math.NaN()); got != at(1) || strings.Contains(got, "0") {
			t.Errorf("%s at level NaN: %.200s, want all classes", sets, got)
		}
	}
}

// TestExportedMargins checks that an exported graph has the same intervals at a level, whether
// the level is its default, whose margins are constants, or is given.
func TestExportedMargins(t *testing.T) {
	const n, h = 200, 3
	method, _ := attach.MethodByName("gradient-boosting")
	for _, targets := range []int{1, 2} {
		b := ood.Batch{Features: blas32.General{Rows: n, Cols: h, Stride: h, Data: noise(n * h)}}
		y := blas32.General{Rows: n, Cols: targets, Stride: targets, Data: noise(n * (h + targets))[n*h:]}
		for _, score := range []string{"cqr", "cqr-r", "cqr-m"} {
			bundle, err := attach.Fit(t.Context(), attach.FitOptions{Base: attach.Base{Task: attach.Regression}, Batch: b, Targets: y, IntervalModel: method, IntervalParams: ood.Params{"n_estimators": 3}, IntervalScore: score})
			if err != nil {
				t.Fatal(err)
			}
			bounds := func(fixed float64, given float32) []float32 {
				path := filepath.Join(t.TempDir(), "heads.onnx")
				if _, err := featurize.Export(t.Context(), bundle, path, featurize.ExportOptions{OnlyHeads: true, Level: fixed}); err != nil {
					t.Fatal(err)
				}
				session, err := orttest.Open(t).NewSession(t.Context(), load(t, path), []string{"features", graph.Level}, []string{graph.Lower, graph.Upper})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				features, err := ort.NewTensor([]int64{n, h}, slices.Clone(b.Features.Data))
				if err != nil {
					t.Fatal(err)
				}
				defer features.Close()
				atLevel, err := ort.NewTensor([]int64{1}, []float32{given})
				if err != nil {
					t.Fatal(err)
				}
				defer atLevel.Close()
				out, err := session.Run(t.Context(), []*ort.Tensor{features, atLevel})
				if err != nil {
					t.Fatal(err)
				}
				defer out[0].Close()
				defer out[1].Close()
				return append(slices.Clone(ort.View[float32](out[0])), ort.View[float32](out[1])...)
			}
			for _, level := range []float64{0.3, 0.65, 0.999} {
				want, got := bounds(level, float32(level)), bounds(0.8, float32(level))
				for i := range want {
					if d := math.Abs(float64(got[i]) - float64(want[i])); d > 1e-5 || got[i] != got[i] {
						t.Fatalf("%d targets, %s, level %v: bound %d is %v if the level is given, and %v by default", targets, score, level, i, got[i], want[i])
					}
				}
				if infinite := math.IsInf(float64(want[0]), -1); infinite != (level == 0.999) || want[0] >= want[len(want)-1] {
					t.Errorf("level %v: bounds %v and %v", level, want[0], want[len(want)-1])
				}
			}
		}
	}
}

// TestExportOnly checks an export with one output. It has no nodes and no optional input of other
// outputs, and still agrees with the .attach file.
func TestExportOnly(t *testing.T) {
	bundle, b := fourClasses(t, true)
	path := filepath.Join(t.TempDir(), "heads.onnx")
	export := func(only ...string) (featurize.Exported, int, error) {
		done, err := featurize.Export(t.Context(), bundle, path, featurize.ExportOptions{OnlyHeads: true, Only: only})
		if err != nil {
			return done, 0, err
		}
		return done, len(load(t, path).Proto.GetGraph().GetNode()), nil
	}
	_, all, err := export()
	if err != nil {
		t.Fatal(err)
	}
	done, few, err := export(graph.PValue)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done.Outputs, []string{graph.PValue}) || len(done.Inputs) != 0 || few > all-10 {
		t.Errorf("outputs %v, optional inputs %v, %d nodes of %d", done.Outputs, done.Inputs, few, all)
	}
	if a, err := verify(t, bundle, path, b); err != nil || a.Disagreement() != "" || len(a.Outputs) != 1 {
		t.Errorf("%+v, error %v", a, err)
	}
	if _, _, err := export(graph.Lower); err == nil || !strings.Contains(err.Error(), "no output attach.lower: choose from attach.probabilities, attach.prediction_set") {
		t.Errorf("a classifier with bounds: error %v", err)
	}
}

// TestExportOnlyDetection checks an export without intervals. Its interval model runs only if the
// prediction of a row is very large. Scores agree with the .attach file on usual rows and on rows
// whose predictions are near the limit or above it.
func TestExportOnlyDetection(t *testing.T) {
	const n, h = 200, 3
	detector, _ := attach.MethodByName("distance")
	for _, name := range []string{"gradient-boosting", "quantile-forest"} {
		method, _ := attach.MethodByName(name)
		for _, targets := range []int{1, 2} {
			random := noise(n * (h + 2*targets))
			matrix := func(data []float32, cols int) blas32.General {
				return blas32.General{Rows: len(data) / cols, Cols: cols, Stride: cols, Data: slices.Clone(data)}
			}
			b := ood.Batch{Features: matrix(random[:n*h], h), Logits: matrix(random[n*h:n*(h+targets)], targets)}
			bundle, err := attach.Fit(t.Context(), attach.FitOptions{
				Base: attach.Base{Task: attach.Regression, Residual: true}, Batch: b, Targets: matrix(random[n*(h+targets):], targets),
				Detector: detector, IntervalModel: method, IntervalParams: ood.Params{"n_estimators": 3},
			})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "heads.onnx")
			if _, err := featurize.Export(t.Context(), bundle, path, featurize.ExportOptions{OnlyHeads: true, Only: []string{graph.OODScore, graph.PValue}}); err != nil {
				t.Fatal(err)
			}
			for _, node := range load(t, path).Proto.GetGraph().GetNode() {
				if strings.HasPrefix(node.GetOpType(), "TreeEnsemble") {
					t.Errorf("%s: the interval model runs for all rows", name)
				}
			}
			far := ood.Batch{Features: matrix(b.Features.Data, h), Logits: matrix(b.Logits.Data, targets)}
			for i := range n {
				far.Logits.Data[i*targets+i%targets] *= float32(math.Exp(float64(i) / 10))
			}
			for _, rows := range []ood.Batch{b, far} {
				a, err := verify(t, bundle, path, rows)
				if err != nil || a.Disagreement() != "" || len(a.Outputs) != 2 {
					t.Errorf("%s, %d targets: %+v, error %v", name, targets, a, err)
				}
			}
		}
	}
}
