// Package orttest opens the runtime for tests.
package orttest

import (
	"context"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/ort"
)

// Open returns a CPU runtime that is closed when the test ends. Without a library it skips the test and says how to get one; where
// CI=true it fails instead.
func Open(t testing.TB) *ort.Runtime {
	t.Helper()
	r, err := ort.Open(context.Background(), ort.Options{Provider: "cpu", NoInstall: true, Threads: 2})
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("libonnxruntime is required in CI: %v", err)
		}
		t.Skipf("needs libonnxruntime (run \"attach runtime install\" or set ORT_LIB): %v", err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
