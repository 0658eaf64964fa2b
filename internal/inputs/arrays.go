package inputs

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/npy"
)

func openNPY(path string, o Options) (*Set, error) {
	l, err := npy.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return newArraySet(l, o)
}

func openNPZ(path string, o Options) (*Set, error) {
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return nil, err
	}
	key := "x"
	switch {
	case z.Has("images") && z.Has(key):
		return nil, fmt.Errorf("%s: it holds x and images, and either may be the inputs; leave one out", path)
	case z.Has("images"):
		key = "images"
	}
	l, err := z.Entry(key)
	if err != nil {
		return nil, err
	}
	s, err := newArraySet(l, o)
	if err != nil {
		return nil, err
	}
	if o.Groups != "" {
		if s.groups, err = readGroups(z, o.Groups, s.Len()); err != nil {
			return nil, err
		}
	}
	return s, s.readTargets(z, o)
}

func newArraySet(l *npy.Lazy, o Options) (*Set, error) {
	if len(l.Shape) == 0 {
		return nil, fmt.Errorf("%s: a single number is no set of inputs; want an array of n rows", l.Name())
	}
	if l.Rows() == 0 {
		return nil, fmt.Errorf("%s: %w", l.Name(), ErrEmpty)
	}
	if l.RowLen() == 0 {
		return nil, fmt.Errorf("%s: rows of shape %v hold nothing", l.Name(), l.Shape[1:])
	}
	if l.DType.Byte() && len(l.Shape) > 2 {
		return newPixelSet(l, o)
	}
	if o.Preprocess != nil {
		return nil, fmt.Errorf("%s: preprocessing is for images and for uint8 arrays n×height×width(×channels), and this is %v of shape %v: %w", l.Name(), l.DType, l.Shape, ErrNoPixels)
	}
	shape := l.Shape[1:]
	if len(shape) == 0 {
		shape = []int{1}
	}
	return &Set{src: &arraySource{l: l}, shape: shape}, nil
}

// arraySource is the rows of an array on disk.
type arraySource struct {
	l *npy.Lazy
}

func (a *arraySource) rows() int { return a.l.Rows() }

func (a *arraySource) name(i int) string { return fmt.Sprintf("row %d of %s", i, a.l.Name()) }

func (a *arraySource) open() (reader, error) {
	c, err := a.l.Open()
	if err != nil {
		return nil, err
	}
	return &arrayReader{Cursor: c, width: a.l.RowLen()}, nil
}

type arrayReader struct {
	*npy.Cursor
	width int
}

func (r *arrayReader) read(ctx context.Context, idx []int, dst []float32) error {
	for start, n := range runs(idx, len(idx)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		a, err := r.ReadRows(idx[start], n)
		if err != nil {
			return err
		}
		copy(dst[start*r.width:(start+n)*r.width], npy.Float32s(a))
	}
	return nil
}

// runs yields the position and length of each run of consecutive numbers, cut
// to a length of most.
func runs(idx []int, most int) func(yield func(start, n int) bool) {
	return func(yield func(start, n int) bool) {
		for start := 0; start < len(idx); {
			n := 1
			for n < most && start+n < len(idx) && idx[start+n] == idx[start]+n {
				n++
			}
			if !yield(start, n) {
				return
			}
			start += n
		}
	}
}
