package moments

import (
	"errors"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/headstest"
)

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
			phi := headstest.Rows(tt.n, tt.h, tt.offset, 1)
			m := &Moments{UnitNorm: tt.unit}
			for s := range tt.shards {
				if err := m.Add(t.Context(), rows.Slice(phi, s*tt.n/tt.shards, (s+1)*tt.n/tt.shards)); err != nil {
					t.Fatal(err)
				}
			}
			mean, second, cov := headstest.Moments(phi, tt.unit)
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
	phi := headstest.Rows(5, 3, 0, 1)
	phi.Data[3*phi.Stride+2] = float32(math.Inf(1))
	m := &Moments{}
	var notFinite *rows.NotFiniteError
	if err := m.Add(t.Context(), phi); !errors.As(err, &notFinite) || notFinite.Row != 3 || notFinite.Col != 2 {
		t.Errorf("error %v, want one that names row 3, column 2", err)
	}
	if m.N() != 0 {
		t.Errorf("%d rows were counted", m.N())
	}
}

func TestCheckFinite(t *testing.T) {
	for cols := 1; cols <= 9; cols++ {
		for badColumn := range cols {
			phi := headstest.Rows(3, cols, 0, 1)
			if err := rows.CheckFinite("features", phi); err != nil {
				t.Fatal(err)
			}
			phi.Data[phi.Stride+badColumn] = float32(math.NaN())
			var notFinite *rows.NotFiniteError
			if err := rows.CheckFinite("features", phi); !errors.As(err, &notFinite) || notFinite.Row != 1 || notFinite.Col != badColumn {
				t.Errorf("error %v, want one that names row 1, column %d", err, badColumn)
			}
		}
	}
}

func BenchmarkMoments(b *testing.B) {
	phi := headstest.Rows(8192, 512, 1, 1)
	for b.Loop() {
		m := &Moments{UnitNorm: true}
		if err := m.Add(b.Context(), phi); err != nil {
			b.Fatal(err)
		}
	}
}
