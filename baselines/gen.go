package baselines

import (
	"context"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// GEN scores with a generalised entropy of the likeliest classes.
var GEN = ood.Method{
	Name: "gen",
	Doc: "Generalised entropy Σ pᵞ(1−p)ᵞ over the `top` largest entries p of softmax(logits), with γ the parameter gamma. " +
		"Networks with fewer classes than top have all of them summed.",
	Ref:     "Liu, Lochman & Zach 2023, CVPR 2023, pages 23946–23955",
	Needs:   ood.NeedLogits,
	Default: ood.Params{"gamma": .1, "top": 100.},
	Grid:    genGrid(),
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		r := p.Reader()
		s := gen{t.Logits.Cols, r.Positive("gamma", .1), r.Count("top", 100)}
		if err := r.Err(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return s, checkClasses(s.classes)
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		var s gen
		var err error
		if s.classes, err = whole(st, "classes", leastLogits); err != nil {
			return nil, err
		}
		if s.gamma, err = positive(st, "gamma"); err != nil {
			return nil, err
		}
		s.top, err = whole(st, "top", 1)
		return s, err
	},
}

// The sweep of OpenOOD, less the values of top that are beyond a hundred.
func genGrid() []ood.Params {
	var grid []ood.Params
	for _, gamma := range []float64{.01, .1, .5, 1, 2, 5, 10} {
		for _, top := range []float64{10, 100} {
			grid = append(grid, ood.Params{"gamma": gamma, "top": top})
		}
	}
	return grid
}

type gen struct {
	classes int
	gamma   float64
	top     int // classes to sum over, at most
}

// Score implements ood.Scorer.
func (s gen) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Logits, s.classes, "logits"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Logits.Rows)
	sorted := make([]float32, s.classes)
	for i := range dst {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		copy(sorted, row(b.Logits, i))
		slices.Sort(sorted) // NaN comes first
		dst[i] = s.entropy(sorted)
	}
	return dst, nil
}

// entropy takes logits in rising order. It works with logarithms, since a small
// power of a probability counts where the probability itself is nearly nothing.
func (s gen) entropy(z []float32) float64 {
	if math.IsNaN(float64(z[0])) {
		return math.NaN()
	}
	last := len(z) - 1
	largest := float64(z[last])
	var excess float64
	for _, v := range z[:last] {
		excess += math.Exp(float64(v) - largest)
	}
	logSum := math.Log1p(excess)
	sum := math.Exp(s.gamma * (math.Log(excess) - 2*logSum))
	for _, v := range z[len(z)-min(s.top, len(z)) : last] {
		logP := float64(v) - largest - logSum
		sum += math.Exp(s.gamma * (logP + math.Log1p(-math.Exp(logP))))
	}
	return sum
}

// State implements heads.Stater.
func (s gen) State() heads.State {
	return heads.State{Params: map[string]any{"classes": float64(s.classes), "gamma": s.gamma, "top": float64(s.top)}}
}
