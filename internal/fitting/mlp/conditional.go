package mlp

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/ood"
)

// Conditional holds networks that predict any quantile of a target. The input of a network
// is a standardised row and the transformed quantile level (τ−0.5)·12. The output is the
// standardised quantile at level τ.
//
// Predictions are interpolated between the outputs at the levels of Grid, after these
// outputs are sorted for each row. Therefore quantiles never cross, and a quantile does not
// depend on the other requested levels.
//
// References: Tagasovska & Lopez-Paz (2019), section 2. For the sorting: Chernozhukov,
// Fernández-Val & Galichon (2010), Quantile and Probability Curves Without Crossing.
type Conditional struct {
	Regression
	Grid []float64 `state:"grid[l],positive,below=1"` // increasing levels in (0,1)
}

// Restored implements rows.Restored.
func (s *Conditional) Restored() error {
	for i, l := range s.Grid {
		if i > 0 && l <= s.Grid[i-1] {
			return fmt.Errorf("quantile level %v is out of order", l)
		}
	}
	return s.Check(1, 1)
}

// maxEvaluations limits the number of pairs of a row and a level that are computed at once.
// With a few dozen hidden units, the activations of these pairs fit into the cache of a
// core.
const maxEvaluations = 2048

// Quantiles predicts quantiles of the rows of x, an n×d matrix, at levels in (0,1). The
// quantiles are linear between the levels of Grid and constant outside, because calibration
// handles the tails beyond the grid. All quantiles of a row that contains NaN are NaN.
// Quantiles panics if x has the wrong width.
func (s *Conditional) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	q := ood.NewQuantiles(x.Rows, len(s.Networks), levels)
	if x.Rows == 0 {
		return q
	}
	if x.Cols != len(s.X.Mean) {
		panic(fmt.Sprintf("mlp: quantile regression on %d columns given %d", len(s.X.Mean), x.Cols))
	}
	block := min(max(maxEvaluations/len(s.Grid), 1), x.Rows)
	scaled, grid := rows.New(block, x.Cols), rows.New(block, len(s.Grid))
	evaluators := make([]*gridEvaluator, len(s.Networks))
	for t, n := range s.Networks {
		evaluators[t] = newGridEvaluator(n, s.Grid, block)
	}
	for lo := 0; lo < x.Rows; lo += block {
		hi := min(lo+block, x.Rows)
		in, all := rows.Slice(scaled, 0, hi-lo), rows.Slice(grid, 0, hi-lo)
		s.X.Apply(in, rows.Slice(x, lo, hi))
		for t, e := range evaluators {
			e.evaluate(all, in)
			for i := range all.Rows {
				row, out := rows.Row(all, i), q.Row(lo+i, t)
				slices.Sort(row)
				for l, v := range row {
					row[l] = float32(s.InUnits(t, v))
				}
				for l, tau := range levels {
					out[l] = quantile.Interpolate(s.Grid, row, tau)
				}
			}
		}
	}
	return q
}

// gridEvaluator runs one network on all pairs of rows and levels. It computes the product
// with the first layer only once per row. This suffices because a level only adds a
// multiple of one row of weights to the product.
type gridEvaluator struct {
	network train.Network
	input   []float64        // value of levelInput for each level
	x       train.Layer      // the first layer without its weights for the level
	level   []float32        // weights of the first layer for the level
	first   blas32.General   // product of each input row with the weights in the field x
	hidden  []blas32.General // output of each layer but the last, for each pair of a row and a level
}

func newGridEvaluator(n train.Network, levels []float64, block int) *gridEvaluator {
	first := n.Layers[0]
	d := first.W.Rows - 1
	e := &gridEvaluator{
		network: n,
		x:       train.Layer{W: rows.Slice(first.W, 0, d), B: first.B},
		level:   rows.Row(first.W, d),
		first:   rows.New(block, first.W.Cols),
	}
	for _, tau := range levels {
		e.input = append(e.input, levelInput(tau))
	}
	for _, l := range n.Layers[:len(n.Layers)-1] {
		e.hidden = append(e.hidden, rows.New(block*len(levels), l.W.Cols))
	}
	return e
}

// levelInput returns the number that a network reads for quantile level tau.
func levelInput(tau float64) float64 { return (tau - 0.5) * 12 }

// evaluate writes the output of the network for every row of x and every level to dst. The
// shape of dst is rows × levels.
func (e *gridEvaluator) evaluate(dst, x blas32.General) {
	levels := len(e.input)
	first := rows.Slice(e.first, 0, x.Rows)
	rows.Affine(first, x, e.x.W, e.x.B)
	// flat shares the memory of dst, but has one row for each pair of a row and a level.
	flat := blas32.General{Rows: x.Rows * levels, Cols: 1, Stride: 1, Data: dst.Data[:x.Rows*levels]}
	into := flat
	if len(e.hidden) > 0 {
		into = rows.Slice(e.hidden[0], 0, x.Rows*levels)
	}
	for i := range x.Rows {
		base := rows.Row(first, i)
		for l, u := range e.input {
			at := (i*levels + l) * into.Stride
			out := into.Data[at : at+into.Cols][:len(base)]
			u, level := float32(u), e.level[:len(base)]
			for j, b := range base {
				out[j] = b + u*level[j]
			}
			if len(e.hidden) > 0 {
				rows.ReLU(out)
			}
		}
	}
	for k := 1; k < len(e.network.Layers); k++ {
		layer := e.network.Layers[k]
		if k == len(e.network.Layers)-1 {
			rows.Affine(flat, into, layer.W, layer.B)
			return
		}
		next := rows.Slice(e.hidden[k], 0, into.Rows)
		rows.Affine(next, into, layer.W, layer.B)
		rows.ReLU(next.Data)
		into = next
	}
}
