package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/testmodels"
)

// serverLog collects the log of a running server.
type serverLog struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(p)
}

// find waits for the first log line with a message, and returns the value of one of its
// keys.
func (l *serverLog) find(t *testing.T, message, key string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		text := l.written.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			var record map[string]any
			if json.Unmarshal([]byte(line), &record) == nil && record["msg"] == message && record[key] != nil {
				return record[key].(string)
			}
		}
	}
	t.Fatalf("it never says %q; it says %s", message, l.written.String())
	return ""
}

// startServer starts attach serve, waits until it is ready, and returns its address. end
// stops the server and returns its exit status and its log.
func startServer(t *testing.T, args ...string) (address string, end func() (code int, log string)) {
	t.Helper()
	address, _, end = startServerGRPC(t, args...)
	return address, end
}

// startServerGRPC starts a server as startServer does. It also returns a function that
// waits for its gRPC address.
func startServerGRPC(t *testing.T, args ...string) (address string, grpcAddress func() string, end func() (code int, log string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, status := &serverLog{}, make(chan int, 1)
	go func() {
		status <- Run(ctx, append([]string{"serve", "--http", "127.0.0.1:0"}, args...), nil, io.Discard, log)
	}()
	address = "http://" + log.find(t, "listening", "http")
	log.find(t, "ready", "level")
	return address, func() string { return log.find(t, "listening", "grpc") }, func() (int, string) {
		cancel()
		return <-status, log.written.String()
	}
}

// mustRun runs a command that must succeed, and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), args, nil, &out, &errs); code != exitDone {
		t.Fatalf("%s: %d, %s", args, code, &errs)
	}
	return out.String()
}

// TestServe checks what a server answers, which hosts it serves, and that it ends with success
// when it is told to stop. Two models must not have the same name and version.
func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "digits.attach")
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"fit", "../../testmodels/digits_resnet.onnx", "--x", "../../testmodels/digits_fit.npz", "--rows", ":80",
		"--preprocess", "../../testmodels/digits.preprocess.json", "-o", path}, nil, &out, &errs); code != 0 {
		t.Fatalf("fit: %d, %s", code, &errs)
	}
	if code := Run(t.Context(), []string{"serve", path, "digits/1=" + path, "--http", "127.0.0.1:0", "--grpc", ""}, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "two models are called digits") {
		t.Errorf("two models of a name: %d, %s", code, &errs)
	}
	digest, err := regularfile.SHA256(path)
	if err != nil {
		t.Fatal(err)
	}
	address, grpcAddress, end := startServerGRPC(t, "numbers/2="+path, "--grpc", "127.0.0.1:0")
	for path, want := range map[string]string{"/v2/health/ready": "true", "/v2/models/numbers": `"versions":["2"]`, "/metrics": "attach_drift_evidence", "/metrics?": `attach_reloads_total{model="numbers",result="failed",version="2"} 0`, "/metrics??": `attach_model_info{file_sha256="` + digest + `"`, "/v2/models/digits": "there is no model"} {
		r, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, error %v, want %q", path, body, err, want)
		}
	}
	checkHosts(t, address, grpcAddress())
	code, log := end()
	if code != exitDone || !strings.Contains(log, `"file_sha256":"`+digest+`"`) {
		t.Errorf("it ends with %d: %s", code, log)
	}
}

// TestServeRefusesFiles checks the errors about files that cannot be served. They name the file,
// and no flag that the command lacks.
func TestServeRefusesFiles(t *testing.T) {
	useTestRuntime(t)
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", testmodels.FS); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "fit", "toy_regressor.onnx", "--x", "toy_fit.npz", "--rows", ":80", "--method", "knn", "-o", "toy.attach")
	copyTo := func(from, to string) {
		content, err := os.ReadFile(from)
		if err := cmp.Or(err, os.MkdirAll(filepath.Dir(to), 0o777), os.WriteFile(to, content, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	copyTo("toy.attach", "alone/toy.attach")
	copyTo("toy.attach", "other/toy.attach")
	copyTo("digits_vgg.onnx", "other/toy_regressor.onnx")
	for arg, want := range map[string]string{
		"toy_regressor.onnx": "attach: toy_regressor.onnx is an ONNX model, not a .attach file; fit one first: attach fit toy_regressor.onnx --x INPUTS -o toy_regressor.attach",
		"toy_fit.npz":        "toy_fit.npz: not a .attach file, but an .npz file of arrays; `attach fit` makes a .attach file from a model and rows",
		"alone/toy.attach":   "there is no file at alone/toy_regressor.onnx, the path that the .attach file stores; put the model there or beside the .attach file",
		"other/toy.attach":   "; put the right model there, or fit again",
	} {
		var errs bytes.Buffer
		code := Run(t.Context(), []string{"serve", arg, "--http", "127.0.0.1:0", "--grpc", ""}, nil, io.Discard, &errs)
		if log := strings.TrimSpace(errs.String()); code != exitFailed || !strings.HasSuffix(log, want) {
			t.Errorf("attach serve %s: %d, %s\nwant the end %s", arg, code, log, want)
		}
	}
}

// TestServeKeepsMonitors checks that the evidence of drift survives a restart. The evidence
// starts again if the calibration rows of the file have changed. A server fails to start if
// another one uses the folder, or if it cannot read or write the evidence.
func TestServeKeepsMonitors(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	var out, errs bytes.Buffer
	fit := func(name, rows string) string {
		path := filepath.Join(dir, name)
		if code := Run(t.Context(), []string{"fit", "../../testmodels/digits_resnet.onnx", "--x", "../../testmodels/digits_fit.npz", "--rows", rows, "--preprocess", "../../testmodels/digits.preprocess.json", "-o", path}, nil, &out, &errs); code != 0 {
			t.Fatalf("fit: %d, %s", code, &errs)
		}
		return path
	}
	startFailing := func(model string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		errs.Reset()
		return Run(ctx, []string{"serve", model, "--http", "127.0.0.1:0", "--grpc", "", "--monitor-state", state}, nil, &out, &errs), errs.String()
	}
	path := fit("m.attach", ":80")
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for rows := 1; rows <= 2; rows++ {
		address, end := startServer(t, path, "--grpc", "", "--monitor-state", state)
		r, err := http.Post(address+"/v2/models/m/infer", "", strings.NewReader(`{"inputs": [`+onesTensor("input", "FP32", 1, 1, 24, 24)+`]}`))
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		r.Body.Close()
		if rows == 2 {
			if code, log := startFailing(path); code != exitFailed || !strings.Contains(log, "another process") {
				t.Errorf("two servers of a folder: %d, %s", code, log)
			}
		}
		if code, log := end(); code != exitDone {
			t.Fatalf("it ends with %d: %s", code, log)
		}
		m, err := calibrate.NewMonitor(b.Calibration.OOD, 0)
		if err != nil {
			t.Fatal(err)
		}
		saved, err := os.ReadFile(filepath.Join(state, "m%2F1.monitor"))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.UnmarshalBinary(saved); err != nil || m.Rows() != rows {
			t.Errorf("a monitor of %d rows was saved, want %d; error %v", m.Rows(), rows, err)
		}
	}
	_, end := startServer(t, "m="+fit("other.attach", ":60"), "--grpc", "", "--monitor-state", state)
	if code, log := end(); code != exitDone || !strings.Contains(log, "the monitor starts again") || !strings.Contains(log, "other calibration scores") || strings.Contains(log, "damaged") {
		t.Errorf("a monitor of another file: %d, %s", code, log)
	}
	monitorFile := filepath.Join(state, "m%2F1.monitor")
	if err := os.WriteFile(monitorFile, []byte("damaged by hand"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, end = startServer(t, path, "--grpc", "", "--monitor-state", state)
	if code, log := end(); code != exitDone || !strings.Contains(log, "the monitor starts again") || !strings.Contains(log, "not the state of a monitor, or damaged") || strings.Contains(log, "other calibration scores") || strings.Contains(log, "another model") {
		t.Errorf("a damaged monitor: %d, %s", code, log)
	}
	// The server fails at the start if it cannot write the state of a monitor.
	if err := cmp.Or(os.Remove(monitorFile), os.Symlink(filepath.Join(dir, "nowhere", "file"), monitorFile)); err != nil {
		t.Fatal(err)
	}
	if code, log := startFailing(path); code != exitFailed || !strings.Contains(log, "attach: --monitor-state: cannot write") {
		t.Errorf("a folder that cannot be written: %d, %s", code, log)
	}
	// The server must not block if there is a pipe instead of the file.
	if err := os.Remove(monitorFile); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfifo", monitorFile).Run(); err != nil {
		t.Skip("there is no mkfifo: ", err)
	}
	if code, log := startFailing(path); code != exitFailed || !strings.Contains(log, monitorFile+": it is not a regular file") {
		t.Errorf("a pipe where a monitor was kept: %d, %s", code, log)
	}
}

// TestServeEnds checks that a server that is told to stop reports requests that it could not
// finish, and evidence of drift that it could not save.
func TestServeEnds(t *testing.T) {
	dir := t.TempDir()
	path, state := filepath.Join(dir, "m.attach"), filepath.Join(dir, "state")
	mustRun(t, "fit", "../../testmodels/digits_resnet.onnx", "--x", "../../testmodels/digits_fit.npz", "--rows", ":80", "--preprocess", "../../testmodels/digits.preprocess.json", "-o", path)
	address, end := startServer(t, path, "--grpc", "", "--monitor-state", state, "--grace", "100ms")
	r, err := http.Post(address+"/v2/models/m/infer", "", strings.NewReader(`{"inputs": [`+onesTensor("input", "FP32", 1, 1, 24, 24)+`]}`))
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	r.Body.Close()
	slow, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
	if _, err := slow.Read(make([]byte, 1)); err != nil { // the server has begun to handle the request
		t.Fatal(err)
	}
	if err := os.Rename(state, state+"s"); err != nil {
		t.Fatal(err)
	}
	code, log := end()
	for _, want := range []string{"cut off after 100ms", "--monitor-state: cannot write", `"msg":"not ended well"`} {
		if code != exitFailed || !strings.Contains(log, want) || strings.Contains(log, interrupted) {
			t.Errorf("it ends with %d: %s, want %q", code, log, want)
		}
	}
}

// TestServeFlags checks that flags and values that make no sense for a server are errors.
func TestServeFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--http=": "--http is empty; it must be HOST:PORT", "--http=nonsense": `--http is "nonsense"; it must be HOST:PORT`, "--http=localhost:": "it must be HOST:PORT", "--grpc=nonsense": "--grpc is",
		"--http=localhost:no": "--http: ", "--monitor-state=" + file: "--monitor-state: " + file, "--timeout=10000h": "--timeout is 10000h0m0s; it must be at least 1ms and at most 8760h0m0s", "--grace=30": `--grace is "30"; it must be a duration such as`,
		"--max-queue-delay=2h": "at most 1h0m0s", "--max-body=9223372036854775807": "--max-body is",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var errs bytes.Buffer
		args := []string{"serve", file, flag}
		for _, other := range []string{"--http=localhost:0", "--grpc="} {
			if name, _, _ := strings.Cut(other, "="); !strings.HasPrefix(flag, name) {
				args = append(args, other)
			}
		}
		if code := Run(ctx, args, nil, io.Discard, &errs); code == exitDone || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d, %s, want %q", flag, code, &errs, want)
		}
		cancel()
	}
	// The server reports a missing file before it listens.
	var errs bytes.Buffer
	if code := Run(t.Context(), []string{"serve", file, "nowhere.attach", "--http=localhost:0", "--grpc="}, nil, io.Discard, &errs); code != exitFailed || errs.String() != "attach: nowhere.attach: no such file or directory\n" {
		t.Errorf("a file that does not exist: %d, %s", code, &errs)
	}
}

// onesTensor returns a JSON input tensor in which every element is 1.
func onesTensor(name, datatype string, shape ...int) string {
	n := 1
	for _, d := range shape {
		n *= d
	}
	list, _ := json.Marshal(shape)
	return fmt.Sprintf(`{"name": %q, "datatype": %q, "shape": %s, "data": [%s]}`, name, datatype, list, strings.TrimSuffix(strings.Repeat("1,", n), ","))
}

// TestServeTraces checks that each request has a span in the client's trace, and that the
// steps of the request have spans below it.
func TestServeTraces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.attach")
	mustRun(t, "fit", "../../testmodels/odd/tokens.onnx", "--x", "../../testmodels/odd/tokens.npz", "-o", path)
	var mu sync.Mutex
	var spans []*tracepb.Span
	services := map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, of := range sent.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				services[a.Key+"="+a.Value.GetStringValue()] = true
			}
			for _, scope := range of.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}))
	defer receiver.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	address, end := startServer(t, path, "--grpc", "", "--traces")
	validRequest := `{"inputs": [` + onesTensor("input_ids", "INT64", 1, 5) + "," + onesTensor("attention_mask", "INT64", 1, 5) + `]}`
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, body := range []string{validRequest, validRequest, `{}`} {
		r, err := http.NewRequest("POST", address+"/v2/models/m/infer", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("traceparent", "00-"+trace+"-b7ad6b7169203331-01")
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
	}
	if code, log := end(); code != exitDone {
		t.Fatalf("it ends with %d: %s", code, log)
	}
	parents, statuses, failed := map[string]string{}, map[int64]int{}, 0
	for _, s := range spans {
		if hex.EncodeToString(s.TraceId) != trace || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("the span %s is of the trace %x, from %d to %d", s.Name, s.TraceId, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
		if s.Name != "infer m" {
			continue
		}
		parents[string(s.SpanId)] = ""
		for _, a := range s.Attributes {
			if a.Key == "http.response.status_code" {
				statuses[a.Value.GetIntValue()]++
			}
		}
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			failed++
		}
		if hex.EncodeToString(s.ParentSpanId) != "b7ad6b7169203331" || s.Kind != tracepb.Span_SPAN_KIND_SERVER {
			t.Errorf("the span is a %v below %x", s.Kind, s.ParentSpanId)
		}
	}
	if len(parents) != 3 || statuses[200] != 2 || statuses[400] != 1 || failed != 1 || !services["service.name=attach"] {
		t.Errorf("of three requests there are %d spans, with statuses %v and %d errors, from %v", len(parents), statuses, failed, services)
	}
	for _, s := range spans {
		if below, known := parents[string(s.ParentSpanId)]; known {
			parents[string(s.ParentSpanId)] = below + s.Name + " "
		}
	}
	below := slices.Sorted(maps.Values(parents))
	if want := []string{"", "prepare queue run ", "prepare queue run "}; !slices.Equal(below, want) {
		t.Errorf("below the spans are %q, want %q", below, want)
	}
}

// TestServeSets checks that a server returns the same prediction sets as attach predict,
// for every kind of set.
func TestServeSets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.attach")
	mustRun(t, "fit", "../../testmodels/digits_resnet.onnx", "--x", "../../testmodels/digits_fit.npz", "--rows", ":300", "--cal", "../../testmodels/digits_cal.npz",
		"--preprocess", "../../testmodels/digits.preprocess.json", "-o", path)
	files, err := filepath.Glob("../../testmodels/images/*/*.png")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pictures, error %v", len(files), err)
	}
	var images []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, `"`+base64.StdEncoding.EncodeToString(content)+`"`)
	}
	inputs := fmt.Sprintf(`{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [%d], "data": [%s]}], "outputs": [{"name": "set"}], "parameters": {`, len(files), strings.Join(images, ","))
	address, end := startServer(t, path, "--grpc", "")
	defer end()
	for _, kind := range []struct{ level, parameters, flags string }{
		{"0.998", `"sets": "lac"`, "--sets lac"}, {"0.998", `"sets": "aps"`, "--sets aps"}, {"0.998", `"sets": "raps"`, "--sets raps"}, {"0.998", `"sets": "saps"`, "--sets saps"}, {"0.998", `"sets": "ordinal"`, "--sets ordinal"},
		{"0.985", `"sets": "saps", "sets_by_class": true`, "--sets saps --sets-by-class"}, {"0.998", `"sets": "lac", "sets_by_cluster": true`, "--sets lac --sets-by-cluster"}, {"0.998", `"sets_by_cluster": "true"`, "--sets-by-cluster"},
	} {
		r, err := http.Post(address+"/v2/models/m/infer", "", strings.NewReader(inputs+kind.parameters+`, "level": `+kind.level+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Outputs []struct {
				Shape []int
				Data  []int
			}
			Error string
		}
		err = json.NewDecoder(r.Body).Decode(&answer)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, %s, error %v", kind.flags, r.StatusCode, answer.Error, err)
			continue
		}
		mustRun(t, append([]string{"predict", path, "--x", "../../testmodels/images", "--level", kind.level, "-o", filepath.Join(dir, "p.jsonl")}, strings.Fields(kind.flags)...)...)
		table, err := os.ReadFile(filepath.Join(dir, "p.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		width, classes := answer.Outputs[0].Shape[1], 0
		for i, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
			var want struct{ Set []int }
			if err := json.Unmarshal([]byte(line), &want); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			got := answer.Outputs[0].Data[i*width : (i+1)*width]
			if n := slices.Index(got, -1); n >= 0 {
				got = got[:n]
			}
			if !slices.Equal(got, want.Set) {
				t.Errorf("%s: the set of row %d is %v, predict says %v", kind.flags, i, got, want.Set)
			}
			classes += len(got)
		}
		if classes <= len(files) || classes == 10*len(files) {
			t.Errorf("%s: the sets of %d rows have %d classes, which tells little", kind.flags, len(files), classes)
		}
	}
}

// TestServeKinds checks that a server predicts the same as attach predict for rows of
// integers, half precision and text, and for rows with groups.
func TestServeKinds(t *testing.T) {
	dir, models := t.TempDir(), "../../testmodels/"
	kinds := []struct {
		name         string
		fit          []string
		inputs       string
		rows         string // content of the input file of attach predict
		resultColumn string // name of the result column to compare
	}{
		{"tokens", []string{models + "odd/tokens.onnx", "--x", models + "odd/tokens.npz"}, onesTensor("input_ids", "INT64", 1, 5) + "," + onesTensor("attention_mask", "INT64", 1, 5),
			`{"input_ids": [1, 1, 1, 1, 1], "attention_mask": [1, 1, 1, 1, 1]}`, "ood_score"},
		{"half", []string{models + "odd/float16.onnx", "--x", models + "odd/float16.npz"}, onesTensor("x", "FP16", 1, 6), `{"x": [1, 1, 1, 1, 1, 1]}`, "ood_score"},
		{"text", []string{models + "text", "--x", models + "text/fit.csv", "--target", "intent"},
			`{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["book a table for ten"]}`, "text\nbook a table for ten\n", "p_value"},
		{"groups", []string{models + "tables/ridge.onnx", "--x", filepath.Join(dir, "hours.csv"), "--target", "hours", "--groups", "site"},
			onesTensor("x", "FP32", 1, 4) + `, {"name": "group", "datatype": "BYTES", "shape": [1], "data": ["a"]}`, "temperature,age,load,voltage,site\n1,1,1,1,a\n", "lower"},
	}
	table, err := os.ReadFile(models + "tables/hours_fit.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(table)), "\n")
	for i := range rows {
		rows[i] += "," + []string{"a", "b"}[i%2]
	}
	rows[0] = strings.TrimSuffix(rows[0], ",a") + ",site"
	if err := os.WriteFile(filepath.Join(dir, "hours.csv"), []byte(strings.Join(rows, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--grpc", ""}
	for _, k := range kinds {
		path := filepath.Join(dir, k.name+".attach")
		mustRun(t, append(append([]string{"fit"}, k.fit...), "-o", path)...)
		args = append(args, path)
	}
	address, end := startServer(t, args...)
	defer end()
	for _, k := range kinds {
		r, err := http.Post(address+"/v2/models/"+k.name+"/infer", "application/json", strings.NewReader(`{"inputs": [`+k.inputs+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Outputs []struct {
				Name string
				Data []any
			}
			Error string
		}
		err = json.NewDecoder(r.Body).Decode(&answer)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, %s, error %v", k.name, r.StatusCode, answer.Error, err)
			continue
		}
		file := filepath.Join(dir, k.name+".csv")
		if k.rows[0] == '{' {
			file = filepath.Join(dir, k.name+".jsonl")
		}
		if err := os.WriteFile(file, []byte(k.rows), 0o644); err != nil {
			t.Fatal(err)
		}
		extraFlags := []string{}
		if k.name == "groups" {
			extraFlags = []string{"--groups", "site"}
		}
		table, err := csv.NewReader(strings.NewReader(mustRun(t, append([]string{"predict", filepath.Join(dir, k.name+".attach"), "--x", file}, extraFlags...)...))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		want, err := strconv.ParseFloat(table[1][slices.Index(table[0], k.resultColumn)], 64)
		if err != nil {
			t.Fatal(err)
		}
		if k.name == "groups" {
			r, err := http.Post(address+"/v2/models/groups/infer", "application/json", strings.NewReader(`{"parameters": {"sets_by_class": true}, "inputs": [`+k.inputs+`]}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || r.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "the model is not a classifier") {
				t.Errorf("sets by class of a regressor: status %d, %s, error %v", r.StatusCode, body, err)
			}
		}
		compared := false
		for _, o := range answer.Outputs {
			if o.Name != k.resultColumn {
				continue
			}
			compared = true
			if got := o.Data[0].(float64); math.Abs(got-want) > 1e-6*math.Abs(want) {
				t.Errorf("%s: %s is %v, predict says %v", k.name, k.resultColumn, got, want)
			}
		}
		if !compared {
			t.Errorf("%s: there is no output %s", k.name, k.resultColumn)
		}
	}
}
