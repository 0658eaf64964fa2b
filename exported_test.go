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

// mostExported is how many names the packages outside internal/ export, methods
// with them.
const mostExported = 263

// TestExported holds that the number of exported names grows only on purpose: every one
// is a promise to programs that import it, and most of what is added needs none. Who
// adds one that users have to name raises mostExported; who takes one away lowers it.
//
// It also holds that no exported name has an internal type in its signature, because
// programs could neither make such a value nor read what it is.
func TestExported(t *testing.T) {
	total := 0
	for _, pkg := range publicPackages(t) {
		for name, of := range exported(pkg) {
			total++
			for _, path := range internalTypes(of, pkg) {
				t.Errorf("%s.%s names a type of %s, which programs cannot import", pkg.Name(), name, path)
			}
		}
	}
	if total > mostExported {
		t.Errorf("%d names are exported, more than %d: unexport what no user has to name, or raise mostExported", total, mostExported)
	}
}

// publicPackages reads the packages outside internal/ as compiled.
func publicPackages(t *testing.T) (list []*types.Package) {
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
		list = append(list, pkg)
	}
	if len(list) < 10 {
		t.Fatalf("there are %d packages", len(list))
	}
	return list
}

// exported yields the exported names of a package and the methods of its types, with
// what is declared of each.
func exported(pkg *types.Package) iter.Seq2[string, types.Type] {
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

// internalTypes lists the internal packages of this module whose types a declaration
// names.
func internalTypes(of types.Type, pkg *types.Package) (paths []string) {
	add := func(parts ...types.Type) {
		for _, part := range parts {
			paths = append(paths, internalTypes(part, pkg)...)
		}
	}
	named := func(name *types.TypeName) {
		if p := name.Pkg(); p != nil && strings.HasPrefix(p.Path(), module+"/internal/") {
			paths = append(paths, p.Path())
		}
	}
	switch of := of.(type) {
	case *types.Alias:
		named(of.Obj())
		add(types.Unalias(of))
	case *types.Named:
		named(of.Obj())
		for arg := range of.TypeArgs().Types() {
			add(arg)
		}
	case *types.Pointer:
		add(of.Elem())
	case *types.Slice:
		add(of.Elem())
	case *types.Array:
		add(of.Elem())
	case *types.Chan:
		add(of.Elem())
	case *types.Map:
		add(of.Key(), of.Elem())
	case *types.Struct:
		for f := range of.Fields() {
			if f.Exported() || f.Embedded() {
				add(f.Type())
			}
		}
	case *types.Interface:
		for m := range of.Methods() {
			add(m.Type())
		}
	case *types.Signature:
		for v := range of.Params().Variables() {
			add(v.Type())
		}
		for v := range of.Results().Variables() {
			add(v.Type())
		}
	}
	return paths
}
