package baselines

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/trees"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var isolationForestMethod = ood.Method{
	Name: "isolation-forest",
	Doc: "Isolation forest: a row scores high if few random splits separate it from the training rows. Use it for tables of few columns and many rows: the file " +
		"contains only trees, and not the rows. The score is 2 to the power of minus the mean number of splits, relative to that of a random search tree. Each " +
		"tree is grown on `samples` training rows drawn without replacement, or on all if there are fewer.",
	Ref:   "Liu, Ting & Zhou 2008, doi:10.1109/ICDM.2008.17, eq. 2; as scikit-learn's IsolationForest",
	Needs: ood.Needs{Features: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		nodes := 2 * min(p.Float("samples"), float64(t.Len()))
		return 32 * nodes * p.Float("trees")
	},
	Params: []ood.Param{{Name: "trees", Default: 100, Takes: treeCountConstraint}, {Name: "samples", Default: 256, Takes: "count"}},
	Sweep: []ood.Params{
		{"trees": 100., "samples": 256.}, {"trees": 100., "samples": 64.}, {"trees": 100., "samples": 1024.}, {"trees": 500., "samples": 256.},
	},
	Fit: fitIsolationForest,
	New: func() any { return &isolationForest{} },
}

type isolationForest struct {
	Width   int         `state:"width,dim=features"`
	Samples int         `state:"samples,least=1"`
	Trees   trees.Trees `state:"trees"`
	Paths   []float64   `state:"paths[leaves]"` // for each leaf, the number of splits on its path plus the expected number to isolate its rows
}

func fitIsolationForest(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &isolationForest{Width: t.Features.Cols, Samples: min(p.Int("samples"), t.Len())}
	all := make([]int, t.Len())
	for i := range all {
		all[i] = i
	}
	treeCount := p.Int("trees")
	for k := range treeCount {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.Progress(float64(k) / float64(treeCount))
		rng := rand.New(rand.NewPCG(t.Seed, uint64(k)))
		for i := range s.Samples {
			j := i + rng.IntN(len(all)-i)
			all[i], all[j] = all[j], all[i]
		}
		tree, paths := trees.Isolate(t.Features, all[:s.Samples], rng)
		s.Trees, s.Paths = append(s.Trees, *tree), append(s.Paths, paths...)
	}
	return s, nil
}

func (s *isolationForest) Restored() error { return s.Trees.Fit(s.Width, len(s.Paths)) }

func (s *isolationForest) Score(_ context.Context, dst []float64, b ood.Batch) error {
	expectedSum := trees.SearchPath(s.Samples) * float64(len(s.Trees))
	for i := range dst {
		x, paths, sum := row(b.Features, i), s.Paths, 0.
		for _, t := range s.Trees {
			sum += paths[t.Leaf(x)]
			paths = paths[t.Leaves:]
		}
		// SearchPath is 0 if each tree has a single training row. Such trees cannot
		// separate anything, so all scores are 0.5.
		dst[i] = .5
		if expectedSum > 0 {
			dst[i] = math.Exp2(-sum / expectedSum)
		}
		if slices.ContainsFunc(x, func(v float32) bool { return v != v }) {
			dst[i] = math.NaN()
		}
	}
	return nil
}

func (s *isolationForest) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	paths, err := s.Trees.LeafValues(b.Features, s.Paths)
	if err != nil {
		return paths, err
	}
	sum, expectedSum := paths.Sum(), trees.SearchPath(s.Samples)*float64(len(s.Trees))
	if expectedSum > 0 {
		return sum.Mul(-math.Ln2 / expectedSum).Exp(), nil
	}
	return sum.Mul(0.).Add(.5), nil
}
