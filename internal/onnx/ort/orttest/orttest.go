// Package orttest opens the runtime for tests.
package orttest

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// library finds the library once for all tests of a process, because each search hashes 29 MB.
var library = sync.OnceValues(func() (string, error) {
	found, _, err := ort.Find(context.Background(), ort.Options{Provider: "cpu"})
	return found.Path, err
})

// Open returns a CPU runtime that is closed when the test ends. Without a library it skips the
// test with an explanation, or fails it if CI=true.
func Open(t testing.TB) *ort.Runtime {
	t.Helper()
	path, err := library()
	var r *ort.Runtime
	if err == nil {
		r, err = ort.Open(context.Background(), ort.Options{Library: path, Provider: "cpu", Threads: 1})
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("libonnxruntime is required in CI: %v", err)
		}
		t.Skipf("needs libonnxruntime (run \"attach runtime install\" or set ORT_LIB): %v", err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
