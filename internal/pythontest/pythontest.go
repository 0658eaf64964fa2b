// Package pythontest finds a Python interpreter for tests that compare results with Python
// libraries.
package pythontest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Find returns a Python interpreter that can import all of the modules. It tries
// $ATTACH_PYTHON or, if that is not set, python3 on the PATH. If the modules are missing,
// Find skips the test. In CI (CI=true) it fails the test instead.
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
		t.Fatalf("%s: %s does not have them: %v %s", missing, python, err, out)
	}
	t.Skip(missing)
	return ""
}
