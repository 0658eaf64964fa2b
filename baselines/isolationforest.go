package baselines

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/trees"
	"github.com/attach-uncertainty/attach/ood"
)

// IsolationForest scores with how few random splits it takes to set a row
// apart.
var IsolationForest = ood.Method{
	Name: "isolation-forest",
	Doc: "Isolation forest: 2 to the power of minus the mean number of random splits that isolate the row, over what it is for a " +
		"random search tree. Each of the trees is grown on samples training rows drawn without replacement, or all where they are fewer.",
	Ref:   "Liu, Ting & Zhou 2008, doi:10.1109/ICDM.2008.17, eq. 2; as scikit-learn's IsolationForest",
	Needs: ood.NeedFeatures,
	Memory: func(t ood.Training, p ood.Values) float64 {
		nodes := 2 * min(p.Float("samples"), float64(t.Len()))
		return 32 * nodes * min(p.Float("trees"), mostTrees)
	},
	Params: []ood.Param{ood.Count("trees", 100).AtMost(mostTrees), ood.Count("samples", 256)},
	Sweep: []ood.Params{
		{"trees": 100., "samples": 256.}, {"trees": 100., "samples": 64.}, {"trees": 100., "samples": 1024.}, {"trees": 500., "samples": 256.},
	},
	Fit: fitIsolationForest,
	New: func() ood.Fitted { return &isolationForest{} },
}

type isolationForest struct {
	Width   int         `state:"width,dim=features"`
	Samples int         `state:"samples,least=1"`
	Trees   packedTrees `state:"trees"`
	Paths   []float64   `state:"paths[leaves]"` // by tree and leaf: the splits on the way to it, and those it would take within
}

func fitIsolationForest(ctx context.Context, t ood.Training, p ood.Values) (ood.Fitted, error) {
	s := &isolationForest{Width: t.Features.Cols, Samples: min(p.Int("samples"), t.Len())}
	all := make([]int, t.Len())
	for i := range all {
		all[i] = i
	}
	number := p.Int("trees")
	for k := range number {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.Tell(float64(k) / float64(number))
		g := isolation{
			x: t.Features, rng: rand.New(rand.NewPCG(t.Seed, uint64(k))), tree: &trees.Tree{},
			limit: bits.Len(uint(max(s.Samples, 2) - 1)),
		}
		for i := range s.Samples {
			j := i + g.rng.IntN(len(all)-i)
			all[i], all[j] = all[j], all[i]
		}
		g.grow(all[:s.Samples])
		s.Trees, s.Paths = append(s.Trees, g.tree), append(s.Paths, g.paths...)
	}
	return s, nil
}

// isolation grows one tree.
type isolation struct {
	x     blas32.General
	rng   *rand.Rand
	limit int // to the depth
	tree  *trees.Tree
	paths []float64
}

func (g *isolation) grow(rows []int) {
	g.add()
	g.split(0, 0, rows)
}

func (g *isolation) add() int32 {
	g.tree.Feature = append(g.tree.Feature, -1)
	g.tree.Threshold = append(g.tree.Threshold, 0)
	g.tree.Left = append(g.tree.Left, 0)
	return int32(len(g.tree.Feature) - 1)
}

// split divides the rows of a node at random, and reorders them.
func (g *isolation) split(node int32, depth int, rows []int) {
	feature, low, high := -1, float32(0), float32(0)
	if len(rows) > 1 && depth < g.limit {
		feature, low, high = g.column(rows)
	}
	if feature < 0 {
		g.tree.Left[node] = int32(g.tree.Leaves)
		g.tree.Leaves++
		g.paths = append(g.paths, float64(depth)+searchPath(len(rows)))
		return
	}
	at := float32(float64(low) + g.rng.Float64()*(float64(high)-float64(low)))
	if at >= high {
		at = low
	}
	n := 0
	for i, r := range rows {
		if row(g.x, r)[feature] <= at {
			rows[i], rows[n] = rows[n], r
			n++
		}
	}
	left := g.add()
	right := g.add()
	g.tree.Feature[node], g.tree.Threshold[node], g.tree.Left[node] = int32(feature), at, left
	g.split(left, depth+1, rows[:n])
	g.split(right, depth+1, rows[n:])
}

// column draws one of the columns that vary among rows, −1 if none does.
func (g *isolation) column(rows []int) (feature int, low, high float32) {
	for _, j := range g.rng.Perm(g.x.Cols) {
		low, high := row(g.x, rows[0])[j], row(g.x, rows[0])[j]
		for _, r := range rows[1:] {
			v := row(g.x, r)[j]
			low, high = min(low, v), max(high, v)
		}
		if low < high {
			return j, low, high
		}
	}
	return -1, 0, 0
}

// searchPath is the mean depth of a random binary search tree of n keys, where a search fails.
func searchPath(n int) float64 {
	switch {
	case n < 2:
		return 0
	case n == 2:
		return 1
	}
	const euler = 0.57721566490153286060651209008240243
	f := float64(n)
	return 2*(math.Log(f-1)+euler) - 2*(f-1)/f
}

// Restored implements rows.Restored.
func (s *isolationForest) Restored() error {
	leaves := 0
	for k, t := range s.Trees {
		if err := t.Check(s.Width); err != nil {
			return fmt.Errorf("tree %d: %w", k, err)
		}
		leaves += t.Leaves
	}
	if leaves != len(s.Paths) {
		return fmt.Errorf("%d paths to %d leaves", len(s.Paths), leaves)
	}
	return nil
}

// Score implements ood.Fitted.
func (s *isolationForest) Score(_ context.Context, dst []float64, b ood.Batch) error {
	whole := searchPath(s.Samples) * float64(len(s.Trees))
	for i := range dst {
		x, paths, sum := row(b.Features, i), s.Paths, 0.
		for _, t := range s.Trees {
			sum += paths[t.Leaf(x)]
			paths = paths[t.Leaves:]
		}
		// Of a single row nothing can be told.
		dst[i] = .5
		if whole > 0 {
			dst[i] = math.Exp2(-sum / whole)
		}
		if slices.ContainsFunc(x, func(v float32) bool { return v != v }) {
			dst[i] = math.NaN()
		}
	}
	return nil
}
