package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// column is one result for every row of a block. data is row-major with width
// values a row and is one of []string, []int64, []float32, []float64, []bool or
// draws. Those of []float32 are written so that they can be told apart.
type column struct {
	name  string
	width int
	data  any
}

// draws are n samples of each of the targets of a row, target by target.
type draws struct {
	values []float64
	n      int
}

// tableWriter writes block after block of the same columns.
type tableWriter interface {
	write(rows int, columns []column) error
	close() error
}

// checkTableName refuses a path whose extension names no format.
func checkTableName(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv", ".jsonl", ".npz":
		return nil
	}
	if path == "-" {
		return nil
	}
	return usagef("-o is %q; it must end in .csv, .jsonl or .npz, or be - for CSV on standard output", path)
}

// checkExtension refuses names that would hide what the file is.
func checkExtension(flag, path, want string) error {
	if strings.ToLower(filepath.Ext(path)) != want {
		return usagef("%s is %q; it must end in %s", dashed(flag), path, want)
	}
	return nil
}

// newTableWriter picks the format by the extension of path, or CSV.
func newTableWriter(path string, w io.Writer) tableWriter {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".jsonl":
		return &jsonlTable{w: w}
	case ".npz":
		return &npzTable{w: w, arrays: map[string]rows.Array{}}
	}
	return &csvTable{w: csv.NewWriter(w)}
}

func (c column) text(row, j int) string {
	switch d := c.data.(type) {
	case []string:
		return d[row*c.width+j]
	case []int64:
		return strconv.FormatInt(d[row*c.width+j], 10)
	case []bool:
		return strconv.FormatBool(d[row*c.width+j])
	case draws:
		return column{c.name, c.width, d.values}.text(row, j)
	case []float32:
		return number(float64(d[row*c.width+j]), -1, 32)
	case []float64:
		return number(d[row*c.width+j], 9, 64)
	}
	panic("attach: column of unknown type")
}

func number(v float64, digits, bits int) string {
	if math.IsInf(v, 0) {
		return strings.ToLower(strings.TrimPrefix(fmt.Sprint(v), "+"))
	}
	return strconv.FormatFloat(v, 'g', digits, bits)
}

// csvTable names the columns of a result with several values name_0, name_1, …,
// and those of samples sample1, sample2, …, or sample1_0, … for target 0 of
// several.
type csvTable struct {
	w      *csv.Writer
	header bool
}

func (t *csvTable) write(rows int, columns []column) error {
	if !t.header {
		var names []string
		for _, c := range columns {
			if d, ok := c.data.(draws); ok {
				for j := range c.width {
					name := fmt.Sprintf("sample%d", j%d.n+1)
					if c.width > d.n {
						name += fmt.Sprintf("_%d", j/d.n)
					}
					names = append(names, name)
				}
				continue
			}
			if c.width == 1 {
				names = append(names, c.name)
				continue
			}
			for j := range c.width {
				names = append(names, fmt.Sprintf("%s_%d", c.name, j))
			}
		}
		if err := t.w.Write(names); err != nil {
			return err
		}
		t.header = true
	}
	var record []string
	for i := range rows {
		record = record[:0]
		for _, c := range columns {
			for j := range c.width {
				record = append(record, cell(c.text(i, j)))
			}
		}
		if err := t.w.Write(record); err != nil {
			return err
		}
	}
	t.w.Flush()
	return t.w.Error()
}

// cell keeps spreadsheets from taking a name for a formula, with the quotation
// mark in front that they take for "this is text". Numbers stay as they are;
// .jsonl has every name as it is.
func cell(text string) string {
	if text == "" || !strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return text
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	return "'" + text
}

func (t *csvTable) close() error { return nil }

// jsonlTable writes one object a row. JSON has no infinity: an endless bound is
// null.
type jsonlTable struct{ w io.Writer }

func (t *jsonlTable) write(rows int, columns []column) error {
	var b strings.Builder
	for i := range rows {
		b.Reset()
		for k, c := range columns {
			b.WriteString(map[bool]string{true: "{", false: ","}[k == 0])
			name, err := json.Marshal(c.name)
			if err != nil {
				return err
			}
			b.Write(name)
			b.WriteByte(':')
			d, isDraws := c.data.(draws)
			if c.width > 1 || isDraws {
				b.WriteByte('[')
			}
			nested := isDraws && c.width > d.n // a list for each target
			for j := range c.width {
				switch {
				case nested && j == 0:
					b.WriteByte('[')
				case nested && j%d.n == 0:
					b.WriteString("],[")
				case j > 0:
					b.WriteByte(',')
				}
				value := c.text(i, j)
				switch c.data.(type) {
				case []string:
					quoted, err := json.Marshal(value)
					if err != nil {
						return err
					}
					value = string(quoted)
				case []float32, []float64, draws:
					// Nor does it have what is not a number.
					if v, err := strconv.ParseFloat(value, 64); err != nil || v-v != 0 {
						value = "null"
					}
				}
				b.WriteString(value)
			}
			if nested {
				b.WriteByte(']')
			}
			if c.width > 1 || isDraws {
				b.WriteByte(']')
			}
		}
		b.WriteString("}\n")
		if _, err := io.WriteString(t.w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

func (t *jsonlTable) close() error { return nil }

// npzTable gathers the columns and writes them at the end. Columns of text are
// left out: the file's rows are in the order of the inputs.
type npzTable struct {
	w      io.Writer
	arrays map[string]rows.Array
}

func (t *npzTable) write(rows int, columns []column) error {
	for _, c := range columns {
		a := t.arrays[c.name]
		switch d := c.data.(type) {
		case []int64:
			old, _ := a.Data.([]int64)
			a.Data = append(old, d...)
		case []float32:
			old, _ := a.Data.([]float32)
			a.Data = append(old, d...)
		case []float64:
			old, _ := a.Data.([]float64)
			a.Data = append(old, d...)
		case draws:
			old, _ := a.Data.([]float64)
			a.Data = append(old, d.values...)
			if a.Shape == nil {
				a.Shape = []int{0, c.width / d.n, d.n}
			}
		case []bool:
			old, _ := a.Data.([]bool)
			a.Data = append(old, d...)
		default:
			continue
		}
		if a.Shape == nil {
			a.Shape = []int{0}
			if c.width > 1 {
				a.Shape = append(a.Shape, c.width)
			}
		}
		a.Shape[0] += rows
		t.arrays[c.name] = a
	}
	return nil
}

func (t *npzTable) close() error { return npy.WriteNPZ(t.w, t.arrays, false) }
