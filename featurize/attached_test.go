package featurize_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

const digit = "../testmodels/images/3/0.png"

// fitDigits fits a detector for the digits model and saves it in dir. It returns the path
// of the .attach file.
func fitDigits(ctx context.Context, dir string, m ood.Method) (path string, err error) {
	raw, err := os.ReadFile("../testmodels/digits.preprocess.json")
	if err != nil {
		return "", err
	}
	p, err := preprocess.Parse(raw)
	if err != nil {
		return "", err
	}
	set, err := inputs.Open(ctx, "../testmodels/digits_fit.npz", inputs.Options{Preprocess: p})
	if err != nil {
		return "", err
	}
	if set, err = set.Slice(inputs.Slice{End: 400, Ends: true}); err != nil {
		return "", err
	}
	x, err := set.All(ctx)
	if err != nil {
		return "", err
	}
	model, err := featurize.Open(ctx, "../testmodels/digits_vgg.onnx", featurize.Options{EarlierLayers: 3})
	if err != nil {
		return "", err
	}
	defer model.Close()
	shape := append([]int{x.Rows}, set.Shape()...)
	in := attach.FitOptions{
		Base: model.Base(attach.Classification), Preprocess: raw, Layout: "nchw", Detector: m, Last: model.Last(),
	}
	in.Base.Classes = strings.Fields("zero one two three four five six seven eight nine")
	if in.Batch, err = model.All(ctx, featurize.Single(ood.BlockOf(shape, x.Data)), x.Rows, nil); err != nil {
		return "", err
	}
	in.Batch.Labels, in.Batch.Inputs, in.Batch.Network = set.Labels, ood.BlockOf(shape, x.Data), model.Network()
	b, err := attach.Fit(ctx, in)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "model.attach")
	return path, b.Save(ctx, path)
}

// This service takes an image and reports how far to trust the prediction. The .attach file
// contains the preprocessing and the path of the model.
func ExampleAttached_Predict() {
	ctx := context.Background()
	path, file, done := exampleFiles(ctx)
	defer done()
	mux := http.NewServeMux()

	b, err := attach.Open(path)
	check(err)
	m, err := featurize.OpenFor(ctx, b, "", featurize.Options{})
	check(err)
	defer m.Close()
	predictor, err := b.Predictor(attach.PredictOptions{})
	check(err)
	mux.HandleFunc("POST /predict", func(w http.ResponseWriter, r *http.Request) {
		p, err := m.Predict(r.Context(), predictor, http.MaxBytesReader(w, r.Body, 1<<24))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"class": p[0].Class, "name": p[0].Name, "confidence": p[0].Confidence, "p_value": p[0].PValue, "flag": p[0].Flag})
	})

	server := httptest.NewServer(mux)
	defer server.Close()
	response, err := http.Post(server.URL+"/predict", "image/png", file)
	check(err)
	defer response.Body.Close()
	var result struct {
		Class int
		Name  string
		Flag  bool
	}
	check(json.NewDecoder(response.Body).Decode(&result))
	fmt.Printf("%+v\n", result)
	// Output: {Class:3 Name:three Flag:false}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// exampleFiles returns the path of a fitted .attach file and an open image of a digit. The
// caller must call done.
func exampleFiles(ctx context.Context) (path string, file io.ReadCloser, done func()) {
	dir, err := os.MkdirTemp("", "attach")
	if err == nil {
		path, err = fitDigits(ctx, dir, ood.Method{})
	}
	if err == nil {
		file, err = os.Open(digit)
	}
	check(err)
	return path, file, func() {
		file.Close()
		os.RemoveAll(dir)
	}
}

// TestAttached checks that Images, Predict and Rows give the same predictions, and that
// invalid images give errors. One of the two detectors reads earlier layers, the other runs
// the model.
func TestAttached(t *testing.T) {
	ctx := t.Context()
	fused, _ := attach.MethodByName("fused-layers")
	odin, _ := attach.MethodByName("odin")
	for _, m := range []ood.Method{fused, odin} {
		path, err := fitDigits(ctx, t.TempDir(), m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := attach.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		a, err := featurize.OpenFor(ctx, b, "", featurize.Options{EarlierLayers: 7, Output: "none"})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		predictor, err := b.Predictor(attach.PredictOptions{})
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(digit)
		if err != nil {
			t.Fatal(err)
		}
		img, err := preprocess.Decode(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := a.Images(ctx, img, img)
		if err != nil {
			t.Fatal(err)
		}
		want, err := predictor.Predict(ctx, rows)
		if err != nil || len(want) != 2 || want[0].Class != 3 {
			t.Fatalf("%s: %+v, error %v", m.Name, want, err)
		}
		got, err := a.Predict(ctx, predictor, bytes.NewReader(content), bytes.NewBuffer(content))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: of files %+v, want %+v, error %v", m.Name, got, want, err)
		}
		_, err = a.Predict(ctx, predictor, bytes.NewReader(content), strings.NewReader("no image"))
		if !errors.Is(err, preprocess.ErrImage) || !strings.HasPrefix(err.Error(), "image 1: ") {
			t.Errorf("of a file that is no image the error is %v", err)
		}
		data, shape, err := a.Preprocess.Append(nil, img)
		if err != nil {
			t.Fatal(err)
		}
		emptyBlock := ood.BlockOf(append([]int{0}, shape...), nil)
		for r, err := range a.Rows(ctx, func(yield func(ood.InputBlock, error) bool) { yield(emptyBlock, nil) }) {
			if err != nil || r.Len() != 0 {
				t.Errorf("%s: %d rows of none, error %v", m.Name, r.Len(), err)
			}
		}
		blocks := func(yield func(ood.InputBlock, error) bool) {
			for range 2 {
				if !yield(ood.BlockOf(append([]int{1}, shape...), slices.Clone(data)), nil) {
					return
				}
			}
		}
		n := 0
		for p, err := range predictor.Stream(ctx, a.Rows(ctx, blocks)) {
			if err != nil || p.Class != want[n].Class || p.PValue != want[n].PValue {
				t.Errorf("%s: row %d is %+v, want %+v, error %v", m.Name, n, p, want[n], err)
			}
			n++
		}
		if n != 2 {
			t.Errorf("%s: %d rows", m.Name, n)
		}
		if _, err := a.Predict(ctx, predictor, nil); err == nil || errors.Is(err, preprocess.ErrImage) || !strings.Contains(err.Error(), "image 0: the reader is nil") {
			t.Errorf("of a nil reader the error is %v", err)
		}
		if _, err := a.Images(ctx); err == nil || !strings.Contains(err.Error(), "there are no images") {
			t.Errorf("without images the error is %v", err)
		}
		if _, err := a.Images(ctx, img, nil); err == nil || !strings.Contains(err.Error(), "image 1: the image is nil") {
			t.Errorf("of a nil image the error is %v", err)
		}
		if _, err := a.Images(ctx, img, image.NewGray(image.Rect(0, 0, 25, 26))); err == nil || !strings.Contains(err.Error(),
			`image 1: the image is of 26×25 pixels, and 1×26×25 after preprocessing, where the model takes 1×24×24; preprocessing makes them so with "size": {"height": 24, "width": 24}`) {
			t.Errorf("an image of another size: %v", err)
		}
	}
}

// TestOpenForRefuses checks the errors of OpenFor, for example if the model is missing or a
// different one.
func TestOpenForRefuses(t *testing.T) {
	energy, _ := attach.MethodByName("energy")
	path, err := fitDigits(t.Context(), t.TempDir(), energy)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(b *attach.Bundle)
		path   string
		want   error
		words  string
	}{
		"another":                  {func(*attach.Bundle) {}, "../testmodels/digits_resnet.onnx", attach.ErrWrongModel, "digits_resnet.onnx"},
		"other tensors":            {func(b *attach.Bundle) { b.Base.Feature = "nope" }, "../testmodels/toy_regressor.onnx", attach.ErrWrongModel, ""},
		"gone":                     {func(b *attach.Bundle) { b.Base.Path = "gone.onnx" }, "", attach.ErrNoModel, "no file at gone.onnx"},
		"missing":                  {func(*attach.Bundle) {}, "missing.onnx", os.ErrNotExist, "missing.onnx"},
		"nowhere":                  {func(b *attach.Bundle) { b.Base.Path = "" }, "", attach.ErrNoModel, "does not contain its path"},
		"features without a model": {func(b *attach.Bundle) { b.Base.SHA256, b.Base.Path = "", "" }, "", nil, "fitted on features, so it has no model to run"},
		"preprocessing":            {func(b *attach.Bundle) { b.Preprocess = []byte(`{"size": 0}`) }, "", nil, "size: want"},
	} {
		b, err := attach.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		c.change(b)
		if _, err := featurize.OpenFor(t.Context(), b, c.path, featurize.Options{}); err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: error %v, want %v that says %q", name, err, c.want, c.words)
		}
	}
}

// TestOpenForWithoutLibrary checks that a missing ONNX Runtime is not reported as a missing
// model.
func TestOpenForWithoutLibrary(t *testing.T) {
	energy, _ := attach.MethodByName("energy")
	path, err := fitDigits(t.Context(), t.TempDir(), energy)
	if err != nil {
		t.Fatal(err)
	}
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = featurize.OpenFor(t.Context(), b, "", featurize.Options{Runtime: featurize.Runtime{Library: "nowhere.so"}})
	if err == nil || errors.Is(err, attach.ErrNoModel) || !strings.Contains(err.Error(), "nowhere.so") {
		t.Errorf("error %v, want one of nowhere.so", err)
	}
}

// TestExportKeepsOriginals checks that Export overwrites neither a .attach file nor the
// files of the original model, even through links or other spellings of their paths.
func TestExportKeepsOriginals(t *testing.T) {
	energy, _ := attach.MethodByName("energy")
	dir := t.TempDir()
	path, err := fitDigits(t.Context(), dir, energy)
	if err != nil {
		t.Fatal(err)
	}
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("../testmodels/digits_vgg.onnx")
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(model, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(model, filepath.Join(dir, "link.onnx")); err != nil {
		t.Skip(err)
	}
	if err := os.Link(model, filepath.Join(dir, "weights.onnx.data")); err != nil {
		t.Skip(err)
	}
	b.Base.Path = model
	for _, heads := range []bool{false, true} {
		for name, what := range map[string]string{
			"model.onnx": "which belongs to the original model", "../" + filepath.Base(dir) + "/model.onnx": "which belongs to the original model",
			"link.onnx": "which belongs to the original model", "weights.onnx": "which belongs to the original model", "model.attach": "which is a .attach file",
		} {
			out := dir + "/" + name
			if _, err := featurize.Export(t.Context(), b, out, featurize.ExportOptions{OnlyHeads: heads}); err == nil || !strings.Contains(err.Error(), "would replace") || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
	if after, err := os.ReadFile(model); err != nil || !bytes.Equal(after, content) {
		t.Errorf("the model has changed, error %v", err)
	}
	if _, err := featurize.Export(t.Context(), b, filepath.Join(dir, "out.onnx"), featurize.ExportOptions{}); err != nil {
		t.Error(err)
	}
	// Weights that are stored in a separate file must not be overwritten either.
	var m pb.ModelProto
	if err := proto.Unmarshal(content, &m); err != nil {
		t.Fatal(err)
	}
	for _, w := range m.GetGraph().GetInitializer() {
		if len(w.GetRawData()) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "w.bin"), w.RawData, 0o644); err != nil {
			t.Fatal(err)
		}
		key, value := "location", "w.bin"
		w.RawData, w.DataLocation, w.ExternalData = nil, pb.TensorProto_EXTERNAL.Enum(), []*pb.StringStringEntryProto{{Key: &key, Value: &value}}
		break
	}
	if content, err = proto.Marshal(&m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "apart.onnx"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := featurize.Export(t.Context(), b, filepath.Join(dir, "w.bin"), featurize.ExportOptions{Model: filepath.Join(dir, "apart.onnx")}); err == nil || !strings.Contains(err.Error(), "would replace") {
		t.Errorf("weights of their own: error %v", err)
	}
	// Export may replace an earlier export.
	if _, err := featurize.Export(t.Context(), b, filepath.Join(dir, "out.onnx"), featurize.ExportOptions{}); err != nil {
		t.Error(err)
	}
}
