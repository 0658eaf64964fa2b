package gaussian

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
)

// classRows returns n rows far from 0 and their classes, which are far from each other. Class
// 2 has no rows.
func classRows(n, h int) (blas32.General, []int) {
	r := rand.New(rand.NewPCG(1, 2))
	x, classes := blas32.General{Rows: n, Cols: h, Stride: h + 3, Data: make([]float32, n*(h+3))}, make([]int, n)
	for i := range n {
		classes[i] = []int{0, 1, 3, 4}[r.IntN(4)]
		for j := range h {
			x.Data[i*x.Stride+j] = float32(1000 + 50*float64((classes[i]*(j+1))%5) + r.NormFloat64()*float64(1+j%7))
		}
	}
	return x, classes
}

// TestNearest compares distances with those computed by solving against the covariance
// matrix, for projections in float32 and float64.
func TestNearest(t *testing.T) {
	for _, h := range []int{1, 7, 260} {
		x, classes := classRows(400, h)
		m, err := moments.Of(context.Background(), x, classes, 5)
		if err != nil {
			t.Fatal(err)
		}
		testRows := rows.Slice(x, 0, 12)
		for _, shrinkage := range []float64{0, 1e-6, .01, 1} {
			w, err := NewWhitening(m.Mean(), m.Within(), shrinkage)
			if err != nil {
				t.Fatal(err)
			}
			if wide := h == 260; wide != (w.Projection.Single != nil) {
				t.Errorf("h %d, shrinkage %v: products in float32: %v", h, shrinkage, !wide)
			}
			exact := w
			exact.Projection = rows.Matrix{Rows: h, Cols: h, Double: toDouble(w.Projection).Data}
			within := m.Within()
			average := mat.Trace(within) / float64(h)
			within.ScaleSym(1-shrinkage, within)
			for i := range h {
				within.SetSym(i, i, within.At(i, i)+shrinkage*average)
			}
			var c mat.Cholesky
			if !c.Factorize(within) {
				t.Fatal("no inverse")
			}
			means := m.Means()
			for name, w := range map[string]Whitening{"float32": w, "float64": exact} {
				got, toMean := make([]float64, testRows.Rows), make([]float64, testRows.Rows)
				if err := NewClasses(w, means).Nearest(context.Background(), got, testRows); err != nil {
					t.Fatal(err)
				}
				if err := w.Distances(context.Background(), toMean, testRows); err != nil {
					t.Fatal(err)
				}
				for i := range testRows.Rows {
					distance := func(mean []float64) float64 {
						d, solved := mat.NewVecDense(h, nil), mat.NewVecDense(h, nil)
						for j := range h {
							d.SetVec(j, float64(testRows.Data[i*testRows.Stride+j])-mean[j])
						}
						if err := c.SolveVecTo(solved, d); err != nil {
							t.Fatal(err)
						}
						return mat.Dot(d, solved)
					}
					want := math.Inf(1)
					for y := range means.Rows {
						want = min(want, distance(dense.Row(means, y)))
					}
					if math.Abs(got[i]-want) > 1e-4*(1+want) {
						t.Fatalf("h %d, shrinkage %v, %s: row %d is %v from the nearest class, want %v", h, shrinkage, name, i, got[i], want)
					}
					if want := distance(m.Mean()); math.Abs(toMean[i]-want) > 1e-4*(1+want) {
						t.Fatalf("h %d, shrinkage %v, %s: row %d is %v from the mean, want %v", h, shrinkage, name, i, toMean[i], want)
					}
				}
			}
		}
	}
}

// TestWhiteningOfFlatRows checks that directions without variance are left out, and that
// constant rows are an error. It also checks that a nearly singular covariance is not
// whitened in float32.
func TestWhiteningOfFlatRows(t *testing.T) {
	flat := mat.NewSymDense(3, []float64{4, 0, 0, 0, 0, 0, 0, 0, 1})
	w, err := NewWhitening([]float64{1, 2, 3}, flat, 0)
	if err != nil || w.Projection.Cols != 2 {
		t.Fatalf("%d directions, error %v; want 2", w.Projection.Cols, err)
	}
	got := make([]float64, 1)
	if err := w.Distances(context.Background(), got, blas32.General{Rows: 1, Cols: 3, Stride: 3, Data: []float32{3, 9, 4}}); err != nil || math.Abs(got[0]-2) > 1e-6 {
		t.Errorf("distance %v, error %v; want 2", got[0], err)
	}
	for _, shrinkage := range []float64{0, .1} {
		if _, err := NewWhitening(make([]float64, 3), mat.NewSymDense(3, nil), shrinkage); !errors.Is(err, ErrNoVariance) {
			t.Errorf("shrinkage %v: error %v, want ErrNoVariance", shrinkage, err)
		}
	}
	steep := mat.NewSymDense(260, nil)
	for i := range 260 {
		for j := i; j < 260; j++ {
			steep.SetSym(i, j, 1-1e-9*float64(j-i))
		}
	}
	if w, err = NewWhitening(make([]float64, 260), steep, 0); err != nil || w.Projection.Double == nil {
		t.Errorf("a covariance of condition 1e11 is whitened in float32, error %v", err)
	}
}
