package baselines_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// TestDistanceAgreesWithExhaustiveFloat64 checks distances against distances computed in
// float64. Squared distances may be off by 1e-5 of their value plus about a millionth of
// the squared spread of the rows, because products are float32.
func TestDistanceAgreesWithExhaustiveFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	gauss := func(n, h int, scale, offset float64) blas32.General {
		m := zeros(n, h)
		for i := range m.Data {
			m.Data[i] = float32(offset + scale*r.NormFloat64())
		}
		return m
	}
	clusters := func(n, h int) blas32.General {
		m := gauss(n, h, 1e-3, 0)
		for i := range n {
			m.Data[i*h+i%5] += 30
		}
		return m
	}
	outlier := gauss(300, 16, 1, 0)
	for j := range 16 {
		outlier.Data[7*16+j] = 1e6
	}
	same := gauss(400, 16, 0, 3)
	mixed := gauss(600, 32, 1, 0)
	for i := range 200 {
		copy(mixed.Data[(400+i)*32:], mixed.Data[i*32:(i+1)*32])
	}
	for _, c := range []struct {
		name      string
		train, in blas32.General
	}{
		{"plain, two blocks", gauss(2100, 64, 1, 0), gauss(40, 64, 2, 0)},
		{"far from the origin", gauss(500, 64, 1, 3000), gauss(20, 64, 1, 3000)},
		{"shifted away", gauss(500, 64, 1e-2, 0), gauss(20, 64, 1, 100)},
		{"tight clusters", clusters(1200, 24), clusters(30, 24)},
		{"one training row far away", outlier, gauss(20, 16, 1, 0)},
		{"identical training rows", same, gauss(10, 16, 1, 3)},
		{"duplicates", mixed, mixed},
		{"one training row", gauss(1, 8, 1, 0), gauss(10, 8, 1, 0)},
		{"two training rows", gauss(2, 8, 1, 0), gauss(10, 8, 1, 0)},
		{"one feature", gauss(100, 1, 1, 0), gauss(30, 1, 1, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			grid := []ood.Params{
				{"percentile": 0.}, {"percentile": 1.}, {"percentile": 10.}, {"percentile": 50.}, {"percentile": 99.9}, {"percentile": 100.},
			}
			scorers, err := fitting.FitGrid(background, method("distance"), ood.Training{Batch: ood.Batch{Features: c.train}}, grid)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fitting.ScoreGrid(background, scorers, ood.Batch{Features: c.in}, nil)
			if err != nil {
				t.Fatal(err)
			}
			spread := slices.Max(distances(c.train, c.train, 0))
			if c.train.Rows > 7 {
				spread = max(spread, slices.Max(distances(c.train, c.train, 7)))
			}
			for i := range c.in.Rows {
				d := distances(c.train, c.in, i)
				for k, p := range grid {
					want := percentile(d, p["percentile"].(float64))
					if e := math.Abs(got[k][i]*got[k][i] - want*want); !(e <= 1e-5*want*want+1e-6*(spread+want)*(spread+want)) {
						t.Fatalf("%v, row %d: %v, want %v", p, i, got[k][i], want)
					}
				}
			}
		})
	}
}

// distances returns the sorted distances between row i of x and the rows of train.
func distances(train, x blas32.General, i int) []float64 {
	d := make([]float64, train.Rows)
	for j := range d {
		for k := range train.Cols {
			v := float64(x.Data[i*x.Stride+k]) - float64(train.Data[j*train.Stride+k])
			d[j] += v * v
		}
		d[j] = math.Sqrt(d[j])
	}
	slices.Sort(d)
	return d
}

// percentile returns the same result as numpy.percentile.
func percentile(d []float64, percentile float64) float64 {
	at := percentile / 100 * float64(len(d)-1)
	low := int(at)
	return d[low] + (at-float64(low))*(d[min(low+1, len(d)-1)]-d[low])
}

func BenchmarkDistance(b *testing.B) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, size := range [][3]int{{10_000, 10_000, 64}, {10_000, 1000, 512}} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			train, x := zeros(size[0], size[2]), zeros(size[1], size[2])
			for _, m := range []blas32.General{train, x} {
				for i := range m.Data {
					m.Data[i] = float32(r.NormFloat64())
				}
			}
			scorers, err := fitting.FitGrid(background, method("distance"), ood.Training{Batch: ood.Batch{Features: train}}, fitting.Grid(method("distance")))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := fitting.ScoreGrid(background, scorers, ood.Batch{Features: x}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNearestOfSimilarRows checks distances that differ only by rounding. There are more
// training rows than are searched at a time.
func TestNearestOfSimilarRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, spread := range []float64{0, 1e-6} {
		train, x := zeros(3000, 16), zeros(20, 16)
		for _, m := range []blas32.General{train, x} {
			for i := range m.Data {
				m.Data[i] = float32(3 + spread*r.NormFloat64())
			}
		}
		for _, rank := range []float64{0, 7, 40} {
			p := ood.Params{"percentile": 100 * rank / 2999}
			scorer, err := fitting.Fit(background, method("distance"), ood.Training{Batch: ood.Batch{Features: train}}, p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := scorer.Score(background, nil, ood.Batch{Features: x})
			if err != nil {
				t.Fatal(err)
			}
			for i := range x.Rows {
				if want := percentile(distances(train, x, i), p["percentile"].(float64)); !(math.Abs(got[i]-want) <= 1e-5*want) {
					t.Fatalf("spread %v, rank %v, row %d: %v, want %v", spread, rank, i, got[i], want)
				}
			}
		}
	}
}

// TestMayRetain checks that a fit keeps the training rows without a copy exactly if
// MayRetain is set.
func TestMayRetain(t *testing.T) {
	for _, m := range []ood.Method{method("distance"), method("knn"), method("lof"), method("nnguide")} {
		batch := toyBatch(60)
		retained, err := fitting.Fit(background, m, ood.Training{Batch: batch, MayRetain: true}, fitting.Default(m))
		if err != nil {
			t.Fatal(err)
		}
		copied, err := fitting.Fit(background, m, ood.Training{Batch: batch}, fitting.Default(m))
		if err != nil {
			t.Fatal(err)
		}
		shares := func(s *fitting.Scorer) bool {
			for _, a := range s.State().Arrays {
				if v, ok := a.Data.([]float32); ok && &v[0] == &batch.Features.Data[0] {
					return true
				}
			}
			return false
		}
		if !shares(retained) || shares(copied) {
			t.Errorf("%s: shares memory with MayRetain: %v; without: %v", m.Name, shares(retained), shares(copied))
		}
	}
}

// TestLOFGrid checks that a sweep over k, which shares one search, gives the same scores as
// single fits.
func TestLOFGrid(t *testing.T) {
	train := ood.Training{Batch: toyBatch(150)}
	x := toyBatch(40)
	all, err := fitting.FitGrid(background, method("lof"), train, fitting.Grid(method("lof")))
	if err != nil {
		t.Fatal(err)
	}
	together, err := fitting.ScoreGrid(background, all, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, p := range fitting.Grid(method("lof")) {
		alone, err := fitting.Fit(background, method("lof"), train, p)
		if err != nil {
			t.Fatal(err)
		}
		want, err := alone.Score(background, nil, x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(together[k][i]-want[i]) > 1e-12*want[i] {
				t.Fatalf("%v, row %d: %v together, %v alone", p, i, together[k][i], want[i])
			}
		}
	}
}

// toyBatch returns n random rows with features and logits.
func toyBatch(n int) ood.Batch {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	b := ood.Batch{Features: zeros(n, 8), Logits: zeros(n, 3)}
	for _, m := range []blas32.General{b.Features, b.Logits} {
		for i := range m.Data {
			m.Data[i] = float32(r.NormFloat64())
		}
	}
	return b
}
