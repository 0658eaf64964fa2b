package baselines

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// maxPassOutputs limits the outputs that are in memory at once: rows × passes × outputs per
// row. It also limits the weights that one matrix product reads: passes × outputs ×
// features.
const maxPassOutputs = 4 << 20

// lastLayerPasses applies dropout to the features before the last layer. A pass uses one
// mask for all rows, so that the score of a row does not depend on the other rows of the
// batch.
type lastLayerPasses struct {
	lastLayer
	Count int     `state:"passes,least=1,below=100001"`
	Rate  float64 `state:"dropout,positive,below=1"`
	Seed  uint64  `state:"seed"`
}

// visitRows calls visit for each row i of b. The argument z holds the c logits of every
// pass.
func (p lastLayerPasses) visitRows(ctx context.Context, b ood.Batch, visit func(i, c int, z []float32)) error {
	h, c := p.Weight.Cols, p.Weight.Rows
	n := b.Features.Rows
	// The weights of several passes are combined in one matrix, because one large product
	// is faster than several small ones.
	group := min(max(maxPassOutputs/(c*h), 1), p.Count)
	block := min(max(maxPassOutputs/(c*p.Count), 1), max(n, 1))
	drawn := rows.New(group*c, h)
	z := make([]float32, block*p.Count*c)
	drawnFrom := -1 // first pass whose weights are in drawn
	for i := 0; i < n; i += block {
		rows := min(block, n-i)
		phi := ood.Batch{Features: b.Features}.Slice(i, i+rows).Features
		for s := 0; s < p.Count; s += group {
			if err := ctx.Err(); err != nil {
				return err
			}
			drawn.Rows = min(group, p.Count-s) * c
			if drawnFrom != s {
				p.drawWeights(drawn, s)
				drawnFrom = s
			}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, phi, drawn, 0,
				blas32.General{Rows: rows, Cols: drawn.Rows, Stride: p.Count * c, Data: z[s*c : (rows-1)*p.Count*c+s*c+drawn.Rows]})
		}
		for r := range rows {
			out := z[r*p.Count*c : (r+1)*p.Count*c]
			for k := range out {
				out[k] += float32(p.Bias[k%c])
			}
			visit(i+r, c, out)
		}
	}
	return ctx.Err()
}

// graph adds graph nodes that compute the logits of every pass, a matrix of
// (rows·passes)×c.
func (p lastLayerPasses) graph(x graph.Tensor) (graph.Tensor, error) {
	c, h := p.Weight.Rows, p.Weight.Cols
	if size := 4 * p.Count * c * h; size > graph.MostBank {
		return x, graph.Refuse("the weights of %d passes are %d MB, and a graph holds %d MB at most: fit it with fewer passes", p.Count, size>>20, graph.MostBank>>20)
	}
	drawn := rows.New(p.Count*c, h)
	p.drawWeights(drawn, 0)
	return x.MatMulT(drawn, drawn.Rows).Reshape(-1, int64(c)).Add(p.Bias).Double(), nil
}

// drawWeights fills w with the weights of consecutive passes after dropout, beginning with
// pass s. Weights that are not dropped are scaled up, so that their mean over passes stays
// the same.
func (p lastLayerPasses) drawWeights(w blas32.General, s int) {
	h, c := p.Weight.Cols, p.Weight.Rows
	scale := make([]float32, h)
	keptScale := float32(1 / (1 - p.Rate))
	for first := 0; first < w.Rows; first += c {
		r := rand.New(rand.NewPCG(p.Seed, uint64(s+first/c)))
		for j := range scale {
			scale[j] = 0
			if r.Float64() >= p.Rate {
				scale[j] = keptScale
			}
		}
		for k := range c {
			to := row(w, first+k)
			for j, v := range row(p.Weight, k) {
				to[j] = v * scale[j]
			}
		}
	}
}

// These are the values of the parameter "score" of methods that compare passes.
const (
	mutualInformation = "mutual-information"
	predictiveEntropy = "predictive-entropy"
	passVariance      = "variance"
)

// disagreement measures the uncertainty of a row by the softmax distributions of several
// passes.
type disagreement struct {
	Measure string `state:"score,of=mutual-information|predictive-entropy|variance"`
}

// score returns the score of a row with the logits z, a matrix of passes × c.
//
// Let p_s be the softmax distribution of pass s, p the mean of these distributions, and H
// the entropy in nats. The mutual information of class and pass is H(p) − mean H(p_s). The
// predictive entropy is H(p). The variance is the variance of p_s over passes, averaged
// over classes.
func (d disagreement) score(z []float32, c int) float64 {
	passes := len(z) / c
	all, mean := make([]float64, len(z)), make([]float64, c)
	var meanEntropy float64
	for s := range passes {
		zs, ps := z[s*c:(s+1)*c], all[s*c:(s+1)*c]
		probabilities(ps, zs)
		for k, v := range ps {
			mean[k] += v / float64(passes)
		}
		if d.Measure == mutualInformation {
			meanEntropy += entropy(zs, 1) / float64(passes)
		}
	}
	switch d.Measure {
	case mutualInformation:
		return max(entropyOf(mean)-meanEntropy, 0)
	case predictiveEntropy:
		return entropyOf(mean)
	}
	var sum float64
	for i, p := range all {
		sum += (p - mean[i%c]) * (p - mean[i%c])
	}
	return sum / float64(len(z))
}

// scoreGraph adds graph nodes that compute score for the logits z of all passes, a matrix
// of (rows·passes)×c.
func (d disagreement) scoreGraph(z graph.Tensor, passes int) graph.Tensor {
	c := z.Cols()
	p := z.Softmax().Reshape(-1, int64(passes), int64(c))
	passWeights := make([]float64, passes)
	for s := range passWeights {
		passWeights[s] = 1 / float64(passes)
	}
	mean := p.Constant(passWeights, 1, passes).MatMul(p)
	if d.Measure == passVariance {
		return p.Sub(mean).Square().Reshape(-1, int64(passes*c)).Mean()
	}
	sorted, _ := mean.Reshape(-1, int64(c)).Top(c)
	others := sorted.Columns(1, c)
	rest := others.Sum().Min(1.)
	top := rest.Neg().Add(1.).Max(1e-300)
	entropyOfMean := others.Mul(others.Max(1e-300).Log()).Sum().Add(top.Mul(rest.Neg().Log1p())).Neg()
	if d.Measure == predictiveEntropy {
		return entropyOfMean
	}
	return entropyOfMean.Sub(entropyGraph(z, 1).Reshape(-1, int64(passes)).Mean()).Max(0.)
}

// entropyOf returns the entropy of p in nats. It is precise even if one class has almost
// the whole probability.
func entropyOf(p []float64) float64 {
	top := floats.MaxIdx(p)
	var rest, sum float64
	for k, v := range p {
		if k == top || v == 0 {
			continue
		}
		rest += v
		sum -= v * math.Log(v)
	}
	if rest < .5 {
		return sum - (1-rest)*math.Log1p(-rest)
	}
	return sum - p[top]*math.Log(p[top])
}
