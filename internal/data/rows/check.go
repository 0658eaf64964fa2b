package rows

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// NotFiniteError reports the position of a NaN or infinity in a matrix.
type NotFiniteError struct {
	Name     string // name of the matrix, such as "features"
	Row, Col int
	Value    float32
}

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("%s has %v in row %d, column %d: remove or repair the row", e.Name, e.Value, e.Row, e.Col)
}

// TooFewRowsError reports that a fit has too few rows.
type TooFewRowsError struct {
	What       string // method that needs the rows, such as "fused detectors"
	Have, Need int
}

func (e *TooFewRowsError) Error() string {
	return fmt.Sprintf("%s need at least %d rows, have %d", e.What, e.Need, e.Have)
}

// Whole returns an error if m has a negative number of rows, or a stride or data that are
// too short for its shape.
func Whole(m blas32.General) error {
	switch {
	case m.Rows < 0:
		return fmt.Errorf("there are %d rows", m.Rows)
	case m.Rows > 0 && m.Stride < m.Cols:
		return fmt.Errorf("a stride of %d is too small for %d columns", m.Stride, m.Cols)
	case m.Rows > 0 && len(m.Data) < (m.Rows-1)*m.Stride+m.Cols:
		return fmt.Errorf("%d numbers are too few for %d rows of stride %d", len(m.Data), m.Rows, m.Stride)
	}
	return nil
}

// CheckFinite returns an error if Whole does. Otherwise it returns a *NotFiniteError for
// the first NaN or infinity in m.
func CheckFinite(name string, m blas32.General) error {
	if err := Whole(m); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i := range m.Rows {
		if j := FirstNotFinite(Row(m, i)); j >= 0 {
			return &NotFiniteError{Name: name, Row: i, Col: j, Value: Row(m, i)[j]}
		}
	}
	return nil
}

// Finite reports whether a number is neither NaN nor infinite.
func Finite[T float32 | float64](v T) bool { return v-v == 0 }

// FirstNotFinite returns the index of the first NaN or infinity, or -1.
func FirstNotFinite(data []float32) int {
	const chunk = 4096
	for at := 0; at < len(data); at += chunk {
		part := data[at:min(at+chunk, len(data))]
		// v*0 is 0 if v is finite and NaN otherwise. The sum is therefore NaN if the chunk
		// contains a number that is not finite. The four sums are independent, so the
		// processor can compute them in parallel.
		var s, s1, s2, s3 float32
		rest := part
		for ; len(rest) >= 4; rest = rest[4:] {
			s += rest[0] * 0
			s1 += rest[1] * 0
			s2 += rest[2] * 0
			s3 += rest[3] * 0
		}
		for _, v := range rest {
			s += v * 0
		}
		if s+s1+s2+s3 == 0 {
			continue
		}
		for i, v := range part {
			if !Finite(v) {
				return at + i
			}
		}
	}
	return -1
}

// InverseNorm returns 1/‖x‖, with the Euclidean norm, or 0 for a row of zeros.
func InverseNorm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	if s == 0 {
		return 0
	}
	return 1 / math.Sqrt(s)
}

// MostMemory is the largest number of bytes that a fit may allocate in addition to its
// rows. The garbage collector can let about as much garbage accumulate, so a process stays
// below 8 GB plus its rows, as fitting.ErrMemory states.
const MostMemory = 4 << 30
