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

// room is how the picture names a package: by its folder.
func room(path string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), ".")
}

// pure lists the packages that a service can embed without a C compiler.
var pure = []string{"./calibrate", "./heads", "./preprocess", "./ood/...", "./baselines", "./evaluate", "./tables", "."}

// TestPurePackages checks that the pure packages depend on no package that needs a C compiler.
func TestPurePackages(t *testing.T) {
	for pkg, needs := range list(t, append([]string{"-deps"}, pure...)...) {
		for _, dep := range []string{"featurize", "heads/fit", "internal/onnx/ort"} {
			if slices.Contains(needs, module+"/"+dep) {
				t.Errorf("%s imports %s, which needs cgo", pkg, dep)
			}
		}
	}
}

// TestImports holds the picture in CONTRIBUTING.md: a package imports what stands
// on lines below its own.
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
	packages := list(t, "./...")
	for pkg := range depth {
		if _, ok := packages[strings.TrimSuffix(module+"/"+pkg, "/.")]; !ok {
			t.Errorf("the picture has %s, which is no package", pkg)
		}
	}
	for path, imports := range packages {
		pkg := room(path)
		switch {
		case pkg == "internal/pythontest" || pkg == "internal/headstest" || pkg == "internal/attachtest" || pkg == "internal/scripttest" || strings.HasPrefix(pkg, "cmd/attach/scripts/") || pkg == "internal/onnx/ort/orttest": // of tests alone
			continue
		case depth[pkg] == 0:
			t.Errorf("the picture lacks %s", pkg)
			continue
		}
		for _, imported := range imports {
			if strings.HasPrefix(imported, module) && depth[room(imported)] <= depth[pkg] {
				t.Errorf("%s imports %s, which does not stand below it", pkg, room(imported))
			}
		}
	}
}

// TestExamples holds that programs outside can do what examples show: these import
// nothing internal, and call nothing that tests alone give out.
func TestExamples(t *testing.T) {
	seen := 0
	for path := range list(t, "./...") {
		files, err := filepath.Glob(filepath.Join(room(path), "example*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(room(path), "internal/") {
			continue
		}
		for _, name := range calledOfTests(t, room(path)) {
			t.Errorf("an example in %s calls %s, which programs cannot", room(path), name)
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

// calledOfTests lists what examples in a folder call of its package that is
// declared in tests.
func calledOfTests(t *testing.T, dir string) (called []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	given, ofTests := map[string]bool{}, map[string]bool{}
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
				given[d.Name.Name] = true
			case !strings.HasSuffix(f.Name.Name, "_test"):
				ofTests[d.Name.Name] = true
			}
		}
	}
	for _, e := range examples {
		ast.Inspect(e, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && ofTests[s.Sel.Name] && !given[s.Sel.Name] {
				called = append(called, s.Sel.Name)
			}
			return true
		})
	}
	return called
}

// TestBinding holds that the binding of the runtime stays replaceable.
func TestBinding(t *testing.T) {
	for pkg, imports := range list(t, "./...") {
		for _, imported := range imports {
			if strings.Contains(imported, "onnxruntime_go") && room(pkg) != "internal/onnx/ort" {
				t.Errorf("%s imports onnxruntime_go", pkg)
			}
		}
	}
}

// list returns what packages import, by their paths.
func list(t *testing.T, args ...string) map[string][]string {
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
