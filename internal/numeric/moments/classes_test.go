package moments

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"
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

// selectRows returns the rows of x that keep selects, and their classes.
func selectRows(x blas32.General, classOf []int, keep func(i int) bool) (blas32.General, []int) {
	out, classes := blas32.General{Cols: x.Cols, Stride: x.Cols}, []int{}
	for i := range x.Rows {
		if keep(i) {
			out.Data, out.Rows = append(out.Data, x.Data[i*x.Stride:i*x.Stride+x.Cols]...), out.Rows+1
			classes = append(classes, classOf[i])
		}
	}
	return out, classes
}

// TestMomentsOfClasses compares moments with sums about the exact means, for all rows and
// after the removal of some rows.
func TestMomentsOfClasses(t *testing.T) {
	ctx, h := context.Background(), 6
	x, classes := classRows(2500, h)
	isRemoved := func(i int) bool { return i%3 == 0 || classes[i] == 4 } // these include all rows of class 4
	whole, err := Of(ctx, x, classes, 5)
	if err != nil {
		t.Fatal(err)
	}
	unchanged, err := whole.Without(ctx, blas32.General{Cols: h}, nil)
	if err != nil {
		t.Fatal(err)
	}
	removed, removedClasses := selectRows(x, classes, isRemoved)
	rest, err := unchanged.Without(ctx, removed, removedClasses)
	if err != nil {
		t.Fatal(err)
	}
	remaining, remainingClasses := selectRows(x, classes, func(i int) bool { return !isRemoved(i) })
	for name, c := range map[string]struct {
		m       *Moments
		x       blas32.General
		classes []int
	}{"whole": {whole, x, classes}, "less nothing": {unchanged, x, classes}, "rest": {rest, remaining, remainingClasses}} {
		n, counts, means := float64(c.x.Rows), make([]float64, 5), mat.NewDense(5, h, nil)
		mean := make([]float64, h)
		for i, y := range c.classes {
			counts[y]++
			for j, v := range c.x.Data[i*c.x.Stride : i*c.x.Stride+h] {
				means.Set(y, j, means.At(y, j)+float64(v))
				mean[j] += float64(v) / n
			}
		}
		var want []float64
		for y, count := range counts {
			for j := range h {
				if count > 0 {
					means.Set(y, j, means.At(y, j)/count)
					want = append(want, means.At(y, j))
				}
			}
		}
		within, total := mat.NewSymDense(h, nil), mat.NewSymDense(h, nil)
		for i, y := range c.classes {
			centred, centredByMean := make([]float64, h), make([]float64, h)
			for j, v := range c.x.Data[i*c.x.Stride : i*c.x.Stride+h] {
				centred[j], centredByMean[j] = float64(v)-means.At(y, j), float64(v)-mean[j]
			}
			within.SymRankOne(within, 1/n, mat.NewVecDense(h, centred))
			total.SymRankOne(total, 1/n, mat.NewVecDense(h, centredByMean))
		}
		if c.m.N() != c.x.Rows {
			t.Errorf("%s: %d rows of %d", name, c.m.N(), c.x.Rows)
		}
		got := c.m.Means()
		if len(got.Data) != len(want) {
			t.Fatalf("%s: means of %d classes, want %d", name, got.Rows, len(want)/h)
		}
		for k, v := range got.Data {
			if math.Abs(v-want[k]) > 1e-12*want[k] {
				t.Errorf("%s: entry %d of the means is %v, want %v", name, k, v, want[k])
			}
		}
		for j, v := range c.m.Mean() {
			if math.Abs(v-mean[j]) > 1e-12*mean[j] {
				t.Errorf("%s: mean %d is %v, want %v", name, j, v, mean[j])
			}
		}
		if !mat.EqualApprox(c.m.Within(), within, 1e-9) {
			t.Errorf("%s: covariance within classes\n%v\nwant\n%v", name, mat.Formatted(c.m.Within()), mat.Formatted(within))
		}
		if !mat.EqualApprox(c.m.Covariance(), total, 1e-9) {
			t.Errorf("%s: covariance\n%v\nwant\n%v", name, mat.Formatted(c.m.Covariance()), mat.Formatted(total))
		}
	}
}
