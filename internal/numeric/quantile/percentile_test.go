package quantile

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, m := range []blas32.General{{Rows: 1, Cols: 1, Stride: 1}, {Rows: 7, Cols: 5, Stride: 8}, {Rows: 300, Cols: 40, Stride: 40}} {
		m.Data = slices.Repeat([]float32{float32(math.NaN())}, m.Rows*m.Stride)
		var all []float64
		for i := range m.Rows {
			for j := range m.Cols {
				v := float32(rng.NormFloat64()) * float32(math.Exp(10*rng.NormFloat64()))
				switch rng.IntN(4) {
				case 0:
					v = 0
				case 1:
					v = float32(math.Copysign(0, -1))
				}
				m.Data[i*m.Stride+j] = v
				all = append(all, float64(v))
			}
		}
		slices.Sort(all)
		percentiles := []float64{0, 12.5, 50, 90, 99, 99.9}
		got, err := Percentiles(context.Background(), m, percentiles)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range percentiles {
			at := p / 100 * float64(len(all)-1)
			low := all[int(at)]
			want := low + (at-math.Floor(at))*(all[min(int(at)+1, len(all)-1)]-low)
			if math.Abs(got[i]-want) > 1e-9*math.Abs(want) {
				t.Errorf("%d×%d: percentile %v is %v, want %v", m.Rows, m.Cols, p, got[i], want)
			}
			shuffled := slices.Clone(all)
			rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := Percentile(shuffled, p); math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%d×%d: percentile %v of a slice is %v, want %v", m.Rows, m.Cols, p, got, want)
			}
		}
	}
}
