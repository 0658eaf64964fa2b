package baselines

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

const baldScores = " score=predictive-entropy is the entropy of the mean softmax instead, and score=variance the variance of the " +
	"softmax over passes, averaged over classes."

// BALD scores with the disagreement between passes with dropout.
var BALD = ood.Method{
	Name: "bald",
	Doc: "Mutual information between the predicted class and the pass, over passes with the network's dropout layers switched on." +
		baldScores + " A network without dropout layers gets one before the last linear layer, of the rate that the parameter " +
		"dropout says: that is not what the network was trained with, the scores are those of bald-features, and they are " +
		"marked \"inserted dropout\". A network's own layers keep their rates.",
	Ref:     "Houlsby et al. 2011, arXiv:1112.5745; Gal, Islam & Ghahramani 2017, arXiv:1703.02910",
	Needs:   ood.NeedLogits | ood.NeedInputs | ood.NeedDropout,
	Memory:  passesMemory(networkBlock),
	Default: baldDefault(),
	Grid:    []ood.Params{{"passes": 100.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		s, rate, count, err := readBALD(p)
		if err != nil {
			return nil, err
		}
		n, err := newBound(ctx, t, "bald", ood.NeedDropout)
		if err != nil {
			return nil, err
		}
		if n.network.Dropouts() == 0 {
			if rate == 0 {
				return nil, fmt.Errorf("%w: parameter %q is 0", ood.ErrNoDropout, "dropout")
			}
			if t.Last != nil && t.HasFeatures() {
				l, err := newLastLayer(t, "bald")
				if err != nil {
					return nil, err
				}
				return baldLast{s, lastPasses{l, count, rate, t.Seed}, true}, nil
			}
		}
		return bald{s, ownPasses{n, count, rate, t.Seed}}, nil
	},
	Restore: func(st heads.State) (ood.Scorer, error) {
		own, err := st.Flag("network")
		if err != nil {
			return nil, err
		}
		if !own {
			return restoreBALDLast(st, true)
		}
		s, rate, count, seed, err := restoreBALD(st)
		if err != nil {
			return nil, err
		}
		return bald{s, ownPasses{bound{method: "bald", need: ood.NeedDropout}, count, rate, seed}}, nil
	},
}

// BALDFeatures is BALD with dropout before the last layer alone, which needs no
// network.
var BALDFeatures = ood.Method{
	Name: "bald-features",
	Doc: "Mutual information between the predicted class and the pass, over passes that drop features before the last layer, each " +
		"with the probability that the parameter dropout says." + baldScores + " Where the network has no dropout there, that is not " +
		"what it was trained with.",
	Ref:     "after Gal, Islam & Ghahramani 2017, arXiv:1703.02910",
	Needs:   ood.NeedFeatures | ood.NeedLogits | ood.NeedWeights,
	Memory:  passesMemory(1),
	Default: baldDefault(),
	Grid:    []ood.Params{{"passes": 100.}},
	Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
		s, rate, count, err := readBALD(p)
		if err != nil {
			return nil, err
		}
		if rate == 0 {
			return nil, errors.New(`parameter "dropout" must be positive: with 0 nothing is dropped`)
		}
		l, err := newLastLayer(t, "bald-features")
		if err != nil {
			return nil, err
		}
		return baldLast{s, lastPasses{l, count, rate, t.Seed}, false}, ctx.Err()
	},
	Restore: func(st heads.State) (ood.Scorer, error) { return restoreBALDLast(st, false) },
}

func baldDefault() ood.Params {
	return ood.Params{"passes": 100., "dropout": .5, "score": mutualInformation}
}

func readBALD(p ood.Params) (score string, rate float64, count int, err error) {
	r := p.Reader()
	count = r.Between("passes", 100, 1, mostPasses)
	rate = r.NonNegative("dropout", .5)
	score = r.OneOf("score", mutualInformation, predictiveEntropy, passVariance)
	if err = r.Err(); err == nil && rate >= 1 {
		err = fmt.Errorf("parameter %q must be below 1, not %v", "dropout", rate)
	}
	return score, rate, count, err
}

// bald runs the network.
type bald struct {
	of     string
	passes ownPasses
}

// baldLast draws the last layer's weights.
type baldLast struct {
	of       string
	passes   lastPasses
	inserted bool // in place of dropout that the network lacks
}

const insertedDropout = "inserted dropout"

// Variant implements ood.Variant.
func (s bald) Variant() string {
	if n := s.passes.network; n != nil && n.Dropouts() == 0 {
		return insertedDropout
	}
	return ""
}

// Variant implements ood.Variant.
func (s baldLast) Variant() string {
	if s.inserted {
		return insertedDropout
	}
	return ""
}

// Bind implements ood.NetworkBound.
func (s bald) Bind(n ood.Network) ood.Scorer {
	s.passes.network = n
	return s
}

// Score implements ood.Scorer.
func (s bald) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	return scorePasses(ctx, s.passes, s.of, dst, b)
}

// Score implements ood.Scorer.
func (s baldLast) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	return scorePasses(ctx, s.passes, s.of, dst, b)
}

func scorePasses(ctx context.Context, p passes, of string, dst []float64, b ood.Batch) ([]float64, error) {
	dst = scores(dst, b.Len())
	d := disagreement{of: of}
	var failed error
	err := p.each(ctx, b, func(i, c int, z []float32) {
		if failed == nil {
			failed = checkClasses(c)
		}
		if failed == nil {
			dst[i] = d.score(z, c)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// State implements heads.Stater.
func (s bald) State() heads.State {
	return heads.State{Params: baldState(s.of, s.passes.count, s.passes.rate, s.passes.seed, true)}
}

// State implements heads.Stater.
func (s baldLast) State() heads.State {
	return s.passes.state(baldState(s.of, s.passes.count, s.passes.rate, s.passes.seed, false))
}

func baldState(of string, count int, rate float64, seed uint64, network bool) map[string]any {
	p := seedParams(seed)
	p["score"], p["passes"], p["dropout"], p["network"] = of, float64(count), rate, network
	return p
}

func restoreBALD(st heads.State) (score string, rate float64, count int, seed uint64, err error) {
	if score, err = st.Text("score"); err != nil {
		return
	}
	if score != mutualInformation && score != predictiveEntropy && score != passVariance {
		err = fmt.Errorf("parameter %q is %q, which is no score of passes", "score", score)
		return
	}
	if rate, err = st.Number("dropout"); err != nil {
		return
	}
	if !(rate >= 0 && rate < 1) {
		err = fmt.Errorf("parameter %q must be at least 0 and below 1, not %v", "dropout", rate)
		return
	}
	if count, err = whole(st, "passes", 1); err != nil {
		return
	}
	if count > mostPasses {
		err = fmt.Errorf("parameter %q must be at most %d, not %d", "passes", mostPasses, count)
		return
	}
	seed, err = restoreSeed(st)
	return
}

func restoreBALDLast(st heads.State, inserted bool) (ood.Scorer, error) {
	score, rate, count, seed, err := restoreBALD(st)
	if err != nil {
		return nil, err
	}
	if own, err := st.Flag("network"); err != nil || own {
		return nil, errors.Join(err, errors.New("the scorer runs the network"))
	}
	l, err := restoreLast(st)
	if err != nil {
		return nil, err
	}
	return baldLast{score, lastPasses{l, count, rate, seed}, inserted}, nil
}
