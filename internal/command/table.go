package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// field is one result of a row. Its value is a string, int, bool, number, samples or matrix.
// Several targets and the p-values of classes are a []number, and a prediction set is a
// []int or []string.
type field struct {
	name  string
	value any
}

// number is a number in a table. It is written with nine digits or, if it is a float32
// (isFloat32), with as many digits as identify it.
type number struct {
	x         float64
	isFloat32 bool
}

// samples holds the samples of each target.
type samples [][]number

// matrix is a lower triangular matrix. A CSV file has only the elements that can differ from 0.
type matrix [][]number

func (n number) String() string {
	switch {
	case math.IsInf(n.x, 0) || math.IsNaN(n.x):
		return strings.ToLower(strings.TrimPrefix(fmt.Sprint(n.x), "+"))
	case n.isFloat32:
		return strconv.FormatFloat(n.x, 'g', -1, 32)
	}
	return strconv.FormatFloat(n.x, 'g', 9, 64)
}

// MarshalJSON writes null for infinite numbers and NaN, because JSON cannot encode them.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(n.x, 0) || math.IsNaN(n.x) {
		return []byte("null"), nil
	}
	return []byte(n.String()), nil
}

// MarshalJSON writes a list of samples. If there are several targets, it writes one list
// for each target.
func (d samples) MarshalJSON() ([]byte, error) {
	if len(d) == 1 {
		return json.Marshal(d[0])
	}
	return json.Marshal([][]number(d))
}

// tableWriter writes rows that all have the same fields. If there are no rows, writeHeader
// writes the columns of a row, whose values it ignores.
type tableWriter interface {
	writeHeader(row []field) error
	write(row []field) error
	close() error
}

// tableFile is the rule for a file name whose extension names a table format.
func tableFile(value any) string {
	switch strings.ToLower(filepath.Ext(value.(string))) {
	case ".csv", ".jsonl", ".npz", ".parquet":
		return ""
	}
	if value == "-" {
		return ""
	}
	return "it must end in .csv, .jsonl, .parquet or .npz, or be - for CSV on standard output"
}

// newTableWriter returns a writer for the format that the extension of path names. Without
// a known extension it is CSV.
func newTableWriter(path string, w io.Writer) tableWriter {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".jsonl":
		return &jsonlTable{w: w}
	case ".npz":
		return &npzTable{w: w, arrays: map[string]rows.Array{}}
	case ".parquet":
		return &parquetTable{output: w}
	case ".txt":
		return &nameTable{w}
	}
	return &csvTable{w: csv.NewWriter(w)}
}

// csvTable writes a CSV file. The columns of a field with several values are name_0, name_1
// and so on. The columns of samples are sample1, sample2 and so on. With several targets,
// they are sample1_0 and so on for target 0. The columns of a matrix end in the numbers of the
// row and the column.
type csvTable struct {
	w      *csv.Writer
	header bool
	record []string // cells of a row, reused for the next row
}

func (t *csvTable) write(row []field) error {
	if !t.header {
		if err := t.writeHeader(row); err != nil {
			return err
		}
	}
	t.record = t.record[:0]
	eachCell(row, func(text, _ string, _ ...any) { t.record = append(t.record, escapeFormula(text)) })
	return t.w.Write(t.record)
}

// writeHeader writes the names of the columns of a row.
func (t *csvTable) writeHeader(row []field) error {
	var names []string
	eachCell(row, func(_, name string, args ...any) { names = append(names, escapeFormula(fmt.Sprintf(name, args...))) })
	t.header = true
	return t.w.Write(names)
}

// eachCell calls the function add with the text of each cell of a row, and with the format and
// the arguments of the name of its column.
func eachCell(row []field, add func(text, name string, args ...any)) {
	for _, f := range row {
		switch v := f.value.(type) {
		case []number:
			for i, x := range v {
				add(x.String(), "%s_%d", f.name, i)
			}
		case samples:
			for i, samples := range v {
				target := ""
				if len(v) > 1 {
					target = fmt.Sprintf("_%d", i)
				}
				for j, x := range samples {
					add(x.String(), "sample%d%s", j+1, target)
				}
			}
		case matrix:
			for i, elements := range v {
				for j, x := range elements[:i+1] {
					add(x.String(), "%s_%d_%d", f.name, i, j)
				}
			}
		default:
			add(formatText(v), "%s", f.name)
		}
	}
}

// formatText formats a value as the text of one cell.
func formatText(value any) string {
	switch v := value.(type) {
	case []int:
		return strings.Trim(fmt.Sprint(v), "[]")
	case []string:
		return strings.Join(v, "; ")
	}
	return fmt.Sprint(value)
}

// escapeFormula puts a ' before text that a spreadsheet would read as a formula. The '
// marks text. The function checks each part between separators, because a spreadsheet may
// split cells at characters other than commas. Numbers do not change. Only CSV files need
// this, so .jsonl files have the original text.
func escapeFormula(text string) string {
	if text == "" {
		return ""
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	var b strings.Builder
	if strings.ContainsRune("\t\r\n", rune(text[0])) {
		b.WriteByte('\'')
	}
	for len(text) > 0 {
		part := text
		if i := strings.IndexAny(text, separators); i >= 0 {
			part = text[:i+1]
		}
		text = text[len(part):]
		if isFormula(strings.TrimRight(part, separators)) {
			b.WriteByte('\'')
		}
		b.WriteString(part)
	}
	return b.String()
}

// separators are the characters at which spreadsheets split lines and cells.
const separators = ",;|\t\r\n"

// isFormula reports whether a spreadsheet may read text as a formula. A formula begins with
// =, +, - or @, also in full width, and is not a number. Blanks, quotation marks and
// invisible characters may precede it.
func isFormula(text string) bool {
	trimmed := strings.TrimLeftFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || r == '"' || !unicode.IsGraphic(r)
	})
	sign, _ := utf8.DecodeRuneInString(trimmed)
	if !strings.ContainsRune("=+-@＝＋－＠", sign) {
		return false
	}
	_, err := strconv.ParseFloat(strings.TrimSpace(trimmed), 64)
	return err != nil
}

func (t *csvTable) close() error {
	t.w.Flush()
	return t.w.Error()
}

// nameTable writes the first field of each row, one a line.
type nameTable struct{ w io.Writer }

func (t *nameTable) write(row []field) error {
	name := fmt.Sprint(row[0].value)
	if strings.ContainsAny(name, "\r\n") {
		return fmt.Errorf("the name %q has a line break, so a list with a name per line cannot hold it; write to a .csv file", name)
	}
	_, err := fmt.Fprintln(t.w, name)
	return err
}

func (t *nameTable) writeHeader([]field) error { return nil }

func (t *nameTable) close() error { return nil }

// jsonlTable writes one JSON object per row.
type jsonlTable struct {
	w   io.Writer
	row bytes.Buffer
}

func (t *jsonlTable) write(row []field) error {
	t.row.Reset()
	for i, f := range row {
		// Encode each field by itself, because encoding a map would sort the names.
		encoded, err := json.Marshal(map[string]any{f.name: f.value})
		if err != nil {
			return err
		}
		if i > 0 {
			t.row.Truncate(t.row.Len() - 1)
			encoded[0] = ','
		}
		t.row.Write(encoded)
	}
	t.row.WriteByte('\n')
	_, err := t.w.Write(t.row.Bytes())
	return err
}

func (t *jsonlTable) writeHeader([]field) error { return nil }

func (t *jsonlTable) close() error { return nil }

// npzTable collects the fields and writes them at the end. It leaves out text, because the
// rows are in the order of the inputs. The classes of all prediction sets form one list,
// and set_size holds the number of classes of each row.
type npzTable struct {
	w      io.Writer
	arrays map[string]rows.Array
}

func (t *npzTable) write(row []field) error {
	for _, f := range row {
		a, n := t.arrays[f.name], 1
		if a.Shape != nil {
			n += a.Shape[0]
		}
		a.Shape = []int{n}
		switch v := f.value.(type) {
		case int:
			grow(&a, int64(v))
		case bool:
			grow(&a, v)
		case number:
			appendNumbers(&a, []number{v})
		case []number:
			a.Shape = []int{n, len(v)}
			appendNumbers(&a, v)
		case []int:
			for _, class := range v {
				grow(&a, int64(class))
			}
			list, _ := a.Data.([]int64)
			a.Shape, a.Data = []int{len(list)}, list
		case samples:
			a.Shape = []int{n, len(v), len(v[0])}
			for _, samples := range v {
				appendNumbers(&a, samples)
			}
		case matrix:
			a.Shape = []int{n, len(v), len(v)}
			for _, elements := range v {
				appendNumbers(&a, elements)
			}
		default:
			continue
		}
		t.arrays[f.name] = a
	}
	return nil
}

func appendNumbers(a *rows.Array, list []number) {
	for _, n := range list {
		if n.isFloat32 {
			grow(a, float32(n.x))
		} else {
			grow(a, n.x)
		}
	}
}

func grow[T any](a *rows.Array, x T) {
	values, _ := a.Data.([]T)
	a.Data = append(values, x)
}

func (t *npzTable) writeHeader([]field) error { return nil }

func (t *npzTable) close() error { return npy.WriteNPZ(t.w, t.arrays, false) }
