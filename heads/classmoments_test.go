package heads

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"
)

// classRows are n rows far from 0 and of classes far from each other, some of no
// class and one class late.
func classRows(n int) (blas32.General, []int) {
	r := rand.New(rand.NewPCG(1, 2))
	x, classes := newGeneral(n, 6), make([]int, n)
	for i := range n {
		classes[i] = 3*r.IntN(4) - 3
		if i > 2*n/3 && r.IntN(5) == 0 {
			classes[i] = 7
		}
		for j := range 6 {
			x.Data[i*6+j] = float32(1000 + 50*float64((classes[i]*(j+1))%5) + r.NormFloat64()*float64(1+j))
		}
	}
	return x, classes
}

func TestClassMomentsMergedAreWhole(t *testing.T) {
	x, classes := classRows(5000)
	var whole ClassMoments
	if err := whole.Add(x, classes); err != nil {
		t.Fatal(err)
	}
	var merged ClassMoments
	for lo := 0; lo < x.Rows; {
		hi := min(lo+1+lo/2, x.Rows)
		var shard ClassMoments
		for at := lo; at < hi; at += 700 {
			end := min(at+700, hi)
			if err := shard.Add(rowsOf(x, at, end), classes[at:end]); err != nil {
				t.Fatal(err)
			}
		}
		merged.Merge(&shard)
		lo = hi
	}
	var n float64
	counts, means := map[int]float64{}, map[int][]float64{}
	mean := make([]float64, x.Cols)
	for i, y := range classes {
		if y < 0 {
			continue
		}
		if means[y] == nil {
			means[y] = make([]float64, x.Cols)
		}
		for j, v := range x.Data[i*x.Cols : (i+1)*x.Cols] {
			means[y][j] += float64(v)
			mean[j] += float64(v)
		}
		counts[y]++
		n++
	}
	for j := range mean {
		mean[j] /= n
		for y := range means {
			means[y][j] /= counts[y]
		}
	}
	within, all := mat.NewSymDense(x.Cols, nil), mat.NewSymDense(x.Cols, nil)
	for i, y := range classes {
		if y < 0 {
			continue
		}
		about, aboutAll := make([]float64, x.Cols), make([]float64, x.Cols)
		for j, v := range x.Data[i*x.Cols : (i+1)*x.Cols] {
			about[j], aboutAll[j] = float64(v)-means[y][j], float64(v)-mean[j]
		}
		within.SymRankOne(within, 1/n, mat.NewVecDense(x.Cols, about))
		all.SymRankOne(all, 1/n, mat.NewVecDense(x.Cols, aboutAll))
	}
	for name, m := range map[string]*ClassMoments{"whole": &whole, "merged": &merged} {
		if !slices.Equal(m.Classes(), []int{0, 3, 6, 7}) || m.N() != int(n) {
			t.Fatalf("%s: classes %v, %d rows of %v", name, m.Classes(), m.N(), n)
		}
		got := m.Means()
		for k, y := range m.Classes() {
			for j, want := range means[y] {
				if v := got.Data[k*got.Stride+j]; math.Abs(v-want) > 1e-12*want {
					t.Errorf("%s: mean %d of class %d is %v, want %v", name, j, y, v, want)
				}
			}
		}
		for j, v := range m.Mean() {
			if math.Abs(v-mean[j]) > 1e-12*mean[j] {
				t.Errorf("%s: mean %d is %v, want %v", name, j, v, mean[j])
			}
		}
		if !mat.EqualApprox(m.Within(), within, 1e-10) {
			t.Errorf("%s: covariance within classes\n%v\nwant\n%v", name, mat.Formatted(m.Within()), mat.Formatted(within))
		}
		if !mat.EqualApprox(m.Covariance(), all, 1e-9) {
			t.Errorf("%s: covariance\n%v\nwant\n%v", name, mat.Formatted(m.Covariance()), mat.Formatted(all))
		}
	}
}

func TestClassMomentsRefuseRows(t *testing.T) {
	var m ClassMoments
	x, classes := classRows(10)
	x.Data[13] = float32(math.Inf(1))
	if err := m.Add(x, classes); err == nil || m.N() != 0 {
		t.Errorf("error %v after a row that is not finite, %d rows counted", err, m.N())
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic for a row without a class")
		}
	}()
	_ = m.Add(rowsOf(x, 0, 1), nil)
}
