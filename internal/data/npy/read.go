package npy

import (
	"fmt"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// chunk is the largest number of bytes that are decoded at once.
const chunk = 1 << 20

// Read reads one array from r, which contains exactly size bytes.
func Read(r io.Reader, size int64) (rows.Array, error) {
	h, n, err := readHeader(r)
	if err == nil {
		err = h.checkLength(size - n)
	}
	if err != nil {
		return rows.Array{}, err
	}
	return readBody(r, h, h.elements(), nil)
}

// readBody reads the elements of an array in C or Fortran order, and returns them in C
// order. It allocates the memory for the whole array at once. convert, unless it is nil,
// converts each part of the elements.
func readBody(r io.Reader, h Header, e *elementReader, convert func(part any) any) (rows.Array, error) {
	f := partialArray{shape: h.Shape}
	if h.strided() {
		f.walk = newWalk(h.Shape)
	}
	err := e.each(r, h, func(part any) {
		if convert != nil {
			part = convert(part)
		}
		switch part := part.(type) {
		case []float32:
			fill(&f, part)
		case []float64:
			fill(&f, part)
		case []int64:
			fill(&f, part)
		case []uint8:
			fill(&f, part)
		case []string:
			fill(&f, part)
		}
	})
	if err != nil {
		return rows.Array{}, err
	}
	return rows.Array{Shape: h.Shape, Data: f.data}, nil
}

// partialArray is an array that is filled with elements as they are read.
type partialArray struct {
	shape []int
	walk  *walk // nil for C order
	data  any
	done  int
}

func fill[T any](f *partialArray, part []T) {
	if f.data == nil {
		f.data = make([]T, rows.Elements(f.shape))
	}
	dst := f.data.([]T)
	if f.walk == nil {
		copy(dst[f.done:], part)
	} else {
		place(f.walk, dst, part)
	}
	f.done += len(part)
}

// elementReader decodes elements. It reuses its buffers.
type elementReader struct {
	decode decoder
	buf    []byte
}

func (h Header) elements() *elementReader { return &elementReader{decode: h.DType.decoder()} }

// each passes all elements of an array to emit, in parts. It calls emit at least once, even
// if the array is empty.
func (e *elementReader) each(r io.Reader, h Header, emit func(part any)) error {
	total := h.bytes()
	whole := int64(chunk - chunk%h.DType.Size) // whole elements
	if n := min(total, whole); int64(len(e.buf)) < n {
		e.buf = make([]byte, n)
	}
	for first, done := true, int64(0); first || done < total; first = false {
		b := e.buf[:min(total-done, int64(len(e.buf)))]
		if _, err := io.ReadFull(r, b); err != nil {
			return truncated(err, fmt.Sprintf("the file ends before the %d elements of shape %v that its header promises", h.Len(), h.Shape))
		}
		part, err := e.decode(b)
		if err != nil {
			return err
		}
		if ints, ok := part.([]int64); ok && h.DType.Kind == 'u' {
			if i := slices.IndexFunc(ints, func(v int64) bool { return v < 0 }); i >= 0 {
				return fmt.Errorf("the uint64 value %d at element %d does not fit an int64", uint64(ints[i]), done/8+int64(i))
			}
		}
		emit(part)
		done += int64(len(b))
	}
	return nil
}

// walk tracks the position in C order of elements that are read in Fortran order.
type walk struct {
	shape, step, at []int
	off             int // position of the next element in C order
}

func newWalk(shape []int) *walk {
	w := &walk{shape: shape, step: make([]int, len(shape)), at: make([]int, len(shape))}
	for i, step := len(shape)-1, 1; i >= 0; i-- {
		w.step[i] = step
		step *= shape[i]
	}
	return w
}

// place copies the next elements to their positions in C order.
func place[T any](w *walk, dst, next []T) {
	for _, v := range next {
		dst[w.off] = v
		for i := range w.at {
			w.at[i]++
			w.off += w.step[i]
			if w.at[i] < w.shape[i] {
				break
			}
			w.off -= w.at[i] * w.step[i]
			w.at[i] = 0
		}
	}
}
