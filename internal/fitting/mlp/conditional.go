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

// Conditional holds networks that read a standardised row and a quantile level, as (τ−0.5)·12,
// and return the standardised quantile.
//
// Predictions are interpolated between the networks' outputs at the levels of Grid, sorted per
// row. Quantiles therefore never cross, and a quantile does not depend on the other requested
// levels.
//
// References: Tagasovska & Lopez-Paz (2019), section 2; Chernozhukov, Fernández-Val & Galichon
// (2010), Quantile and Probability Curves Without Crossing, for the sorting.
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

// maxEvaluations limits the number of rows × levels whose hidden activations are held at once.
// With a few dozen hidden units they fit into a core's cache.
const maxEvaluations = 2048

// Quantiles predicts quantiles of the rows of x, n×d, at levels in (0,1). They are linear
// between the levels of Grid and constant outside, because calibration handles the tails beyond
// the grid. It panics if x has the wrong width. A row that contains NaN has quantiles NaN.
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

// gridEvaluator runs one network on all pairs of rows and levels. It computes the first layer's
// product once per row, because a level only adds a multiple of one row of weights.
type gridEvaluator struct {
	network train.Network
	input   []float64        // (τ−0.5)·12 for each level
	x       train.Layer      // the first layer without the level's row of weights
	level   []float32        // the level's row of weights
	first   blas32.General   // rows × width of the first layer
	hidden  []blas32.General // rows·levels × width, for each layer but the last
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

// levelInput returns the input of a network for a level.
func levelInput(tau float64) float64 { return (tau - 0.5) * 12 }

// evaluate writes the network's output for every row of x and every level to dst, which is rows
// × levels.
func (e *gridEvaluator) evaluate(dst, x blas32.General) {
	levels := len(e.input)
	first := rows.Slice(e.first, 0, x.Rows)
	rows.Affine(first, x, e.x.W, e.x.B)
	// Rows and levels share one column: dst as rows·levels × 1.
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
