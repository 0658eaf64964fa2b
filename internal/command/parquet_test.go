package command

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestParquetTable reads a written file back. It checks every kind of value, empty lists,
// infinite numbers, and the order of the columns.
func TestParquetTable(t *testing.T) {
	type row struct {
		Input   string      `parquet:"input"`
		Class   int64       `parquet:"class"`
		Names   []string    `parquet:"names,list"`
		Set     []int64     `parquet:"set,list"`
		Lower   []float32   `parquet:"lower,list"`
		Draws   [][]float64 `parquet:"draws,list"`
		Samples []float64   `parquet:"samples,list"`
		Score   float64     `parquet:"a_score"`
		Flag    bool        `parquet:"flag"`
	}
	single := func(x float64) number { return number{x, true} }
	var b bytes.Buffer
	w := newTableWriter("x.PARQUET", &b)
	for _, fields := range [][]field{
		{
			{"input", "a\xff.png"}, {"class", 7}, {"names", []string{"cat", "köter"}}, {"set", []int{3, 1}}, {"lower", []number{single(1.5), single(math.Inf(-1))}},
			{"draws", samples{{{x: 1}, {x: 2}, {x: 3}}, {{x: 4}, {x: 5}, {x: 6}}}}, {"samples", samples{{{x: 8}, {x: 9}}}}, {"a_score", number{x: math.Inf(1)}}, {"flag", true},
		},
		{
			{"input", ""}, {"class", -1}, {"names", []string{}}, {"set", []int{}}, {"lower", []number{single(0), single(2)}},
			{"draws", samples{{{x: 7}}, {{x: .5}}}}, {"samples", samples{{{x: -1}}}}, {"a_score", number{x: .1}}, {"flag", false},
		},
	} {
		if err := w.write(fields); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	want := []row{
		{"a\ufffd.png", 7, []string{"cat", "köter"}, []int64{3, 1}, []float32{1.5, float32(math.Inf(-1))}, [][]float64{{1, 2, 3}, {4, 5, 6}}, []float64{8, 9}, math.Inf(1), true},
		{"", -1, []string{}, []int64{}, []float32{0, 2}, [][]float64{{7}, {.5}}, []float64{-1}, .1, false},
	}
	r := parquet.NewGenericReader[row](bytes.NewReader(b.Bytes()))
	got := make([]row, 3)
	n, err := r.Read(got)
	if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got[:n], want) {
		t.Errorf("%+v\nwant %+v, error %v", got[:n], want, err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, column := range f.Root().Columns() {
		if name := reflect.TypeFor[row]().Field(i).Tag.Get("parquet"); name != column.Name() && name != column.Name()+",list" {
			t.Errorf("column %d is %s, want %s", i, column.Name(), name)
		}
	}
}
