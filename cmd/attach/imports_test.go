package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/attach-uncertainty/attach/"

// TestPurePackages holds that a service can embed heads without a C compiler.
func TestPurePackages(t *testing.T) {
	cmd := exec.Command("go", "build", "./heads", "./heads/bundle", "./calibrate", "./ood", "./baselines")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestImports holds the direction of imports: none of these packages knows one
// that stands to its right.
func TestImports(t *testing.T) {
	order := []string{"heads", "ood", "baselines", "heads/bundle", "cmd/attach"}
	for i, pkg := range order {
		for _, dep := range dependencies(t, "./"+pkg) {
			if slices.Contains(order[i+1:], dep) {
				t.Errorf("%s imports %s", pkg, dep)
			}
		}
	}
	for _, pkg := range []string{"calibrate", "heads", "ood", "baselines", "heads/bundle"} {
		for _, dep := range dependencies(t, "./"+pkg) {
			if dep == "featurize" || dep == "heads/fit" || dep == "internal/ort" {
				t.Errorf("%s imports %s, which needs cgo", pkg, dep)
			}
		}
	}
}

// TestBinding holds that the binding of the runtime stays replaceable.
func TestBinding(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Contains(imports, "onnxruntime_go") && pkg != module+"internal/ort" {
			t.Errorf("%s imports onnxruntime_go", pkg)
		}
	}
}

func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", pkg)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	var deps []string
	for line := range strings.Lines(string(out)) {
		if dep, ok := strings.CutPrefix(strings.TrimSpace(line), module); ok && "./"+dep != pkg {
			deps = append(deps, dep)
		}
	}
	return deps
}
