package command

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServeKeepsAdaptation checks that adaptive intervals and rows that wait for targets survive a
// restart, in the folder of the monitors, and that a state of another level or method stops the
// start.
func TestServeKeepsAdaptation(t *testing.T) {
	useTestRuntime(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	fit := func(name, level string) string {
		path := filepath.Join(dir, name)
		mustRun(t, "fit", models+"toy_regressor.onnx", "--x", models+"toy_fit.npz", "--rows", ":300", "--cal", models+"toy_cal.npz", "--no-detector", "--interval", "quantile-forest", "--interval-param", "n_estimators=5", "--level", level, "-o", path)
		return path
	}
	post := func(url, body, want string) {
		t.Helper()
		r, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("status %d, %s, error %v, want %s", r.StatusCode, text, err, want)
		}
	}
	path := fit("toy.attach", "0.9")
	flags := []string{"--grpc", "", "--adapt", "aci", "--adapt-step", "0.02", "--adapt-window", "150", "--adapt-state", state, "--monitor-state", state}
	address, end := startServer(t, append([]string{path}, flags...)...)
	post(address+"/v2/models/toy/infer", `{"id": "a", "inputs": [`+onesTensor("x", "FP32", 2, 1)+`]}`, `"parameters":{"level":0.9,`)
	post(address+"/v2/models/toy/feedback", `{"id": "a", "inputs": [`+onesTensor("row", "INT64", 1)+`, {"name": "target", "datatype": "FP32", "shape": [1], "data": [100]}]}`, `"data":[false]`)
	if code, log := end(); code != exitDone {
		t.Fatalf("it ends with %d: %s", code, log)
	}
	address, end = startServer(t, append([]string{path}, flags...)...)
	post(address+"/v2/models/toy/feedback", `{"id": "a", "inputs": [{"name": "target", "datatype": "FP32", "shape": [1], "data": [100]}, {"name": "row", "datatype": "INT64", "shape": [1], "data": [0]}]}`, `"data":[false]`)
	post(address+"/v2/models/toy/infer", `{"inputs": [`+onesTensor("x", "FP32", 1, 1)+`]}`, `"parameters":{"level":0.936,`) // 0.9 + 2·0.02·0.9
	if code, log := end(); code != exitDone {
		t.Fatalf("it ends with %d: %s", code, log)
	}
	other := fit("other.attach", "0.8")
	for _, c := range []struct{ model, method, words string }{{"toy=" + other, "aci", "the level 0.9, and these have the level 0.8"}, {path, "pid", "another method, step or window"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		log := &serverLog{}
		flags[3] = c.method
		if code := Run(ctx, append([]string{"serve", c.model, "--http", "127.0.0.1:0"}, flags...), nil, io.Discard, log); code != exitFailed || !strings.Contains(log.written.String(), "toy%2F1.adaptive: the state is of ") || !strings.Contains(log.written.String(), c.words) {
			t.Errorf("%s with %s: %d, %s", c.model, c.method, code, &log.written)
		}
		cancel()
	}
}
