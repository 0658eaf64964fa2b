// Package orttest opens an ONNX Runtime for tests.
package orttest

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// libraryPath finds a libonnxruntime once per process, because each search hashes a library
// of 29 MB.
var libraryPath = sync.OnceValues(func() (string, error) {
	found, _, err := ort.Find(context.Background(), ort.Options{Provider: "cpu"})
	return found.Path, err
})

// Open returns a CPU runtime and closes it when the test ends. If there is no library, it
// skips the test with an explanation. If the environment variable CI is "true", it fails
// the test instead.
func Open(t testing.TB) *ort.Runtime {
	t.Helper()
	path, err := libraryPath()
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
