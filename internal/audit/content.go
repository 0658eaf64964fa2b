package audit

import (
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Content summarises an input before the model reads it: a piece for each input tensor, with
// enough detail to compare two rows for near duplicates. It is nil for rows of features.
type Content []piece

// piece is the text of a row, its numbers, or their means over a coarse grid.
type piece struct {
	Text  string `json:"text,omitempty"`
	Cells floats `json:"cells,omitempty"`
	Means floats `json:"means,omitempty"`
	// Spread is the standard deviation of the numbers.
	Spread float32 `json:"spread,omitempty"`
}

const (
	// mostText bounds the letters that are compared, mostCells the numbers that are compared
	// one by one, and mostMeans the means.
	mostText  = 500
	mostCells = 1024
	mostMeans = 256
	// few is the largest length of an axis that is not averaged over, such as colours.
	few = 4

	// cellTolerance is the largest relative difference of equal cells, because files round
	// numbers. featureTolerance is that of features, relative to their standard deviation,
	// because the outputs of a model vary a little with the batch.
	cellTolerance    = 1e-4
	featureTolerance = 1e-3
	// meanTolerance is the largest root-mean-square difference of the means of near duplicate
	// pictures or signals, relative to the standard deviation within them.
	meanTolerance = .1
	// textTolerance is the largest fraction of letters in which near duplicate texts differ.
	textTolerance = .1
)

// Contents returns the contents of the rows of a block.
func Contents(b ood.InputBlock) []Content {
	list := make([]Content, b.Len())
	for _, t := range b.Tensors {
		at := 0
		for i := range list {
			shape := t.Shape[1:]
			if t.Lengths != nil {
				shape = append([]int{t.Lengths[i]}, t.Shape[2:]...)
			}
			n := 1
			for _, d := range shape {
				n *= d
			}
			var p piece
			switch {
			case t.Strings != nil:
				p.Text = plain(strings.Join(t.Strings[at:at+n], "\n"))
			case len(shape) < 2 && n <= mostCells:
				p.Cells = append(floats{}, t.Data[at:at+n]...)
			default:
				p.Means, p.Spread = means(t.Data[at:at+n], shape)
			}
			list[i] = append(list[i], p)
			at += n
		}
	}
	return list
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

// plain returns the beginning of a text in lower case and without punctuation.
func plain(text string) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.IsSymbol(r)
	}) {
		if n > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if n += 1 + len(word); n > 4*mostText {
			break
		}
	}
	letters := []rune(b.String())
	return string(letters[:min(len(letters), mostText)])
}

// means averages numbers of a shape over the cells of a grid. The grid has at most mostMeans
// cells, times the lengths of short axes. Spread is the standard deviation of all numbers.
func means(numbers []float32, shape []int) (list floats, spread float32) {
	long := 0
	for _, d := range shape {
		if d > few {
			long++
		}
	}
	edge := mostMeans
	if long > 1 {
		edge = max(2, int(math.Pow(mostMeans, 1/float64(long))))
	}
	strides, sizes, total := make([]int, len(shape)), make([]int, len(shape)), 1
	for k := len(shape) - 1; k >= 0; k-- {
		if sizes[k] = shape[k]; sizes[k] > few {
			sizes[k] = min(sizes[k], edge)
		}
		strides[k] = total
		total *= sizes[k]
	}
	sums, counts := make([]float64, total), make([]int, total)
	var all, squares float64
	index := make([]int, len(shape))
	for _, v := range numbers {
		cell := 0
		for k, i := range index {
			cell += strides[k] * (i * sizes[k] / shape[k])
		}
		sums[cell] += float64(v)
		counts[cell]++
		all += float64(v)
		squares += float64(v) * float64(v)
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < shape[k] {
				break
			}
			index[k] = 0
		}
	}
	n := float64(len(numbers))
	list = make(floats, total)
	for i, count := range counts {
		list[i] = float32(sums[i] / float64(max(count, 1)))
	}
	return list, float32(math.Sqrt(max(0, squares/n-all/n*all/n)))
}

// nearly reports whether two inputs are near duplicates by content.
func (r keptRow) nearly(o keptRow) bool {
	if r.Hash == o.Hash {
		return true
	}
	if len(r.Content) != len(o.Content) {
		return false
	}
	if r.Content == nil {
		return within(r.Features, o.Features, featureTolerance*max(spread(r.Features), spread(o.Features)))
	}
	for i, p := range r.Content {
		if !p.nearly(o.Content[i]) {
			return false
		}
	}
	return true
}

func (p piece) nearly(o piece) bool {
	if len(p.Cells) != len(o.Cells) || len(p.Means) != len(o.Means) {
		return false
	}
	for i, a := range p.Cells {
		a, b := float64(a), float64(o.Cells[i])
		if a != b && !(math.IsNaN(a) && math.IsNaN(b)) && !(math.Abs(a-b) <= cellTolerance*max(math.Abs(a), math.Abs(b))) {
			return false
		}
	}
	return within(p.Means, o.Means, meanTolerance*float64(min(p.Spread, o.Spread))) && alike([]rune(p.Text), []rune(o.Text))
}

// within reports whether the root-mean-square difference is at most tolerance.
func within(a, b floats, tolerance float64) bool {
	return len(a) == len(b) && rows.SquaredDistance(a, b) <= tolerance*tolerance*float64(len(a))
}

// spread is the standard deviation of the numbers.
func spread(list floats) float64 {
	_, s := means(list, []int{len(list)})
	return float64(s)
}

// alike reports whether the edit distance of two texts is at most the fraction textTolerance
// of their letters (Levenshtein 1966).
func alike(a, b []rune) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	most := int(textTolerance * float64(len(a)))
	if len(a)-len(b) > most {
		return false
	}
	const far = math.MaxInt / 2
	before, now := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i, letter := range a {
		// Farther from the diagonal, there are too many insertions or deletions.
		from, to := max(1, i+1-most), min(len(b), i+1+most)
		now[from-1] = far
		if from == 1 {
			now[0] = i + 1
		}
		least := now[from-1]
		for j := from; j <= to; j++ {
			cost := before[j-1]
			if letter != b[j-1] {
				cost++
			}
			if j < i+1+most {
				cost = min(cost, before[j]+1)
			}
			now[j] = min(cost, now[j-1]+1)
			least = min(least, now[j])
		}
		if least > most {
			return false
		}
		before, now = now, before
	}
	return before[len(b)] <= most
}
