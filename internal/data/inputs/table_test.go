package inputs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas/blas32"
)

func TestTables(t *testing.T) {
	want := []float32{1, 2.5, -3, 4, 5e3, 6}
	for name, text := range map[string]string{
		"plain.csv":      "1,2.5,-3\n4,5e3,6\n",
		"header.csv":     "a,b,c\n1,2.5,-3\n4,5e3,6\n",
		"quoted.csv":     "\"a\",\"b, with comma\",\"c\"\r\n\"1\",\"2.5\",\"-3\"\r\n4,5e3,6",
		"semicolons.csv": "\"fixed acidity\";\"b\";\"c\"\n1;2.5;-3\n4;5e3;6\n",
		"bom.csv":        "\ufeffa,b,c\n1,2.5,-3\n4,5e3,6\n",
		"spaces.txt":     "  1   2.5 -3\n\n 4 5e3\t6 \n",
		"tabs.tsv":       "a\tb\tc\n1\t2.5\t-3\n4\t5e3\t6\n",
		"quotedtabs.tsv": "\"a a\"\t\"b\"\t\"c\"\n1\t2.5\t-3\n4\t5e3\t6\n",
		"comment.txt":    "# a b c\n1 2.5 -3\n4 5e3 6\n",
		"twolines.csv":   "\"a\r\nb\",c,d\r\n1,2.5,-3\n4,5e3,6",
		"allquoted.csv":  "\"1\",\"2.5\",\"-3\"\n\"4\",\"5e3\",\"6\"\n",
		"excel.csv":      "\ufeffsep=;\r\n1;2.5;-3\r\n4;5e3;6\r\n",
		"comment.csv":    "# made by hand\n1, 2.5, -3\n#\n4, 5e3, 6\n## end",
		"hash.txt":       "#x y z\n1 2.5 -3\n4 5e3 6",
		"ames.csv":       "1stFlrSF,x,y\n1,2.5,-3\n4,5e3,6\n",
		"index.csv":      ",b,c\n1,2.5,-3\n4,5e3,6\n",
	} {
		path := writeFile(t, t.TempDir(), name, text)
		s := open(t, path, Options{})
		if s.Len() != 2 || !slices.Equal(s.Shape(), []int{3}) {
			t.Errorf("%s: %d rows of %v", name, s.Len(), s.Shape())
			continue
		}
		if got := readAll(t, s, 2); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if s.Targets.Rows > 0 || s.Labels != nil {
			t.Errorf("%s has targets that nobody asked for", name)
		}
	}
}

// TestHeader checks which first lines are headers. A row must never be taken for a header,
// because it would be lost.
func TestHeader(t *testing.T) {
	for _, c := range []struct {
		first string
		want  string // names of columns, or the beginning of an error
	}{
		// At least one cell is a name, and no cell is a number.
		{"a", "a"},
		{"a,b", "a,b"},
		{",b", ",b"},
		{"1stFlrSF, GrLivArea ", "1stFlrSF,GrLivArea"},
		{"%fat,€", "%fat,€"},
		{"-x,?", "-x,?"},
		// A row of numbers.
		{"0,1", ""},
		{"0,1,2", ""},
		{"1_000,0x1p-2", ""},
		// A row with a cell that is not a number.
		{"1e39", `line 1, column 1: "1e39" is too large for float32; `},
		{"1.5x", `line 1, column 1: "1.5x" is not a number; if this line is a header, none of its cells may be a number`},
		{`"1,000"`, `line 1, column 1: "1,000" is not a number (decimal comma, or thousands separator?); write 1.000 or 1000`},
		{"3,5;1", `line 1, column 1: "3,5" is not a number (decimal comma?); write 3.5`},
		{"0x1F", `line 1, column 1: "0x1F" is not`},
		{"NA,5", `line 1, column 1: "NA" is not`},
		{",5", "line 1, column 1: the cell is empty; "},
		{",", "line 1, column 1: the cell is empty; "},
		{"NA", `line 1, column 1: "NA" is not`},
		{"NULL,#N/A", `line 1, column 1: "NULL" is not`},
		{"?,-", `line 1, column 1: "?" is not`},
		{"a\x1b,b", `line 1, column 1: "a\x1b" is not`},
		{"nan", `line 1, column 1: "nan" is not`},
		{"5,inf", `line 1, column 2: "inf" is not`},
		{"M,1", `line 1, column 1: "M" is not`},
		{"0,1,target", `line 1, column 3: "target" is not`},
		{",0,1,2", "line 1, column 1: the cell is empty; pandas writes such a header above an index: write the table with index=False"},
	} {
		n := 1
		if !strings.Contains(c.first, `"`) {
			n += strings.Count(c.first, ",")
		}
		rows := strings.Repeat("\n1"+strings.Repeat(",2", n-1), 2)
		path := writeFile(t, t.TempDir(), "t.csv", c.first+rows)
		s, err := Open(context.Background(), path, Options{})
		if strings.HasPrefix(c.want, "line") {
			wantError(t, err, path, c.want)
			// A file with only this line gives the same error.
			path := writeFile(t, t.TempDir(), "t.csv", c.first)
			_, err := Open(context.Background(), path, Options{})
			wantError(t, err, path, c.want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.first, err)
			continue
		}
		want := 2
		if c.want == "" {
			want = 3
		}
		if s.Len() != want || strings.Join(s.Columns, ",") != c.want {
			t.Errorf("%s: %d rows of columns %q, want %d", c.first, s.Len(), s.Columns, want)
		}
	}
	// A requested name makes a line of numbers a header, but a requested number does not.
	path := writeFile(t, t.TempDir(), "t.csv", "0,1,y\n1,2,3\n")
	if s := open(t, path, Options{Targets: []string{"y"}}); s.Len() != 1 || !slices.Equal(s.Columns, []string{"0", "1"}) {
		t.Errorf("%d rows of columns %q", s.Len(), s.Columns)
	}
	_, err := Open(context.Background(), path, Options{Targets: []string{"1"}})
	wantError(t, err, path, `it has no header, so there is no column "1"; use last`)
	path = writeFile(t, t.TempDir(), "t.csv", "y,a,y\n1,2,3\n")
	_, err = Open(context.Background(), path, Options{Targets: []string{"y"}})
	wantError(t, err, path, `two columns are named "y"`)
	long := strings.Repeat("é", 100_000)
	path = writeFile(t, t.TempDir(), "t.csv", long+","+long+",a\n1,2,3\n")
	for _, target := range []string{"y", long, long + "y"} {
		_, err = Open(context.Background(), path, Options{Targets: []string{target}})
		if wantError(t, err, path, "column"); err != nil && len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
	path = writeFile(t, t.TempDir(), "t.csv", `1,"2`+strings.Repeat("\n3,4", maxRecord/4))
	_, err = Open(context.Background(), path, Options{})
	wantError(t, err, path, "is a quote not closed")
	// Empty cells of a .tsv file count as cells.
	path = writeFile(t, t.TempDir(), "t.tsv", "1\t\t3\n\t2\t4\n")
	_, err = Open(context.Background(), path, Options{})
	wantError(t, err, path, "line 1, column 2: the cell is empty")
}

func TestTableTarget(t *testing.T) {
	path := writeFile(t, t.TempDir(), "t.csv", "a,y,c\n1,2,3.5\n4,5,6\n")
	for target, want := range map[string][]float32{"y": {2, 5}, "last": {3.5, 6}, "a": {1, 4}} {
		s := open(t, path, Options{Targets: []string{target}})
		y, ok := s.Targets, s.Targets.Rows > 0
		if !ok || !slices.Equal(y.Data, want) || !slices.Equal(s.Shape(), []int{2}) {
			t.Errorf("target %s: %v beside rows of %v", target, y.Data, s.Shape())
		}
		if (s.Labels != nil) != (target != "last") {
			t.Errorf("target %s: labels %v; want them where all are whole numbers", target, s.Labels)
		}
	}
	s := open(t, path, Options{Targets: []string{"y"}})
	if got := readAll(t, s, 1); !slices.Equal(got, []float32{1, 3.5, 4, 6}) {
		t.Errorf("inputs %v", got)
	}
	if s.Name(1) != "line 3 of "+path {
		t.Errorf("row 1 is named %s", s.Name(1))
	}
}

func TestTableErrors(t *testing.T) {
	for text, words := range map[string]string{
		"":                               "there are no rows",
		"\n\n":                           "there are no rows",
		"a,b\n":                          "there are no rows",
		"1,2\n3\n":                       "line 2: it has 1 column, but earlier lines have 2",
		"a,b\n1,2\n3,x\n":                `line 3, column "b": "x" is not a number`,
		"a,b\nc,d\n":                     `line 2, column "a": "c" is not a number`,
		"1,2\n#N/A,5\n3,4\n":             `line 2, column 1: "#N/A" is not a number; fill it, or leave the row out`,
		"\"1\"\t\t3\n\t2\t4\n":           "line 1, column 2: the cell is empty",
		"\xff\xfe1\x002\x00":             "UTF-16",
		"1\r2\r3\r":                      "line 1: it has a carriage return without a line feed",
		"1\x00,2\n":                      `line 1, column 1: "1\x00" is not a number`,
		"1,2\n3,\n":                      "line 2, column 2: the cell is empty",
		"1,2\n3,nan\n":                   `line 2, column 2: "nan" is not a finite number`,
		"1,2\n3,-inf\n":                  `"-inf" is not a finite number`,
		"1,2\n3,1e999\n":                 `"1e999" is too large for float32`,
		"1,2\n3,1e39\n":                  `line 2, column 2: "1e39" is too large for float32`,
		"1,5;2,5\n3,5;4,5\n":             `line 1, column 1: "1,5" is not a number (decimal comma?); write 1.5`,
		"1,2\n3,\"4\n":                   "quote",
		strings.Repeat("1 2\n", 3) + "3": "line 4: it has 1 column",
	} {
		path := writeFile(t, t.TempDir(), "t.csv", text)
		_, err := Open(context.Background(), path, Options{})
		wantError(t, err, path, words)
	}
	path := writeFile(t, t.TempDir(), "t.csv", "a,b\n1,2\n")
	_, err := Open(context.Background(), path, Options{Targets: []string{"z"}})
	wantError(t, err, path, `there is no column "z"; its columns are a, b`)
	_, err = Open(context.Background(), path, Options{Preprocess: unscaled(t)})
	wantError(t, err, path, "preprocessing is for images")
	path = writeFile(t, t.TempDir(), "t.txt", "1 2\n")
	_, err = Open(context.Background(), path, Options{Targets: []string{"z"}})
	wantError(t, err, path, "it has no header")
	path = writeFile(t, t.TempDir(), "t.txt", "1\n2\n")
	_, err = Open(context.Background(), path, Options{Targets: []string{"last"}})
	wantError(t, err, path, "all its columns are targets, groups or left out, so that there are no inputs")
}

// TestBlankLines checks that a blank line in a file with one column is a row with an empty
// cell. Otherwise later rows would get wrong labels. In other files a blank line is not a
// row.
func TestBlankLines(t *testing.T) {
	gap := float32(math.NaN())
	for text, want := range map[string][]float32{
		"x\n1\n\n3\n":                                {1, gap, 3},
		"1\n \t\n\r\n4\n\n\n":                        {1, gap, gap, 4},
		"\"x\"\n\n2\n# a comment\n3":                 {gap, 2, 3},
		"\"x\ny\"\n1\n\n\"3\"\n\n\"5\"\n":            {1, gap, 3, gap, 5},
		"x\n1\n\"\"\n3\n":                            {1, gap, 3},
		"\n\nx\n1\n2\n":                              {1, 2},
		"x,g\n1,a\n\n2,b\n":                          {1, 2},
		"x g\n1 2\n\n2 3\n":                          {1, 2},
		"sep=;\nx\n" + strings.Repeat("1\n\n", 2000): slices.Repeat([]float32{1, gap}, 2000)[:3999],
	} {
		path := writeFile(t, t.TempDir(), "a.csv", text)
		s := open(t, path, Options{Takes: []Takes{{Name: "x", Shape: []int{-1, 1}, NaN: true}}, Ignore: otherColumns(text)})
		x, err := s.All(t.Context())
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if !slices.EqualFunc(x.Data, want, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Errorf("%.40q: %d rows, %v, want %v", text, x.Rows, x.Data[:min(9, x.Rows)], want[:min(9, len(want))])
		}
		// Reading in any order gives the same rows.
		if n := s.Len(); n > 2 {
			some := readAll(t, s.Subset([]int{n - 1, 1}), 2)
			if some[0] != want[n-1] || some[1] == some[1] && some[1] != want[1] {
				t.Errorf("%.40q: rows %d and 1 are %v", text, n-1, some)
			}
		}
	}
	_, err := Open(t.Context(), writeFile(t, t.TempDir(), "a.csv", "x\n1\n\n3\n"), Options{Takes: columnsInput(1)})
	wantError(t, err, "a.csv", `line 3, column "x": the cell is empty`)
	y, err := OpenTargets(t.Context(), writeFile(t, t.TempDir(), "y.csv", "y\n0\n\n1\n"), 3, 0, nil)
	if err != nil || !slices.Equal(y.Labels, []int{0, Unlabelled, 1}) {
		t.Errorf("labels %v: %v", y.Labels, err)
	}
	words := writeFile(t, t.TempDir(), "a.csv", "text\n\"a\n\nb\"\n\nit is 5\" long\n\nc\n")
	if s := open(t, words, Options{HasText: true, Takes: tokenInputs(), Text: []string{"text"}}); s.Len() != 5 {
		t.Errorf("%d texts", s.Len())
	}
}

// otherColumns returns the columns other than x.
func otherColumns(text string) []string {
	if strings.Contains(text, "g\n") {
		return []string{"g"}
	}
	return nil
}

func FuzzTable(f *testing.F) {
	for _, s := range []string{"1,2\n3,4\n", "a;b\n1;2\n", "# x\n1 2\n", "\ufeffa\t\"b\"\n1\t2\n", "\"", "a,b\n1,2\n,\n", "nan,1\n",
		"1e39\n1\n", "1.5x\n1\n", "NA,5\n1,2\n", ",0,1\n0,1,2\n", "1\n#N/A\n#\n2\n", "\xff\xfe1\x00", "\"1\"\t\t2\n", "1\x00\n", "\"1\n2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(text string, o Options) (*table, blas32.General, error) {
			f := &delimited{textFile{path: "x.csv", plain: o.HasText}, -1, false}
			f.content = []byte(text)
			tab := &tableReader{table: table{tabular: f, path: "x.csv"}, o: o, groupColumn: -1, idColumn: -1}
			if err := tab.read(context.Background()); err != nil {
				return nil, blas32.General{}, err
			}
			if tab.tensors()[0].Strings != nil {
				return &tab.table, blas32.General{}, nil
			}
			x, err := (&Set{src: tab.source()}).All(context.Background())
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return &tab.table, x, nil
		}
		for _, o := range []Options{{Takes: columnsInput(1)}, {Columns: []string{"a"}, Targets: []string{"b"}, TargetOptional: true, SkipOdd: true}, {Targets: []string{"last"}, Groups: "a", Ignore: []string{"b"}},
			{Takes: tokenInputs(), HasText: true}} {
			if tab, x, err := read(text, o); err == nil && len(x.Data) != x.Rows*x.Cols || err == nil && tab.n == 0 {
				t.Fatalf("%q: %d cells in %d rows of %d", text, len(x.Data), x.Rows, x.Cols)
			}
		}
		_, x, err := read(text, Options{})
		if err != nil {
			return
		}
		// A table that is written as simple CSV and read again does not change.
		var b strings.Builder
		for i := range x.Rows {
			for j, v := range x.Data[i*x.Cols : (i+1)*x.Cols] {
				if j > 0 {
					b.WriteByte(',')
				}
				fmt.Fprint(&b, v)
			}
			b.WriteByte('\n')
		}
		_, again, err := read(b.String(), Options{})
		if err != nil || !slices.Equal(x.Data, again.Data) || x.Cols != again.Cols {
			t.Fatalf("%q is %v, and again %v, error %v", text, x, again, err)
		}
	})
}

// TestTableColumns checks that columns are found by their names, and that other cells are not
// read.
func TestTableColumns(t *testing.T) {
	path := writeFile(t, t.TempDir(), "t.csv", "name,b,y,a\nx,1,2,3\n,4,5,6\n")
	o := Options{Columns: []string{"a", "b"}, Targets: []string{"y"}, TargetOptional: true}
	s := open(t, path, o)
	if got := readAll(t, s, 1); !slices.Equal(got, []float32{3, 1, 6, 4}) || !slices.Equal(s.TargetNames, []string{"y"}) {
		t.Errorf("inputs %v, target %q", got, s.TargetNames)
	}
	if y := s.Targets; !slices.Equal(y.Data, []float32{2, 5}) {
		t.Errorf("targets %v", y.Data)
	}
	// A column can be a group and an input.
	o.Groups = "a"
	if s := open(t, path, o); !slices.Equal(s.Groups, []string{"3", "6"}) || s.RowLen() != 2 {
		t.Errorf("groups %q", s.Groups)
	}
	// An empty cell is an unknown target, and a text is an error.
	gaps := writeFile(t, t.TempDir(), "t.csv", "a,b,y\n1,2,3\n4,5,\n6,7,8\n")
	s = open(t, gaps, Options{Columns: []string{"a", "b"}, Targets: []string{"y"}})
	if y := s.Targets; s.Len() != 3 || y.Rows != 3 || y.Data[0] != 3 || !math.IsNaN(float64(y.Data[1])) || !slices.Equal(s.Labels, []int{3, Unlabelled, 8}) {
		t.Errorf("%d rows, targets %v, labels %v", s.Len(), y, s.Labels)
	}
	if known, err := s.Known(); err != nil || known.Len() != 2 || known.Name(1) != "line 4 of "+gaps || !slices.Equal(known.Labels, []int{3, 8}) {
		t.Errorf("%d rows of labels %v, error %v", known.Len(), known.Labels, err)
	}
	texts := writeFile(t, t.TempDir(), "t.csv", "a,b,y\n1,2,3\n4,5,low\n")
	s = open(t, texts, Options{Columns: []string{"a", "b"}, Targets: []string{"y"}, TargetOptional: true, SkipOdd: true})
	if s.Targets.Rows > 0 || s.Len() != 2 {
		t.Errorf("%d rows with targets", s.Len())
	}
	var name *ClassNameError
	for _, o := range []Options{{SkipOdd: true}, {TargetOptional: true}} {
		o.Columns, o.Targets = []string{"a", "b"}, []string{"y"}
		_, err := Open(context.Background(), texts, o)
		if wantError(t, err, texts, `line 3, column "y": "low" is not a number`); !errors.As(err, &name) {
			t.Errorf("%v is of no class name", err)
		}
		// Targets that are not needed are not read, and are not inputs.
		o.NoTargets, o.Columns = true, nil
		if s := open(t, texts, o); s.Targets.Rows > 0 || !slices.Equal(s.Columns, []string{"a", "b"}) {
			t.Errorf("columns %q, %d targets", s.Columns, s.Targets.Rows)
		}
	}
	_, err := Open(context.Background(), writeFile(t, t.TempDir(), "t.csv", "a,y\n1,\"1,5\"\n"), Options{Targets: []string{"y"}})
	if wantError(t, err, "t.csv", `line 2, column "y": "1,5" is not a number (decimal comma?); write 1.5`); errors.As(err, &name) {
		t.Error("a number is a class name")
	}
	// Optional targets may be absent. Without SkipOdd, either all or none must be present.
	twoTargets := Options{Columns: []string{"a", "b"}, Targets: []string{"y", "z"}, TargetOptional: true}
	_, err = Open(context.Background(), path, twoTargets)
	wantError(t, err, path, `there is no column "z"; its columns are name, b, y, a`)
	twoTargets.SkipOdd = true
	if open(t, path, twoTargets).Targets.Rows > 0 {
		t.Error("one target of two is read")
	}
	// Names that are numbers make a header if the fit used them.
	numbers := writeFile(t, t.TempDir(), "t.csv", "1,0\n3,4\n")
	if got := readAll(t, open(t, numbers, Options{Columns: []string{"0", "1"}}), 1); !slices.Equal(got, []float32{4, 3}) {
		t.Errorf("inputs %v", got)
	}
	_, err = Open(context.Background(), path, Options{Columns: []string{"a", "c"}})
	wantError(t, err, path, `it lacks the column "c" of the fit; its columns are name, b, y, a; add what is missing, or rename the column that holds it`)
	duplicateColumns := writeFile(t, t.TempDir(), "t.csv", "a,a\n1,2\n")
	_, err = Open(context.Background(), duplicateColumns, Options{})
	wantError(t, err, duplicateColumns, `two columns are named "a"; rename one`)
	// If there are too many columns, only columns with numbers are inputs.
	wide := writeFile(t, t.TempDir(), "t.csv", ",id,a,b\n0,p,1,2\n1,q,3,x\n")
	_, err = Open(context.Background(), wide, Options{Takes: columnsInput(2)})
	wantError(t, err, wide, `line 3, column "b": "x" is not a number`)
	if s := open(t, wide, Options{Takes: columnsInput(1), Targets: []string{"a"}, Ignore: []string{"id", "b"}}); !slices.Equal(s.Columns, []string{""}) {
		t.Errorf("columns %q", s.Columns)
	}
}

// columnsInput returns the single input of a model that takes the given number of columns.
func columnsInput(columns int) []Takes { return []Takes{{Name: "x", Shape: []int{-1, columns}}} }

// TestWideTable checks that time grows linearly with the number of columns.
func TestWideTable(t *testing.T) {
	const n = 60_000
	var names, cells, keys strings.Builder
	for i := range n {
		fmt.Fprintf(&names, "c%d,", i)
		fmt.Fprintf(&cells, "%d,", i%7)
		fmt.Fprintf(&keys, `"c%d":1,`, i)
	}
	dir := t.TempDir()
	table := writeFile(t, dir, "x.csv", names.String()+"last\n"+cells.String()+"1\n")
	lines := writeFile(t, dir, "x.jsonl", "{"+keys.String()+`"last":1}`)
	start := time.Now()
	s := open(t, table, Options{Takes: columnsInput(n + 1)})
	for _, path := range []string{table, lines} {
		s = open(t, path, Options{Takes: columnsInput(n + 1), Columns: s.Columns})
	}
	if took := time.Since(start); took > 10*time.Second || len(s.Columns) != n+1 {
		t.Errorf("%d columns took %v", len(s.Columns), took)
	}
}

// TestIDOfText checks that the text column can also identify rows.
func TestIDOfText(t *testing.T) {
	path := writeFile(t, t.TempDir(), "t.csv", "text\nwho is it\nwho\n")
	s := open(t, path, Options{HasText: true, Takes: tokenInputs(), Text: []string{"text"}, ID: "text"})
	if s.Len() != 2 || !slices.Equal(s.IDs, []string{"who is it", "who"}) {
		t.Errorf("%d rows are called %q", s.Len(), s.IDs)
	}
}
