package attach_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// maxExported is the largest allowed number of exported names, including methods, of packages
// outside internal/.
const maxExported = 464

// TestExported checks that the number of exported names does not grow by accident, because
// programs that import a name depend on it. If you add a name that users need, raise
// maxExported. If you remove one, lower it.
//
// It also checks that no exported name has an internal type in its signature, because other
// programs can neither create nor read values of such a type.
func TestExported(t *testing.T) {
	count := 0
	for _, pkg := range publicPackages(t) {
		for name, typ := range exportedNames(pkg) {
			count++
			for _, path := range internalTypes(typ, pkg) {
				t.Errorf("%s.%s names a type of %s, which programs cannot import", pkg.Name(), name, path)
			}
		}
	}
	if count > maxExported {
		t.Errorf("%d names are exported, more than %d: unexport what no user has to name, or raise maxExported", count, maxExported)
	}
}

// publicPackages returns the compiled packages of this module that other programs can import.
func publicPackages(t *testing.T) (packages []*types.Package) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	for path := range files {
		if !strings.HasPrefix(path, module) || strings.Contains(path, "/internal/") || strings.HasPrefix(path, module+"/cmd/") {
			continue
		}
		pkg, err := compiled.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, pkg)
	}
	if len(packages) < 10 {
		t.Fatalf("there are %d packages", len(packages))
	}
	return packages
}

// exportedNames yields the exported names of a package and the exported methods of its types,
// with the type of each.
func exportedNames(pkg *types.Package) iter.Seq2[string, types.Type] {
	return func(yield func(string, types.Type) bool) {
		for _, name := range pkg.Scope().Names() {
			o := pkg.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			declared := o.Type()
			named, isNamed := declared.(*types.Named)
			_, isType := o.(*types.TypeName)
			if isType && isNamed {
				declared = named.Underlying()
			}
			if !yield(name, declared) {
				return
			}
			if !isType || !isNamed {
				continue
			}
			for m := range named.Methods() {
				if m.Exported() && !yield(name+"."+m.Name(), m.Type()) {
					return
				}
			}
		}
	}
}

// internalTypes returns the paths of the internal packages of this module from which typ uses
// a type.
func internalTypes(typ types.Type, pkg *types.Package) (paths []string) {
	add := func(parts ...types.Type) {
		for _, part := range parts {
			paths = append(paths, internalTypes(part, pkg)...)
		}
	}
	check := func(name *types.TypeName) {
		if p := name.Pkg(); p != nil && strings.HasPrefix(p.Path(), module+"/internal/") {
			paths = append(paths, p.Path())
		}
	}
	switch typ := typ.(type) {
	case *types.Alias:
		check(typ.Obj())
		add(types.Unalias(typ))
	case *types.Named:
		check(typ.Obj())
		for arg := range typ.TypeArgs().Types() {
			add(arg)
		}
	case *types.Pointer:
		add(typ.Elem())
	case *types.Slice:
		add(typ.Elem())
	case *types.Array:
		add(typ.Elem())
	case *types.Chan:
		add(typ.Elem())
	case *types.Map:
		add(typ.Key(), typ.Elem())
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() || f.Embedded() {
				add(f.Type())
			}
		}
	case *types.Interface:
		for m := range typ.Methods() {
			add(m.Type())
		}
	case *types.Signature:
		for v := range typ.Params().Variables() {
			add(v.Type())
		}
		for v := range typ.Results().Variables() {
			add(v.Type())
		}
	}
	return paths
}
