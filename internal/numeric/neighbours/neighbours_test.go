package neighbours_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/neighbours"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// randomRows returns n rows far from 0, except that row 1 is 0. The last row equals the first.
func randomRows(n, h int, seed uint64) blas32.General {
	r := rand.New(rand.NewPCG(seed, 0))
	x := blas32.General{Rows: n, Cols: h, Stride: h + 2, Data: make([]float32, n*(h+2))}
	for i := range n {
		for j := range h {
			x.Data[i*x.Stride+j] = float32(30 + r.NormFloat64())
		}
	}
	clear(x.Data[x.Stride : x.Stride+h])
	copy(x.Data[(n-1)*x.Stride:], x.Data[:h])
	return x
}

// bruteForce returns the distances of row i of q to all rows of x in increasing order,
// computed one by one.
func bruteForce(x, q blas32.General, i int, unit, excludeSelf bool) []neighbours.Neighbour {
	scale := func(row []float32) float64 {
		if unit {
			return rows.InverseNorm(row)
		}
		return 1
	}
	a := q.Data[i*q.Stride : i*q.Stride+q.Cols]
	var all []neighbours.Neighbour
	for j := range x.Rows {
		b := x.Data[j*x.Stride : j*x.Stride+x.Cols]
		var sum float64
		for k := range a {
			d := scale(a)*float64(a[k]) - scale(b)*float64(b[k])
			sum += d * d
		}
		if !excludeSelf || j != i {
			all = append(all, neighbours.Neighbour{Row: j, Distance: math.Sqrt(sum)})
		}
	}
	slices.SortStableFunc(all, func(a, b neighbours.Neighbour) int { return cmp.Compare(a.Distance, b.Distance) })
	return all
}

func TestIndex(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{3, 300, 2500} {
		x, q := randomRows(n, 7, 1), randomRows(40, 7, 2)
		copy(q.Data[5*q.Stride:], x.Data[2*x.Stride:2*x.Stride+7]) // query row 5 equals a row of the index
		for _, unit := range []bool{false, true} {
			index := neighbours.New(x, unit)
			ranks := []int{n - 1, 0, n / 2, 0}
			distances, err := index.Distances(ctx, q, ranks)
			if err != nil {
				t.Fatal(err)
			}
			for i := range q.Rows {
				want := bruteForce(x, q, i, unit, false)
				for _, rank := range ranks {
					if got := distances[rank][i]; math.Abs(got-want[rank].Distance) > 1e-5*(.1+want[rank].Distance) {
						t.Errorf("%d rows, unit %v: neighbour %d of row %d is at %v, want %v", n, unit, rank, i, got, want[rank].Distance)
					}
				}
			}
			for _, excludeSelf := range []bool{false, true} {
				queries, k := q, 5
				if excludeSelf {
					queries = x
				}
				nearest, err := index.Nearest(ctx, queries, k, excludeSelf)
				if err != nil {
					t.Fatal(err)
				}
				for i, got := range nearest {
					if i%500 != 0 && excludeSelf {
						continue
					}
					want := bruteForce(x, queries, i, unit, excludeSelf)
					if len(got) != min(k, len(want)) {
						t.Fatalf("%d neighbours of %d", len(got), len(want))
					}
					for j, v := range got {
						if math.Abs(v.Distance-want[j].Distance) > 1e-5*(.1+want[j].Distance) || v.Row != want[j].Row && math.Abs(v.Distance-want[j].Distance) > 1e-9 {
							t.Errorf("%d rows, unit %v, self excluded %v: neighbour %d of row %d is %v, want %v", n, unit, excludeSelf, j, i, v, want[j])
						}
					}
				}
			}
		}
	}
}

// TestDense checks that rows that lie densely on a line, of one or two columns, find themselves.
func TestDense(t *testing.T) {
	for h := 1; h <= 2; h++ {
		x, r := rows.New(40_000, h), rand.New(rand.NewPCG(8, 9))
		for i := range x.Rows {
			for j := range h {
				rows.Row(x, i)[j] = float32(30 + math.Pow(.001, float64(j))*r.NormFloat64())
			}
		}
		nearest, err := neighbours.New(x, false).Nearest(t.Context(), rows.Slice(x, 0, 100), 1, false)
		if err != nil {
			t.Fatal(err)
		}
		for i, list := range nearest {
			if list[0].Distance != 0 {
				t.Errorf("%d columns: row %d is %v from row %d", h, i, list[0].Distance, list[0].Row)
			}
		}
	}
}

func TestIndexNotFinite(t *testing.T) {
	x, q := randomRows(20, 3, 1), randomRows(4, 3, 2)
	q.Data[0], q.Data[q.Stride] = float32(math.NaN()), float32(math.Inf(1))
	index := neighbours.New(x, false)
	distances, err := index.Distances(t.Context(), q, []int{3})
	if err != nil {
		t.Fatal(err)
	}
	nearest, err := index.Nearest(t.Context(), q, 3, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true, true} {
		if d := distances[3][i]; (d-d == 0) != want {
			t.Errorf("row %d: distance %v", i, d)
		}
		if found := nearest[i]; (len(found) == 3) != want || !want && len(found) > 0 {
			t.Errorf("row %d: neighbours %v", i, found)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := index.Nearest(ctx, q, 1, false); err == nil {
		t.Error("a search that was cancelled succeeds")
	}
}

// TestSearchesReuseMemory checks that searches reuse memory instead of allocating blocks
// again.
func TestSearchesReuseMemory(t *testing.T) {
	x := neighbours.New(blas32.General{Rows: 2000, Cols: 256, Stride: 256, Data: make([]float32, 2000*256)}, false)
	q := blas32.General{Rows: 8, Cols: 256, Stride: 256, Data: make([]float32, 8*256)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		if _, err := x.Distances(t.Context(), q, []int{0}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if megabytes := (after.TotalAlloc - before.TotalAlloc) >> 20; megabytes > 40 {
		t.Errorf("40 searches took %d MB", megabytes)
	}
}

// TestDistancesGraph checks a graph that searches many rows in blocks. A row of the queries is
// not finite.
func TestDistancesGraph(t *testing.T) {
	for h := 1; h <= 3; h++ {
		testDistancesGraph(t, h)
	}
}

func testDistancesGraph(t *testing.T, h int) {
	const n = 4300 // not a multiple of the length of a block
	x := neighbours.New(randomRows(n, h, 1), false)
	q := randomRows(20, h, 2)
	q.Data[3*q.Stride] = float32(math.NaN())
	b := onnx.NewBuilder("test", 17)
	in := graph.Wrap(b, b.Input("q", pb.TensorProto_FLOAT, "n", h), pb.TensorProto_FLOAT, h)
	for _, ranks := range [][]int{{0}, {2, 0}} {
		d, err := x.DistancesGraph(in, ranks...)
		if err != nil {
			t.Fatal(err)
		}
		b.OutputAs("out", d.Double().Name(), pb.TensorProto_DOUBLE, "n", len(ranks))
	}
	model, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	session, err := orttest.Open(t).NewSession(t.Context(), ort.Model{Proto: model}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var rowsOfQ []float32
	for i := range q.Rows {
		rowsOfQ = append(rowsOfQ, rows.Row(q, i)...)
	}
	input, err := ort.NewTensor([]int64{int64(q.Rows), int64(h)}, rowsOfQ)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	out, err := session.Run(t.Context(), []*ort.Tensor{input})
	if err != nil {
		t.Fatal(err)
	}
	defer out[0].Close()
	defer out[1].Close()
	nearest, both := ort.View[float64](out[0]), ort.View[float64](out[1])
	for i := range q.Rows {
		if i == 3 {
			for _, got := range []float64{nearest[i], both[2*i], both[2*i+1]} {
				if rows.Finite(got) {
					t.Errorf("%d columns, a row that is not finite: distance %v", h, got)
				}
			}
			continue
		}
		all := bruteForce(x.Rows, q, i, false, false)
		for k, got := range []float64{nearest[i], both[2*i], both[2*i+1]} {
			if want := all[[]int{0, 2, 0}[k]].Distance; math.Abs(got-want) > 1e-5*want {
				t.Errorf("%d columns, row %d: distance %v, not %v", h, i, got, want)
			}
		}
	}
}
