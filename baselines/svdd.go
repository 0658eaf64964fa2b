package baselines

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// SVDD is deep support vector data description on the features.
var SVDD = ood.Method{
	Name: "svdd",
	Doc: "Deep support vector data description on the features: a bias-free network of 64 hidden ReLU units and k outputs " +
		"is trained by Adam to map the training rows to one centre, the mean of its outputs before training; the score is the mean " +
		"squared difference from the centre.",
	Ref:   "Ruff et al. 2018, as in Tagasovska & Lopez-Paz 2019, table 2",
	Needs: ood.NeedFeatures | ood.NeedTrainer,
	Memory: func(t ood.Training, p ood.Params) float64 {
		return smallNetwork(t, smallHidden, units(p, "k", 100))
	},
	Default: ood.Params{"k": 100., "epochs": 10.},
	Grid:    smallNetworkGrid(),
	Fit:     fitSVDD,
	Restore: func(st heads.State) (ood.Scorer, error) {
		n, err := st.Network("network")
		if err != nil {
			return nil, err
		}
		centre, err := st.General("centre")
		if err != nil {
			return nil, err
		}
		if centre.Rows != 1 || centre.Cols != n.Out() {
			return nil, fmt.Errorf("a centre of shape [%d %d] for %d outputs", centre.Rows, centre.Cols, n.Out())
		}
		return svdd{n, centre}, heads.CheckFinite("centre", centre)
	},
}

// streamSVDD keeps the weights to start from apart from other uses of a seed.
const streamSVDD = 0x73766464

type svdd struct {
	network heads.Network
	centre  blas32.General // 1×k
}

func fitSVDD(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
	k, epochs, err := smallNetworkParams(p)
	if err != nil {
		return nil, err
	}
	if err := checkRows(t.Features, "svdd"); err != nil {
		return nil, err
	}
	start := drawNetwork(rand.New(rand.NewPCG(t.Seed, streamSVDD)), false, t.Features.Cols, smallHidden, k)
	mean := make([]float64, k)
	err = eachOutput(ctx, start, t.Features, func(_ int, _, out blas32.General) {
		for i := range out.Rows {
			for j, v := range row(out, i) {
				mean[j] += float64(v)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	s := svdd{centre: blas32.General{Rows: 1, Cols: k, Stride: k, Data: make([]float32, k)}}
	for j, v := range mean {
		s.centre.Data[j] = float32(v / float64(t.Features.Rows))
	}
	s.network, err = trainOne(ctx, t, heads.Problem{
		Y: s.centre, Hidden: []int{smallHidden}, Outputs: k, NoBias: true, Loss: heads.MSE, Epochs: epochs,
	}, heads.ModelConfig{Start: start.Layers})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Score implements ood.Scorer.
func (s svdd) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Features, s.network.In(), "features"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Features.Rows)
	err := eachOutput(ctx, s.network, b.Features, func(first int, _, out blas32.General) {
		for i := range out.Rows {
			dst[first+i] = squaredDistance(row(out, i), s.centre.Data)
		}
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s svdd) State() heads.State {
	st := heads.State{Params: map[string]any{}, Arrays: map[string]heads.Array{"centre": heads.ArrayOf(s.centre)}}
	st.SetNetwork("network", s.network)
	return st
}
