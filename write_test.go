package attach_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/pythontest"
	"github.com/attach-uncertainty/attach/ood"
)

func TestRoundTrip(t *testing.T) {
	withPreprocess := classifier(60)
	withPreprocess.Preprocess = json.RawMessage("{\n  \"rescale_factor\": 0.00392156862745098 }")
	withPreprocess.Layout = "nhwc"
	noDetector := regressor(1, 60, 1)
	noDetector.SkipDetector = true
	noDetector.Base.Columns = []string{"a", "b & <c>"}
	noSQR := regressor(1, 60, 1)
	noSQR.SkipIntervals = true
	tests := []struct {
		name   string
		in     attach.FitOptions
		levels []float64
	}{
		{"classifier", classifier(60), nil},
		{"classifier with preprocessing", withPreprocess, nil},
		{"regressor", regressor(1, 60, 1), []float64{0.1, 0.9}},
		{"regressor of three targets", regressor(2, 60, 3), []float64{0.5}},
		{"quantile head alone", noDetector, nil},
		{"detector alone", noSQR, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := mustFit(t, tt.in)
			content := mustWrite(t, b)
			got, err := read(content)
			if err != nil {
				t.Fatal(err)
			}
			if again := mustWrite(t, got); !bytes.Equal(content, again) {
				t.Error("what was read does not write the same bytes")
			}
			if twin := mustWrite(t, mustFit(t, tt.in)); !bytes.Equal(content, twin) {
				t.Error("a second fit of the same inputs and seed writes other bytes")
			}
			o := attach.PredictOptions{Levels: tt.levels}
			want := mustPredict(t, b, tt.in.Batch, o)
			if have := mustPredict(t, got, tt.in.Batch, o); !same(want, have) {
				t.Error("predictions differ after reading")
			}
			if !reflect.DeepEqual(b.Base, got.Base) || b.Layout != got.Layout || b.Library != got.Library {
				t.Errorf("read %+v %q %q, want %+v %q %q", got.Base, got.Layout, got.Library, b.Base, b.Layout, b.Library)
			}
			if !reflect.DeepEqual(b.Calibration, got.Calibration) {
				t.Errorf("calibration is %+v after reading, want %+v", got.Calibration, b.Calibration)
			}
		})
	}
}

func TestPreprocessKeepsNumbers(t *testing.T) {
	in := classifier(30)
	in.Preprocess = json.RawMessage("{\n  \"rescale_factor\": 0.00392156862745098000, \"a\": \"<&>\" }")
	got, err := read(mustWrite(t, mustFit(t, in)))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"rescale_factor":0.00392156862745098000,"a":"<&>"}`; string(got.Preprocess) != want {
		t.Errorf("preprocessing is %s, want %s", got.Preprocess, want)
	}
}

func TestSeedsDiffer(t *testing.T) {
	a, b := classifier(60), classifier(60)
	b.Seed++
	if bytes.Equal(mustWrite(t, mustFit(t, a)), mustWrite(t, mustFit(t, b))) {
		t.Error("two seeds split off the same calibration rows")
	}
}

func TestEveryRegisteredMethodIsSaved(t *testing.T) {
	batch := blob(1, 80, 8, 3, 0)
	batch.Inputs, batch.Layers, batch.Network = inputsOf(batch), layersOf(batch), summing{3}
	for _, m := range methods() {
		if m.Needs.Trainer || m.Needs.Outliers {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			in := classifier(80)
			in.Detector, in.Last = m, sums(3, 8)
			in.Batch.Inputs, in.Batch.Layers, in.Batch.Network = inputsOf(in.Batch), layersOf(in.Batch), summing{3}
			b := mustFit(t, in)
			got, err := read(mustWrite(t, b))
			if err != nil {
				t.Fatal(err)
			}
			want, have := mustPredict(t, b, batch, attach.PredictOptions{}), mustPredict(t, got, batch, attach.PredictOptions{})
			if !same(want, have) {
				t.Error("scores differ after reading")
			}
			if got.Detector.Method != m.Name || !reflect.DeepEqual(got.Detector.Params, b.Detector.Params) {
				t.Errorf("read %s %v, want %s %v", got.Detector.Method, got.Detector.Params, m.Name, b.Detector.Params)
			}
		})
	}
}

func TestSaveFindsTheModel(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"models", "out"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	in := classifier(30)
	in.Base.Path = filepath.Join(root, "models", "net.onnx")
	b := mustFit(t, in)
	path := filepath.Join(root, "out", "net.attach")
	if err := b.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if b.Base.Path != in.Base.Path {
		t.Errorf("Save changed the bundle's model path to %s", b.Base.Path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := read(content)
	if err != nil {
		t.Fatal(err)
	}
	if want := "../models/net.onnx"; stored.Base.Path != want {
		t.Errorf("the file names %s, want %s", stored.Base.Path, want)
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(root, moved); err != nil {
		t.Skip("the folder cannot be moved:", err)
	}
	got, err := attach.Open(filepath.Join(moved, "out", "net.attach"))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(moved, "models", "net.onnx"); got.Base.Path != want {
		t.Errorf("after a move the model is looked for at %s, want %s", got.Base.Path, want)
	}
}

func TestSaveFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	b := mustFit(t, classifier(30))
	b.Detector.Params = ood.Params{"k": func() {}}
	if err := b.Save(t.Context(), filepath.Join(dir, "x.attach")); err == nil {
		t.Fatal("a bundle with a parameter that JSON cannot hold was saved")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("the folder holds %v", entries)
	}
	err := b.Save(t.Context(), filepath.Join(dir, "no", "x.attach"))
	if err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("saving to a missing folder: %v", err)
	}
}

// TestNumPyReadsIt opens a .attach file with numpy.load, which the format guarantees.
func TestNumPyReadsIt(t *testing.T) {
	python := pythontest.Find(t, "numpy")
	b := mustFit(t, regressor(1, 60, 2))
	path := filepath.Join(t.TempDir(), "x.attach")
	if err := b.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	const script = `
import hashlib, json, sys, numpy as np
b = np.load(sys.argv[1])
m = json.loads(b["manifest.json"])
assert bytes(b["manifest.sha256"]).decode() == hashlib.sha256(b["manifest.json"]).hexdigest() + "  manifest.json\n"
assert sorted(k + ".npy" for k in b.files if not k.startswith("manifest")) == [a["name"] for a in m["arrays"]]
for a in m["arrays"]:
    x = b[a["name"][:-4]]
    assert list(x.shape) == a["shape"] and x.dtype == a["dtype"] and x.flags.c_contiguous, a
s = b["calibration/ood"]
print(len(s), "%.17g" % s.sum())
`
	out, err := exec.Command(python, "-c", script, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := b.Calibration.OOD
	var n int
	var sum, wantSum float64
	if _, err := fmt.Sscan(string(out), &n, &sum); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	for _, s := range want {
		wantSum += s
	}
	if n != len(want) || !near(sum, wantSum, 1e-12) {
		t.Errorf("NumPy reads %d scores of sum %v; want %d, %v", n, sum, len(want), wantSum)
	}
}

// namesake is another type with the state of knn.
type namesake struct {
	ood.Detector
	Train blas32.General `state:"train[n,features]"`
	K     int            `state:"k"`
}

// TestMethodsOfAProgramsOwnAreNotSaved checks that methods that Read could not find, or would
// confuse, are rejected before a byte is written.
func TestMethodsOfAProgramsOwnAreNotSaved(t *testing.T) {
	knn, energy := method("knn"), method("energy")
	renamed := knn
	renamed.Name = "mine"
	wrapped := knn
	wrapped.Fit = func(ctx context.Context, tr ood.Training, p ood.Params) (any, error) {
		s, err := knn.Fit(ctx, tr, p)
		own := &namesake{Detector: s.(ood.Detector)}
		return own, errors.Join(err, rows.Restore(own, rows.Save(s), nil))
	}
	extra := knn
	extra.Params = append(slices.Clone(extra.Params), ood.Param{Name: "mine", Default: true})
	for _, tt := range []struct {
		name   string
		method ood.Method
		says   string
	}{
		{"fused under a name of its own", heads.Fused("mine", "fisher", heads.Component{Method: knn}, heads.Component{Method: energy}), `unknown method "mine"`},
		{"fused of others", heads.Fused("fused", "fisher", heads.Component{Method: knn}, heads.Component{Method: energy}), "cannot be saved"},
		{"renamed", renamed, `unknown method "mine"`},
		{"wrapped", wrapped, `another method is known by the name "knn"`},
		{"with a parameter more", extra, `unknown parameter "mine"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := classifier(60)
			in.Detector = tt.method
			refusesToWrite(t, mustFit(t, in), tt.says)
		})
	}
	t.Run("quantiles", func(t *testing.T) {
		in := regressor(1, 60, 1)
		in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 2.}
		in.IntervalModel.Name = "mine"
		refusesToWrite(t, mustFit(t, in), `unknown method "mine"`)
		in.IntervalModel.Name = "gradient-boosting"
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), `method "gradient-boosting" has the name of a method of this module`) {
			t.Errorf("under the name of another the error is %v", err)
		}
	})
}

// TestIncompleteMethods checks that incomplete methods are rejected before the fit.
func TestIncompleteMethods(t *testing.T) {
	for name, spoil := range map[string]func(*ood.Method){
		"no name": func(m *ood.Method) { m.Name = "" },
		"no fit":  func(m *ood.Method) { m.Fit = nil },
		"no new":  func(m *ood.Method) { m.New = nil },
	} {
		in := classifier(60)
		in.Detector = method("knn")
		spoil(&in.Detector)
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "is incomplete") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	in := classifier(60)
	in.Detector = method("covariance")
	in.Detector.Name = "knn"
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), `method "knn" has the name of a method of this module`) {
		t.Errorf("under the name of another the error is %v", err)
	}
	mine := method("knn")
	mine.New = nil
	if m, _ := attach.MethodByName("knn", mine); m.New == nil {
		t.Error("a program's own method hides one of this module's")
	}
}

// forgetful saves nothing of its fit.
type forgetful struct{ mean float32 }

func (f *forgetful) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = math.Abs(float64(b.Features.Data[i*b.Features.Stride] - f.mean))
	}
	return nil
}

// TestUntaggedFields checks that a fit whose file would score differently cannot be saved.
func TestUntaggedFields(t *testing.T) {
	in := classifier(60)
	in.Detector = ood.Method{
		Name: "forgetful", Needs: ood.Needs{Features: true},
		Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
			return &forgetful{t.Features.Data[0]}, nil
		},
		New: func() any { return &forgetful{} },
	}
	if err := mustFit(t, in).Write(io.Discard, in.Detector); err == nil || !strings.Contains(err.Error(), "the field mean of its fit has no tag") {
		t.Errorf("error %v", err)
	}
}

// marginal predicts the quantiles of the targets for every row.
type marginal struct {
	Sorted blas32.General `state:"sorted[targets,n]"`
}

func (m *marginal) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	q := ood.NewQuantiles(x.Rows, m.Sorted.Rows, levels)
	for i := range q.Rows {
		for t := range q.Targets {
			for l, tau := range levels {
				q.Row(i, t)[l] = m.Sorted.Data[t*m.Sorted.Stride+int(tau*float64(m.Sorted.Cols))]
			}
		}
	}
	return q
}

var marginalQuantiles = ood.Method{
	Name: "marginal", Needs: ood.Needs{Features: true, Targets: true},
	Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
		m := &marginal{matrix(t.Targets.Cols, t.Targets.Rows)}
		for i, v := range t.Targets.Data {
			m.Sorted.Data[i%t.Targets.Cols*t.Targets.Rows+i/t.Targets.Cols] = v
		}
		for row := range slices.Chunk(m.Sorted.Data, t.Targets.Rows) {
			slices.Sort(row)
		}
		return m, nil
	},
	New: func() any { return &marginal{} },
}

// TestMethodsOfAProgramsOwn checks that custom methods can be fitted, saved and opened if both
// calls get them.
func TestMethodsOfAProgramsOwn(t *testing.T) {
	fusion := heads.Fused("mine", "fisher", heads.Component{Method: method("knn"), Weight: 2}, heads.Component{Method: method("energy")})
	detects, predicts := classifier(60), regressor(1, 60, 2)
	detects.Detector, predicts.IntervalModel = fusion, marginalQuantiles
	for name, in := range map[string]attach.FitOptions{"detector": detects, "interval method": predicts} {
		t.Run(name, func(t *testing.T) {
			own := []ood.Method{marginalQuantiles, fusion}
			b, path := mustFit(t, in), filepath.Join(t.TempDir(), "own.attach")
			if err := b.Save(t.Context(), path); !errors.Is(err, attach.ErrUnknownMethod) {
				t.Errorf("saved without being told of the method: %v", err)
			}
			if err := b.Save(t.Context(), path, own...); err != nil {
				t.Fatal(err)
			}
			if _, err := attach.Open(path); !errors.Is(err, attach.ErrUnknownMethod) {
				t.Errorf("opened without being told of the method: %v", err)
			}
			back, err := attach.Open(path, own...)
			if err != nil {
				t.Fatal(err)
			}
			comparePredictions(t, mustPredict(t, back, in.Batch, attach.PredictOptions{}), mustPredict(t, b, in.Batch, attach.PredictOptions{}))
		})
	}
}

func refusesToWrite(t *testing.T, b *attach.Bundle, says string) {
	t.Helper()
	var buf bytes.Buffer
	if err := b.Write(&buf); err == nil || !strings.Contains(err.Error(), says) || buf.Len() > 0 {
		t.Errorf("error is %v after %d bytes, want one that says %q", err, buf.Len(), says)
	}
}

// TestWholeNumbersAsInt checks that parameters may be Go's int.
func TestWholeNumbersAsInt(t *testing.T) {
	in := classifier(60)
	in.Detector, in.DetectorParams = method("knn"), ood.Params{"k": 3}
	if _, err := read(mustWrite(t, mustFit(t, in))); err != nil {
		t.Error(err)
	}
}
