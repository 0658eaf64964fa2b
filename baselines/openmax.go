package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// OpenMax takes from the logits of likely classes what their distance from the
// classes' means makes doubtful, and gives it to a class for the unknown.
var OpenMax = ood.Method{
	Name: "openmax",
	Doc: "Log-odds of the unknown class that OpenMax adds to the softmax. A Weibull distribution of the `tail` largest Euclidean distances " +
		"between a class's training logits and their mean says how unusual a row is for each of the `alpha` likeliest classes, and that much " +
		"of their logits goes to the unknown. A row is an example of the class predicted for it; where labels are given, rows that they " +
		"contradict are left out, as in the paper. Every row is unusual for a class without examples. Classes need several times as many " +
		"training rows as tail.",
	Ref:     "Bendale & Boult 2016, arXiv:1511.06233",
	Needs:   ood.NeedLogits,
	Default: ood.Params{"tail": 20., "alpha": 10.},
	Grid: []ood.Params{
		{"tail": 20., "alpha": 3.}, {"tail": 20., "alpha": 10.}, {"tail": 50., "alpha": 3.}, {"tail": 50., "alpha": 10.},
	},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		tail, alpha := r.Count("tail", 20), r.Count("alpha", 10)
		if err := r.Err(); err != nil {
			return nil, err
		}
		return fitOpenMax(ctx, t, tail, alpha)
	},
	Restore: restoreOpenMax,
}

type openMax struct {
	means blas64.General // c×c, of the logits of each class
	tails []weibullTail  // c
	alpha int
}

func fitOpenMax(ctx context.Context, t ood.Training, tail, alpha int) (ood.Scorer, error) {
	c := t.Logits.Cols
	if err := checkClasses(c); err != nil {
		return nil, err
	}
	if err := checkLogitRows(t.Logits, "openmax"); err != nil {
		return nil, err
	}
	classes, err := correctClasses(t)
	if err != nil {
		return nil, err
	}
	s := openMax{classMeans(t.Logits, classes, c), make([]weibullTail, c), alpha}
	distances := make([][]float64, c)
	for i, y := range classes {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if y >= 0 {
			distances[y] = append(distances[y], s.distance(row(t.Logits, i), y))
		}
	}
	for y, d := range distances {
		s.tails[y] = newWeibullTail(d, tail)
	}
	return s, ctx.Err()
}

// distance is that between a row of logits and the mean of class y.
func (s openMax) distance(z []float32, y int) float64 {
	var square float64
	for k, mean := range s.means.Data[y*s.means.Stride : y*s.means.Stride+len(z)] {
		d := float64(z[k]) - mean
		square += d * d
	}
	return math.Sqrt(square)
}

// Score implements ood.Scorer.
func (s openMax) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	c := s.means.Rows
	if err := checkWidth(b.Logits, c, "logits"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Logits.Rows)
	order, revised := make([]int, c), make([]float64, c)
	for i := range dst {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		dst[i] = s.unknown(row(b.Logits, i), order, revised)
	}
	return dst, nil
}

// unknown is the log-odds of the unknown class: a probability would be 1 or 0
// for many rows alike.
func (s openMax) unknown(z []float32, order []int, revised []float64) float64 {
	for k, v := range z {
		if math.IsNaN(float64(v)) {
			return math.NaN()
		}
		order[k], revised[k] = k, float64(v)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case z[a] > z[b]:
			return -1
		case z[a] < z[b]:
			return 1
		}
		return 0
	})
	alpha := min(s.alpha, len(z))
	var unknown float64
	for i, y := range order[:alpha] {
		weight := float64(alpha-i) / float64(alpha) * s.tails[y].probability(s.distance(z, y))
		unknown += revised[y] * weight
		revised[y] *= 1 - weight
	}
	return unknown - floats.LogSumExp(revised)
}

// State implements heads.Stater.
func (s openMax) State() heads.State {
	tails := newMatrix64(len(s.tails), 4)
	for y, t := range s.tails {
		copy(tails.Data[y*4:], []float64{t.largest, t.at, t.shape, t.ratio})
	}
	return heads.State{
		Params: map[string]any{"classes": float64(s.means.Rows), "alpha": float64(s.alpha)},
		Arrays: map[string]heads.Array{"means": matrixArray(s.means), "tails": matrixArray(tails)},
	}
}

func restoreOpenMax(st heads.State) (ood.Scorer, error) {
	c, err := whole(st, "classes", leastLogits)
	if err != nil {
		return nil, err
	}
	var s openMax
	if s.alpha, err = whole(st, "alpha", 1); err != nil {
		return nil, err
	}
	if s.means, err = finiteMatrix64(st, "means", c, c); err != nil {
		return nil, err
	}
	tails, err := finiteMatrix64(st, "tails", c, 4)
	if err != nil {
		return nil, err
	}
	s.tails = make([]weibullTail, c)
	for y := range s.tails {
		v := tails.Data[y*4 : y*4+4]
		s.tails[y] = weibullTail{v[0], v[1], v[2], v[3]}
		if t := s.tails[y]; t.shape < 0 || t.shape > 0 && t.at < weibullTranslation {
			return nil, fmt.Errorf("array %q has no distribution in row %d: %v", "tails", y, v)
		}
	}
	return s, nil
}
