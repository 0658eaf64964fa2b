package trees

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// ForestOptions configures a forest of trees.
type ForestOptions struct {
	Options
	Trees int
	Seed  uint64
	Grown func() // called after every tree, by several goroutines, if not nil
}

// Forest is a quantile regression forest. The leaves of its trees keep the targets of their
// training rows, called members.
type Forest struct {
	// Values holds the distinct training targets in increasing order.
	Values []float32 `state:"values[values],rising"`
	Trees  Trees     `state:"trees"`
	// Sizes holds the number of members of each leaf of each tree.
	Sizes []int32 `state:"sizes[leaves],least=1"`
	// Members holds the members of all leaves as indices into Values. Indices increase within
	// a leaf. A row that the bootstrap drew several times is a member that many times.
	Members []int32 `state:"members[members],least=0"`

	index
}

// Restored implements rows.Restored.
func (f *Forest) Restored() error {
	start := 0
	for l, n := range f.Sizes {
		if int(n) > len(f.Members)-start {
			return fmt.Errorf("%d leaves have more members than %d", len(f.Sizes), len(f.Members))
		}
		members := f.Members[start : start+int(n)]
		if !slices.IsSorted(members) || int(members[n-1]) >= len(f.Values) {
			return fmt.Errorf("the members of leaf %d are out of order or range", l)
		}
		start += int(n)
	}
	if start != len(f.Members) {
		return fmt.Errorf("%d leaves have %d members of %d", len(f.Sizes), start, len(f.Members))
	}
	f.prepare()
	return nil
}

// GrowForest grows a forest for a target with one value for each row of data. Each tree
// reduces the variance of the target on its own bootstrap sample.
func GrowForest(ctx context.Context, data *Data, y []float32, o ForestOptions) (*Forest, error) {
	if len(y) != data.rows {
		panic(fmt.Sprintf("trees: %d targets of %d rows", len(y), data.rows))
	}
	targets, grown := newTargets(y), make([]baggedTree, o.Trees)
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), o.Trees) {
		group.Go(func() error {
			g, counts := newGrower(data, o.Options, 1), make([]int32, data.rows)
			for {
				k := int(next.Add(1)) - 1
				if k >= o.Trees {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				rng := rand.New(rand.NewPCG(o.Seed, uint64(k)))
				drawBootstrap(counts, rng)
				tree := g.grow(targets.centred, counts, rng.Uint64())
				grown[k] = targets.baggedTree(tree, g.leaf, counts)
				if o.Grown != nil {
					o.Grown()
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return newForest(targets.values, grown), nil
}

// newForest returns a forest of trees, with the members of their leaves.
func newForest(values []float32, grown []baggedTree) *Forest {
	f := &Forest{Values: values}
	for _, b := range grown {
		f.Trees, f.Sizes, f.Members = append(f.Trees, b.Tree), append(f.Sizes, b.sizes...), append(f.Members, b.members...)
	}
	f.prepare()
	return f
}

// drawBootstrap draws a bootstrap sample and counts how often it contains each row.
func drawBootstrap(counts []int32, rng *rand.Rand) {
	clear(counts)
	n := uint64(len(counts))
	for range counts {
		counts[rng.Uint64N(n)]++
	}
}

// targets holds the training targets in the forms that a forest needs.
type targets struct {
	values  []float32 // distinct targets, increasing
	rank    []int32   // index of each row's target in values
	order   []int32   // rows in order of increasing rank
	centred []float64 // targets minus their mean
}

func newTargets(y []float32) *targets {
	t := &targets{rank: make([]int32, len(y)), order: make([]int32, len(y)), centred: make([]float64, len(y))}
	var mean float64
	for i, v := range y {
		t.order[i] = int32(i)
		mean += float64(v) / float64(len(y))
	}
	slices.SortStableFunc(t.order, func(a, b int32) int { return cmp.Compare(y[a], y[b]) })
	for k, i := range t.order {
		if k == 0 || y[i] != t.values[len(t.values)-1] {
			t.values = append(t.values, y[i])
		}
		t.rank[i] = int32(len(t.values) - 1)
		t.centred[i] = float64(y[i]) - mean
	}
	return t
}

// baggedTree is a tree that was grown on a bootstrap sample, with the members of its leaves as in
// a Forest.
type baggedTree struct {
	Tree
	sizes, members []int32
}

// baggedTree returns tree with the targets of the rows in its leaves. It visits rows in order of
// their rank, so the members of each leaf are sorted.
func (t *targets) baggedTree(tree Tree, leaf, counts []int32) baggedTree {
	b := baggedTree{Tree: tree, sizes: make([]int32, tree.Leaves)}
	for i, l := range leaf {
		if l >= 0 {
			b.sizes[l] += counts[i]
		}
	}
	next, sum := make([]int32, tree.Leaves), int32(0)
	for l, n := range b.sizes {
		next[l] = sum
		sum += n
	}
	b.members = make([]int32, sum)
	for _, i := range t.order {
		if l := leaf[i]; l >= 0 {
			for range counts[i] {
				b.members[next[l]] = t.rank[i]
				next[l]++
			}
		}
	}
	return b
}
