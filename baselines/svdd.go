package baselines

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var svddMethod = ood.Method{
	Name: "svdd",
	Doc: "Deep support vector data description on the features: the mean squared distance of a network's outputs from one centre. Use it to compare with deep " +
		"one-class classification. The network, without biases and with 64 hidden ReLU units and k outputs, is trained by Adam to map the training rows to " +
		"that centre, the mean of its outputs before training.",
	Ref:   "Ruff et al. 2018, as in Tagasovska & Lopez-Paz 2019, table 2",
	Needs: ood.Needs{Features: true, Trainer: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		return mlp.Bytes * smallHidden * (float64(t.Features.Cols) + p.Float("k"))
	},
	Params: smallNetworkParams(),
	Fit:    fitSVDD,
	New:    func() any { return &svdd{} },
}

type svdd struct {
	Network train.Network `state:"network"`
	Centre  []float32     `state:"centre[k]"`
}

func (s *svdd) Restored() error {
	if _, k := s.Network.Widths(); len(s.Centre) != k {
		return fmt.Errorf("the centre has %d numbers, but the network has %d outputs", len(s.Centre), k)
	}
	return nil
}

func fitSVDD(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	k := p.Int("k")
	start := drawNetwork(t.Seed, streamSVDD, false, t.Features.Cols, smallHidden, k)
	mean := make([]float64, k)
	for _, x := range blocks(ctx, t.Features) {
		out := start.Apply(x)
		for i := range out.Rows {
			for j, v := range row(out, i) {
				mean[j] += float64(v)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &svdd{}
	for _, v := range mean {
		s.Centre = append(s.Centre, float32(v/float64(t.Features.Rows)))
	}
	var err error
	s.Network, err = trainOne(ctx, t, train.Problem{
		Y: blas32.General{Rows: 1, Cols: k, Stride: k, Data: s.Centre}, Hidden: []int{smallHidden}, Outputs: k,
		NoBias: true, Loss: "mse", Epochs: p.Int("epochs"),
	}, train.ModelConfig{Start: start.Layers})
	return s, err
}

func (s *svdd) Score(_ context.Context, dst []float64, b ood.Batch) error {
	out := s.Network.Apply(b.Features)
	for i := range dst {
		dst[i] = rows.SquaredDistance(row(out, i), s.Centre) / float64(out.Cols)
	}
	return nil
}

func (s *svdd) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return mlp.Graph(s.Network.Layers, b.Features).Double().Sub(s.Centre).Square().Mean(), nil
}
