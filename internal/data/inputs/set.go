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

// ErrEmpty is wrapped by the error for inputs without rows.
var ErrEmpty = errors.New("there are no rows")

// Set is a list of inputs, with their labels, targets, groups and IDs. A Set keeps no file
// open and is safe for concurrent use.
type Set struct {
	src    source
	takes  []Takes
	layout string // order of axes of images
	opened int
	index  []int // rows of src, or nil for all rows from first to last−1
	first  int
	last   int // 0 means that all rows of src belong to the set

	Labels     []int    // class index of each row, nil if none are known
	ClassNames []string // names indexed by labels, nil if there are none
	// Targets holds regression targets, n×t, without rows if there are none. Integer targets
	// in one column are labels too.
	Targets blas32.General
	Groups  []string // of each row, nil if Options name none
	IDs     []string // of each row, nil if Options name none
	// Columns names the table columns that are inputs, except texts. It is nil for a table
	// without a header and for other inputs. Texts names the columns of texts, and
	// TargetNames the columns of targets.
	Columns, Texts, TargetNames []string
	Notes                       []string // remarks on how columns or arrays were read
	// Odd is the reason why targets were ignored, or nil (see Options.SkipOdd).
	Odd     error
	Skipped int // number of unreadable rows that Options.SkipBad left out
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

// Opened returns the number of rows that were opened. The set may contain only some of
// these.
func (s *Set) Opened() int { return s.opened }

// Shape returns the shape of one row of the first tensor, as the model receives it after
// preprocessing. An image has channels×height×width, or height×width×channels in layout
// NHWC. The shape of a row of table cells is the number of columns.
func (s *Set) Shape() []int { return slices.Clone(s.src.tensors()[0].Shape[1:]) }

// RowLen returns the number of elements of one row, or 0 if rows differ in length or are
// texts.
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
// files, it returns a text such as "row 3 of x.npy" or "line 5 of x.csv". Rows are counted
// from zero, and lines from one.
func (s *Set) Name(i int) string { return s.src.name(s.Row(i)) }

// File returns the file of row i, relative to the folder that was opened, or "" if rows
// are not files.
func (s *Set) File(i int) string {
	if m, ok := findSource[*imageSource](s.src); ok {
		return m.file(s.Row(i))
	}
	return ""
}

// thumbnailEdge is the largest width and height of a thumbnail, in pixels.
const thumbnailEdge = 192

// imageRows is a source whose rows are images.
type imageRows interface {
	// pixels calls use with the image of each row and its index k in rows. The order is
	// arbitrary, and calls may be concurrent.
	pixels(ctx context.Context, rows []int, use func(k int, m image.Image)) error
}

// Thumbnails returns small pictures of the given rows, as they are before preprocessing. It
// returns nil if rows are not images.
func (s *Set) Thumbnails(ctx context.Context, rows []int) ([]image.Image, error) {
	src, ok := findSource[imageRows](s.src)
	if !ok {
		return nil, nil
	}
	small := make([]image.Image, len(rows))
	if err := src.pixels(ctx, s.Subset(rows).index, func(k int, m image.Image) { small[k] = pixels.Within(m, thumbnailEdge).RGBA() }); err != nil {
		return nil, err
	}
	return small, nil
}

// Row returns the number of row i in the opened file, counted from zero and including rows
// that were left out.
func (s *Set) Row(i int) int {
	if s.index != nil {
		return s.index[i]
	}
	return s.first + i
}

// Subset returns the rows with the given numbers, in that order, with their labels,
// targets, groups and IDs. It panics if a number is out of range.
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
	sub.Labels, sub.Groups, sub.IDs = rows.Pick(s.Labels, idx), rows.Pick(s.Groups, idx), rows.Pick(s.IDs, idx)
	return &sub
}

// upTo returns the numbers from 0 to n−1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// sortOrder returns the indices of numbers in the order that sorts the numbers.
func sortOrder(numbers []int) []int {
	order := upTo(len(numbers))
	slices.SortFunc(order, func(a, b int) int { return numbers[a] - numbers[b] })
	return order
}

// Select implements ood.Inputs. It reads no rows.
func (s *Set) Select(rows []int) ood.Inputs { return s.Subset(rows) }
