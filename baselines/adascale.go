package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var adascaleMethod = ood.Method{
	Name: "adascale",
	Doc: "SCALE or LTS with a percentile chosen for each row: it is lower if a perturbation of the input shifts the row's features more. Try it if scale or lts " +
		"works well on your data; each row costs a gradient and a second pass of the network. The score is the energy of the logits after all features are " +
		"multiplied by exp(r) (scales=features, AdaSCALE-A), or all logits by r² (scales=logits, AdaSCALE-L). r is the sum of the positive features over the " +
		"sum of those above the percentile. The percentile lies between low and high. It is lower if a perturbation of the input shifts the row's largest " +
		"features more, because OOD rows shift more. The perturbation moves a fraction `share` of the inputs, those with the smallest gradient of the largest " +
		"logit, by epsilon along that gradient. The measure of the shift is shift times the change of the largest `shifted` percent of the features, plus the " +
		"largest `kept` percent of the features after the perturbation; it is ranked among the same measure on `samples` training rows. The defaults of low " +
		"and high come from the authors' and SCALE's settings, not from OOD rows.",
	Ref:   "Regmi 2025, arXiv:2503.08023",
	Needs: ood.Needs{Features: true, Logits: true, Weights: true, Inputs: true, Network: true},
	Params: []ood.Param{
		{Name: "scales", Default: scalesFeatures, Takes: "of=" + scalesFeatures + "|" + scalesLogits, Sweep: []any{scalesFeatures, scalesLogits}},
		{Name: "low", Default: 60, Takes: "least=0,below=100"}, {Name: "high", Default: 85, Takes: "least=0,below=100", Sweep: []any{65, 75, 85, 95}},
		{Name: "kept", Default: 1, Takes: "positive,most=100"}, {Name: "shifted", Default: 5, Takes: "positive,most=100"}, {Name: "shift", Default: 10, Takes: "least=0"},
		{Name: "share", Default: .05, Takes: "positive,most=1"}, {Name: "epsilon", Default: .5, Takes: "least=0"},
		{Name: "samples", Default: 1000, Takes: "count"},
	},
	Fit: fitAdaSCALE,
	New: func() any { return &adascale{} },
}

// These are the values of the parameter "scales".
const (
	scalesFeatures = "features"
	scalesLogits   = "logits"
)

type adascale struct {
	lastLayer
	perturbation
	Scales  string    `state:"scales,of=features|logits"`
	Low     float64   `state:"low,least=0,below=100"`
	High    float64   `state:"high,least=0,below=100"`
	Kept    float64   `state:"kept,positive"`
	Shifted float64   `state:"shifted,positive"`
	Shift   float64   `state:"shift,least=0"`
	Shifts  []float64 `state:"shifts[n],rising"` // sorted shifts of the sampled training rows
}

// perturbation describes how inputs are perturbed.
type perturbation struct {
	Share   float64 `state:"share,positive"`
	Epsilon float64 `state:"epsilon,least=0"`
}

// trainingRowsAtOnce is the largest number of training rows that the network gets in one
// run.
const trainingRowsAtOnce = 64

func fitAdaSCALE(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &adascale{
		lastLayer: newLastLayer(ctx, t), perturbation: perturbation{p.Float("share"), p.Float("epsilon")}, Scales: p["scales"].(string), Low: p.Float("low"), High: p.Float("high"),
		Kept: p.Float("kept"), Shifted: p.Float("shifted"), Shift: p.Float("shift"),
	}
	if s.High < s.Low {
		return nil, fmt.Errorf("parameter %q is %v, below %q of %v", "high", s.High, "low", s.Low)
	}
	if t.Inputs == nil {
		return nil, &ood.NeedError{Method: "adascale", Need: ood.Needs{Inputs: true}, Where: "the fit rows"}
	}
	n := min(p.Int("samples"), t.Len())
	type key struct {
		perturbation
		n int
	}
	type featurePair struct{ before, after blas32.General }
	m, err := memo.Cached(ctx, t.Batch, key{s.perturbation, n}, func() (featurePair, error) {
		picked := make([]int, n)
		for i := range picked {
			picked[i] = i * t.Len() / n
		}
		inputs := t.Inputs.Select(picked)
		m := featurePair{rows.Select(t.Features, picked), rows.New(n, t.Features.Cols)}
		for x, err := range inputs.Blocks(ctx, trainingRowsAtOnce) {
			if err != nil {
				return m, err
			}
			after, err := s.features(ctx, ood.Batch{Network: t.Network, Inputs: x})
			if err != nil {
				return m, err
			}
			for i := range after.Rows {
				copy(row(m.after, x.Start+i), row(after, i))
			}
			t.Progress(float64(x.Start+x.Len()) / float64(n))
		}
		return m, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for i := range n {
		s.Shifts = append(s.Shifts, s.shift(row(m.before, i), row(m.after, i)))
	}
	slices.Sort(s.Shifts)
	if math.IsNaN(s.Shifts[0]) {
		return nil, fmt.Errorf("the network's features are not finite after a perturbation of the inputs by %v", s.Epsilon)
	}
	return s, nil
}

// features returns the features of the perturbed inputs of b. Scorers with equal
// perturbations share the result.
func (n perturbation) features(ctx context.Context, b ood.Batch) (blas32.General, error) {
	return memo.Cached(ctx, b, n, func() (blas32.General, error) {
		_, g, err := gradientOf(ctx, b, ood.Scalar{Top: true})
		if err != nil {
			return blas32.General{}, err
		}
		block := b.Inputs.(ood.InputBlock)
		x := block.Find(g.Name).Data
		width := len(x) / block.Len()
		k := max(1, int(n.Share*float64(width)))
		negated, scratch := make([]float32, width), make([]float64, width)
		to := g
		to.Data = slices.Clone(x)
		for first := 0; first < len(x); first += width {
			slopes := g.Data[first : first+width]
			for j, v := range slopes {
				negated[j] = -max(v, -v)
			}
			for j := range largestOf(negated, k, scratch).positions(negated) {
				to.Data[first+j] += float32(n.Epsilon * sign(slopes[j]))
			}
		}
		out, err := b.Network.Forward(ctx, replaced(block, to))
		if err == nil && out.Features.Rows != block.Len() {
			err = fmt.Errorf("the network returns %d rows of features for %d inputs", out.Features.Rows, block.Len())
		}
		return out.Features, err
	})
}

// shift measures how much a perturbation changes the largest features. Two sums are over
// the features that are largest before the perturbation. The first is over Kept percent of
// the features, and adds their positive values after the perturbation. The second is over
// Shifted percent, and adds their absolute changes. The result is the first sum plus Shift
// times the second.
func (s *adascale) shift(before, after []float32) float64 {
	h := len(before)
	scratch := make([]float64, h)
	largest := func(percent float64, each func(j int) float64) (sum float64) {
		top := largestOf(before, max(1, int(float64(h)*percent/100)), scratch)
		if math.IsNaN(top.all) {
			return top.all
		}
		for j := range top.positions(before) {
			sum += each(j)
		}
		return sum
	}
	largestSum := largest(s.Kept, func(j int) float64 { return float64(max(after[j], 0)) })
	return largestSum + s.Shift*largest(s.Shifted, func(j int) float64 { return math.Abs(float64(after[j]) - float64(before[j])) })
}

// percentile returns a percentile between Low and High. It is lower for a larger shift.
func (s *adascale) percentile(shift float64) float64 {
	atMost := sort.Search(len(s.Shifts), func(i int) bool { return s.Shifts[i] > shift })
	return s.Low + (1-float64(atMost)/float64(len(s.Shifts)))*(s.High-s.Low)
}

func (s *adascale) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	after, err := s.features(ctx, b)
	if err != nil {
		return err
	}
	var ratios positiveRatio
	product := s.product(b.Features)
	z := make([]float64, len(s.Bias))
	for i := range dst {
		phi := row(b.Features, i)
		shift := s.shift(phi, row(after, i))
		if math.IsNaN(shift) {
			dst[i] = shift
			continue
		}
		ratio := ratios.ratio(phi, s.percentile(shift))
		features, logits := 1., ratio*ratio
		if s.Scales == scalesFeatures {
			features, logits = math.Exp(min(ratio, maxExponent)), 1
		}
		for k, v := range row(product, i) {
			z[k] = logits * (features*float64(v) + s.Bias[k])
		}
		dst[i] = -floats.LogSumExp(z)
	}
	return nil
}

func (s *adascale) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it runs the network with its gradient")
}
