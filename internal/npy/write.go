package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/attach-uncertainty/attach/rows"
)

// Write writes a as a .npy file of version 1.0: C order, little-endian. The
// same array always gives the same bytes.
func Write(w io.Writer, a rows.Array) error {
	d, err := descr(a.Data)
	if err != nil {
		return err
	}
	n := 1
	for _, s := range a.Shape {
		if s < 0 {
			return fmt.Errorf("shape %v has a negative axis", a.Shape)
		}
		n *= s
	}
	if have := length(a.Data); have != n {
		return fmt.Errorf("shape %v asks for %d elements, the array has %d", a.Shape, n, have)
	}
	h := Header{Shape: a.Shape}
	if err := h.checkSize(); err != nil {
		return err
	}
	if _, err := w.Write(formatHeader(d, a.Shape)); err != nil {
		return err
	}
	return writeBody(w, a.Data)
}

func length(data any) int {
	switch data := data.(type) {
	case []float32:
		return len(data)
	case []float64:
		return len(data)
	case []int64:
		return len(data)
	case []bool:
		return len(data)
	}
	return len(data.([]uint8))
}

func writeBody(w io.Writer, data any) error {
	buf := make([]byte, 0, min(chunk/8, 8*length(data)))
	flush := func(room int) error {
		if len(buf)+room <= cap(buf) {
			return nil
		}
		_, err := w.Write(buf)
		buf = buf[:0]
		return err
	}
	le := binary.LittleEndian
	switch data := data.(type) {
	case []uint8:
		_, err := w.Write(data)
		return err
	case []bool:
		for _, v := range data {
			bit := byte(0)
			if v {
				bit = 1
			}
			buf = append(buf, bit)
			if err := flush(1); err != nil {
				return err
			}
		}
	case []float32:
		for _, v := range data {
			buf = le.AppendUint32(buf, math.Float32bits(v))
			if err := flush(4); err != nil {
				return err
			}
		}
	case []float64:
		for _, v := range data {
			buf = le.AppendUint64(buf, math.Float64bits(v))
			if err := flush(8); err != nil {
				return err
			}
		}
	case []int64:
		for _, v := range data {
			buf = le.AppendUint64(buf, uint64(v))
			if err := flush(8); err != nil {
				return err
			}
		}
	}
	return flush(cap(buf) + 1)
}
