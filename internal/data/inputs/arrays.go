package inputs

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
)

func openNPY(path string, o Options) (*Set, error) {
	l, err := npy.OpenFile(path)
	if err != nil {
		return nil, err
	}
	if list := required(o.Takes); len(list) > 1 {
		return nil, fmt.Errorf("%s: it is one array, but the model has %d inputs; save them by their names in an .npz file: numpy.savez(%q, %s=…, %s=…)",
			path, len(list), "x.npz", list[0].Name, list[1].Name)
	}
	src, err := newArraySource(l, onlyInput(o.Takes), o)
	if err != nil {
		return nil, err
	}
	return newArraySet(src, l, o)
}

func openNPZ(path string, o Options) (*Set, error) {
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return nil, err
	}
	arrays, err := inputArrays(z, path, o.Takes)
	if err != nil {
		return nil, err
	}
	var all joined
	var first *npy.Lazy
	var notes []string
	for _, a := range arrays {
		l, err := z.Entry(a.storedName)
		if err != nil {
			return nil, err
		}
		src, err := newArraySource(l, a.Takes, o)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && src.rows() != all.rows() {
			return nil, fmt.Errorf("%s: it has %d rows, but %s has %d", l.Name(), src.rows(), arrays[0].storedName, all.rows())
		}
		first = cmp.Or(first, l)
		all = append(all, src)
		if note := lossyArrayNote(a.storedName, l); note != "" {
			notes = append(notes, note)
		}
	}
	s, err := newArraySet(all, first, o)
	if err != nil {
		return nil, err
	}
	s.Notes = append(s.Notes, notes...)
	if other := ignoredArrays(z.Names(), arrays, o); len(other) > 0 {
		s.Notes = append(s.Notes, "left alone, as the model takes no inputs of these names: "+display.List(other, 10))
	}
	if o.Groups != "" {
		if s.Groups, err = readGroups(npzFile{z}, o.Groups, s.Len()); err != nil {
			return nil, err
		}
	}
	return s, s.readTargets(npzFile{z}, o)
}

// ignoredArrays returns the names of the arrays that are not read, except labels, targets
// and groups. It returns nil unless the model requires several inputs.
func ignoredArrays(names []string, read []inputArray, o Options) (other []string) {
	if len(required(o.Takes)) < 2 {
		return nil
	}
	for _, name := range names {
		isRead := slices.ContainsFunc(read, func(a inputArray) bool { return a.storedName == name })
		if !isRead && !slices.Contains([]string{"y", "labels", "targets", o.Groups}, name) {
			other = append(other, name)
		}
	}
	return other
}

// inputArray is an array of an archive for one model input.
type inputArray struct {
	Takes
	storedName string
}

// inputArrays returns the arrays for the model's inputs. Each input gets the array with its
// name. If exactly one required input has no such array, or if the inputs are unknown, the
// array x or images takes this place.
func inputArrays(z *npy.NPZ, path string, takes []Takes) (list []inputArray, err error) {
	var missing []Takes
	for _, t := range takes {
		if z.Has(t.Name) {
			list = append(list, inputArray{t, t.Name})
		} else if !t.Optional {
			missing = append(missing, t)
		}
	}
	if takes == nil {
		missing = []Takes{{}}
	}
	available := func(name string) bool { return z.Has(name) && inputNamed(takes, name) == nil }
	switch {
	case len(missing) == 0 && len(list) > 0:
		return list, nil
	case len(missing) > 1, len(list) > 0 && !available("x") && !available("images"):
		return nil, fmt.Errorf("%s: %v is not among its arrays %s", path, missing[0], display.List(z.Names(), 10))
	case available("images") && available("x"):
		return nil, fmt.Errorf("%s: it has both x and images, and either may be the inputs; remove one", path)
	case available("images"):
		return append(list, inputArray{missing[0], "images"}), nil
	}
	return append(list, inputArray{onlyInput(missing), "x"}), nil
}

func newArraySource(l *npy.Lazy, input Takes, o Options) (source, error) {
	if len(l.Shape) == 0 {
		return nil, fmt.Errorf("%s: it is a single number; inputs must be an array of n rows", l.Name())
	}
	if l.Rows() == 0 {
		return nil, fmt.Errorf("%s: %w", l.Name(), ErrEmpty)
	}
	if l.RowLen() == 0 {
		return nil, fmt.Errorf("%s: rows of shape %v are empty", l.Name(), l.Shape[1:])
	}
	if l.DType.Byte() && len(l.Shape) > 2 && input.canBeImages() {
		return newPixelSource(l, input.Name, o)
	}
	return &arraySource{l, numbers(input.Name, input.rowShape(l.Shape[1:]))}, nil
}

// newArraySet returns a set of the rows of src. If o.Preprocess is given, one of the arrays
// must contain images.
func newArraySet(src source, first *npy.Lazy, o Options) (*Set, error) {
	if _, ok := findSource[imageRows](src); !ok && o.Preprocess != nil {
		return nil, fmt.Errorf("%s: preprocessing is for images and for uint8 arrays n×height×width(×channels), but this is %v of shape %v: %w", first.Name(), first.DType, first.Shape, ErrNoPixels)
	}
	return &Set{src: src}, nil
}

// arraySource reads the rows of an array on disk.
type arraySource struct {
	l      *npy.Lazy
	tensor ood.Tensor
}

func (a *arraySource) rows() int { return a.l.Rows() }

func (a *arraySource) name(i int) string { return fmt.Sprintf("row %d of %s", i, a.l.Name()) }

func (a *arraySource) tensors() []ood.Tensor { return []ood.Tensor{a.tensor} }

func (a *arraySource) open() (reader, error) {
	c, err := a.l.Open()
	if err != nil {
		return nil, err
	}
	return filledReader{&arrayReader{Cursor: c, width: a.l.RowLen()}, a.tensor}, nil
}

type arrayReader struct {
	*npy.Cursor
	width int
}

func (r *arrayReader) fill(ctx context.Context, idx []int, dst []float32) error {
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

// runs yields the start and the length of each run of consecutive numbers in idx. Runs that
// are longer than limit are divided.
func runs(idx []int, limit int) func(yield func(start, n int) bool) {
	return func(yield func(start, n int) bool) {
		for start := 0; start < len(idx); {
			n := 1
			for n < limit && start+n < len(idx) && idx[start+n] == idx[start]+n {
				n++
			}
			if !yield(start, n) {
				return
			}
			start += n
		}
	}
}
