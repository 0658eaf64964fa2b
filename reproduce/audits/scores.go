package audits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Pool holds scores of rows on which neither the network nor the detector was trained.
type Pool struct {
	Name, Method string
	In, Out      []float64
	// OutOfFold holds scores of the fit rows, by detectors that were fitted with other rows. The
	// network was trained on the fit rows.
	OutOfFold []float64
}

// Scored returns the scores of the rows of each network, and of the texts if they are
// chosen. The default detector of each model computes the scores. If folds is not 0, that many
// detectors score the fit rows.
func Scored(ctx context.Context, p *networks.Plan, folds int) ([]Pool, error) {
	var pools []Pool
	if p.Sets == nil {
		p.Sets = []string{"mnist_cnn", "cifar10_resnet20", networks.Texts}
	}
	if err := p.Check(ctx, networks.RunsNetwork, "only methods that run the network"); err != nil {
		return nil, err
	}
	var jobs []experiment.Job
	add := func(name string, score func(ctx context.Context, progress func(fraction float64)) (Pool, error)) {
		jobs = append(jobs, experiment.Job{
			Kind: name, Cost: 1, What: name,
			Run: func(ctx context.Context, progress func(fraction float64)) error {
				scores, err := score(ctx, progress)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				pools = append(pools, scores)
				return nil
			},
		})
	}
	for _, n := range p.Networks {
		add(n.Name, func(ctx context.Context, progress func(fraction float64)) (Pool, error) {
			im, err := p.Load(ctx, n, progress)
			if err != nil {
				return Pool{}, err
			}
			defer im.Model.Close()
			outs := make([]ood.Batch, len(im.Outs))
			for i, out := range im.Outs {
				outs[i] = out.Batch
			}
			return scoresOf(ctx, n.Name, im.Training, []ood.Batch{im.In}, outs, folds)
		})
	}
	if p.Texts {
		add(networks.Texts, func(ctx context.Context, progress func(fraction float64)) (Pool, error) {
			return textScores(ctx, p, folds, progress)
		})
	}
	return pools, experiment.RunJobs(ctx, p.Settings, jobs)
}

// scoresOf fits the first default detector whose requirements are met, and scores the
// batches. If folds is not 0, it also scores the fit rows out of fold.
func scoresOf(ctx context.Context, name string, t ood.Training, ins, outs []ood.Batch, folds int) (Pool, error) {
	for method := range strings.SplitSeq(networks.Attached, ",") {
		m, _ := attach.MethodByName(method)
		scorer, err := fitting.Fit(ctx, m, t, nil)
		if errors.As(err, new(*ood.NeedError)) {
			continue
		}
		scores := Pool{Name: name, Method: m.Name}
		for _, part := range []struct {
			dst     *[]float64
			batches []ood.Batch
		}{{&scores.In, ins}, {&scores.Out, outs}} {
			for _, b := range part.batches {
				var batchScores []float64
				if err == nil {
					batchScores, err = scorer.Score(ctx, nil, b)
				}
				*part.dst = append(*part.dst, batchScores...)
			}
		}
		if err == nil && folds > 0 {
			scores.OutOfFold, err = outOfFold(ctx, m, t, folds)
		}
		return scores, err
	}
	return Pool{}, fmt.Errorf("no default detector can be fitted")
}

// outOfFold scores each fold of the fit rows with a detector that is fitted with the others.
func outOfFold(ctx context.Context, m ood.Method, t ood.Training, folds int) (scores []float64, err error) {
	all := t.Batch
	parts := rows.Folds(all.Len(), folds, t.Seed)
	for i, part := range parts {
		t.Batch = all.Select(slices.Concat(slices.Delete(slices.Clone(parts), i, i+1)...))
		scorer, err := fitting.Fit(ctx, m, t, nil)
		if err != nil {
			return nil, err
		}
		partScores, err := scorer.Score(ctx, nil, all.Select(part))
		if err != nil {
			return nil, err
		}
		scores = append(scores, partScores...)
	}
	return scores, nil
}

// textScores scores validation, test and out-of-scope rows of CLINC150. The detector is
// fitted on the training rows of CLINC150.
func textScores(ctx context.Context, p *networks.Plan, folds int, progress func(fraction float64)) (Pool, error) {
	model, batches, err := p.ReadTexts(ctx, []string{"train", "val", "test", "oos_val", "oos_test"}, progress)
	if err != nil {
		return Pool{}, err
	}
	defer model.Close()
	t := ood.Training{Batch: batches[0], Last: model.Last(), Trainer: p.Trainer, Seed: p.Seed}
	return scoresOf(ctx, networks.Texts, t, batches[1:3], batches[3:], folds)
}
