package inputs

import (
	"context"
	"errors"
	"image"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/pixels"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// ErrEmpty is wrapped by the error for inputs that hold no rows.
var ErrEmpty = errors.New("there are no rows")

// Set is a list of inputs, with what is known about each. It holds no file open
// and is safe for concurrent use.
type Set struct {
	src    source
	takes  []Takes
	layout string // of images
	opened int
	index  []int // rows of src, or nil for those from first to last, or for all
	first  int
	last   int // 0 is all

	Labels     []int    // class index of each row, nil if none are known
	ClassNames []string // that labels index, nil if there are none
	// Targets are those of regression, n×t, of no rows if there are none. Whole-number
	// targets of one column are labels too.
	Targets blas32.General
	Groups  []string // of each row, nil if Options name none
	IDs     []string // of each row, nil if Options name none
	// Columns are names of columns of a table that are inputs, but for texts; nil if it
	// has no header or the rows are of no table. Texts are those that texts are taken
	// from, and TargetNames those of targets.
	Columns, Texts, TargetNames []string
	Notes                       []string // how columns or arrays were taken
	// Odd is why targets were passed over, as Options.SkipOdd says, or nil.
	Odd     error
	Skipped int // rows that Options.SkipBad left out, as they could not be read
}

// Len returns the number of rows of the set.
func (s *Set) Len() int {
	switch {
	case s.index != nil:
		return len(s.index)
	case s.last > 0:
		return s.last - s.first
	}
	return s.src.rows()
}

// Opened returns how many rows were opened, of which the set may be some.
func (s *Set) Opened() int { return s.opened }

// Shape returns the shape of one row of the first tensor, as the model gets it,
// after preprocessing: channels×height×width of an image, or the reverse of that
// in layout NHWC, or the number of columns of a table.
func (s *Set) Shape() []int { return slices.Clone(s.src.tensors()[0].Shape[1:]) }

// RowLen returns the number of elements of one row, 0 where rows differ in length
// or are texts.
func (s *Set) RowLen() int {
	n := 0
	for _, t := range s.src.tensors() {
		if t.Lengths != nil || t.Strings != nil {
			return 0
		}
		n += rows.Elements(t.Shape[1:])
	}
	return n
}

// Name returns the file of row i, relative to the folder that was opened. If rows are not
// files, it returns the row's number in its file, counted from zero.
func (s *Set) Name(i int) string { return s.src.name(s.Row(i)) }

// File returns the file of row i, relative to the folder that was opened, or "" if rows
// are not files.
func (s *Set) File(i int) string {
	if m, ok := find[*imageSource](s.src); ok {
		return m.file(s.Row(i))
	}
	return ""
}

// thumbnailEdge is the largest width and height of a thumbnail, in pixels.
const thumbnailEdge = 192

// pictured is a source whose rows are images.
type pictured interface {
	// pixels hands the k-th of the rows to use, in any order and maybe several at once.
	pixels(ctx context.Context, rows []int, use func(k int, m image.Image)) error
}

// Thumbnails returns rows, images or rows of an array of pixels, as small pictures
// for people, before preprocessing, and nil of other rows.
func (s *Set) Thumbnails(ctx context.Context, rows []int) ([]image.Image, error) {
	src, ok := find[pictured](s.src)
	if !ok {
		return nil, nil
	}
	small := make([]image.Image, len(rows))
	if err := src.pixels(ctx, s.Subset(rows).index, func(k int, m image.Image) { small[k] = pixels.Within(m, thumbnailEdge).RGBA() }); err != nil {
		return nil, err
	}
	return small, nil
}

// Row returns the number of row i in what was opened, counted from zero, with those
// rows that were left out.
func (s *Set) Row(i int) int {
	if s.index != nil {
		return s.index[i]
	}
	return s.first + i
}

// Subset returns the rows that idx names, in that order, with their labels,
// targets and names. It panics if one is out of range.
func (s *Set) Subset(idx []int) *Set {
	sub := *s
	sub.index = make([]int, len(idx))
	for i, j := range idx {
		if j < 0 || j >= s.Len() {
			panic("inputs: row out of range")
		}
		sub.index[i] = s.Row(j)
	}
	if s.Targets.Rows > 0 {
		sub.Targets = rows.Select(s.Targets, idx)
	}
	sub.Labels, sub.Groups, sub.IDs = pick(s.Labels, idx), pick(s.Groups, idx), pick(s.IDs, idx)
	return &sub
}

func pick[T any](all []T, idx []int) []T {
	if all == nil {
		return nil
	}
	picked := make([]T, len(idx))
	for i, j := range idx {
		picked[i] = all[j]
	}
	return picked
}

// upTo are the numbers from 0 up to, not including, n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// inOrder are the places of numbers, that of the least first.
func inOrder(numbers []int) []int {
	order := upTo(len(numbers))
	slices.SortFunc(order, func(a, b int) int { return numbers[a] - numbers[b] })
	return order
}

// Select gives rows without reading the others, as ood.Batch.Select asks for.
func (s *Set) Select(rows []int) ood.Inputs { return s.Subset(rows) }
