package attach

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// sqrMethod is the quantile method that Fit uses where none is named.
const sqrMethod = "sqr"

// withQuantileDefaults completes the parameters of the quantile method, and
// refuses those that it does not have.
func (in Inputs) withQuantileDefaults() (Inputs, error) {
	m := in.Quantiles
	switch {
	case m.Name == "" && len(in.QuantileParams) > 0:
		return in, fmt.Errorf("parameters of a quantile method need its name")
	case m.Name == "":
		return in, nil
	case m.Restore == nil:
		return in, fmt.Errorf("quantile method %s cannot be saved", m.Name)
	}
	if err := checkQuantileParams(m, in.QuantileParams); err != nil {
		return in, err
	}
	params := maps.Clone(m.Default)
	maps.Copy(params, in.QuantileParams)
	in.QuantileParams = params
	return in, nil
}

func checkQuantileParams(m heads.QuantileMethod, params map[string]any) error {
	for name := range params {
		if _, ok := m.Default[name]; !ok {
			return fmt.Errorf("quantile method %s has no parameter %q; it has %v", m.Name, name, slices.Sorted(maps.Keys(m.Default)))
		}
	}
	return nil
}

// needsTrainer says that the quantile head is trained.
func (in Inputs) needsTrainer() bool {
	return in.Quantiles.Name == "" || in.Quantiles.NeedsTrainer
}

func (b *Bundle) fitQuantiles(ctx context.Context, in Inputs, d division) error {
	head, err := in.quantileHead(ctx, d)
	if err != nil {
		return fmt.Errorf("quantile head: %w", err)
	}
	if _, ok := head.Regressor.(rows.Stater); !ok {
		return fmt.Errorf("quantile head: method %s cannot be saved", head.Method)
	}
	b.Quantiles = head
	if b.Calibration.Quantiles, err = calibrateQuantiles(head.Regressor, d.cal.Features, d.calTo); err != nil {
		return fmt.Errorf("quantile head: %w", err)
	}
	b.Calibration.Groups = slices.Clone(d.calGroups)
	in.Progress("quantiles", 1)
	return nil
}

func (in Inputs) quantileHead(ctx context.Context, d division) (*QuantileHead, error) {
	progress := func(share float64) { in.Progress("quantiles", share) }
	m := in.Quantiles
	if m.Name == "" {
		o := in.SQR
		o.Seed = in.Seed
		o.Progress = func(done, total int) { progress(float64(done) / float64(total)) }
		s, err := heads.FitSQR(ctx, d.fit.Features, d.fitTo, in.Trainer, o)
		if err != nil {
			return nil, err
		}
		return &QuantileHead{Method: sqrMethod, Params: map[string]any{}, Regressor: s}, nil
	}
	r, err := m.Fit(ctx, heads.Regression{
		X: d.fit.Features, Y: d.fitTo, Trainer: in.Trainer, Levels: in.fittedLevels(),
		Epochs: in.Epochs, Seed: in.Seed, Progress: progress,
	}, in.QuantileParams)
	if err != nil {
		return nil, err
	}
	return &QuantileHead{Method: m.Name, Params: in.QuantileParams, Regressor: r}, nil
}

// fittedLevels are the levels that matter to a method which fits each on its
// own: the ends of the default interval, and where it takes more, those of the
// middle, which medians and samples are made from.
func (in Inputs) fittedLevels() []float64 {
	alpha := 1 - in.Level
	ends := []float64{alpha / 2, 1 - alpha/2}
	if in.Quantiles.EndsOnly {
		return ends
	}
	levels := append(ends, .25, .5, .75)
	slices.Sort(levels)
	return slices.Compact(levels)
}
