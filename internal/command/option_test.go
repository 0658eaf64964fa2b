package command

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// flagTables returns the flags of every command by the command's name.
func flagTables(commands []*cli.Command) map[string]table {
	all := map[string]table{}
	for _, c := range commands {
		for _, f := range c.Flags {
			all[c.Name] = append(all[c.Name], f.(*option))
		}
		for name, t := range flagTables(c.Subcommands) {
			all[name] = t
		}
	}
	return all
}

// TestNoOptionIsIgnored checks that each conflict of a flag is a usage error. The message is
// one line that begins with the flag. The help of a flag with a value must begin with a
// placeholder, and a command must not have a flag twice.
func TestNoOptionIsIgnored(t *testing.T) {
	conflicts := 0
	for command, options := range flagTables(newApp(nil, io.Discard, io.Discard).Commands) {
		for i, o := range options {
			if len(options.pick(o.name)) != 1 {
				t.Errorf("attach %s has --%s twice", command, o.name)
			}
			if value, what, ok := strings.Cut(o.usage, ": "); !o.isSwitch() && (!ok || what == "" || strings.Contains(value, " ")) {
				t.Errorf("attach %s --%s: %q does not begin with a placeholder for the value", command, o.name, o.usage)
			}
			o.given = true
			for _, n := range o.conflicts {
				conflicts++
				changed := *o
				changed.conflicts = []conflict{{when: func() bool { return true }, withBundle: func(*attach.Bundle) bool { return true }, reason: n.reason}}
				err := append(table{&changed}, options[i+1:]...).checkConflicts()
				if n.withBundle != nil {
					err = table{&changed}.checkBundleConflicts(nil, "my.attach")
				}
				var usage *usageError
				if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), dashedName(o.name)+" ") || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "M.attach") {
					t.Errorf("attach %s --%s: %v", command, o.name, err)
				}
			}
			o.given = false
		}
	}
	if conflicts < 50 {
		t.Errorf("%d conflicts are refused", conflicts)
	}
}

// TestEveryOptionIsRead checks that the variable of each flag is used. It must be read
// outside the functions that declare flags, or be a field of a library's options.
func TestEveryOptionIsRead(t *testing.T) {
	libraries := []reflect.Type{
		reflect.TypeFor[featurize.Options](), reflect.TypeFor[inputs.Options](), reflect.TypeFor[attach.FitOptions](), reflect.TypeFor[attach.PredictOptions](), reflect.TypeFor[evaluate.Options](),
		reflect.TypeFor[attach.Base](), reflect.TypeFor[compare.Options](), reflect.TypeFor[ood.Training](), reflect.TypeFor[ood.Scalar](), reflect.TypeFor[audit.Identity](), reflect.TypeFor[modelrows.ReadOptions](),
	}
	bound, read := map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			buildsTable := strings.HasSuffix(f.Name.Name, "Command") || strings.HasSuffix(f.Name.Name, "Option") || strings.HasSuffix(f.Name.Name, "Options")
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.UnaryExpr:
					if field, ok := n.X.(*ast.SelectorExpr); ok && n.Op == token.AND && buildsTable {
						bound[field.Sel.Name] = true
					}
				case *ast.AssignStmt:
					if !buildsTable {
						for _, e := range n.Rhs {
							ast.Inspect(e, func(n ast.Node) bool { return recordField(n, read) })
						}
						return false
					}
				default:
					return buildsTable || recordField(n, read)
				}
				return true
			})
		}
	}
	if len(bound) < 50 {
		t.Fatalf("%d options were found", len(bound))
	}
	for field := range bound {
		known := read[field] || field == "table"
		for _, library := range libraries {
			_, ok := library.FieldByName(field)
			known = known || ok
		}
		if !known {
			t.Errorf("an option goes to %s, which nothing reads", field)
		}
	}
}

func recordField(n ast.Node, read map[string]bool) bool {
	if field, ok := n.(*ast.SelectorExpr); ok {
		read[field.Sel.Name] = true
	}
	return true
}
