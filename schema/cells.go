package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// maxCells is the largest number of cells in a row of an input that are columns. The rows of
// a larger input are described by measures, as images are.
const maxCells = 4096

// LearnOptions says what the tensors of a model's input blocks are.
type LearnOptions struct {
	// Columns names the cells of all tensors together, in the order of the tensors. If it has
	// another length, a cell is named after its input and its index.
	Columns []string
	// Texts names the texts that a tokenizer reads, in the order of their tensors. If it is
	// nil, texts are categories.
	Texts []string
	// Layout is the order of the axes of images: "nchw" or "nhwc". It is empty if no input is
	// an image.
	Layout string
}

// columnsOf returns the columns of a block, without their values.
func (o LearnOptions) columnsOf(b ood.InputBlock) (columns []Column) {
	texts, cells := 0, 0
	for _, t := range b.Tensors {
		switch width := rows.Elements(t.Shape[1:]); {
		case t.Strings != nil && o.Texts != nil:
			name := t.Name
			if texts < len(o.Texts) {
				name = o.Texts[texts]
			}
			texts++
			columns = append(columns, measures(t, name, textQuantities)...)
		case o.Layout != "" && len(t.Shape) == 4:
			quantities := numberQuantities
			if t.Shape[channelAxis(o.Layout)] == 3 {
				quantities = imageQuantities
			}
			columns = append(columns, measures(t, "image", quantities)...)
		case t.Lengths == nil && len(t.Shape) <= 2 && width <= maxCells:
			kind := Number
			if t.Strings != nil {
				kind = Category
			}
			for j := range width {
				name := t.Name
				if width > 1 || name == "" {
					name = fmt.Sprintf("%s[%d]", t.Name, j)
				}
				columns = append(columns, Column{Name: name, Input: t.Name, Index: j, Kind: kind})
				cells++
			}
		case t.Strings == nil:
			columns = append(columns, measures(t, t.Name, numberQuantities)...)
		}
	}
	for _, m := range b.Measures {
		columns = append(columns, Column{Name: m.Name, Kind: Measure, Quantity: m.Name})
	}
	if cells != len(o.Columns) {
		return columns
	}
	cells = 0
	for i := range columns {
		if columns[i].Kind != Measure {
			columns[i].Name = o.Columns[cells]
			cells++
		}
	}
	return columns
}

// channelAxis returns the axis of the channels in a tensor of images.
func channelAxis(layout string) int {
	if layout == "nhwc" {
		return 3
	}
	return 1
}

var (
	textQuantities   = []string{"characters", "words", "characters that are no letters", "letters outside ASCII", unknownWords}
	numberQuantities = []string{"mean", "deviation"}
	imageQuantities  = []string{"mean", "deviation", "colour"}
)

// measures returns one column for each quantity of a tensor.
func measures(t ood.Tensor, name string, quantities []string) (columns []Column) {
	for i, q := range quantities {
		columns = append(columns, Column{Name: strings.TrimSpace(name + " " + q), Input: t.Name, Index: i, Kind: Measure, Quantity: q})
	}
	return columns
}

// cells holds the values of one column: numbers, in which NaN is an empty cell, or texts, in
// which the empty text is an empty cell. Both are nil if the block lacks the input.
type cells struct {
	numbers []float32
	texts   []string
}

// valuesOf returns the values of all columns in a block.
func valuesOf(columns []Column, b ood.InputBlock, layout string) []cells {
	all := make([]cells, len(columns))
	measured := map[*ood.Tensor][][]float32{}
	for i, c := range columns {
		if k := slices.IndexFunc(b.Measures, func(m ood.Measure) bool { return m.Name == c.Quantity }); k >= 0 {
			all[i].numbers = b.Measures[k].Values
			continue
		}
		if c.Kind == Measure && !slices.Contains(textQuantities, c.Quantity) && !slices.Contains(imageQuantities, c.Quantity) {
			continue // rows that were not measured, such as arrays in place of image files
		}
		t := b.Find(c.Input)
		if t == nil {
			continue
		}
		if c.Quantity == unknownWords {
			if texts := textsOf(t); texts != nil && c.Words != nil {
				all[i].numbers = c.Words.unknown(texts)
			}
			continue
		}
		if c.Kind == Measure {
			if measured[t] == nil {
				measured[t] = measure(t, layout)
			}
			if c.Index < len(measured[t]) {
				all[i].numbers = measured[t][c.Index]
			}
			continue
		}
		n, width := t.Shape[0], rows.Elements(t.Shape[1:])
		if t.Lengths != nil || c.Index >= width || (c.Kind == Category) != (t.Strings != nil) {
			continue
		}
		if c.Kind == Category {
			all[i].texts = column(t.Strings, n, width, c.Index)
		} else {
			all[i].numbers = column(t.Data, n, width, c.Index)
		}
	}
	return all
}

// column returns column j of a row-major matrix.
func column[T any](data []T, n, width, j int) []T {
	if width == 1 {
		return data
	}
	values := make([]T, n)
	for i := range values {
		values[i] = data[i*width+j]
	}
	return values
}

// measure returns the measures of each row of a tensor, by their index.
func measure(t *ood.Tensor, layout string) [][]float32 {
	n := t.Shape[0]
	if t.Strings != nil {
		texts := textsOf(t)
		if texts == nil {
			return nil
		}
		m := newMeasures(4, n)
		for i, s := range texts {
			m[0][i], m[1][i], m[2][i], m[3][i] = describeText(s)
		}
		return m
	}
	m, first := newMeasures(len(imageQuantities), n), 0
	width := rows.Elements(t.Shape[1:])
	for i := range n {
		if t.Lengths != nil {
			width = t.Lengths[i] * rows.Elements(t.Shape[2:])
		}
		row := t.Data[first : first+width]
		first += width
		m[0][i], m[1][i] = describeNumbers(row)
		if layout != "" && len(t.Shape) == 4 && t.Shape[channelAxis(layout)] == 3 {
			m[2][i] = colour(row, layout)
		}
	}
	return m
}

func newMeasures(k, n int) [][]float32 {
	m := make([][]float32, k)
	for i := range m {
		m[i] = make([]float32, n)
	}
	return m
}

// describeText returns the number of characters and words of a text, the fraction of its
// characters that are neither letters nor white space, and the fraction of letters outside
// ASCII.
func describeText(s string) (characters, words, others, foreign float32) {
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsSpace(r):
			others++
		case r > unicode.MaxASCII && unicode.IsLetter(r):
			foreign++
		}
	}
	characters = float32(utf8.RuneCountInString(s))
	return characters, float32(len(strings.Fields(s))), others / max(characters, 1), foreign / max(characters, 1)
}

// describeNumbers returns the mean and the standard deviation of the numbers that are not NaN.
func describeNumbers(row []float32) (mean, deviation float32) {
	var n, sum, squares float64
	for _, v := range row {
		if v == v {
			n++
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
	}
	m := sum / max(n, 1)
	return float32(m), float32(math.Sqrt(max(0, squares/max(n, 1)-m*m)))
}

// colour returns the mean absolute difference between the first and the last channel of an
// image.
func colour(row []float32, layout string) float32 {
	pixels := len(row) / 3
	step, last := 1, 2*pixels
	if layout == "nhwc" {
		step, last = 3, 2
	}
	var sum float64
	for i := range pixels {
		sum += math.Abs(float64(row[i*step]) - float64(row[i*step+last]))
	}
	return float32(sum / float64(max(pixels, 1)))
}
