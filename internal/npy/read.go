package npy

import (
	"fmt"
	"io"
	"os"

	"github.com/attach-uncertainty/attach/heads"
)

// chunk is how many bytes are read at once, and so how far memory taken may
// run ahead of bytes that were really there.
const chunk = 1 << 20

// ReadSure reads one array of r, which is known to hold as many bytes as sure:
// memory for their elements is taken at once. What follows the array is left
// unread.
func ReadSure(r io.Reader, sure int64) (heads.Array, error) {
	h, _, err := readHeader(r)
	if err != nil {
		return heads.Array{}, err
	}
	return readBody(r, h, max(sure, chunk))
}

// readBody reads the elements of one array, in whatever order h says, and
// returns them in C order. It takes memory for up to sure bytes of elements at
// once and for more only as they arrive.
func readBody(r io.Reader, h Header, sure int64) (heads.Array, error) {
	total := h.bytes()
	size := int64(h.DType.Size)
	data := h.DType.newData(int(min(total, sure) / size))
	buf := make([]byte, min(total, chunk))
	for done := int64(0); done < total; {
		b := buf[:min(total-done, int64(len(buf)))]
		if _, err := io.ReadFull(r, b); err != nil {
			return heads.Array{}, truncated(err, fmt.Sprintf("the file ends before the %d elements of shape %v that its header promises", h.Len(), h.Shape))
		}
		var err error
		if data, err = h.DType.appendRaw(data, b); err != nil {
			return heads.Array{}, err
		}
		done += int64(len(b))
	}
	if h.Fortran && len(h.Shape) > 1 {
		data = toC(data, h.Shape)
	}
	return heads.Array{Shape: h.Shape, Data: data}, nil
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
	step := make([]int, len(shape)) // C-order stride of each axis
	for i, s := len(shape)-1, 1; i >= 0; i-- {
		step[i] = s
		s *= shape[i]
	}
	at := make([]int, len(shape))
	off := 0
	for _, v := range src {
		dst[off] = v
		for i := range at {
			at[i]++
			off += step[i]
			if at[i] < shape[i] {
				break
			}
			off -= at[i] * step[i]
			at[i] = 0
		}
	}
	return dst
}

// fileSize is the size of a regular file; anything else is an error that says
// what it is.
func fileSize(f *os.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if fi.IsDir() {
		return 0, fmt.Errorf("%s: is a directory", f.Name())
	}
	return fi.Size(), nil
}
