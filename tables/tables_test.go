package tables_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/attachtest"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/tables"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the content of all rows of a table as one text.
func read(t *testing.T, path string, b *attach.Bundle, o tables.Options) (string, *tables.Table, error) {
	t.Helper()
	table, err := tables.Open(t.Context(), path, b, o)
	if err != nil {
		return "", nil, err
	}
	var all strings.Builder
	matrix := func(name string, m blas32.General) {
		if m.Rows > 0 {
			fmt.Fprintf(&all, "%s %d×%d %v ", name, m.Rows, m.Cols, m.Data)
		}
	}
	for r, err := range table.Rows(t.Context()) {
		if err != nil {
			return "", table, err
		}
		matrix("features", r.Features)
		matrix("logits", r.Logits)
		for _, l := range r.Layers {
			matrix("layer", l)
		}
		matrix("gaps", r.Gaps)
		matrix("targets", r.Targets)
		if r.Labels != nil {
			fmt.Fprint(&all, "labels ", r.Labels, " ")
		}
		if r.Groups != nil {
			fmt.Fprintf(&all, "groups %q ", r.Groups)
		}
	}
	return strings.TrimSpace(all.String()), table, nil
}

// TestFeatures checks that columns become features, logits, layers, marks of empty cells,
// labels and groups if there is no network. It also checks the errors for unsuitable tables
// and options.
func TestFeatures(t *testing.T) {
	classifier := &attach.Bundle{Base: attach.Base{Task: attach.Classification, Width: 2, Outputs: 3, Classes: []string{"a", "b", "c"}}}
	regressor := &attach.Bundle{Base: attach.Base{Task: attach.Regression, Width: 2, Outputs: 1, Layers: []attach.Layer{{Width: 1}, {Width: 2}}}}
	columns := &attach.Bundle{Base: attach.Base{Task: attach.Embedding, Width: 2, Columns: []string{"p", "q"}}}
	grouped := &attach.Bundle{Base: columns.Base, Calibration: attach.Calibration{Groups: []string{"x"}}}
	for _, c := range []struct {
		name, text string
		b          *attach.Bundle
		o          tables.Options
		want       string
	}{
		{"x.jsonl", `{"logits": [1, 2, 3], "features": [4, 5], "label": "b"}` + "\n", classifier, tables.Options{Targets: []string{"label"}}, "features 1×2 [4 5] logits 1×3 [1 2 3] labels [1]"},
		{"x.csv", "4,5,1,2,3\n", classifier, tables.Options{}, "features 1×2 [4 5] logits 1×3 [1 2 3]"},
		{"x.jsonl", `{"layer_1": [6, 7], "features": [4, 5], "layer_0": [8], "gaps": [0, 1]}` + "\n", regressor, tables.Options{}, "features 1×2 [4 5] layer 1×1 [8] layer 1×2 [6 7] gaps 1×2 [0 1]"},
		{"x.csv", "q,other,p,y\n1,z,2,3\n4,z,5,\n", columns, tables.Options{}, "features 2×2 [2 1 5 4]"},
		{"x.csv", "1,2\n3,4\n", columns, tables.Options{}, "features 2×2 [1 2 3 4]"},
		{"x.csv", "q,p,where\n1,2,north\n", grouped, tables.Options{Groups: "where"}, `features 1×2 [2 1] groups ["north"]`},
		{"x.csv", "id,f,g\n7,1,2\n", &attach.Bundle{Base: attach.Base{Task: attach.Embedding, Width: 2}}, tables.Options{ID: "id"}, "features 1×2 [1 2]"},
		{"x.csv", "skip,f,g\n7,1,2\n", &attach.Bundle{Base: attach.Base{Task: attach.Embedding, Width: 2}}, tables.Options{Ignore: []string{"skip"}}, "features 1×2 [1 2]"},
	} {
		got, _, err := read(t, write(t, c.name, c.text), c.b, c.o)
		if err != nil || got != c.want {
			t.Errorf("%q: read %s (%v), want %s", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name, text string
		b          *attach.Bundle
		o          tables.Options
		want       string
	}{
		{"x.npz", "", columns, tables.Options{}, "a table is a .csv, .tsv, .txt, .jsonl or .parquet file"},
		{"x.csv", "p,q\n1,2\n", grouped, tables.Options{}, "the intervals were calibrated by group; name the column"},
		{"x.csv", "p,q\n1,2\n", columns, tables.Options{ID: "name"}, `there is no column "name" to tell rows apart by; its columns are p, q`},
		{"x.csv", "p,q\n1,2\n", columns, tables.Options{Targets: []string{"y"}}, `there is no column "y"; its columns are p, q`},
		{"x.csv", "p,q,y\n1,2,\n", columns, tables.Options{Targets: []string{"y"}}, "every target is empty or NaN"},
		{"x.csv", "4,5,1,2,3,3\n", classifier, tables.Options{Targets: []string{"last"}}, "row 0: label 3 is out of range"},
		{"x.jsonl", `{"features": [4, 5]}` + "\n", classifier, tables.Options{}, `"logits"`},
		{"x.jsonl", `{"p": 1, "q": 2, "id": [1]}` + "\n", columns, tables.Options{ID: "id"}, `line 1, column "id": lists, dates, times and nested values cannot be identifiers`},
	} {
		path := write(t, c.name, c.text)
		_, _, err := read(t, path, c.b, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
	}
	if _, _, err := read(t, write(t, "x.csv", "p,q\n"), columns, tables.Options{}); !errors.Is(err, tables.ErrEmpty) {
		t.Errorf("error %v of a header alone", err)
	}
}

// TestBatch checks that the example of a batch job predicts each row of a table.
func TestBatch(t *testing.T) {
	orttest.Open(t)
	var out strings.Builder
	predictFile(t.Context(), "testdata/hours.attach", "../testmodels/tables/hours_test.csv", &out)
	if n := strings.Count(out.String(), "\n"); n != 400 || !strings.HasPrefix(out.String(), `{"id":"0","prediction":{"prediction":26.42`) {
		t.Errorf("%d lines, %.80s", n, out.String())
	}
}

// TestID checks that rows keep their identifiers if some rows are left out.
func TestID(t *testing.T) {
	b := &attach.Bundle{Base: attach.Base{Task: attach.Regression, Width: 1, Columns: []string{"p"}}}
	path := write(t, "x.csv", "p,name,y\n1,a,5\n2,b,\n3, c ,6\n")
	got, table, err := read(t, path, b, tables.Options{ID: "name", Targets: []string{"y"}})
	if err != nil || got != "features 2×1 [1 3] targets 2×1 [5 6]" || table.Len() != 2 || table.ID(0)+table.ID(1) != "ac" || fmt.Sprint(table.Notes) != "[left out 1 row without a target, of 3 rows]" {
		t.Errorf("read %s (%v), %+v", got, err, table)
	}
	if _, table, err = read(t, path, b, tables.Options{Targets: []string{"y"}}); err != nil || table.ID(1) != "2" {
		t.Errorf("row 1 is %s (%v)", table.ID(1), err)
	}
}

// TestPredicted checks that a .attach file that was fitted on columns of a table, without a
// network, can predict the rows of a table.
func TestPredicted(t *testing.T) {
	o := attachtest.Classifier(60)
	o.Base = attach.Base{Task: attach.Embedding}
	o.Batch = ood.Batch{Features: o.Batch.Features}
	for j := range o.Batch.Features.Cols {
		o.Base.Columns = append(o.Base.Columns, fmt.Sprintf("f%d", j))
	}
	b := attachtest.Fit(t, o)
	header, row := strings.Join(o.Base.Columns, ","), strings.TrimSuffix(strings.Repeat("1,", len(o.Base.Columns)), ",")
	table, err := tables.Open(t.Context(), write(t, "x.csv", "name,"+header+"\nx,"+row+"\n"), b, tables.Options{ID: "name"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for prediction, err := range p.Stream(t.Context(), table.Rows(t.Context())) {
		if n++; err != nil || !(prediction.PValue > 0) {
			t.Errorf("%+v (%v)", prediction, err)
		}
	}
	if n != 1 {
		t.Errorf("%d rows", n)
	}
}
