package baselines

import (
	"context"
	"errors"
	"math"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var randomMethod = ood.Method{
	Name: "random",
	Doc: "Control that knows nothing: uniform on [0,1), drawn from the seed and the row's features (or its logits, if there are no features). Use it only to " +
		"check a comparison: its AUROC is about 0.5. Equal rows get equal scores.",
	Ref:     "control, Tagasovska & Lopez-Paz 2019, table 2",
	Control: true,
	Fit:     func(_ context.Context, t ood.Training, _ ood.Params) (any, error) { return &random{t.Seed}, nil },
	New:     func() any { return &random{} },
}

type random struct {
	Seed uint64 `state:"seed"`
}

func (s *random) Score(_ context.Context, dst []float64, b ood.Batch) error {
	m := b.Features
	if m.Cols == 0 {
		m = b.Logits
	}
	if m.Cols == 0 {
		return errors.New("the rows have neither features nor logits")
	}
	for i := range dst {
		h := splitMix64(s.Seed)
		for _, v := range row(m, i) {
			h = splitMix64(h ^ uint64(math.Float32bits(v)))
		}
		dst[i] = float64(h>>11) / (1 << 53)
	}
	return nil
}

func (s *random) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it hashes the bits of a row")
}

// splitMix64 returns the next number of SplitMix64 (Steele, Lea & Flood 2014).
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
