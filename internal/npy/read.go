package npy

import (
	"fmt"
	"io"
	"os"

	"github.com/attach-uncertainty/attach/rows"
)

// chunk is how many bytes are read at once, and so how far memory taken may
// run ahead of bytes that were really there.
const chunk = 1 << 20

// ReadSure reads one array of r, which is known to hold as many bytes as sure:
// memory for their elements is taken at once. What follows the array is left
// unread.
func ReadSure(r io.Reader, sure int64) (rows.Array, error) {
	h, _, err := readHeader(r)
	if err != nil {
		return rows.Array{}, err
	}
	return readBody(r, h, max(sure, chunk))
}

// readBody reads the elements of one array, in whatever order h says, and
// returns them in C order. It takes memory for up to sure bytes of elements at
// once and for more only as they arrive.
func readBody(r io.Reader, h Header, sure int64) (rows.Array, error) {
	data := h.DType.newData(int(min(h.bytes(), sure) / int64(h.DType.Size)))
	err := h.chunks(r, func(raw []byte) (err error) {
		data, err = h.DType.appendRaw(data, raw)
		return err
	})
	if err != nil {
		return rows.Array{}, err
	}
	if h.strided() {
		data = toC(data, h.Shape)
	}
	return rows.Array{Shape: h.Shape, Data: data}, nil
}

// chunks hands on the bytes of all elements, some whole elements at a time.
func (h Header) chunks(r io.Reader, emit func(raw []byte) error) error {
	total := h.bytes()
	buf := make([]byte, min(total, chunk))
	for done := int64(0); done < total; {
		b := buf[:min(total-done, int64(len(buf)))]
		if _, err := io.ReadFull(r, b); err != nil {
			return truncated(err, fmt.Sprintf("the file ends before the %d elements of shape %v that its header promises", h.Len(), h.Shape))
		}
		if err := emit(b); err != nil {
			return err
		}
		done += int64(len(b))
	}
	return nil
}

// toC returns elements in Fortran order in C order.
func toC(data any, shape []int) any {
	switch data := data.(type) {
	case []float32:
		return reorder(data, shape)
	case []float64:
		return reorder(data, shape)
	case []int64:
		return reorder(data, shape)
	}
	return reorder(data.([]uint8), shape)
}

func reorder[T any](src []T, shape []int) []T {
	dst := make([]T, len(src))
	place(newWalk(shape), dst, src)
	return dst
}

// walk goes through an array in Fortran order.
type walk struct {
	shape, step, at []int
	off             int // of the next element in C order
}

func newWalk(shape []int) *walk {
	w := &walk{shape: shape, step: make([]int, len(shape)), at: make([]int, len(shape))}
	for i, step := len(shape)-1, 1; i >= 0; i-- {
		w.step[i] = step
		step *= shape[i]
	}
	return w
}

// place puts the next elements to where they are in C order.
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

// fileSize is the size of a regular file.
func fileSize(f *os.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}
