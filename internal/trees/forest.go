package trees

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// ForestOptions are those of a forest of trees.
type ForestOptions struct {
	Options
	Trees int // 0 is 100
	// Whole grows every tree on all rows, instead of on a bootstrap sample.
	Whole bool
	Seed  uint64
	// Threads is the number of trees that grow at the same time; 0 is
	// GOMAXPROCS.
	Threads int
	// Progress, if not nil, is called with the number of trees grown, from
	// several goroutines.
	Progress func(done, total int)
}

// Pruning is what may differ between forests that are grown together.
type Pruning struct {
	Trees              int
	MaxDepth, MinSplit int // as in Options
}

// Forest is a quantile regression forest: trees whose leaves remember the
// targets of their training rows.
type Forest struct {
	// Values are the distinct training targets in increasing order.
	Values []float32 `state:"values[values],rising"`
	Trees  Trees     `state:"trees"`
	// Sizes is how many members each leaf has, by tree and leaf.
	Sizes []int32 `state:"sizes[leaves],least=1"`
	// Members are positions in Values, increasing within a leaf, as often as
	// the bootstrap drew them.
	Members []int32 `state:"members[members],least=0"`

	index
}

// Restored implements rows.Restored.
func (f *Forest) Restored() error {
	at := 0
	for l, n := range f.Sizes {
		if int(n) > len(f.Members)-at {
			return fmt.Errorf("%d leaves have more members than %d", len(f.Sizes), len(f.Members))
		}
		in := f.Members[at : at+int(n)]
		if !slices.IsSorted(in) || int(in[n-1]) >= len(f.Values) {
			return fmt.Errorf("the members of leaf %d are out of order or range", l)
		}
		at += int(n)
	}
	if at != len(f.Members) {
		return fmt.Errorf("%d leaves have %d members of %d", len(f.Sizes), at, len(f.Members))
	}
	if err := f.Trees.Fit(math.MaxInt, len(f.Sizes)); err != nil {
		return err
	}
	f.prepare()
	return nil
}

// GrowForests grows a forest for one target per row of data for every pruning,
// with its number of trees, depth and rows to be split, for the time of the
// largest. Each tree reduces the variance on its own bootstrap sample.
func GrowForests(ctx context.Context, data *Data, y []float32, o ForestOptions, prunings []Pruning) ([]*Forest, error) {
	if len(y) != data.rows {
		panic(fmt.Sprintf("trees: %d targets of %d rows", len(y), data.rows))
	}
	prunings = slices.Clone(prunings)
	if len(prunings) == 0 {
		return nil, nil
	}
	for i := range prunings {
		p := &prunings[i]
		p.Trees = cmp.Or(p.Trees, 100)
		checked, err := Options{p.MaxDepth, p.MinSplit, o.MinLeaf, o.MaxFeatures}.withDefaults()
		if err != nil {
			return nil, err
		}
		p.MaxDepth, p.MinSplit = checked.MaxDepth, checked.MinSplit
		if p.Trees < 1 {
			return nil, fmt.Errorf("a forest needs at least 1 tree, not %d", p.Trees)
		}
		if i == 0 {
			o.Options, o.Trees = checked, p.Trees
		}
		o.MaxDepth, o.MinSplit, o.Trees = max(o.MaxDepth, p.MaxDepth), min(o.MinSplit, p.MinSplit), max(o.Trees, p.Trees)
	}
	targets := newTargets(y)
	forests, grown := make([]*Forest, len(prunings)), make([][]bagged, len(prunings))
	for i, p := range prunings {
		forests[i] = &Forest{Values: targets.values}
		grown[i] = make([]bagged, p.Trees)
	}
	threads := min(o.Threads, o.Trees)
	if o.Threads <= 0 {
		threads = min(runtime.GOMAXPROCS(0), o.Trees)
	}
	group, ctx := errgroup.WithContext(ctx)
	var next, done atomic.Int64
	for range threads {
		group.Go(func() error {
			g := newGrower(data, o.Options, 1)
			counts := make([]int32, data.rows)
			for {
				k := int(next.Add(1)) - 1
				if k >= o.Trees {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				rng := rand.New(rand.NewPCG(o.Seed, uint64(k)))
				draw(counts, o.Whole, rng)
				tree := g.grow(targets.centred, counts, rng.Uint64())
				for i, p := range prunings {
					if k < p.Trees {
						grown[i][k] = targets.bagged(tree, p, g.leaf, counts)
					}
				}
				if o.Progress != nil {
					o.Progress(int(done.Add(1)), o.Trees)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, f := range forests {
		for _, b := range grown[i] {
			f.add(b)
		}
		f.prepare()
	}
	return forests, nil
}

// draw counts how often each row is in a bootstrap sample.
func draw(counts []int32, whole bool, rng *rand.Rand) {
	for i := range counts {
		counts[i] = 1
	}
	if whole {
		return
	}
	clear(counts)
	n := uint64(len(counts))
	for range counts {
		counts[rng.Uint64N(n)]++
	}
}

// targets are training targets in the forms that forests need.
type targets struct {
	values  []float32 // distinct, increasing
	rank    []int32   // of each row, in values
	order   []int32   // rows by increasing rank
	centred []float64 // less their mean
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

// bagged is a tree and what its leaves remember, as in a Forest.
type bagged struct {
	Tree
	sizes, members []int32
}

func (f *Forest) add(b bagged) {
	f.Trees, f.Sizes, f.Members = append(f.Trees, b.Tree), append(f.Sizes, b.sizes...), append(f.Members, b.members...)
}

// bagged is tree, pruned, with the targets of the rows in its leaves. Going
// through rows by rank leaves the members of each leaf sorted.
func (t *targets) bagged(tree Tree, p Pruning, leaf, counts []int32) bagged {
	pruned, of := tree.Prune(p.MaxDepth, p.MinSplit)
	b := bagged{Tree: pruned, sizes: make([]int32, pruned.Leaves)}
	for i, l := range leaf {
		if l >= 0 {
			b.sizes[of[l]] += counts[i]
		}
	}
	at, sum := make([]int32, pruned.Leaves), int32(0)
	for l, n := range b.sizes {
		at[l] = sum
		sum += n
	}
	b.members = make([]int32, sum)
	for _, i := range t.order {
		if leaf[i] < 0 {
			continue
		}
		l := of[leaf[i]]
		for range counts[i] {
			b.members[at[l]] = t.rank[i]
			at[l]++
		}
	}
	return b
}
