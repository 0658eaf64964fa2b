package trees

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

// noisyData returns inputs and targets with ties. The stride of the inputs is larger than their
// number of columns.
func noisyData(n, d int, seed uint64) (blas32.General, []float32) {
	rng := rand.New(rand.NewPCG(seed, 0))
	x := blas32.General{Rows: n, Cols: d, Stride: d + 2, Data: make([]float32, n*(d+2))}
	y := make([]float32, n)
	for i := range n {
		row := x.Data[i*x.Stride:]
		for j := range d + 2 {
			row[j] = float32(rng.NormFloat64())
		}
		row[0] = float32(int(row[0] * 3))
		y[i] = float32(int(20*(row[0]+row[d-1]*float32(rng.NormFloat64())))) / 20
	}
	return x, y
}

// membersOf returns the members of leaf l of tree k.
func membersOf(f *Forest, k int, l int32) []int32 {
	for _, t := range f.Trees[:k] {
		l += int32(t.Leaves)
	}
	start := int32(0)
	for _, n := range f.Sizes[:l] {
		start += n
	}
	return f.Members[start : start+f.Sizes[l]]
}

// quantileByDefinition returns the quantile at tau, computed as the documentation of Quantiles
// defines it.
func quantileByDefinition(f *Forest, x []float32, tau float64) float32 {
	w := make([]float64, len(f.Values))
	for k := range f.Trees {
		members := membersOf(f, k, f.Trees[k].Leaf(x))
		for _, m := range members {
			w[m] += 1 / float64(len(members)*len(f.Trees))
		}
	}
	var sum float64
	for i, v := range w {
		if sum += v; v > 0 && sum >= tau-1e-11 {
			return f.Values[i]
		}
	}
	return f.Values[len(w)-1]
}

func growForest(t *testing.T, x blas32.General, y []float32, bins int, o ForestOptions) *Forest {
	t.Helper()
	data, err := NewData(x, bins)
	if err != nil {
		t.Fatal(err)
	}
	f, err := GrowForest(context.Background(), data, y, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// growWhole grows a forest of one tree on all rows.
func growWhole(t *testing.T, x blas32.General, y []float32, bins int, o Options) *Forest {
	t.Helper()
	data, err := NewData(x, bins)
	if err != nil {
		t.Fatal(err)
	}
	g, targets := newGrower(data, o, 1), newTargets(y)
	counts := slices.Repeat([]int32{1}, x.Rows)
	return newForest(targets.values, []baggedTree{targets.baggedTree(g.grow(targets.centred, counts, 0), g.leaf, counts)})
}

func TestQuantilesFollowTheDefinition(t *testing.T) {
	levels := []float64{1e-12, 0.025, 0.1, 0.5, 0.5, 0.9, 0.975, 1 - 1e-12}
	for _, c := range []struct {
		n int
		o ForestOptions
	}{
		{1, ForestOptions{Trees: 3}},
		{2, ForestOptions{Trees: 4}},
		{40, ForestOptions{Trees: 5}},
		{700, ForestOptions{Trees: 20}},
		{700, ForestOptions{Trees: 20, Options: Options{MaxDepth: 1}}},
		{700, ForestOptions{Trees: 20, Options: Options{MaxDepth: 3}}},
		{700, ForestOptions{Trees: 20, Options: Options{MinSplit: 200}}}, // small and large leaves
		{3000, ForestOptions{Trees: 10, Options: Options{MaxDepth: 4}}},
	} {
		t.Run(fmt.Sprintf("%d rows, %+v", c.n, c.o), func(t *testing.T) {
			x, y := noisyData(c.n, 3, 1)
			f := growForest(t, x, y, Automatic, c.o)
			test, _ := noisyData(300, 3, 2)
			got := make([]float32, test.Rows*len(levels))
			f.Quantiles(got, test, levels)
			for i := range test.Rows {
				for l, tau := range levels {
					want := quantileByDefinition(f, test.Data[i*test.Stride:], tau)
					if got := got[i*len(levels)+l]; got != want {
						t.Fatalf("row %d at %v: %v, want %v", i, tau, got, want)
					}
				}
			}
		})
	}
}

func TestLeavesHoldTheirRows(t *testing.T) {
	x, y := noisyData(500, 4, 3)
	f := growWhole(t, x, y, Automatic, Options{MinLeaf: 7})
	tree := &f.Trees[0]
	want := make([][]float32, tree.Leaves)
	for i, v := range y {
		l := tree.Leaf(x.Data[i*x.Stride : i*x.Stride+x.Cols])
		want[l] = append(want[l], v)
	}
	for l, values := range want {
		slices.Sort(values)
		var got []float32
		for _, m := range membersOf(f, 0, int32(l)) {
			got = append(got, f.Values[m])
		}
		if len(values) < 7 || !slices.Equal(got, values) {
			t.Fatalf("leaf %d holds %v, want %v", l, got, values)
		}
	}
}

// TestBootstrap checks that a bootstrap sample has the right size, and about a fraction 1−1/e
// of distinct rows.
func TestBootstrap(t *testing.T) {
	counts := make([]int32, 10000)
	drawBootstrap(counts, rand.New(rand.NewPCG(5, 5)))
	var sum, distinct int32
	for _, c := range counts {
		sum += c
		distinct += min(c, 1)
	}
	if sum != 10000 || distinct < 6200 || distinct > 6440 {
		t.Errorf("%d rows drawn, %d distinct", sum, distinct)
	}
}

func TestForestDependsOnSeedNotThreads(t *testing.T) {
	x, y := noisyData(500, 4, 6)
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	o := ForestOptions{Trees: 9, Seed: 1, Options: Options{MaxFeatures: 0.5}}
	oneThread := growForest(t, x, y, Exact, o)
	runtime.GOMAXPROCS(5)
	if fiveThreads := growForest(t, x, y, Exact, o); !reflect.DeepEqual(oneThread, fiveThreads) {
		t.Error("five threads grow another forest than one")
	}
	o.Seed = 2
	if otherSeed := growForest(t, x, y, Exact, o); reflect.DeepEqual(oneThread, otherSeed) {
		t.Error("two seeds grow one forest")
	}
}

func TestMakeBins(t *testing.T) {
	for _, c := range []struct{ rows, distinct, n, bins int }{
		{1000, 1000, 10, 10}, {1000, 10, 10, 10}, {1000, 3, 255, 3}, {5, 5, 255, 5}, {1000, 900, 255, 255},
	} {
		column, sorted := make([]float32, c.rows), make([]int32, c.rows)
		for i := range sorted {
			column[i], sorted[i] = float32(i*c.distinct/c.rows), int32(i)
		}
		codes := make([]uint16, c.rows)
		bins := makeBins(column, sorted, c.n, codes)
		if len(bins) != c.bins {
			t.Errorf("%+v: %d bins", c, len(bins))
		}
		count := make([]int, len(bins))
		for i, x := range column {
			b := int(codes[i])
			count[b]++
			if x < bins[b].lo || x > bins[b].hi || i > 0 && b > 0 && bins[b].lo <= bins[b-1].hi {
				t.Fatalf("%+v: %v is in bin %d, %v", c, x, b, bins[b])
			}
		}
		if largest := slices.Max(count); largest > 2*c.rows/len(bins)+1 {
			t.Errorf("%+v: a bin of %d rows", c, largest)
		}
	}
}

// TestNodesTryOtherColumns checks that a node that draws only constant columns tries other
// columns. Only one column is not constant.
func TestNodesTryOtherColumns(t *testing.T) {
	x := blas32.General{Rows: 40, Cols: 6, Stride: 6, Data: make([]float32, 240)}
	y := make([]float32, 40)
	for i := range y {
		x.Data[i*6+4] = float32(i)
		y[i] = float32(i % 7)
	}
	for _, bins := range []int{Exact, 255} {
		f := growWhole(t, x, y, bins, Options{MaxFeatures: 0.1})
		if got := f.Trees[0].Leaves; got != 40 {
			t.Errorf("bins %d: %d leaves, want 40", bins, got)
		}
	}
}

func TestThresholdsLieBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for range 1000 {
		v := []float64{float64(float32(rng.NormFloat64())), float64(float32(rng.NormFloat64()))}
		sort.Float64s(v)
		a, b := float32(v[0]), float32(v[1])
		if m := midpoint(a, b); m < a || m >= b {
			t.Fatalf("%v is not between %v and %v", m, a, b)
		}
	}
	if m := midpoint(1, 1.0000001); m != 1 {
		t.Errorf("between neighbours: %v", m)
	}
}

func TestMistakes(t *testing.T) {
	x, y := noisyData(20, 2, 1)
	data, err := NewData(x, Automatic)
	if err != nil {
		t.Fatal(err)
	}
	for _, bins := range []int{1, 256, -2} {
		if _, err := NewData(x, bins); err == nil {
			t.Errorf("%d bins are accepted", bins)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := GrowForest(ctx, data, y, ForestOptions{Trees: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
