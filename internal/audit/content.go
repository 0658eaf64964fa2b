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

// Content summarizes an input before the model reads it, in enough detail to find near
// duplicates. It has one element for each input tensor. It is nil if the rows are features.
type Content []tensorContent

// tensorContent summarizes one input tensor of a row: its text, its numbers, or the means
// of its numbers over a coarse grid.
type tensorContent struct {
	Text  string    `json:"text,omitempty"`
	Cells floatList `json:"cells,omitempty"`
	Means floatList `json:"means,omitempty"`
	// Spread is the standard deviation of all numbers that Means averages.
	Spread float32 `json:"spread,omitempty"`
}

const (
	// maxText limits how many characters of a text are compared. The numbers of a tensor
	// are compared one by one if it has at most one axis and at most maxCells numbers. All
	// other tensors are compared by the means of the cells of a grid. For each position on
	// the short axes, the grid has at most maxMeans cells.
	maxText  = 500
	maxCells = 1024
	maxMeans = 256
	// shortAxis is the largest length of an axis that is not averaged over. An example is
	// the axis of colours.
	shortAxis = 4

	// cellTolerance is the largest relative difference of two cells that count as equal. It
	// is not 0 because files round numbers.
	//
	// featureTolerance is the largest root-mean-square difference of two rows of features
	// that count as equal. Its unit is the larger of the two standard deviations of the
	// features within a row. It is not 0 because the outputs of a model vary slightly with
	// the batch.
	cellTolerance    = 1e-4
	featureTolerance = 1e-3
	// meanTolerance is the largest root-mean-square difference between the means of two
	// pictures or signals that count as near duplicates. Its unit is the smaller of their
	// two Spreads.
	meanTolerance = .1
	// textTolerance is the largest fraction of characters in which two texts may differ and
	// still count as near duplicates.
	textTolerance = .1
)

// Contents returns the Content of each row of a block.
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
			var p tensorContent
			switch {
			case t.Strings != nil:
				p.Text = normalizeText(strings.Join(t.Strings[at:at+n], "\n"))
			case len(shape) < 2 && n <= maxCells:
				p.Cells = append(floatList{}, t.Data[at:at+n]...)
			default:
				p.Means, p.Spread = gridMeans(t.Data[at:at+n], shape)
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

// normalizeText returns the first maxText characters of a text, in lower case. Each run of
// spaces and punctuation counts as one space.
func normalizeText(text string) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.IsSymbol(r)
	}) {
		if n > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if n += 1 + len(word); n > 4*maxText {
			break
		}
	}
	letters := []rune(b.String())
	return string(letters[:min(len(letters), maxText)])
}

// gridMeans divides a tensor into the cells of a coarse grid and returns the mean of each
// cell. A mean never covers more than one position on a short axis. For each position on
// the short axes, the grid has at most maxMeans cells. spread is the standard deviation of
// all numbers.
func gridMeans(numbers []float32, shape []int) (list floatList, spread float32) {
	long := 0
	for _, d := range shape {
		if d > shortAxis {
			long++
		}
	}
	edge := maxMeans
	if long > 1 {
		edge = max(2, int(math.Pow(maxMeans, 1/float64(long))))
	}
	strides, sizes, total := make([]int, len(shape)), make([]int, len(shape)), 1
	for k := len(shape) - 1; k >= 0; k-- {
		if sizes[k] = shape[k]; sizes[k] > shortAxis {
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
	list = make(floatList, total)
	for i, count := range counts {
		list[i] = float32(sums[i] / float64(max(count, 1)))
	}
	return list, float32(math.Sqrt(max(0, squares/n-all/n*all/n)))
}

// nearDuplicateOf reports whether two rows are near duplicates. Rows with equal hashes are.
// For other rows, it compares their content or, if they have no content, their features.
func (r retainedRow) nearDuplicateOf(o retainedRow) bool {
	if r.Hash == o.Hash {
		return true
	}
	if len(r.Content) != len(o.Content) {
		return false
	}
	if r.Content == nil {
		return rmsWithin(r.Features, o.Features, featureTolerance*max(standardDeviation(r.Features), standardDeviation(o.Features)))
	}
	for i, p := range r.Content {
		if !p.nearDuplicateOf(o.Content[i]) {
			return false
		}
	}
	return true
}

func (p tensorContent) nearDuplicateOf(o tensorContent) bool {
	if len(p.Cells) != len(o.Cells) || len(p.Means) != len(o.Means) {
		return false
	}
	for i, a := range p.Cells {
		a, b := float64(a), float64(o.Cells[i])
		if a != b && !(math.IsNaN(a) && math.IsNaN(b)) && !(math.Abs(a-b) <= cellTolerance*max(math.Abs(a), math.Abs(b))) {
			return false
		}
	}
	return rmsWithin(p.Means, o.Means, meanTolerance*float64(min(p.Spread, o.Spread))) && similarTexts([]rune(p.Text), []rune(o.Text))
}

// rmsWithin reports whether the root-mean-square difference of a and b is at most tolerance.
func rmsWithin(a, b floatList, tolerance float64) bool {
	return len(a) == len(b) && rows.SquaredDistance(a, b) <= tolerance*tolerance*float64(len(a))
}

// standardDeviation returns the standard deviation of a list of numbers.
func standardDeviation(list floatList) float64 {
	_, s := gridMeans(list, []int{len(list)})
	return float64(s)
}

// similarTexts reports whether two texts differ in at most the fraction textTolerance of
// the characters of the longer text, by edit distance (Levenshtein 1966).
func similarTexts(a, b []rune) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	limit := int(textTolerance * float64(len(a)))
	if len(a)-len(b) > limit {
		return false
	}
	const far = math.MaxInt / 2
	previous, current := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i, letter := range a {
		// Entries farther from the diagonal need more than limit insertions or deletions.
		from, to := max(1, i+1-limit), min(len(b), i+1+limit)
		current[from-1] = far
		if from == 1 {
			current[0] = i + 1
		}
		rowMin := current[from-1]
		for j := from; j <= to; j++ {
			cost := previous[j-1]
			if letter != b[j-1] {
				cost++
			}
			if j < i+1+limit {
				cost = min(cost, previous[j]+1)
			}
			current[j] = min(cost, current[j-1]+1)
			rowMin = min(rowMin, current[j])
		}
		if rowMin > limit {
			return false
		}
		previous, current = current, previous
	}
	return previous[len(b)] <= limit
}
