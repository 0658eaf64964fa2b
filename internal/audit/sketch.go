package audit

import (
	"math"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// sketch is a short description of an input, from which near copies are found. Its first byte
// is its kind, and the second one its size. It is stored with each row, so that a merge finds
// copies without the inputs.
type sketch [2 + sketchValues]byte

// sketchValues is the largest number of values of a sketch.
const sketchValues = 64

// Kinds of sketches. The values of a picture or signal are its means over a coarse grid, with
// mean 0 and deviation sketchUnit, as int8. The size of a picture is 16 times the number of
// rows of the grid, plus the number of columns. The values of a text are its MinHash (Broder
// 1997). The values of a row of a table are hashes of its cells, and the size is their number.
const (
	pictureSketch = 'p'
	signalSketch  = 's'
	textSketch    = 't'
	cellSketch    = 'c'

	sketchUnit = 32
	gridEdge   = 8 // largest number of rows, and of columns, of the grid of a picture
	// shortAxis is the largest length of an axis that is no axis of a grid, such as the axis of
	// colours. Up to maxCells numbers on one axis are cells.
	shortAxis = 4
	maxCells  = 1024
	// maxText limits how many bytes of a text are compared.
	maxText = 4096
	// shingle is the number of bytes of the overlapping pieces of a text.
	shingle = 5
)

// Sketches returns the sketch of each row of a block. It is nil if the row has none: blank
// pictures and texts, pictures with further inputs, and rows of one number.
func Sketches(b ood.InputBlock) [][]byte {
	list := make([][]byte, b.Len())
	starts := make([]int, len(b.Tensors)) // of the next row
	for i := range list {
		var s sketch
		var ok, picture bool
		var cells []uint64
		for k, t := range b.Tensors {
			shape := t.Shape[1:]
			if t.Lengths != nil {
				shape = append([]int{t.Lengths[i]}, t.Shape[2:]...)
			}
			at, n := starts[k], rows.Elements(shape)
			starts[k] += n
			switch {
			case t.Strings != nil && len(b.Tensors) == 1 && n == 1:
				ok = s.setText(normalizeText(t.Strings[at]))
			case t.Strings != nil:
				for _, text := range t.Strings[at : at+n] {
					cells = append(cells, sampleHash(normalizeText(text)))
				}
			case len(shape) < 2 && n <= maxCells:
				for _, v := range t.Data[at : at+n] {
					cells = append(cells, cellHash(float64(v)))
				}
			default:
				picture = true
				ok = len(b.Tensors) == 1 && s.setPicture(t.Data[at:at+n], shape)
			}
		}
		if ok || !picture && s.setCells(cells) {
			list[i] = s[:]
		}
	}
	return list
}

// setPicture computes the means over a grid. It averages over colours, and over all but the
// last two long axes.
func (s *sketch) setPicture(numbers []float32, shape []int) bool {
	row, column := -1, -1 // axes
	for k, n := range shape {
		if n > shortAxis {
			row, column = column, k
		}
	}
	if column < 0 {
		return false
	}
	height, width := 1, min(sketchValues, shape[column])
	if s[0], s[1] = signalSketch, byte(width); row >= 0 {
		height, width = min(gridEdge, shape[row]), min(gridEdge, width)
		s[0], s[1] = pictureSketch, byte(height<<4|width)
	}
	across, down := overlaps(shape[column], width), []overlap{{0, 1}}
	if row >= 0 {
		down = overlaps(shape[row], height)
	}
	var means, weights [sketchValues + gridEdge + 1]float64 // the last ones have no weight
	index := make([]int, len(shape))
	for _, v := range numbers {
		x, y := across[index[column]], down[0]
		if row >= 0 {
			y = down[index[row]]
		}
		at := y.cell*width + x.cell
		for _, part := range [...]struct {
			at     int
			weight float64
		}{{at, x.share * y.share}, {at + 1, (1 - x.share) * y.share}, {at + width, x.share * (1 - y.share)}, {at + width + 1, (1 - x.share) * (1 - y.share)}} {
			if part.weight > 0 {
				means[part.at] += part.weight * float64(v)
				weights[part.at] += part.weight
			}
		}
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < shape[k] {
				break
			}
			index[k] = 0
		}
	}
	n := height * width
	for k := range n {
		means[k] /= weights[k]
	}
	mean, deviation := stat.PopMeanStdDev(means[:n], nil)
	if !(deviation > 1e-6*math.Abs(mean)) || math.IsInf(deviation, 0) {
		return false
	}
	for k, v := range means[:n] {
		s[2+k] = byte(int8(max(-127, min(127, math.Round(sketchUnit*(v-mean)/deviation)))))
	}
	return true
}

// overlap says that a position lies with a share of its length in a cell of the grid, and with
// the rest in the next cell.
type overlap struct {
	cell  int
	share float64
}

// overlaps divides n positions into cells of equal length, at most one for each position.
func overlaps(n, cells int) []overlap {
	list := make([]overlap, n)
	for i := range list {
		cell := i * cells / n
		list[i] = overlap{cell, min(1, float64((cell+1)*n-i*cells)/float64(cells))}
	}
	return list
}

// setText hashes the pieces of a text. Two texts share a value with the probability that a
// piece of either is in both (their Jaccard similarity).
func (s *sketch) setText(text string) bool {
	if text == "" {
		return false
	}
	var smallest [sketchValues]uint64
	for k := range smallest {
		smallest[k] = math.MaxUint64
	}
	for at := range max(1, len(text)-shingle+1) {
		h := sampleHash(text[at:min(len(text), at+shingle)])
		for k := range smallest {
			smallest[k] = min(smallest[k], h*(mixBits(uint64(k)+1)|1))
		}
	}
	s[0], s[1] = textSketch, sketchValues
	for k, h := range smallest {
		s[2+k] = byte(mixBits(h))
	}
	return true
}

// setCells stores hashes of the cells of a row. If there are many, some neighbours share one.
func (s *sketch) setCells(hashes []uint64) bool {
	if len(hashes) < 2 {
		return false
	}
	shared := (len(hashes) + sketchValues - 1) / sketchValues
	n := 0
	for neighbours := range slices.Chunk(hashes, shared) {
		var h uint64
		for _, next := range neighbours {
			h = mixBits(h ^ next)
		}
		s[2+n] = byte(h)
		n++
	}
	s[0], s[1] = cellSketch, byte(n)
	return true
}

// cellHash hashes a number, rounded to about three digits because files round numbers.
func cellHash(v float64) uint64 {
	if math.IsNaN(v) {
		return 1
	}
	fraction, exponent := math.Frexp(v)
	return mixBits(uint64(int64(math.Round(1024*fraction))<<16 ^ int64(exponent)))
}

// valid reports whether the kind and the size of a sketch are possible.
func (s *sketch) valid() bool {
	switch size := int(s[1]); s[0] {
	case pictureSketch:
		rows, columns := size>>4, size&15
		return 0 < rows && rows <= gridEdge && 0 < columns && columns <= gridEdge
	case signalSketch, textSketch, cellSketch:
		return 0 < size && size <= sketchValues
	}
	return false
}

// normalizeText returns the first maxText bytes of a text, in lower case. Each run of spaces
// and punctuation counts as one space.
func normalizeText(text string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.IsSymbol(r)
	}) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if b.Len() > maxText {
			break
		}
	}
	return b.String()[:min(b.Len(), maxText)]
}

// hashes returns a hash of each row of a batch.
func hashes(b ood.Batch) []rowhash.Hash {
	if b.Hashes == nil {
		return rowhash.Features(append([]blas32.General{b.Features}, b.Layers...)...)
	}
	list := make([]rowhash.Hash, len(b.Hashes))
	for i, h := range b.Hashes {
		list[i] = h
	}
	return list
}
