package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/featurize/serve"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/inference"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/schema"
)

const digit = "../../testmodels/images/3/0.png"

// digitsBundle returns a .attach file for the digits model, with a detector and calibrated sets.
// It fits the file on the first call and returns the same file later.
var digitsBundle = sync.OnceValues(func() (*attach.Bundle, error) {
	ctx := context.Background()
	raw, err := os.ReadFile("../../testmodels/digits.preprocess.json")
	if err != nil {
		return nil, err
	}
	p, err := preprocess.Parse(raw)
	if err != nil {
		return nil, err
	}
	model, err := featurize.Open(ctx, "../../testmodels/digits_resnet.onnx", featurize.Options{EarlierLayers: 3})
	if err != nil {
		return nil, err
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
	in := attach.FitOptions{Base: model.Base(attach.Classification), Preprocess: raw, Layout: "nchw", Last: model.Last()}
	if in.Batch, err = read("../../testmodels/digits_fit.npz", 400); err != nil {
		return nil, err
	}
	if in.Cal, err = read("../../testmodels/digits_cal.npz", 300); err != nil {
		return nil, err
	}
	return attach.Fit(ctx, in)
})

// attachDigits saves the .attach file of the digits model to path.
func attachDigits(ctx context.Context, path string) error {
	b, err := digitsBundle()
	if err != nil {
		return err
	}
	return b.Save(ctx, path)
}

// digitsServer starts a server for the digits model. It returns the server, its URL and the path
// of its .attach file.
func digitsServer(t *testing.T, o serve.Options) (s *serve.Server, url, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "digits.attach")
	if err := attachDigits(t.Context(), path); err != nil {
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

// response is the JSON response of the REST API.
type response struct {
	ModelName    string `json:"model_name"`
	ModelVersion string `json:"model_version"`
	ID           string
	Parameters   map[string]float64
	Outputs      []struct {
		Name, Datatype string
		Shape          []int
		Data           []any
	}
	Error string
}

// data returns the values of the named output.
func (a response) data(name string) []any {
	for _, o := range a.Outputs {
		if o.Name == name {
			return o.Data
		}
	}
	return nil
}

// postJSON sends a request and returns the status and the parsed response.
func postJSON(t *testing.T, url, body string) (int, response) {
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
	var a response
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r.StatusCode, a
}

// TestInfer checks that the server gives the same predictions as the library, for an image
// and for the tensor that is prepared from it.
func TestInfer(t *testing.T) {
	_, url, path := digitsServer(t, serve.Options{})
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
		status, a := postJSON(t, url+"/v2/models/digits/versions/1/infer", body)
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

// tensorRequest returns a request for the digits model with the given number of rows. All
// numbers in the rows are v, and extra is added to the JSON.
func tensorRequest(rows int, v float32, extra string) string {
	data := strings.TrimSuffix(strings.Repeat(fmt.Sprint(v)+",", rows*24*24), ",")
	return fmt.Sprintf(`{%s"inputs": [{"name": "input", "datatype": "FP32", "shape": [%d, 1, 24, 24], "data": [%s]}]}`, extra, rows, data)
}

// TestLogsAlarm checks that the alarm of a drift monitor is logged once, also over a reload,
// and not before the evidence suffices.
func TestLogsAlarm(t *testing.T) {
	var log bytes.Buffer
	s, url, _ := digitsServer(t, serve.Options{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	for i, want := range []int{0, 1, 1} {
		rows := 1 + 30*min(i, 1)
		if code, a := postJSON(t, url+"/v2/models/digits/infer", tensorRequest(rows, 1, "")); code != http.StatusOK {
			t.Fatal(code, a)
		}
		if n := strings.Count(log.String(), "drift alarm"); n != want {
			t.Errorf("after request %d, the alarm was logged %d times, want %d: %s", i+1, n, want, &log)
		}
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); !strings.Contains(text, `"level":"WARN"`) || !strings.Contains(text, `"model":"digits","version":"1","evidence":`) || !strings.Contains(text, `"rows":32}`) {
		t.Errorf("the log is %s", text)
	}
}

// TestRefuses checks that an invalid request gives an error of one line, and that the
// server keeps running.
func TestRefuses(t *testing.T) {
	_, url, _ := digitsServer(t, serve.Options{MaxBodySize: 1 << 16, MaxBatchSize: 4})
	infer := "/v2/models/digits/infer"
	for _, c := range []struct {
		path, body string
		status     int
		words      string
	}{
		{"/v2/models/nope/infer", "{}", 404, `no model "nope"`},
		{"/v2/models/digits/versions/2/infer", "{}", 404, `no version "2"`},
		{"/v2/models/digits", "{}", 405, "use GET"},
		{"/v3", "", 404, "no path"},
		{infer, `{"inputs": [`, 400, "JSON"},
		{infer, `{}`, 400, `takes "input" (FP32 of [-1 1 24 24])`},
		{infer, strings.Replace(tensorRequest(1, 0, ""), "FP32", "FP64", 1), 400, "is FP64, but the model takes FP32"},
		{infer, strings.Replace(tensorRequest(1, 0, ""), "1, 1, 24, 24", "1, 576", 1), 400, "has the shape [1 576]"},
		{infer, strings.Replace(tensorRequest(1, 0, ""), `"input"`, `"other"`, 1), 400, `no input "other"`},
		{infer, strings.Replace(tensorRequest(1, 0, ""), "[0,", "[NaN,", 1), 400, "is 'N', expected a value"},
		{infer, strings.Replace(tensorRequest(1, 0, ""), "[0,", "[", 1), 400, "575 elements"},
		{infer, tensorRequest(1, 0, `"parameters": {"level": 1}, `), 400, "level is 1"},
		{infer, tensorRequest(1, 0, `"parameters": {"quantiles": 0.5}, `), 400, "no interval model"},
		{infer, tensorRequest(1, 0, `"parameters": {"sets": "best"}, `), 400, `unknown set score "best": choose one of lac`},
		{infer, tensorRequest(1, 0, `"parameters": {"sets_by_class": true, "sets_by_cluster": true}, `), 400, "by class or by cluster: choose one"},
		{infer, tensorRequest(1, 0, `"parameters": {"sets": "none"}, "outputs": [{"name": "set"}], `), 400, "the output set is asked for"},
		{infer, tensorRequest(1, 0, `"parameters": {"timeout": 0.001}, `), 503, "than its timeout parameter allows"},
		{infer, strings.Replace(tensorRequest(5, 3e38, ""), "[3e+38"+strings.Repeat(",3e+38", 4*24*24-1), "[1"+strings.Repeat(",1", 4*24*24-1), 1), 400, `the input "input", its rows from 4 on: row 0 (counted from 0) of the model's feature`},
		{infer, strings.Replace(tensorRequest(2, 3e38, ""), "[3e+38", "[1", 1), 400, `the input "input": row 0 (counted from 0) of the model's feature`},
		{infer, tensorRequest(1, 0, `"outputs": [{"name": "nope"}], `), 400, `no output "nope"; it has class, confidence`},
		{infer, tensorRequest(1, 0, `"outputs": [{"name": "flag"}, {"name": "flag"}], `), 400, "twice"},
		{infer, `{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["?"]}]}`, 400, "not base64"},
		{infer, `{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["AAAA"]}]}`, 400, "image 0 (counted from 0)"},
		{infer, `{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [0], "data": []}]}`, 400, "no rows"},
		// A client can send huge shapes at no cost. If the server allocated memory for
		// them, the first of the following two requests would take 800 GiB, and the second
		// 16 GiB.
		{infer, fmt.Sprintf(`{"inputs": [%s]}`, strings.TrimSuffix(strings.Repeat(`{"name": "a", "datatype": "FP32", "shape": [1, 2147483646], "data": []},`, 100), ",")), 400, "no input"},
		{infer, `{"inputs": [{"name": "a", "datatype": "FP32", "shape": [65536, 32767], "data": []}, {"name": "b", "datatype": "FP32", "shape": [65536, 32767], "data": []}]}`, 400, "no input"},
		{infer, tensorRequest(1, 0, `"parameters": {"quantiles": ".5`+strings.Repeat(" ", 1<<13)+`"}, `), 400, "characters"},
		{infer, tensorRequest(60, 0.25, ""), 413, "larger than 65536 bytes"},
	} {
		status, a := postJSON(t, url+c.path, c.body)
		if status != c.status || !strings.Contains(a.Error, c.words) || strings.Contains(a.Error, "\n") {
			t.Errorf("%s %.60s: status %d, error %q, want %d with %q", c.path, c.body, status, a.Error, c.status, c.words)
		}
	}
	for _, c := range []struct {
		key, value string
		status     int
	}{
		{"Inference-Header-Content-Length", "99999999", 400}, {"Inference-Header-Content-Length", "-1", 400}, {"Inference-Header-Content-Length", "x", 400},
		{"Content-Encoding", "br", 415}, {"Content-Encoding", "gzip", 400},
	} {
		r, err := http.NewRequest("POST", url+infer, strings.NewReader(tensorRequest(1, 0, "")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(c.key, c.value)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != c.status {
			t.Errorf("%s: %s: status %d, want %d", c.key, c.value, w.StatusCode, c.status)
		}
	}
	// The parser accepts NaN in binary data, but this model does not take missing values
	// and rejects it.
	header := `{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 24, 24], "parameters": {"binary_data_size": 2304}}]}`
	for _, c := range []struct {
		raw    []byte
		status int
	}{{bytes.Repeat([]byte{0, 0, 0xc0, 0x7f}, 576), 400}, {make([]byte, 2303), 400}, {make([]byte, 2305), 400}, {make([]byte, 2304), 200}} {
		r, err := http.NewRequest("POST", url+infer, io.MultiReader(strings.NewReader(header), bytes.NewReader(c.raw)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(header)))
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != c.status {
			t.Errorf("%d bytes of binary data: status %d, want %d", len(c.raw), w.StatusCode, c.status)
		}
	}
}

// TestSets checks that parameters of sets are accepted even if the request does not ask for
// sets.
func TestSets(t *testing.T) {
	_, url, _ := digitsServer(t, serve.Options{})
	for extra, sets := range map[string]bool{
		`"parameters": {"sets": "none"}, `: false, `"parameters": {"sets": "aps"}, `: true, `"parameters": {"sets_by_class": true}, `: true,
		`"parameters": {"sets_by_class": true}, "outputs": [{"name": "flag"}], `: false, `"parameters": {"sets": "ordinal"}, "outputs": [{"name": "flag"}], `: false,
	} {
		status, a := postJSON(t, url+"/v2/models/digits/infer", tensorRequest(1, 0, extra))
		if status != 200 || (a.data("set") != nil) != sets || a.data("flag") == nil {
			t.Errorf("%s: status %d, %s, sets %v", extra, status, a.Error, a.data("set"))
		}
	}
}

// TestSlowBody checks that the server stops waiting for a body at the timeout.
func TestSlowBody(t *testing.T) {
	_, url, _ := digitsServer(t, serve.Options{Timeout: 200 * time.Millisecond})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	response, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(response, []byte("HTTP/1.1 408 ")) {
		t.Errorf("answer %.100q, error %v", response, err)
	}
}

// TestConcurrentRequests checks that batched requests get the same responses as separate requests.
// Meanwhile, the file is reloaded and clients disconnect.
func TestConcurrentRequests(t *testing.T) {
	s, url, _ := digitsServer(t, serve.Options{MaxBatchSize: 8})
	var want []response
	body := func(i int) string {
		parameters := ""
		if i%3 == 0 {
			parameters = fmt.Sprintf(`"parameters": {"level": 0.%d, "alpha": 0.%d}, `, 5+i, 1+i)
		}
		return tensorRequest(1+i%3, float32(i)/5, parameters)
	}
	for i := range 5 {
		status, a := postJSON(t, url+"/v2/models/digits/infer", body(i))
		if status != 200 {
			t.Fatalf("status %d: %s", status, a.Error)
		}
		want = append(want, a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var background, clients sync.WaitGroup
	background.Go(func() {
		for ctx.Err() == nil {
			if err := s.Reload(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	background.Go(func() {
		for ctx.Err() == nil {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			r, _ := http.NewRequestWithContext(short, "POST", url+"/v2/models/digits/infer", strings.NewReader(body(4)))
			if w, err := http.DefaultClient.Do(r); err == nil {
				w.Body.Close()
			}
			cancel()
		}
	})
	for k := range 8 {
		clients.Go(func() {
			for n := range 10 {
				i := (k + n) % 5
				status, a := postJSON(t, url+"/v2/models/digits/infer", body(i))
				if status != 200 || !agree(a, want[i]) {
					t.Errorf("request %d: status %d, answer %+v, want %+v", i, status, a, want[i])
				}
			}
		})
	}
	clients.Wait()
	cancel()
	background.Wait()
}

// agree reports whether two responses agree up to rounding, which depends on the size of the
// batch.
func agree(a, b response) bool {
	if len(a.Outputs) != len(b.Outputs) {
		return false
	}
	for i, o := range a.Outputs {
		same := func(x, y any) bool {
			f, isFloat := x.(float64)
			g, _ := y.(float64)
			return isFloat && math.Abs(f-g) <= 1e-5*max(1, math.Abs(f)) || !isFloat && x == y
		}
		if !slices.EqualFunc(o.Data, b.Outputs[i].Data, same) {
			return false
		}
	}
	return true
}

// TestOverload checks that requests get status 429 if the queue is full, and that all other
// requests succeed.
func TestOverload(t *testing.T) {
	_, url, _ := digitsServer(t, serve.Options{MaxBatchSize: 1, MaxQueueSize: 1})
	var clients sync.WaitGroup
	var rejected, answered atomic.Int32
	for range 16 {
		clients.Go(func() {
			for range 5 {
				switch status, a := postJSON(t, url+"/v2/models/digits/infer", tensorRequest(8, 0, "")); status {
				case 200:
					answered.Add(1)
				case 429:
					rejected.Add(1)
				default:
					t.Errorf("status %d: %s", status, a.Error)
				}
			}
		})
	}
	clients.Wait()
	if answered.Load() == 0 || rejected.Load() == 0 {
		t.Errorf("%d requests were answered, %d refused", answered.Load(), rejected.Load())
	}
	// If a request announces a body above the size limit, it is rejected before the body
	// is read.
	r, err := http.NewRequest("POST", url+"/v2/models/digits/infer", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1<<40
	if w, err := http.DefaultClient.Do(r); err == nil {
		defer w.Body.Close()
		if w.StatusCode != 413 {
			t.Errorf("status %d of a body of a tebibyte", w.StatusCode)
		}
	}
}

// TestWatch checks that a file that replaces the served one is loaded, and that a damaged
// file is not.
func TestWatch(t *testing.T) {
	s, url, path := digitsServer(t, serve.Options{AllowSignatureChange: true})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { s.Watch(ctx, 10*time.Millisecond) })
	defer watching.Wait()
	defer cancel()
	names := func() []string {
		var md struct{ Outputs []struct{ Name string } }
		r, err := http.Get(url + "/v2/models/digits")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&md); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, o := range md.Outputs {
			list = append(list, o.Name)
		}
		return list
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if !slices.Contains(names(), "set") {
		t.Fatalf("outputs %v", names())
	}
	if _, err := attach.Open(path); err == nil {
		t.Fatal("Open accepts a damaged file")
	}
	other := filepath.Join(t.TempDir(), "other.attach")
	if err := attachDigits(ctx, other); err != nil {
		t.Fatal(err)
	}
	b, err := attach.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	b.Calibration.TrueClasses = calibrate.ClassCalibration{}
	if err := b.Save(ctx, path); err != nil {
		t.Fatal(err)
	}
	waitUntilServed := func(set bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); slices.Contains(names(), "set") != set; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the new file is not served")
			}
		}
	}
	waitUntilServed(false)
	// The model may be written after its .attach file. Until then, the previous file is
	// served.
	raw, err := os.ReadFile("../../testmodels/digits_resnet.onnx")
	if err != nil {
		t.Fatal(err)
	}
	latePath := filepath.Join(t.TempDir(), "late.onnx")
	if b, err = attach.Open(other); err != nil {
		t.Fatal(err)
	}
	b.Base.Path = latePath
	if err := b.Save(ctx, path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if slices.Contains(names(), "set") {
		t.Fatal("a file without its model is served")
	}
	if err := os.WriteFile(latePath, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	waitUntilServed(true)
}

// TestGRPC checks that gRPC gives the same p-value as REST, and that errors have the right
// codes.
func TestGRPC(t *testing.T) {
	s, url, _ := digitsServer(t, serve.Options{})
	g := grpc.NewServer()
	s.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go g.Serve(l)
	defer g.Stop()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(method string, in, out proto.Message) error {
		return c.Invoke(t.Context(), "/inference.GRPCInferenceService/"+method, in, out)
	}
	var live inference.ServerLiveResponse
	var ready inference.ServerReadyResponse
	var modelReady inference.ModelReadyResponse
	var serverInfo inference.ServerMetadataResponse
	var md inference.ModelMetadataResponse
	if err := cmp.Or(call("ServerLive", &inference.ServerLiveRequest{}, &live), call("ServerReady", &inference.ServerReadyRequest{}, &ready),
		call("ModelReady", &inference.ModelReadyRequest{Name: "digits", Version: "1"}, &modelReady), call("ServerMetadata", &inference.ServerMetadataRequest{}, &serverInfo),
		call("ModelMetadata", &inference.ModelMetadataRequest{Name: "digits"}, &md)); err != nil {
		t.Fatal(err)
	}
	if !live.Live || !ready.Ready || !modelReady.Ready || serverInfo.Name != "attach" || md.Platform != "onnx_onnxv1" || md.Inputs[0].Name != "input" {
		t.Errorf("live %v, ready %v, model ready %v, server %v, model %v", live.Live, ready.Ready, modelReady.Ready, &serverInfo, &md)
	}
	content, err := os.ReadFile(digit)
	if err != nil {
		t.Fatal(err)
	}
	_, want := postJSON(t, url+"/v2/models/digits/infer", fmt.Sprintf(`{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": [%q]}]}`, base64.StdEncoding.EncodeToString(content)))
	image := &inference.ModelInferRequest_InferInputTensor{Name: "image", Datatype: "BYTES", Shape: []int64{1}}
	for _, in := range []*inference.ModelInferRequest{
		{ModelName: "digits", Id: "7", Inputs: []*inference.ModelInferRequest_InferInputTensor{image}, RawInputContents: [][]byte{append(binary.LittleEndian.AppendUint32(nil, uint32(len(content))), content...)}},
		{ModelName: "digits", Id: "7", Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "image", Datatype: "BYTES", Shape: []int64{1}, Contents: &inference.InferTensorContents{BytesContents: [][]byte{content}}}}},
	} {
		in.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "p_value"}, {Name: "class"}}
		in.Parameters = map[string]*inference.InferParameter{"alpha": {ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: .5}}}
		var out inference.ModelInferResponse
		if err := call("ModelInfer", in, &out); err != nil {
			t.Fatal(err)
		}
		var p float64
		if in.RawInputContents != nil {
			p = math.Float64frombits(binary.LittleEndian.Uint64(out.RawOutputContents[0]))
		} else {
			p = out.Outputs[0].Contents.Fp64Contents[0]
		}
		if out.Id != "7" || len(out.Outputs) != 2 || out.Outputs[1].Name != "class" || any(p) != want.data("p_value")[0] {
			t.Errorf("answer %v, want the p-value %v", &out, want.data("p_value"))
		}
	}
	tooFew := &inference.ModelInferRequest_InferInputTensor{Name: "input", Datatype: "FP32", Shape: []int64{1, 1, 24, 24}, Contents: &inference.InferTensorContents{Fp32Contents: make([]float32, 575)}}
	for _, refused := range []struct {
		in   *inference.ModelInferRequest
		code codes.Code
	}{
		{&inference.ModelInferRequest{ModelName: "nope"}, codes.NotFound},
		{&inference.ModelInferRequest{ModelName: "digits"}, codes.InvalidArgument},
		{&inference.ModelInferRequest{ModelName: "digits", Inputs: []*inference.ModelInferRequest_InferInputTensor{tooFew}}, codes.InvalidArgument},
		{&inference.ModelInferRequest{ModelName: "digits", Inputs: []*inference.ModelInferRequest_InferInputTensor{tooFew}, RawInputContents: [][]byte{make([]byte, 2304)}}, codes.InvalidArgument},
		{&inference.ModelInferRequest{ModelName: "digits", Inputs: []*inference.ModelInferRequest_InferInputTensor{image}, RawInputContents: [][]byte{{255, 255, 255, 255}}}, codes.InvalidArgument},
		{&inference.ModelInferRequest{ModelName: "digits", Inputs: []*inference.ModelInferRequest_InferInputTensor{image}, RawInputContents: [][]byte{{}, {}}}, codes.InvalidArgument},
	} {
		err := call("ModelInfer", refused.in, &inference.ModelInferResponse{})
		if status.Code(err) != refused.code {
			t.Errorf("%.100v: error %v, want %v", refused.in, err, refused.code)
		}
	}
}

// TestReloadKeepsSignature checks that a file with different outputs does not replace the
// served file, and that the error describes the difference.
func TestReloadKeepsSignature(t *testing.T) {
	s, url, path := digitsServer(t, serve.Options{})
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	// An output that is sent only on request may be new.
	learner := schema.NewLearner(schema.LearnOptions{Columns: []string{"a", "b"}})
	learner.Add(ood.InputBlock{Tensors: []ood.Tensor{{Name: "input", Shape: []int{1, 2}, Data: []float32{1, 2}}}})
	b.Profile, b.Base.Columns = learner.Profile(), []string{"a", "b"}
	reload := func() error {
		t.Helper()
		if err := b.Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		return s.Reload(t.Context())
	}
	if err := reload(); err != nil {
		t.Errorf("with a profile: %v", err)
	}
	b.Profile.Columns[0].Name, b.Profile.Columns[1].Name = "b", "a"
	if err := reload(); err == nil || !strings.Contains(err.Error(), `the columns of the input "input" changed from a, b to b, a`) {
		t.Errorf("with the columns in another order: %v", err)
	}
	b.Profile.Columns[0].Name, b.Profile.Columns[1].Name = "a", "b"
	b.Calibration.TrueClasses = calibrate.ClassCalibration{}
	if err := reload(); err == nil || !strings.Contains(err.Error(), `the output "set" is missing`) {
		t.Errorf("error %v", err)
	}
	r, err := http.Get(url + "/v2/models/digits")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), `"name":"set"`) {
		t.Errorf("%s, error %v", body, err)
	}
}
