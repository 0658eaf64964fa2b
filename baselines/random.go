package baselines

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Random is a control: scores that know nothing.
var Random = ood.Method{
	Name: "random",
	Doc: "Uniform on [0,1), drawn from the seed and the row's own features (logits where there are none), " +
		"so that a row keeps its score wherever it stands. Equal rows get equal scores.",
	Ref:     "control, Tagasovska & Lopez-Paz 2019, table 2",
	Control: true,
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		if err := p.Reader().Err(); err != nil {
			return nil, err
		}
		s := random{seed: t.Seed, features: t.HasFeatures()}
		if s.width = s.part(t.Batch).Cols; s.width == 0 {
			return nil, errors.New("the rows to fit with carry neither features nor logits")
		}
		return s, ctx.Err()
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		seed, err := restoreSeed(st)
		if err != nil {
			return nil, err
		}
		width, err := whole(st, "width", 1)
		if err != nil {
			return nil, err
		}
		features, err := st.Flag("features")
		if err != nil {
			return nil, err
		}
		return random{seed, width, features}, nil
	},
}

type random struct {
	seed     uint64
	width    int
	features bool
}

func (s random) part(b ood.Batch) blas32.General {
	if s.features {
		return b.Features
	}
	return b.Logits
}

// Score implements ood.Scorer.
func (s random) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	what := "logits"
	if s.features {
		what = "features"
	}
	m := s.part(b)
	if err := checkWidth(m, s.width, what); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dst = scores(dst, m.Rows)
	for i := range dst {
		h := mix(s.seed)
		for _, v := range row(m, i) {
			h = mix(h ^ uint64(math.Float32bits(v)))
		}
		dst[i] = float64(h>>11) / (1 << 53)
	}
	return dst, nil
}

// mix is the step of SplitMix64 (Steele, Lea & Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// State implements heads.Stater.
func (s random) State() heads.State {
	p := seedParams(s.seed)
	p["width"], p["features"] = float64(s.width), s.features
	return heads.State{Params: p}
}
