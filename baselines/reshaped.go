package baselines

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// reshaped scores with the energy −log Σ exp(z) of the logits z that the last
// layer makes of changed features.
type reshaped struct {
	lastLayer
	change
	params map[string]any // what change was made from
}

// change writes what becomes of a row of features to dst, and returns a factor
// that dst is still to be multiplied with. scratch is as long as they.
type change func(dst, phi []float32, scratch []float64) float64

// Score implements ood.Scorer.
func (s reshaped) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	h := s.weight.Cols
	if err := checkWidth(b.Features, h, "features"); err != nil {
		return nil, err
	}
	n := b.Features.Rows
	dst = scores(dst, n)
	changed := blas32.General{Cols: h, Stride: h, Data: make([]float32, min(n, lastBlock)*h)}
	factors := make([]float64, min(n, lastBlock))
	scratch := make([]float64, h)
	z := make([]float64, s.weight.Rows)
	for i := 0; i < n; i += lastBlock {
		changed.Rows = min(lastBlock, n-i)
		for r := range changed.Rows {
			factors[r] = s.change(row(changed, r), row(b.Features, i+r), scratch)
			if math.IsInf(factors[r], 0) {
				factors[r] = math.NaN() // as unlessFinite has it
			}
		}
		err := s.each(ctx, ood.Batch{Features: changed}, func(first int, _, product blas32.General) {
			for r := range product.Rows {
				for k, v := range row(product, r) {
					z[k] = factors[first+r]*float64(v) + s.bias[k]
				}
				dst[i+first+r] = -floats.LogSumExp(z)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return dst, ctx.Err()
}

// State implements heads.Stater.
func (s reshaped) State() heads.State { return s.state(s.params) }

// fitPercentile fits what changes a row by a percentile of its own features.
func fitPercentile(ctx context.Context, t ood.Training, p ood.Params, method string, def float64, make func(h int, percentile float64) change) (ood.Scorer, error) {
	percentile, err := readPercentile(p, def)
	if err != nil {
		return nil, err
	}
	l, err := newLastLayer(t, method)
	if err != nil {
		return nil, err
	}
	return newReshaped(l, percentile, make), ctx.Err()
}

func restoreReshaped(st heads.State, make func(h int, percentile float64) change) (ood.Scorer, error) {
	l, err := restoreLast(st)
	if err != nil {
		return nil, err
	}
	percentile, err := restorePercentile(st)
	if err != nil {
		return nil, err
	}
	return newReshaped(l, percentile, make), nil
}

func newReshaped(l lastLayer, percentile float64, make func(h int, percentile float64) change) ood.Scorer {
	return reshaped{l, make(l.weight.Cols, percentile), map[string]any{"percentile": percentile}}
}

// kept is how many of h features are above a percentile: h less a share of them,
// rounded as NumPy and PyTorch do, and at least one.
func kept(h int, percentile float64) int {
	return max(1, h-int(math.RoundToEven(float64(h)*percentile/100)))
}

// largestOf returns the k-th largest feature, how many of those that equal it
// are among the k largest if ties go to the first, and the sums of all features
// and of the k largest. Of a row with NaN the sums are NaN.
func largestOf(phi []float32, k int, scratch []float64) (least float32, ties int, all, top float64) {
	for j, v := range phi {
		scratch[j] = -float64(v)
		all += float64(v)
	}
	if math.IsNaN(all) {
		return 0, 0, all, all
	}
	least = float32(-selectNth(scratch, k-1))
	ties = k
	for _, v := range phi {
		if v > least {
			ties--
			top += float64(v)
		}
	}
	return least, ties, all, top + float64(ties)*float64(least)
}

// The factor exp(500) leaves room for logits in float64.
const largestSharpening = 500

// sharpening is exp(all/top), the factor of ASH-S and SCALE, from the sum of h
// features and that of the k largest. Of features that are zero or more the
// ratio lies between 1 and h/k; features of both signs can have a top that is no
// longer positive, and then it is taken to be h/k.
func sharpening(all, top float64, h, k int) float64 {
	ratio := float64(h) / float64(k)
	if !(top <= 0) {
		ratio = all / top
	}
	return math.Exp(min(ratio, largestSharpening))
}
