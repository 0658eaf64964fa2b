package ood

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/attach-uncertainty/attach/calibrate"
)

// Comparison says what to compare on which data.
type Comparison struct {
	Methods  []Method
	Training Training
	In       Batch // in-domain rows that no method was fitted with
	Out      Batch // out-of-domain rows
	// OutlierShare is the share of Out, drawn at random by Training.Seed, that
	// methods with NeedOutliers are fitted with and not measured on. 0 stands
	// for one half. Where Training.Outliers are given they are fitted with, and
	// measured on all of Out, which must hold none of them.
	OutlierShare float64
	// Sweep fits the whole grid of each method; without it, its default alone.
	Sweep bool
	// Parallel is the number of methods fitted and scored at a time; values
	// below 1 mean one. More than one disturbs the times reported.
	Parallel int
	// Progress, if not nil, is called with a method's name and the share of its
	// work that is done, by one goroutine at a time.
	Progress func(method string, share float64)
}

// Compare fits every method and scores the in-domain and out-of-domain rows with
// it. A method that needs what the data or the network lack is listed as
// skipped with the reason, and a configuration that fails is listed as failed; neither is an
// error. Rows that don't fit together and a cancelled context are.
func Compare(ctx context.Context, c Comparison) (*Report, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &Report{
		NFit: c.Training.Len(), NIn: c.In.Len(), NOut: c.Out.Len(),
		Sweep: c.Sweep, Seed: c.Training.Seed,
		Methods: []MethodReport{}, Skipped: []Skipped{},
	}
	var todo []Method
	for _, m := range c.Methods {
		if err := c.divided(m).check(m); err != nil {
			r.Skipped = append(r.Skipped, Skipped{Name: m.Name, Reason: err.Error()})
			continue
		}
		todo = append(todo, m)
	}
	r.Methods = make([]MethodReport, len(todo))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.Parallel, 1))
	for i, m := range todo {
		g.Go(func() error {
			progress := func(share float64) {
				if c.Progress != nil {
					mu.Lock()
					defer mu.Unlock()
					c.Progress(m.Name, share)
				}
			}
			var err error
			r.Methods[i], err = c.divided(m).run(ctx, m, progress)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r.skipUnable()
	return r, nil
}

// skipUnable moves methods that the network or the data proved unable of to
// those skipped.
func (r *Report) skipUnable() {
	r.Methods = slices.DeleteFunc(r.Methods, func(m MethodReport) bool {
		if m.unable == nil || len(m.Configs) > 0 {
			return false
		}
		r.Skipped = append(r.Skipped, Skipped{Name: m.Name, Reason: fmt.Sprintf("method %q: %v", m.Name, m.unable)})
		return true
	})
}

func (c Comparison) validate() error {
	for _, part := range []struct {
		name string
		b    Batch
	}{{"rows to fit with", c.Training.Batch}, {"in-domain rows", c.In}, {"out-of-domain rows", c.Out}} {
		if err := part.b.Validate(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if part.b.Len() == 0 {
			return fmt.Errorf("%s: there are none", part.name)
		}
		if h, want := part.b.Features.Cols, c.Training.Features.Cols; h > 0 && want > 0 && h != want {
			return fmt.Errorf("%s have %d features but the rows to fit with have %d", part.name, h, want)
		}
		if k, want := part.b.Logits.Cols, c.Training.Logits.Cols; k > 0 && want > 0 && k != want {
			return fmt.Errorf("%s have %d logits but the rows to fit with have %d", part.name, k, want)
		}
	}
	if !(c.OutlierShare >= 0 && c.OutlierShare < 1) {
		return fmt.Errorf("the share of out-of-domain rows to fit oracles with must be at least 0 and below 1, not %v", c.OutlierShare)
	}
	if err := c.Training.Outliers.Validate(); err != nil {
		return fmt.Errorf("out-of-domain rows to fit with: %w", err)
	}
	return nil
}

// divided is the comparison as a method sees it: for oracles, rows of Out that
// are to be fitted with are taken from those to measure on.
func (c Comparison) divided(m Method) Comparison {
	if m.Needs&NeedOutliers == 0 || c.Training.Outliers.Len() > 0 || c.Out.Len() < 2 {
		return c
	}
	measure, fit := calibrate.Split(c.Out.Len(), cmp.Or(c.OutlierShare, .5), c.Training.Seed)
	c.Training.Outliers, c.Out = c.Out.Select(fit), c.Out.Select(measure)
	return c
}

func (c Comparison) check(m Method) error {
	if err := m.CheckTraining(c.Training); err != nil {
		return err
	}
	if err := m.CheckBatch(c.In); err != nil {
		return err
	}
	return m.CheckBatch(c.Out)
}

// Shares of a method's work that fitting is taken to be, for progress alone.
const fitShare = .8

func (c Comparison) run(ctx context.Context, m Method, progress func(float64)) (MethodReport, error) {
	r := MethodReport{Name: m.Name, Control: m.Control, Configs: []Config{}}
	if m.Needs&NeedOutliers != 0 {
		r.NOutliers, r.NOut = c.Training.Outliers.Len(), c.Out.Len()
	}
	grid := []Params{m.Default}
	if c.Sweep && len(m.Grid) > 0 {
		grid = m.Grid
	}
	progress(0)
	t := c.Training
	t.Progress = func(share float64) { progress(fitShare * share) }
	start := time.Now()
	scorers, errs, together := m.fit(ctx, t, grid)
	r.FitSeconds = time.Since(start).Seconds()

	start = time.Now()
	scored := c.score(ctx, scorers, errs, together, func(share float64) { progress(fitShare + (1-fitShare)*share) })
	took := time.Since(start)
	if ctx.Err() != nil {
		return r, fmt.Errorf("method %q: %w", m.Name, ctx.Err())
	}
	for i, s := range scored {
		params := maps.Clone(grid[i])
		if params == nil {
			params = Params{}
		}
		conf := Config{Params: params, Scores: s}
		err := errs[i]
		if err == nil {
			conf.Metrics, err = Evaluate(s.In, s.Out)
		}
		if err != nil {
			if errors.Is(err, ErrNotDifferentiable) || errors.Is(err, ErrNoDropout) || errors.Is(err, ErrNoClasses) {
				r.unable = err
			}
			r.Failed = append(r.Failed, Failed{Params: params, Error: err.Error()})
			continue
		}
		r.Configs = append(r.Configs, conf)
		r.Variant = cmp.Or(r.Variant, VariantOf(scorers[i]))
	}
	r.summarise()
	if n := len(r.Configs); n > 0 {
		r.ScoreMicroseconds = took.Seconds() * 1e6 / float64(len(grid)) / float64(c.In.Len()+c.Out.Len())
	}
	progress(1)
	return r, nil
}

// fit fits the grid, at once where the method can. If that fails, each
// configuration is tried alone, so that one bad entry does not take the others
// with it. together says that the scorers come from one call of FitGrid.
func (m Method) fit(ctx context.Context, t Training, grid []Params) (scorers []Scorer, errs []error, together bool) {
	errs = make([]error, len(grid))
	if m.FitGrid != nil && len(grid) > 1 {
		scorers, err := m.FitGrid(ctx, t, grid)
		if err == nil {
			return scorers, errs, true
		}
	}
	scorers = make([]Scorer, len(grid))
	progress := t.Progress
	for i, p := range grid {
		if err := ctx.Err(); err != nil {
			errs[i] = err
			continue
		}
		t.Progress = func(share float64) { progress((float64(i) + share) / float64(len(grid))) }
		scorers[i], errs[i] = m.Fit(ctx, t, p)
	}
	return scorers, errs, false
}

// score scores both sides with every scorer that was fitted, and sets errs where
// that fails.
func (c Comparison) score(ctx context.Context, scorers []Scorer, errs []error, together bool, progress func(float64)) []Scores {
	if together {
		if scored, ok := c.watched(progress).scoreTogether(ctx, scorers); ok {
			return scored
		}
	}
	scored := make([]Scores, len(scorers))
	for i, s := range scorers {
		if errs[i] != nil {
			continue
		}
		c := c.watched(func(share float64) { progress((float64(i) + share) / float64(len(scorers))) })
		if scored[i].In, errs[i] = s.Score(ctx, nil, c.In); errs[i] == nil {
			scored[i].Out, errs[i] = s.Score(ctx, nil, c.Out)
		}
		progress(float64(i+1) / float64(len(scorers)))
	}
	return scored
}

// scoreTogether says false where the scorers can't be asked at once, or asking
// fails: one by one, the error finds its configuration.
func (c Comparison) scoreTogether(ctx context.Context, scorers []Scorer) ([]Scores, bool) {
	g, ok := scorers[0].(GridScorer)
	if !ok {
		return nil, false
	}
	in, err := g.ScoreGrid(ctx, scorers, c.In)
	if err != nil {
		return nil, false
	}
	out, err := g.ScoreGrid(ctx, scorers, c.Out)
	if err != nil {
		return nil, false
	}
	scored := make([]Scores, len(scorers))
	for i := range scored {
		scored[i] = Scores{In: in[i], Out: out[i]}
	}
	return scored, true
}

func (r *MethodReport) summarise() {
	pick := func(f func(Metrics) float64) Summary {
		x := make([]float64, len(r.Configs))
		for i, conf := range r.Configs {
			x[i] = f(conf.Metrics)
		}
		return Summarise(x)
	}
	r.AUROC = pick(func(m Metrics) float64 { return m.AUROC })
	r.FPR95 = pick(func(m Metrics) float64 { return m.FPR95 })
	r.AUPRIn = pick(func(m Metrics) float64 { return m.AUPRIn })
	r.AUPROut = pick(func(m Metrics) float64 { return m.AUPROut })
}
