package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is what a command logs while it runs.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// find is a value of the first line that has a message, once there is one.
func (l *lines) find(t *testing.T, message, key string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		text := l.all.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			var said map[string]any
			if json.Unmarshal([]byte(line), &said) == nil && said["msg"] == message && said[key] != nil {
				return said[key].(string)
			}
		}
	}
	t.Fatalf("it never says %q; it says %s", message, l.all.String())
	return ""
}

// A server that is told to end is done.
func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "digits.attach")
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"fit", "../../testmodels/digits_resnet.onnx", "--x", "../../testmodels/digits_fit.npz", "--rows", ":300", "--cal", "../../testmodels/digits_cal.npz",
		"--preprocess", "../../testmodels/digits.preprocess.json", "-o", path}, nil, &out, &errs); code != 0 {
		t.Fatalf("fit: %d, %s", code, &errs)
	}
	if code := Run(t.Context(), []string{"serve", path, "digits/1=" + path, "--http", "127.0.0.1:0", "--grpc", ""}, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "two models are called digits") {
		t.Errorf("two models of a name: %d, %s", code, &errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := &lines{}
	ended := make(chan int)
	go func() {
		ended <- Run(ctx, []string{"serve", "numbers/2=" + path, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"}, nil, io.Discard, log)
	}()
	address := log.find(t, "listening", "http")
	log.find(t, "ready", "level")
	for path, words := range map[string]string{"/v2/health/ready": "true", "/v2/models/numbers": `"versions":["2"]`, "/metrics": "attach_drift_evidence", "/v2/models/digits": "there is no model"} {
		r, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), words) {
			t.Errorf("%s: %s, error %v, want %q", path, body, err, words)
		}
	}
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("it ends with %d: %s", code, log.all.String())
	}
}
