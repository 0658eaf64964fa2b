package inputs

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// describeTable opens and reads a table. It returns a description of the tensors and notes,
// or the error without the file name.
func describeTable(t *testing.T, name, text string, o Options) string {
	t.Helper()
	path := writeFile(t, t.TempDir(), name, text)
	s, err := Open(context.Background(), path, o)
	var descriptions []string
	if err == nil {
		for b, failed := range s.Blocks(context.Background(), 1000) {
			if err = failed; err == nil {
				for _, x := range b.Tensors {
					descriptions = append(descriptions, describe(x))
				}
			}
		}
	}
	if err != nil {
		return strings.TrimPrefix(err.Error(), path+": ")
	}
	return strings.Join(append(descriptions, s.Notes...), "; ")
}

// parquetOf returns the bytes of a Parquet file with the given rows.
func parquetOf[T any](t *testing.T, rows ...T) string {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNamedColumns checks that a column with the name of an input becomes that input, and
// that errors in its cells are reported.
func TestNamedColumns(t *testing.T) {
	named := []Takes{{Name: "carat", DType: "float32", Shape: []int{-1, 1}}, {Name: "cut", DType: "STRING", Shape: []int{-1, 1}}, {Name: "depth", DType: "float32", Shape: []int{-1, 1}}}
	filled := []Takes{named[0], named[1], named[2]}
	filled[0].NaN = true
	type row struct {
		Carat string  `parquet:"carat"`
		Cut   string  `parquet:"cut"`
		Depth float64 `parquet:"depth"`
	}
	gaps := func(row string) string { return strings.Repeat(row, 64) }
	for _, c := range []struct {
		name, text string
		takes      []Takes
		want       string // end of the description
	}{
		{"x.csv", "carat,cut,depth\n" + gaps(",a,1\n") + "2,b,3\n", filled, `"b"]; depth[65 1][` + gaps("1 ") + "3]"},
		{"x.tsv", "carat\tcut\tdepth\n" + gaps("NA\ta\t1\n") + "2\tb\t3\n", filled, `"b"]; depth[65 1][` + gaps("1 ") + "3]"},
		{"x.jsonl", gaps(`{"cut": "a", "depth": 1}`+"\n") + `{"carat": 2, "cut": "b", "depth": 3}`, filled, `"b"]; depth[65 1][` + gaps("1 ") + "3]"},
		{"x.csv", "carat,cut,depth\n" + gaps(",a,1\n") + "2,b,3\n", named, `line 2, column "carat": the cell is empty; fill it, or leave the row out`},
		{"x.csv", "carat;cut;depth\n1,5;a;1\n", named, `line 2, column "carat": "1,5" is not a number (decimal comma?); write 1.5`},
		{"x.tsv", "carat\tcut\tdepth\n1.234,5\ta\t1\n", named, `line 2, column "carat": "1.234,5" is not a number (thousands separator?); write 1234.5`},
		{"x.jsonl", `{"carat": "1,5", "cut": "a", "depth": 1}`, named, `line 1, column "carat": "1,5" is not a number (decimal comma?); write 1.5`},
		{"x.parquet", parquetOf(t, row{"1,5", "a", 1}), named, `row 0, column "carat": "1,5" is not a number (decimal comma?); write 1.5`},
		{"x.csv", "carat,cut,depth\nlarge,a,1\n", named, `line 2, column "carat": "large" is not a number`},
		{"x.csv", "carat,cut,depth\n1,\"a,2\n2,b,3\n", named, "line 2: a quote is not closed, or a quote within a cell is not doubled, so that the cell continues to line 3"},
		{"x.csv", "carat,cut,depth\n1,\"a,2\n2,\"b\",3\n", named, "line 2: a quote is not closed, or a quote within a cell is not doubled, so that the cell continues to line 3"},
		{"x.csv", "carat,cut,depth\n", named, "there are no rows below its header"},
		{"x.parquet", parquetOf[row](t), named, "there are no rows"},
		{"x.csv", "Carat,cut,depth\nhigh,a,2\n", named, `the model's input "carat" (float32 n×1) is not among its columns Carat, cut, depth; by position, 1 column of numbers would be needed, but there are 0`},
	} {
		if got := describeTable(t, c.name, c.text, Options{Takes: c.takes}); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s %q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
	// An unclosed quote is also reported if cells are numbers.
	if got, want := describeTable(t, "x.csv", "a,b\n1,2\n\"3,4\n5,6\n", Options{Takes: columnsInput(2)}), "line 3: a quote is not closed, or a quote within a cell is not doubled, so that the cell continues to line 4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := describeTable(t, "x.csv", "id,a,b\n\"n,1,2\n5,6,7\n", Options{Takes: columnsInput(2)}), "line 2: a quote is not closed, or a quote within a cell is not doubled, so that the cell continues to line 3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestColumnsWithoutNames checks tables with too many columns. Columns are left out only
// with a note, and never if they may be inputs.
func TestColumnsWithoutNames(t *testing.T) {
	type day struct {
		ID  float64   `parquet:"id"`
		Day time.Time `parquet:"day,timestamp"`
		B   float64   `parquet:"b"`
	}
	emptyColumn := "id,a,b\n" + strings.Repeat("7,,2\n", 64)
	twoColumns := columnsInput(2)
	twoInputs := []Takes{{Name: "u", Shape: []int{-1, 1}}, {Name: "v", Shape: []int{-1, 1}}}
	for _, c := range []struct {
		name, text string
		o          Options
		want       string
	}{
		{"x.csv", "id,a,b\n7,\"1,5\",2\n", Options{Takes: twoColumns}, `line 2, column "a": "1,5" is not a number (decimal comma?); write 1.5`},
		{"x.csv", "id;a;b\n7;1,5;2\n", Options{Takes: twoInputs}, `line 2, column "a": "1,5" is not a number (decimal comma?); write 1.5`},
		{"x.csv", "id;a;b\n7;1.234.567;2\n", Options{Takes: twoColumns}, `line 2, column "a": "1.234.567" is not a number (thousands separator?); write 1234567`},
		{"x.csv", "id,a,b\n7,?,2\n7,$3,2\n", Options{Takes: twoColumns}, `line 3, column "a": "$3" is not a number (currency sign?); write 3`},
		{"x.csv", "id,day,b\n7,2024-01-31,2\n", Options{Takes: twoColumns}, `line 2, column "day": "2024-01-31" is not a number (a date or time?); turn it into a number`},
		{"x.csv", "id,old,b\n7,True,2\n", Options{Takes: []Takes{{Name: "x", DType: "int8", Shape: []int{-1, -1}}, twoInputs[0]}}, `the model's input "x" (int8 n×?) is not among its columns id, old, b`},
		{"x.jsonl", `{"id": 7, "day": "2024-01-31", "b": 2}`, Options{Takes: twoColumns}, `line 1, column "day": "2024-01-31" is not a number (a date or time?); turn it into a number`},
		{"x.parquet", parquetOf(t, day{7, time.Unix(0, 0), 2}), Options{Takes: twoColumns}, `column "day" holds dates or times, which are not read; turn them into numbers`},
		{"x.csv", emptyColumn, Options{Takes: twoColumns}, `it has 1 column without a value in any row, and no names say whether an input is among them: "a"`},
		{"x.csv", emptyColumn + "7,1,2\n", Options{Takes: twoColumns}, "it has 3 columns with a name and numbers, and the model takes 2: id, a, b"},
		{"x.csv", "id,kind,b\n7,x,2\n", Options{Takes: []Takes{{Name: "x", Shape: []int{-1, -1}}}}, `line 2, column "kind": "x" is not a number`},
		{"x.csv", "id,kind,note\n7,x,\"1,5\"\n", Options{Takes: twoColumns}, `line 2, column "note": "1,5" is not a number (decimal comma?); write 1.5`},
		{"x.csv", "id,kind,note\n7,x,y\n", Options{Takes: twoColumns}, `it has 1 column with a name and numbers, and the model takes 2: id; not counted: "kind" (text), "note" (text)`},
		// A column that cannot be an input is left out with a note.
		{"x.csv", ",kind,a,b\n7,x,1,2\n", Options{Takes: twoColumns}, `x[1 2][1 2]; columns left out: column 1 (no name), "kind" (text)`},
		{"x.csv", "kind,a,b\nx,1,2\n", Options{Takes: twoInputs}, `u[1 1][1]; v[1 1][2]; columns without the names of the model's inputs are taken in their order: u: a; v: b; columns left out: "kind" (text)`},
		{"x.jsonl", `{"v": [1, 2], "age": 3, "day": "2024-01-31", "n": null}`, Options{Takes: twoColumns}, `x[1 2][1 2]; columns left out: "age" (numbers), "day" (dates or numbers in another notation), "n" (no values)`},
		// A text column is not an input, even if some of its values look like numbers.
		{"x.csv", "note,a,b\n\"1,5\",1,2\nold,3,4\nnew,5,6\n", Options{Takes: twoColumns}, `x[3 2][1 2 3 4 5 6]; columns left out: "note" (text)`},
		{"x.csv", "id,a,b\n7,1,2\n", Options{Takes: twoColumns, Columns: []string{"b", "a"}}, "x[1 2][2 1]"},
		{"x.csv", "id,a,b\n7,1,2\n", Options{Takes: twoColumns, Ignore: []string{"id"}}, "x[1 2][1 2]"},
		// Two columns have the same name.
		{"x.csv", "a,b,n,n\n1,2,x,y\n", Options{Takes: twoColumns}, `two columns are named "n"; rename one`},
		{"x.csv", "a,b,n,n\n1,2,x,y\n", Options{Takes: twoColumns, Columns: []string{"a", "b"}}, `two columns are named "n"; rename one`},
		{"x.csv", "a,b,,\n1,2,,\n", Options{Takes: twoColumns}, `x[1 2][1 2]; columns left out: column 3 (no name), column 4 (no name)`},
		{"x.jsonl", `{"a": 1, "b": 2}` + "\n" + `{"a": 1, "b": 2, "a": {"c:d": "\"e:"}}`, Options{Takes: twoColumns}, `line 2: it has two values for the key "a"; rename one`},
		{"x.jsonl", `{"a": {"b": [1, {"a": 2}]}, "b": 2, "c": "\":\\", "d": 3}`, Options{Takes: twoColumns}, `x[1 2][2 3]; columns left out: "a" (values of a type that is not read), "c" (text)`},
	} {
		if got := describeTable(t, c.name, c.text, c.o); got != c.want {
			t.Errorf("%s %.60q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
	if got, want := describeTable(t, "x.tsv", "1,5\t2,5\n", Options{}), `line 1, column 1: "1,5" is not a number (decimal comma?); write 1.5`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	type features struct {
		Features []float32 `parquet:"features"`
		Other    []float32 `parquet:"featureX"`
	}
	duplicateColumns := writeFile(t, t.TempDir(), "x.parquet", strings.ReplaceAll(parquetOf(t, features{[]float32{1}, []float32{2}}), "featureX", "features"))
	_, err := OpenFeatures(duplicateColumns)
	wantError(t, err, duplicateColumns, `two columns are named "features"; rename one`)
	// Many text cells are recognised quickly.
	start := time.Now()
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "c%d,", i)
	}
	names := b.String()
	if got := describeTable(t, "x.csv", names+"last\n"+strings.Repeat(strings.Repeat("A/G,", 60_000)+"1\n", 4), Options{Takes: columnsInput(1)}); !strings.HasPrefix(got, "x[4 1][1 1 1 1]; columns left out: ") {
		t.Errorf("%.200s", got)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%v", took)
	}
}
