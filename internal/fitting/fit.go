package fitting

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/ood"
)

// Fit fits one configuration of a method. Parameters that are not in p get their defaults.
// The error is an *ood.NeedError if the rows lack something that the method needs. Other
// errors describe a problem with rows or parameters.
func Fit(ctx context.Context, m ood.Method, t ood.Training, p ood.Params) (*Scorer, error) {
	fitted, err := FitGrid(ctx, m, t, []ood.Params{p})
	if err != nil {
		return nil, err
	}
	return fitted[0], nil
}

// FitGrid fits several configurations of a method and returns their scorers in the same
// order. This is faster than separate fits, because configurations share intermediate
// results. If a single configuration fails, in FitGrid or ScoreGrid, the error has a method
// Config() int that returns the index of the configuration.
func FitGrid(ctx context.Context, m ood.Method, t ood.Training, grid []ood.Params) ([]*Scorer, error) {
	if m.Fit == nil {
		return nil, fmt.Errorf("method %q has no function Fit", m.Name)
	}
	if m.New != nil {
		if err := checkFitted(m, "New", m.New()); err != nil {
			return nil, err
		}
	}
	resolved := make([]ood.Params, len(grid))
	for i, p := range grid {
		var err error
		if resolved[i], err = resolve(m, p); err != nil {
			return nil, &configError{i, err}
		}
	}
	t.Levels = slices.Sorted(slices.Values(t.Levels))
	if err := checkTraining(m, t); err != nil {
		return nil, err
	}
	ctx = memo.Share(ctx, t.Batch)
	if t.Trainer != nil {
		t.Trainer = checkedTrainer{t.Trainer}
	}
	if t.Progress == nil {
		t.Progress = func(float64) {}
	}
	// Models that are trained together report progress before their own configuration is
	// fitted. Rising keeps the progress from going backwards.
	progress := rows.Progress(t.Progress).Rising()
	scorers := make([]*Scorer, len(grid))
	for i, p := range resolved {
		t.Progress = progress.Part(i, len(grid))
		fitted, err := m.Fit(memo.Fitting(ctx, resolved, i), t, p)
		if err != nil {
			return nil, &configError{i, err}
		}
		if err := checkFitted(m, "Fit", fitted); err != nil {
			return nil, err
		}
		scorers[i] = &Scorer{method: m, fitted: fitted, widths: neededParts(&t.Batch, m.Needs).Widths(), network: t.Network}
		t.Progress(1)
	}
	return scorers, ctx.Err()
}

// checkFitted returns an error if the result of a fit cannot score rows or predict
// quantiles, or if its state cannot be saved.
func checkFitted(m ood.Method, maker string, fitted any) error {
	_, implements := fitted.(ood.Detector)
	want := "Detector"
	if m.Needs.Targets {
		_, implements = fitted.(ood.QuantileRegressor)
		want = "QuantileRegressor"
	}
	t := reflect.TypeOf(fitted)
	if !implements || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("method %q: its %s returned %T, not a pointer to a struct that implements %s", m.Name, maker, fitted, want)
	}
	if err := rows.Keeps(t); err != nil {
		return fmt.Errorf("method %q: %w", m.Name, err)
	}
	return nil
}

// Variant describes a change to the usual computation of a method for a model. It returns
// "" if there is no change.
func Variant(m ood.Method, n ood.Network) string {
	if m.Needs.Dropout && n != nil && n.Dropouts() == 0 {
		return "inserted dropout"
	}
	return ""
}

// configError is an error of one configuration in a grid. Other configurations may still
// succeed.
type configError struct {
	at int
	error
}

func (e *configError) Config() int { return e.at }

func (e *configError) Unwrap() error { return e.error }
