package baselines

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var randomMethod = ood.Method{
	Name: "random",
	Doc: "Uniform on [0,1), drawn from the seed and the row's own features (logits where there are none), " +
		"so that a row keeps its score wherever it stands. Equal rows get equal scores.",
	Ref:     "control, Tagasovska & Lopez-Paz 2019, table 2",
	Control: true,
	Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
		_, err := featuresOrLogits(t.Batch)
		return &random{t.Seed}, err
	},
	New: func() any { return &random{} },
}

type random struct {
	Seed uint64 `state:"seed"`
}

func featuresOrLogits(b ood.Batch) (blas32.General, error) {
	switch {
	case b.Features.Cols > 0:
		return b.Features, nil
	case b.Logits.Cols > 0:
		return b.Logits, nil
	}
	return blas32.General{}, errors.New("the rows carry neither features nor logits")
}

// Score implements ood.Detector.
func (s *random) Score(_ context.Context, dst []float64, b ood.Batch) error {
	m, err := featuresOrLogits(b)
	if err != nil {
		return err
	}
	for i := range dst {
		h := mix(s.Seed)
		for _, v := range row(m, i) {
			h = mix(h ^ uint64(math.Float32bits(v)))
		}
		dst[i] = float64(h>>11) / (1 << 53)
	}
	return nil
}

// ScoreGraph implements graph.Detector.
func (s *random) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it hashes the bits of a row")
}

// mix is the step of SplitMix64 (Steele, Lea & Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
