package heads

import "gonum.org/v1/gonum/blas/blas32"

// rowsOf is the view of rows lo…hi−1 of m.
func rowsOf(m blas32.General, lo, hi int) blas32.General {
	if lo == hi {
		return blas32.General{Cols: m.Cols, Stride: m.Stride}
	}
	return blas32.General{
		Rows: hi - lo, Cols: m.Cols, Stride: m.Stride,
		Data: m.Data[lo*m.Stride : (hi-1)*m.Stride+m.Cols],
	}
}

func newGeneral(rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: max(cols, 1), Data: make([]float32, rows*cols)}
}
