package baselines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// MCDropout predicts a regression network's targets from passes with dropout.
//
// What varies between passes is the network's opinion, without the noise of the
// targets: intervals made from it say how sure the network is of its mean, and
// cover fewer targets than their level where targets are noisy.
//
// It is not among the methods of the command line: it is called from Go.
//
// Reference: Gal & Ghahramani (2016), Dropout as a Bayesian Approximation.
type MCDropout struct {
	// Network runs the passes where it has dropout layers, or where Last is
	// nil. It may be nil where Last is not.
	Network ood.Network
	// Last is the network's last layer, before which features are dropped
	// where Network has no dropout layers: that is not what such a network was
	// trained with.
	Last   *ood.Linear
	Passes int     // 0 stands for 1000
	Rate   float64 // of the layer that is inserted, in [0,1)
	Seed   uint64
}

// MCPrediction is what passes with dropout say about Rows rows.
type MCPrediction struct {
	Rows, Targets int
	Mean          []float64 // rows × targets
	Variance      []float64 // rows × targets, divided by the number of passes
	// Quantiles are empirical quantiles of the passes, linear between them.
	Quantiles heads.Quantiles
}

// Predict runs the rows of b, which needs inputs where the network runs and
// features where the last layer alone does, and returns mean, variance and the
// quantiles at levels, which are in [0,1]. The error wraps ood.ErrNoDropout
// where there is nothing to drop.
func (m MCDropout) Predict(ctx context.Context, b ood.Batch, levels []float64) (*MCPrediction, error) {
	for _, l := range levels {
		if !(l >= 0 && l <= 1) {
			return nil, fmt.Errorf("quantile level %v is not between 0 and 1", l)
		}
	}
	p, err := m.passes(b)
	if err != nil {
		return nil, err
	}
	n := b.Len()
	out := &MCPrediction{Rows: n, Quantiles: heads.Quantiles{Rows: n, Levels: slices.Clone(levels)}}
	var column []float64
	err = p.each(ctx, b, func(i, c int, z []float32) {
		if out.Targets == 0 {
			out.Targets, out.Quantiles.Targets = c, c
			out.Mean, out.Variance = make([]float64, n*c), make([]float64, n*c)
			out.Quantiles.Data = make([]float32, 0, n*c*len(levels))
		}
		for t := range c {
			column = column[:0]
			for at := t; at < len(z); at += c {
				column = append(column, float64(z[at]))
			}
			out.Mean[i*c+t], out.Variance[i*c+t] = meanVariance(column)
			slices.Sort(column)
			for _, l := range levels {
				out.Quantiles.Data = append(out.Quantiles.Data, float32(sortedQuantile(column, l)))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (m MCDropout) passes(b ood.Batch) (passes, error) {
	count := cmp.Or(m.Passes, 1000)
	switch {
	case count < 1:
		return nil, fmt.Errorf("%d passes with dropout: there must be at least one", count)
	case !(m.Rate >= 0 && m.Rate < 1):
		return nil, fmt.Errorf("the dropout rate is %v, it must be at least 0 and below 1", m.Rate)
	case m.Network == nil && m.Last == nil:
		return nil, errors.New("passes with dropout need the network or its last layer")
	}
	if m.Network != nil && m.Network.Dropouts() > 0 {
		return ownPasses{bound{"MC dropout", ood.NeedDropout, m.Network}, count, m.Rate, m.Seed}, nil
	}
	if m.Rate == 0 {
		return nil, ood.ErrNoDropout
	}
	if m.Last == nil {
		return ownPasses{bound{"MC dropout", ood.NeedDropout, m.Network}, count, m.Rate, m.Seed}, nil
	}
	if err := m.Last.Check(b.Features.Cols, 0); err != nil {
		return nil, err
	}
	return lastPasses{newLastLayer(ood.Training{Last: m.Last}), count, m.Rate, m.Seed}, nil
}

func meanVariance(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance
}

// sortedQuantile is linear between order statistics, the default of NumPy.
func sortedQuantile(sorted []float64, level float64) float64 {
	at := level * float64(len(sorted)-1)
	i := int(math.Floor(at))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
