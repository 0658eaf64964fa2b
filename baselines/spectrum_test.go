package baselines

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
)

func TestMomentsNameTheRow(t *testing.T) {
	phi := blas32.General{Rows: 3000, Cols: 2, Stride: 2, Data: make([]float32, 6000)}
	phi.Data[2*2500+1] = float32(math.NaN())
	var bad *heads.NotFiniteError
	if _, err := moments(t.Context(), phi, "pca"); !errors.As(err, &bad) || bad.Row != 2500 || bad.Col != 1 {
		t.Errorf("error %v, want one that names row 2500, column 1", err)
	}
	if _, err := moments(t.Context(), blas32.General{Cols: 2, Stride: 2}, "pca"); !errors.As(err, new(*heads.TooFewRowsError)) {
		t.Errorf("error %v of no rows, want a TooFewRowsError", err)
	}
}
