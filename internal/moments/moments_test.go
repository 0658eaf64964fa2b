package moments

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// randomRows draws correlated rows; offset moves their mean. The matrix has a
// stride wider than its columns.
func randomRows(n, h int, offset float64, seed uint64) blas32.General {
	rng := rand.New(rand.NewPCG(seed, 9))
	m := blas32.General{Rows: n, Cols: h, Stride: h + 3, Data: make([]float32, n*(h+3))}
	for i := range m.Data {
		m.Data[i] = 1e9 // what lies between rows must not be read
	}
	for i := range n {
		common := rng.NormFloat64()
		for j := range h {
			m.Data[i*m.Stride+j] = float32(offset + common*0.5 + rng.NormFloat64()*(1+float64(j))/float64(h))
		}
	}
	return m
}

// twoPass computes moments in float64 from their definition.
func twoPass(phi blas32.General, unit bool) (mean []float64, second, cov *mat.SymDense) {
	n, h := phi.Rows, phi.Cols
	x := mat.NewDense(n, h, nil)
	for i := range n {
		var norm float64
		for j := range h {
			v := float64(phi.Data[i*phi.Stride+j])
			x.Set(i, j, v)
			norm += v * v
		}
		if unit && norm > 0 {
			for j := range h {
				x.Set(i, j, x.At(i, j)/math.Sqrt(norm))
			}
		}
	}
	mean = make([]float64, h)
	for j := range h {
		mean[j] = mat.Sum(x.ColView(j)) / float64(n)
	}
	second = mat.NewSymDense(h, nil)
	second.SymOuterK(1/float64(n), x.T())
	for i := range n {
		for j := range h {
			x.Set(i, j, x.At(i, j)-mean[j])
		}
	}
	cov = mat.NewSymDense(h, nil)
	cov.SymOuterK(1/float64(n), x.T())
	return mean, second, cov
}

func TestMoments(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n, h   int
		offset float64
		unit   bool
		shards int
	}{
		{"one row", 1, 4, 1, false, 1},
		{"small", 7, 5, 0, false, 1},
		{"many blocks", 2500, 6, 0, false, 1},
		{"many blocks, unit norm", 2500, 6, 1, true, 1},
		{"large mean", 3000, 5, 1000, false, 1},
		{"in shards", 2100, 6, 3, false, 4},
		{"in shards, large mean", 2100, 6, 1000, false, 3},
		{"in shards, unit norm", 900, 8, 2, true, 3},
		{"several panels", 1103, 300, 1, true, 2},
		{"several panels, few rows", 40, 257, 1, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			phi := randomRows(tt.n, tt.h, tt.offset, 1)
			m := &Moments{UnitNorm: tt.unit}
			for s := range tt.shards {
				if err := m.Add(rows.Slice(phi, s*tt.n/tt.shards, (s+1)*tt.n/tt.shards)); err != nil {
					t.Fatal(err)
				}
			}
			mean, second, cov := twoPass(phi, tt.unit)
			if m.N() != tt.n || m.Width() != tt.h {
				t.Fatalf("%d rows of %d, want %d of %d", m.N(), m.Width(), tt.n, tt.h)
			}
			for j, v := range m.Mean() {
				if math.Abs(v-mean[j]) > 1e-13*(1+math.Abs(mean[j])) {
					t.Errorf("mean %d is %v, want %v", j, v, mean[j])
				}
			}
			gotSecond, gotCov := m.SecondMoment(), m.Covariance()
			for i := range tt.h {
				for j := range tt.h {
					scale := math.Sqrt(cov.At(i, i) * cov.At(j, j))
					if d := math.Abs(gotCov.At(i, j) - cov.At(i, j)); d > 1e-12*scale+1e-15 {
						t.Errorf("covariance (%d,%d) is %v, want %v", i, j, gotCov.At(i, j), cov.At(i, j))
					}
					if d := math.Abs(gotSecond.At(i, j) - second.At(i, j)); d > 1e-12*scale+1e-13*math.Abs(second.At(i, j)) {
						t.Errorf("second moment (%d,%d) is %v, want %v", i, j, gotSecond.At(i, j), second.At(i, j))
					}
				}
			}
		})
	}
}

func TestMomentsRefuseNaN(t *testing.T) {
	phi := randomRows(5, 3, 0, 1)
	phi.Data[3*phi.Stride+2] = float32(math.Inf(1))
	m := &Moments{}
	var notFinite *rows.NotFiniteError
	if err := m.Add(phi); !errors.As(err, &notFinite) || notFinite.Row != 3 || notFinite.Col != 2 {
		t.Errorf("error %v, want one that names row 3, column 2", err)
	}
	if m.N() != 0 {
		t.Errorf("%d rows were counted", m.N())
	}
}

func TestCheckFinite(t *testing.T) {
	for cols := 1; cols <= 9; cols++ {
		for at := range cols {
			phi := randomRows(3, cols, 0, 1)
			if err := rows.CheckFinite("features", phi); err != nil {
				t.Fatal(err)
			}
			phi.Data[phi.Stride+at] = float32(math.NaN())
			var notFinite *rows.NotFiniteError
			if err := rows.CheckFinite("features", phi); !errors.As(err, &notFinite) || notFinite.Row != 1 || notFinite.Col != at {
				t.Errorf("error %v, want one that names row 1, column %d", err, at)
			}
		}
	}
}

func BenchmarkMoments(b *testing.B) {
	phi := randomRows(8192, 512, 1, 1)
	for b.Loop() {
		m := &Moments{UnitNorm: true}
		if err := m.Add(phi); err != nil {
			b.Fatal(err)
		}
	}
}
