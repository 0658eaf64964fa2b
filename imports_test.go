package attach_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/attach-uncertainty/attach"

// packageFolder returns the folder of a package below the module, as CONTRIBUTING.md writes
// it.
func packageFolder(path string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), ".")
}

// purePackages lists the packages that a service can use without a C compiler.
var purePackages = []string{"./calibrate", "./heads", "./preprocess", "./ood/...", "./baselines", "./evaluate", "./tables", "./schema", "."}

// TestPurePackages checks that purePackages do not depend on packages that need a C compiler.
func TestPurePackages(t *testing.T) {
	for pkg, imports := range listImports(t, append([]string{"-deps"}, purePackages...)...) {
		for _, dep := range []string{"featurize", "heads/fit", "internal/onnx/ort"} {
			if slices.Contains(imports, module+"/"+dep) {
				t.Errorf("%s imports %s, which needs cgo", pkg, dep)
			}
		}
	}
}

// TestImports checks the diagram of packages in CONTRIBUTING.md: every package may import only
// packages on lines below its own.
func TestImports(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(text), "\n    cmd/attach\n")
	depth := map[string]int{"cmd/attach": 1}
	for i, line := range strings.Split(picture, "\n") {
		if !strings.HasPrefix(line, "    ") {
			break
		}
		for _, pkg := range strings.Fields(line) {
			depth[pkg] = i + 2
		}
	}
	packages := listImports(t, "./...")
	for pkg := range depth {
		if _, ok := packages[strings.TrimSuffix(module+"/"+pkg, "/.")]; !ok {
			t.Errorf("the picture has %s, which is no package", pkg)
		}
	}
	for path, imports := range packages {
		pkg := packageFolder(path)
		switch {
		case pkg == "internal/pythontest" || pkg == "internal/headstest" || pkg == "internal/attachtest" || pkg == "internal/scripttest" || strings.HasPrefix(pkg, "cmd/attach/scripts/") || pkg == "internal/onnx/ort/orttest": // only tests import these packages
			continue
		case depth[pkg] == 0:
			t.Errorf("the picture lacks %s", pkg)
			continue
		}
		for _, imported := range imports {
			if strings.HasPrefix(imported, module) && depth[packageFolder(imported)] <= depth[pkg] {
				t.Errorf("%s imports %s, which does not stand below it", pkg, packageFolder(imported))
			}
		}
	}
}

// TestExamples checks that users can copy the examples. An example must not import internal
// packages, and must not call functions of its package that only test files declare.
func TestExamples(t *testing.T) {
	seen := 0
	for path := range listImports(t, "./...") {
		files, err := filepath.Glob(filepath.Join(packageFolder(path), "example*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(packageFolder(path), "internal/") {
			continue
		}
		for _, name := range testOnlyCalls(t, packageFolder(path)) {
			t.Errorf("an example in %s calls %s, which programs cannot", packageFolder(path), name)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if strings.Contains(i.Path.Value, "/internal/") {
					t.Errorf("%s imports %s", file, i.Path.Value)
				}
			}
			seen++
		}
	}
	if seen == 0 {
		t.Error("there are no examples")
	}
}

// testOnlyCalls returns the functions that the examples in a folder call, but that only test
// files of its package declare.
func testOnlyCalls(t *testing.T, dir string) (called []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	inPackage, inTests := map[string]bool{}, map[string]bool{}
	var examples []*ast.FuncDecl
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			switch isTest := strings.HasSuffix(file, "_test.go"); {
			case !ok:
			case isTest && strings.HasPrefix(d.Name.Name, "Example"):
				examples = append(examples, d)
			case !isTest:
				inPackage[d.Name.Name] = true
			case !strings.HasSuffix(f.Name.Name, "_test"):
				inTests[d.Name.Name] = true
			}
		}
	}
	for _, e := range examples {
		ast.Inspect(e, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && inTests[s.Sel.Name] && !inPackage[s.Sel.Name] {
				called = append(called, s.Sel.Name)
			}
			return true
		})
	}
	return called
}

// TestBinding checks that only internal/onnx/ort imports the Go binding of ONNX Runtime, so
// that the binding can be replaced.
func TestBinding(t *testing.T) {
	for pkg, imports := range listImports(t, "./...") {
		for _, imported := range imports {
			if strings.Contains(imported, "onnxruntime_go") && packageFolder(pkg) != "internal/onnx/ort" {
				t.Errorf("%s imports onnxruntime_go", pkg)
			}
		}
	}
}

// listImports returns the import path of each listed package and the packages that it imports.
// The arguments are those of go list.
func listImports(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-f", `{{.ImportPath}} {{join .Imports " "}}`}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		imports[fields[0]] = fields[1:]
	}
	return imports
}
