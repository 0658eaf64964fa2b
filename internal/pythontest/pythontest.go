// Package pythontest finds the Python that tests compare with.
package pythontest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Find returns a Python that can import all of the modules: $ATTACH_PYTHON, or
// python3 on the PATH. Without one it skips the test; where CI=true it fails
// instead.
func Find(t testing.TB, modules ...string) string {
	t.Helper()
	python := os.Getenv("ATTACH_PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.Command(python, "-c", "import "+strings.Join(modules, ", ")).CombinedOutput()
	if err == nil {
		return python
	}
	missing := "needs a Python with " + strings.Join(modules, ", ") + ": name one with ATTACH_PYTHON"
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %s is none: %v %s", missing, python, err, out)
	}
	t.Skip(missing)
	return ""
}
