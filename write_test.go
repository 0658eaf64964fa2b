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
	noIntervals := regressor(1, 60, 1)
	noIntervals.SkipIntervals = true
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
		{"detector alone", noIntervals, nil},
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
			if second := mustWrite(t, mustFit(t, tt.in)); !bytes.Equal(content, second) {
				t.Error("a second fit of the same inputs and seed writes other bytes")
			}
			o := attach.PredictOptions{Levels: tt.levels}
			want := mustPredict(t, b, tt.in.Batch, o)
			if have := mustPredict(t, got, tt.in.Batch, o); !samePredictions(want, have) {
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
	batch.Inputs, batch.Layers, batch.Network = inputsOf(batch), layersOf(batch), sumNetwork{3}
	for _, m := range detectors() {
		if m.Needs.Trainer || m.Needs.Outliers {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			in := classifier(80)
			in.Detector, in.Last = m, sumLayer(3, 8)
			in.Batch.Inputs, in.Batch.Layers, in.Batch.Network = inputsOf(in.Batch), layersOf(in.Batch), sumNetwork{3}
			b := mustFit(t, in)
			got, err := read(mustWrite(t, b))
			if err != nil {
				t.Fatal(err)
			}
			want, have := mustPredict(t, b, batch, attach.PredictOptions{}), mustPredict(t, got, batch, attach.PredictOptions{})
			if !samePredictions(want, have) {
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

// TestOpenFindsTheModelBesideIt checks that a model is found beside its .attach file if nothing
// is at the stored path. A file at the stored path comes first.
func TestOpenFindsTheModelBesideIt(t *testing.T) {
	root := t.TempDir()
	in := classifier(30)
	in.Base.Path = filepath.Join(root, "models", "net.onnx")
	path, beside := filepath.Join(root, "net.attach"), filepath.Join(root, "net.onnx")
	if err := mustFit(t, in).Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ created, want string }{{"", in.Base.Path}, {beside, beside}, {in.Base.Path, in.Base.Path}} {
		if step.created != "" {
			err := os.MkdirAll(filepath.Dir(step.created), 0o777)
			if err == nil {
				err = os.WriteFile(step.created, nil, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		b, err := attach.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.Base.Path != step.want {
			t.Errorf("after %q was created, the model is looked for at %s, want %s", step.created, b.Base.Path, step.want)
		}
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

// TestNumPyReadsIt checks that numpy.load can open a .attach file, as the format guarantees.
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
	if n != len(want) || !isClose(sum, wantSum, 1e-12) {
		t.Errorf("NumPy reads %d scores of sum %v; want %d, %v", n, sum, len(want), wantSum)
	}
}

// knnWrapper has the same state as the knn detector, but a different type.
type knnWrapper struct {
	ood.Detector
	Train blas32.General `state:"train[n,features]"`
	K     int            `state:"k"`
}

// TestCustomMethodsAreNotSaved checks that Write returns an error, before it writes a byte, if
// Read could not find the method of the bundle or would restore another one.
func TestCustomMethodsAreNotSaved(t *testing.T) {
	knn, energy := method("knn"), method("energy")
	renamed := knn
	renamed.Name = "mine"
	wrapped := knn
	wrapped.Fit = func(ctx context.Context, tr ood.Training, p ood.Params) (any, error) {
		s, err := knn.Fit(ctx, tr, p)
		wrapper := &knnWrapper{Detector: s.(ood.Detector)}
		return wrapper, errors.Join(err, rows.Restore(wrapper, rows.Save(s), nil))
	}
	extra := knn
	extra.Params = append(slices.Clone(extra.Params), ood.Param{Name: "mine", Default: true})
	for _, tt := range []struct {
		name    string
		method  ood.Method
		message string
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
			checkWriteFails(t, mustFit(t, in), tt.message)
		})
	}
	t.Run("quantiles", func(t *testing.T) {
		in := regressor(1, 60, 1)
		in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 2.}
		in.IntervalModel.Name = "mine"
		checkWriteFails(t, mustFit(t, in), `unknown method "mine"`)
		in.IntervalModel.Name = "gradient-boosting"
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), `method "gradient-boosting" has the name of a method of this module`) {
			t.Errorf("under the name of another the error is %v", err)
		}
	})
}

// TestIncompleteMethods checks that Fit rejects a method without a name, Fit or New, and a
// different method under the name of a method of this module.
func TestIncompleteMethods(t *testing.T) {
	for name, corrupt := range map[string]func(*ood.Method){
		"no name": func(m *ood.Method) { m.Name = "" },
		"no fit":  func(m *ood.Method) { m.Fit = nil },
		"no new":  func(m *ood.Method) { m.New = nil },
	} {
		in := classifier(60)
		in.Detector = method("knn")
		corrupt(&in.Detector)
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
	incomplete := method("knn")
	incomplete.New = nil
	if m, _ := attach.MethodByName("knn", incomplete); m.New == nil {
		t.Error("a program's own method hides one of this module's")
	}
}

// untaggedFit is a fit with a field that no file keeps, because the field has no state tag.
type untaggedFit struct{ mean float32 }

func (f *untaggedFit) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = math.Abs(float64(b.Features.Data[i*b.Features.Stride] - f.mean))
	}
	return nil
}

// TestUntaggedFields checks that a fit cannot be saved if a field without a state tag would be
// lost.
func TestUntaggedFields(t *testing.T) {
	in := classifier(60)
	in.Detector = ood.Method{
		Name: "forgetful", Needs: ood.Needs{Features: true},
		Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
			return &untaggedFit{t.Features.Data[0]}, nil
		},
		New: func() any { return &untaggedFit{} },
	}
	if err := mustFit(t, in).Write(io.Discard, in.Detector); err == nil || !strings.Contains(err.Error(), "the field mean of its fit has no tag") {
		t.Errorf("error %v", err)
	}
}

// marginalFit is the fit of an interval method that predicts the same quantiles for every row:
// those of the fit targets.
type marginalFit struct {
	Sorted blas32.General `state:"sorted[targets,n]"`
}

func (m *marginalFit) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
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

var marginalMethod = ood.Method{
	Name: "marginal", Needs: ood.Needs{Features: true, Targets: true},
	Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
		m := &marginalFit{matrix(t.Targets.Cols, t.Targets.Rows)}
		for i, v := range t.Targets.Data {
			m.Sorted.Data[i%t.Targets.Cols*t.Targets.Rows+i/t.Targets.Cols] = v
		}
		for row := range slices.Chunk(m.Sorted.Data, t.Targets.Rows) {
			slices.Sort(row)
		}
		return m, nil
	},
	New: func() any { return &marginalFit{} },
}

// TestCustomMethods checks that a bundle with a custom method can be saved and opened if Save
// and Open are passed the method, and that both return an error otherwise.
func TestCustomMethods(t *testing.T) {
	fusion := heads.Fused("mine", "fisher", heads.Component{Method: method("knn"), Weight: 2}, heads.Component{Method: method("energy")})
	detectorOptions, intervalOptions := classifier(60), regressor(1, 60, 2)
	detectorOptions.Detector, intervalOptions.IntervalModel = fusion, marginalMethod
	for name, in := range map[string]attach.FitOptions{"detector": detectorOptions, "interval method": intervalOptions} {
		t.Run(name, func(t *testing.T) {
			custom := []ood.Method{marginalMethod, fusion}
			b, path := mustFit(t, in), filepath.Join(t.TempDir(), "own.attach")
			if err := b.Save(t.Context(), path); !errors.Is(err, attach.ErrUnknownMethod) {
				t.Errorf("saved without being told of the method: %v", err)
			}
			if err := b.Save(t.Context(), path, custom...); err != nil {
				t.Fatal(err)
			}
			if _, err := attach.Open(path); !errors.Is(err, attach.ErrUnknownMethod) {
				t.Errorf("opened without being told of the method: %v", err)
			}
			restored, err := attach.Open(path, custom...)
			if err != nil {
				t.Fatal(err)
			}
			comparePredictions(t, mustPredict(t, restored, in.Batch, attach.PredictOptions{}), mustPredict(t, b, in.Batch, attach.PredictOptions{}))
		})
	}
}

// checkWriteFails checks that Write returns an error with the message, and writes nothing.
func checkWriteFails(t *testing.T, b *attach.Bundle, message string) {
	t.Helper()
	var buf bytes.Buffer
	if err := b.Write(&buf); err == nil || !strings.Contains(err.Error(), message) || buf.Len() > 0 {
		t.Errorf("error is %v after %d bytes, want one that says %q", err, buf.Len(), message)
	}
}

// TestWholeNumbersAsInt checks that a parameter may be of type int, although JSON numbers are
// read as float64.
func TestWholeNumbersAsInt(t *testing.T) {
	in := classifier(60)
	in.Detector, in.DetectorParams = method("knn"), ood.Params{"k": 3}
	if _, err := read(mustWrite(t, mustFit(t, in))); err != nil {
		t.Error(err)
	}
}
