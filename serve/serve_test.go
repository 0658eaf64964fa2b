package serve_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/serve"
)

const digit = "../testmodels/images/3/0.png"

// attachDigits attaches a detector to the network of digits, and calibrates sets.
func attachDigits(ctx context.Context, path string, m ood.Method) error {
	raw, err := os.ReadFile("../testmodels/digits.preprocess.json")
	if err != nil {
		return err
	}
	p, err := preprocess.Parse(raw)
	if err != nil {
		return err
	}
	model, err := featurize.Open(ctx, "../testmodels/digits_resnet.onnx", featurize.Options{EarlierLayers: 3})
	if err != nil {
		return err
	}
	defer model.Close()
	read := func(file string, n int) (ood.Batch, error) {
		set, err := inputs.Open(ctx, file, inputs.Options{Preprocess: p})
		if err == nil {
			set, err = set.Slice(inputs.Slice{End: n, Ends: true})
		}
		if err != nil {
			return ood.Batch{}, err
		}
		b, err := model.All(ctx, set.Blocks(ctx, 64), n, nil)
		b.Labels = set.Labels
		return b, err
	}
	in := attach.FitOptions{Base: model.Base(attach.Classification), Preprocess: raw, Layout: "nchw", Method: m, Last: model.Last()}
	if in.Batch, err = read("../testmodels/digits_fit.npz", 400); err != nil {
		return err
	}
	if in.Cal, err = read("../testmodels/digits_cal.npz", 300); err != nil {
		return err
	}
	b, err := attach.Fit(ctx, in)
	if err != nil {
		return err
	}
	return b.Save(ctx, path)
}

// digits is a server of the network of digits, and the URL that it is at.
func digits(t *testing.T, o serve.Options) (s *serve.Server, url, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "digits.attach")
	if err := attachDigits(t.Context(), path, ood.Method{}); err != nil {
		t.Fatal(err)
	}
	s = serve.New(o)
	if err := s.Load(t.Context(), "digits", "", path); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		s.Close()
	})
	return s, server.URL, path
}

// answer is what REST answers.
type answer struct {
	ModelName    string `json:"model_name"`
	ModelVersion string `json:"model_version"`
	ID           string
	Outputs      []struct {
		Name, Datatype string
		Shape          []int
		Data           []any
	}
	Error string
}

func (a answer) data(name string) []any {
	for _, o := range a.Outputs {
		if o.Name == name {
			return o.Data
		}
	}
	return nil
}

func post(t *testing.T, url, body string) (int, answer) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r.StatusCode, a
}

// An image is answered as the library predicts it, and so is the tensor that it
// becomes.
func TestInfer(t *testing.T) {
	_, url, path := digits(t, serve.Options{})
	content, err := os.ReadFile(digit)
	if err != nil {
		t.Fatal(err)
	}
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	net, err := featurize.OpenFor(t.Context(), b, "", featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	p, err := b.Predictor(attach.PredictOptions{Sets: "lac"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(digit)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, err := net.Predict(t.Context(), p, file)
	if err != nil {
		t.Fatal(err)
	}
	img, err := preprocess.Decode(strings.NewReader(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := net.Preprocess.Append(nil, img)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := json.Marshal([][][]float32{{data}})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		fmt.Sprintf(`{"id": "é", "inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": [%q]}]}`, base64.StdEncoding.EncodeToString(content)),
		fmt.Sprintf(`{"inputs": [{"data": %s, "shape": [1, 1, 24, 24], "datatype": "FP32", "name": "input"}], "id": "\u00e9"}`, numbers),
	} {
		status, a := post(t, url+"/v2/models/digits/versions/1/infer", body)
		if status != http.StatusOK || a.ModelName != "digits" || a.ModelVersion != "1" || a.ID != "é" {
			t.Fatalf("status %d, answer %+v", status, a)
		}
		for name, value := range map[string]any{
			"class": float64(want[0].Class), "confidence": want[0].Confidence, "ood_score": want[0].Score, "p_value": want[0].PValue, "flag": want[0].Flag, "set": float64(want[0].Set[0]),
		} {
			if got := a.data(name); !slices.Equal(got, []any{value}) {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
	}
}
