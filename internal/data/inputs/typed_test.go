package inputs

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestTypedTables checks which tensors are made of the columns in each kind of file.
func TestTypedTables(t *testing.T) {
	float := func(name string, shape ...int) Takes { return Takes{Name: name, DType: "float32", Shape: shape} }
	words := func(name string, shape ...int) Takes { return Takes{Name: name, DType: "STRING", Shape: shape} }
	for _, c := range []struct {
		name, text string
		o          Options
		want       string // tensors, or a part of an error
	}{
		// Each tensor is made of the column with its name.
		{"x.csv", "b,kind,a,other\n1,red,2,z\n3,\"big, blue\",4,z\n", Options{Takes: []Takes{float("a", -1, 1), float("b", -1), words("kind", -1, 1)}},
			`a[2 1][2 4] b[2][1 3] kind[2 1]["red" "big, blue"]`},
		{"x.jsonl", `{"b": 1, "kind": "red", "a": 2}` + "\n\n" + `{"a": 4, "b": 3, "kind": "ü \"x\""}`, Options{Takes: []Takes{float("a", -1, 1), float("b", -1), words("kind", -1, 1)}},
			`a[2 1][2 4] b[2][1 3] kind[2 1]["red" "ü \"x\""]`},
		// One tensor is made of several columns, in any order if their names are known.
		{"x.jsonl", `{"b": 1, "a": 2, "y": 5}` + "\n" + `{"a": true, "b": 3, "y": 6}`, Options{Takes: columnsInput(2), Targets: []string{"y"}, Columns: []string{"a", "b"}}, "x[2 2][2 1 1 3]"},
		{"x.jsonl", `{"id": "p", "b": 1, "a": 2}`, Options{Takes: columnsInput(2)}, "x[1 2][1 2]"},
		{"x.jsonl", `{"features": [1, 2.5]}` + "\n" + `{"features": [3, 4]}`, Options{Takes: columnsInput(2)}, "x[2 2][1 2.5 3 4]"},
		{"x.jsonl", `{"v": [[1, 2], [3, 4]]}`, Options{Takes: []Takes{float("v", -1, 2, 2)}}, "v[1 2 2][1 2 3 4]"},
		{"x.jsonl", `{"a": [1, 2], "b": [3]}`, Options{Takes: []Takes{float("a", -1, 2), float("b", -1, 1)}}, "a[1 2][1 2] b[1 1][3]"},
		// A column of groups may also be an input.
		{"x.csv", "kind,a\nred,2\n", Options{Takes: []Takes{float("a", -1, 1), words("kind", -1, 1)}, Groups: "kind"}, `a[1 1][2] kind[1 1]["red"]`},
		{"x.csv", "a,b\n1,2\n", Options{Takes: columnsInput(2), Groups: "b"}, "x[1 2][1 2]"},
		{"x.csv", "a,b,c\n1,2,3\n", Options{Takes: columnsInput(2), Groups: "b"}, "x[1 2][1 3]"},
		{"x.csv", "a,b\n1,2\n", Options{Takes: columnsInput(1), Groups: "b"}, "x[1 1][1]"},
		// Columns are assigned to several inputs in order.
		{"x.csv", "p,q,r,name\n1,2,3,x\n", Options{Takes: []Takes{float("u", -1, 2), float("v", -1, 1)}}, "u[1 2][1 2] v[1 1][3]"},
		{"x.csv", "v,q,r\n1,2,3\n", Options{Takes: []Takes{float("u", -1, 2), float("v", -1, 1)}}, "v[1 1][1] u[1 2][2 3]"},
		{"x.csv", "1,2,3\n", Options{Takes: []Takes{float("u", -1, 2), float("v", -1, 1)}}, "u[1 2][1 2] v[1 1][3]"},
		// Lists of tokens can differ in length. Texts are for the tokenizer.
		{"x.jsonl", `{"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]}` + "\n" + `{"input_ids": [4], "attention_mask": [1]}`, Options{Takes: tokenInputs(), HasText: true},
			"input_ids[2 3][1 2 3 4]of[3 1] attention_mask[2 3][1 1 1 1]of[3 1]"},
		{"x.csv", "text,intent\n\"how, are you\",greet\n# no comment; \"q\",x\n,z\n", Options{Takes: tokenInputs(), HasText: true}, `text[3]["how, are you" "# no comment; \"q\"" ""]`},
		{"x.csv", "q,a\nwho is it,me\nwho,us\n", Options{Takes: tokenInputs(), HasText: true, Text: []string{"q", "a"}}, `q[2]["who is it" "who"] a[2]["me" "us"]`},
		{"x.tsv", "label\ttext\n1\tone, two\n", Options{Takes: tokenInputs(), HasText: true, Targets: []string{"label"}}, `text[1]["one, two"]`},
		{"x.csv", "utterance\nhow are you\nwho\n", Options{Takes: tokenInputs(), HasText: true}, `utterance[2]["how are you" "who"]`},
		{"x.csv", "hello\nhi\n", Options{Takes: tokenInputs(), HasText: true}, `text 1[2]["hello" "hi"]`},
		{"x.txt", "\ufeffone, two\r\n\n# three", Options{Takes: tokenInputs(), HasText: true}, `text[3]["one, two" "" "# three"]`},
		{"x.jsonl", `{"utterance": "a b", "n": 1}`, Options{Takes: tokenInputs(), HasText: true}, `utterance[1]["a b"]`},
		// Empty cells are allowed if the model accepts them.
		{"x.csv", "a,b\n1,\nNA,2\n", Options{Takes: []Takes{{Name: "x", Shape: []int{-1, 2}, NaN: true}}}, "x[2 2][1 NaN NaN 2]"},
		{"x.jsonl", "{\"a\": null, \"b\": 2}\n{\"b\": 3}", Options{Takes: []Takes{{Name: "x", Shape: []int{-1, 2}, NaN: true}}}, "x[2 2][NaN 2 NaN 3]"},
		// Errors.
		{"x.csv", "a,c\n1,2\n", Options{Takes: []Takes{float("a", -1, 1), words("b", -1, 1)}}, `the model's input "b" (string n×1) is not among its columns a, c`},
		{"x.csv", "p,q\n1,2\n", Options{Takes: []Takes{float("a", -1, 2), float("b", -1, 1)}}, `the model's input "a" (float32 n×2) is not among its columns p, q; by position, 3 columns of numbers would be needed,`},
		{"x.csv", "q,a\nwho is it,me too\n", Options{Takes: tokenInputs(), HasText: true}, "which column is the text is not known; columns that hold text are q, a"},
		{"x.csv", "text\nx\n", Options{Takes: tokenInputs(), HasText: true, Text: []string{"words"}}, `there is no column "words" to take texts from; its columns are text`},
		{"x.csv", "text\na\xff b\n", Options{Takes: tokenInputs(), HasText: true}, `line 2, column "text": the text is not UTF-8`},
		{"x.jsonl", "{\"a\": 1}\n{\"a\": ", Options{Takes: columnsInput(1)}, "line 2: it is not JSON: "},
		{"x.jsonl", "{\"a\": 1}\n[1]\n", Options{Takes: columnsInput(1)}, `line 2: every line must be a JSON object, such as {"a": 1}, but this one begins with "[1]"`},
		{"x.jsonl", "{\"a\": 1}\n{\"a\": \"\xff\"}\n", Options{Takes: columnsInput(1)}, "line 2: the text is not UTF-8"},
		{"x.jsonl", "{\"a\": 1}\n{\"a\": \"x\"}\n", Options{Takes: columnsInput(1)}, `line 2, column "a": "x" is not a number`},
		{"x.jsonl", "{\"a\": 1}\n{\"b\": 1}\n", Options{Takes: columnsInput(1), Columns: []string{"a"}}, `line 2, column "a": the cell is empty`},
		{"x.jsonl", "{\"a\": 1e400}\n", Options{Takes: columnsInput(1)}, `+Inf is not a finite number`},
		{"x.jsonl", "{\"a\": 1e39}\n", Options{Takes: columnsInput(1)}, `1e+39 is too large for float32`},
		{"x.jsonl", "{\"a\": [1, 2]}\n{\"a\": [1]}\n", Options{Takes: []Takes{float("a", -1, 2)}}, `line 2, column "a": the list has 1 number, but 2 are needed`},
		{"x.jsonl", "{\"input_ids\": [1], \"attention_mask\": [1]}\n{\"input_ids\": [], \"attention_mask\": [1]}\n", Options{Takes: tokenInputs()}, `line 2, column "input_ids": the list has 0 numbers`},
		{"x.jsonl", "{\"a\": [1, null]}\n", Options{Takes: []Takes{float("a", -1, 2)}}, `line 1, column "a": entry 1: NaN is not a finite number`},
		{"x.jsonl", "{\"a\": 1, \"g\": \"x\"}\n{\"a\": 1, \"g\": [2]}\n", Options{Takes: columnsInput(1), Groups: "g"}, `line 2, column "g": lists, dates, times and nested values cannot be groups`},
		{"x.jsonl", "\n", Options{Takes: columnsInput(1)}, "there are no rows"},
		{"x.parquet", "PAR1", Options{Takes: columnsInput(1)}, "not a Parquet file, or cut short or damaged"},
	} {
		path := writeFile(t, t.TempDir(), c.name, c.text)
		s, err := Open(context.Background(), path, c.o)
		if err != nil {
			wantError(t, err, path, c.want)
			continue
		}
		if got := strings.Join(describeFirst(t, s), " "); got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestParquetTable checks that the inputs of a Parquet file can be read in any order.
func TestParquetTable(t *testing.T) {
	for _, name := range []string{"plain", "snappy", "v2zstd", "gzip"} {
		path := filepath.Join("..", "parquet", "testdata", name+".parquet")
		o := Options{Takes: []Takes{{Name: "b", Shape: []int{-1}}, {Name: "ids", DType: "int64", Shape: []int{-1, -1}}, {Name: "cat", DType: "STRING", Shape: []int{-1, 1}}, {Name: "fixed", Shape: []int{-1, 3}}},
			Targets: []string{"u", "flag"}, Groups: "image.path"}
		_, err := Open(context.Background(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, path, o)
		y := s.Targets
		if s.Len() != 10 || y.Data[2] != 1 || y.Data[3] != 0 || s.Groups[4] != "4.png" {
			t.Errorf("%s: %d rows, targets %v, groups %q", name, s.Len(), y, s.Groups)
		}
		want := `b[3][8 1 4] ids[3 8][0 1 2 3 4 5 6 7 0 0 1 2 3]of[8 1 4] cat[3 1]["x" "x" "x"] fixed[3 3][8 9 10 1 2 3 4 5 6]`
		if got := strings.Join(describeFirst(t, s.Subset([]int{8, 1, 4})), " "); got != want {
			t.Errorf("%s: %s", name, got)
		}
		if s.Name(8) != "row 8 of "+path {
			t.Errorf("row 8 is named %s", s.Name(8))
		}
		for _, err := range s.Subset([]int{0}).Blocks(context.Background(), 2) {
			wantError(t, err, path, `row 0, column "ids": the list has 0 numbers`)
		}
		// A model of texts cannot take numbers.
		s = open(t, path, Options{Takes: []Takes{{Name: "b", DType: "STRING", Shape: []int{-1, 1}}}})
		for _, err := range s.Blocks(context.Background(), 10) {
			wantError(t, err, path, `row 0, column "b": the file has a number`)
			break
		}
		// A date does not count as an empty cell.
		o = Options{Takes: []Takes{{Name: "x", Shape: []int{-1, 2}, NaN: true}}, Columns: []string{"a", "day"}}
		if s, err = Open(context.Background(), path, o); err == nil {
			for _, err = range s.Blocks(context.Background(), 10) {
				break
			}
		}
		wantError(t, err, path, `row 0, column "day": dates, times and nested values are no numbers`)
	}
}

// TestImagesBesideColumns checks that a column of file names becomes the image input.
func TestImagesBesideColumns(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		m := image.NewGray(image.Rect(0, 0, 2, 2))
		m.SetGray(0, 0, color.Gray{uint8(10 + i)})
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, m); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	takes := []Takes{{Name: "pixels", Shape: []int{-1, 3, 2, 2}}, {Name: "meta", Shape: []int{-1, 2}}}
	want := "meta[2 2][5 6 7 8] pixels[2 3 2 2][11 0 0 0 11 0 0 0 11 0 0 0 10 0 0 0 10 0 0 0 10 0 0 0]"
	for _, text := range []string{"file,age,size\n1.png,5,6\n0.png,7,8\n", "age,pixels,size\n5," + filepath.Join(dir, "1.png") + ",6\n7,0.png,8\n"} {
		path := writeFile(t, dir, "x.csv", text)
		s := open(t, path, Options{Takes: takes, Preprocess: unscaled(t)})
		if got := strings.Join(describeFirst(t, s), " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if small, err := s.Thumbnails(context.Background(), []int{1}); err != nil || len(small) != 1 || small[0] == nil {
			t.Errorf("no thumbnail: %v", err)
		}
		again := open(t, path, Options{Takes: takes, Preprocess: unscaled(t), Columns: s.Columns})
		if got := strings.Join(describeFirst(t, again), " "); got != want {
			t.Errorf("columns %q: %s, want %s", s.Columns, got, want)
		}
	}
	s := open(t, writeFile(t, dir, "x.jsonl", `{"file": "1.png"}`), Options{Takes: takes[:1], Preprocess: unscaled(t)})
	if got := strings.Join(describeFirst(t, s), " "); got != "pixels[1 3 2 2][11 0 0 0 11 0 0 0 11 0 0 0]" {
		t.Error(got)
	}
	path := writeFile(t, dir, "x.csv", "file,age,size\nnone.png,5,6\n")
	_, err := Open(context.Background(), path, Options{Takes: takes, Preprocess: unscaled(t)})
	wantError(t, err, "none.png", "no such file")
	_, err = Open(context.Background(), path, Options{Takes: takes})
	wantError(t, err, path, "images need a preprocessing file")
}

// TestUnusedColumns checks that columns that are not used are not decoded, so that damage
// in them does not matter.
func TestUnusedColumns(t *testing.T) {
	type row struct {
		A, B  float64
		List  []float64
		Text  string
		Image []byte
	}
	path := writeParquet(t, []row{{1, 2, []float64{1, 2}, "3", []byte("x")}, {4, 5, nil, "", nil}})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	damage := func(columns ...int) {
		for _, j := range columns {
			c := f.Metadata().RowGroups[0].Columns[j].MetaData
			start := c.DataPageOffset
			if c.DictionaryPageOffset > 0 {
				start = c.DictionaryPageOffset
			}
			clear(b[start : start+c.TotalCompressedSize])
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	damage(2, 4)
	for _, takes := range [][]Takes{columnsInput(2), {{Name: "A", Shape: []int{-1}}, {Name: "B", Shape: []int{-1, 1}}}} {
		s := open(t, path, Options{Takes: takes, Ignore: []string{"List", "Text"}})
		if s.Len() != 2 || len(s.Columns) != 2 {
			t.Errorf("%d rows of %v", s.Len(), s.Columns)
		}
		describeFirst(t, s)
	}
	damage(3)
	readAll(t, open(t, path, Options{Takes: columnsInput(2), Columns: []string{"B", "A"}}), 2)
}

// TestManyFeatures checks that rows are rejected before they are read if they need far more
// memory than their file has bytes.
func TestManyFeatures(t *testing.T) {
	type row struct {
		Features []float64 `parquet:"features"`
	}
	rows := make([]row, 1<<16)
	rows[0].Features = make([]float64, 5000)
	path := writeParquet(t, rows)
	_, err := OpenFeatures(path)
	wantError(t, err, path, "its shape [65536 5000] is too large for a file of")
}

func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{`{"a": 1, "text": "x"}` + "\n" + `{"a": [1, [2]], "text": null}`, `{"input_ids": [1, 2], "attention_mask": [[1]]}`, "{", `{"a": tru}`, "\ufeff{\"a\":1e400}\n\n[]", `{"a":{"b":1},"a":"\ud800"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, o := range []Options{{Takes: columnsInput(1)}, {Takes: tokenInputs(), HasText: true}, {Targets: []string{"a"}, Classes: []string{"x"}}} {
			file := newJSONLines("x.jsonl")
			file.content = []byte(text)
			if file.sniff(context.Background(), o.requested()) != nil {
				continue
			}
			tab := &tableReader{table: table{tabular: file, path: "x.jsonl"}, o: o, groupColumn: -1, idColumn: -1}
			if tab.read(context.Background()) != nil {
				continue
			}
			s := &Set{src: tab.source()}
			n := 0
			for b, err := range s.Blocks(context.Background(), 3) {
				if err == nil {
					err = b.Check()
				}
				if err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				n += b.Len()
			}
			if n != s.Len() || n == 0 {
				t.Fatalf("%q: %d rows of %d", text, n, s.Len())
			}
		}
	})
}
