package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood"
)

// methodRun holds the state of fitting, scoring and measuring one method.
type methodRun struct {
	c       Options
	m       ood.Method
	batches []ood.Batch // the in-distribution rows, then each out-of-distribution set
	wrong   []bool      // which in-distribution rows the model misclassifies; nil if unknown
	grid    []ood.Params
	results []result // one for each configuration

	panicked string // panic message and stack trace, or empty

	mu       sync.Mutex
	done     float64                // fraction of the work that is done
	progress func(fraction float64) // may be nil
}

// result holds the results of one configuration.
type result struct {
	config     Config
	err        error
	fit, score time.Duration

	metrics [][]measure.Metrics // for each set: the metrics of the rows, then of each resample
	aurc    []float64           // AURC of each resample
}

func (c Options) newMethodRun(m ood.Method, wrong []bool) *methodRun {
	w := &methodRun{c: c, m: m, wrong: wrong, batches: []ood.Batch{c.Test}, grid: []ood.Params{fitting.Default(m)}}
	for _, s := range c.oodSets() {
		w.batches = append(w.batches, s.Batch)
	}
	if grid := fitting.Grid(m); c.Sweep && len(grid) > 0 {
		w.grid = grid
	}
	w.results = make([]result, len(w.grid))
	return w
}

// These are estimated fractions of the work, from which progress is computed.
const (
	scoredFraction = .95 // fitting and scoring, as a fraction of all work
	fitFraction    = .8  // fitting, as a fraction of fitting and scoring
)

// setProgress reports the fraction of the work that is done. The reported fraction never
// decreases, although a grid that fails as a whole is fitted again.
func (w *methodRun) setProgress(fraction float64) {
	if w.progress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = max(w.done, fraction)
	w.progress(w.done)
}

// run fits, scores and measures all configurations.
func (w *methodRun) run(ctx context.Context) error {
	var fittable []int
	var largest, sum float64
	for k, p := range w.grid {
		if w.results[k].err = fitting.Check(w.m, w.c.Training, p); w.results[k].err == nil {
			fittable = append(fittable, k)
			bytes := fitting.Memory(w.m, w.c.Training, p)
			largest, sum = max(largest, bytes), sum+bytes
		}
	}
	together := len(fittable) > 1 && sum <= rows.MostMemory
	reserved := int64(largest)
	if together {
		reserved = int64(sum)
	}
	if err := w.c.memory.Acquire(ctx, reserved); err != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, err)
	}
	defer w.c.memory.Release(reserved)
	ctx = memo.Share(ctx, w.c.Training.Batch)
	progress := rows.Progress(w.setProgress)
	progress.Tell(0)
	if err := w.fitAll(ctx, fittable, together, progress.Sub(0, scoredFraction)); err != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, err)
	}
	for k := range w.results {
		w.results[k].measure(ctx, w)
		progress.Sub(scoredFraction, 1).Part(k, len(w.results)).Tell(1)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, ctx.Err())
	}
	return nil
}

// fitAll fits and scores all configurations together if together is true. If it is false,
// or if one configuration fails, it fits each one separately, so that one failure does not
// affect the others. An error that concerns all configurations is recorded for each of
// them.
func (w *methodRun) fitAll(ctx context.Context, configs []int, together bool, progress rows.Progress) error {
	if together {
		err := w.fit(ctx, configs, progress)
		if configErr := (interface{ Config() int })(nil); !errors.As(err, &configErr) || errors.Is(err, ood.ErrNotDifferentiable) || errors.Is(err, classes.ErrNoClasses) {
			for _, k := range configs {
				w.results[k].err = err
			}
			return ctx.Err()
		}
	}
	for i, k := range configs {
		w.results[k].err = w.fit(ctx, []int{k}, progress.Part(i, len(configs)))
	}
	return ctx.Err()
}

// fit fits and scores several configurations together.
func (w *methodRun) fit(ctx context.Context, configs []int, progress rows.Progress) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	grid, n := make([]ood.Params, len(configs)), time.Duration(len(configs))
	for i, k := range configs {
		grid[i] = w.grid[k]
	}
	t := w.c.Training
	t.Progress = progress.Sub(0, fitFraction)
	start := time.Now()
	scorers, err := fitting.FitGrid(ctx, w.m, t, grid)
	fitEnd := time.Now()
	for _, k := range configs {
		w.results[k].fit += fitEnd.Sub(start) / n
	}
	if err != nil {
		return err
	}
	scores := make([][][]float64, len(scorers)) // scores by scorer and by batch
	before, total := 0, w.rows()
	for _, b := range w.batches {
		from := before
		before += b.Len()
		scored, err := fitting.ScoreGrid(ctx, scorers, b, progress.Sub(fitFraction, 1).Sub(float64(from)/float64(total), float64(before)/float64(total)))
		if err != nil {
			return err
		}
		for i := range scorers {
			scores[i] = append(scores[i], scored[i])
		}
	}
	elapsed := time.Since(fitEnd)
	for i, k := range configs {
		r := &w.results[k]
		r.config.TestScores, r.config.OODScores, r.score = scores[i][0], scores[i][1:], elapsed/n
	}
	return nil
}

// rows returns the number of rows to score.
func (w *methodRun) rows() int {
	n := 0
	for _, b := range w.batches {
		n += b.Len()
	}
	return n
}

// measure computes the metrics of the scores, and of each resample.
func (r *result) measure(ctx context.Context, w *methodRun) {
	if r.err != nil {
		return
	}
	in, seed, resamples := r.config.TestScores, w.c.Training.Seed, w.c.Resamples
	for k, out := range r.config.OODScores {
		metrics := make([]measure.Metrics, 1)
		if metrics[0], r.err = measure.Evaluate(in, out); r.err != nil {
			return
		}
		if resamples > 0 {
			var drawn []measure.Metrics
			if drawn, r.err = measure.Bootstrap(ctx, in, out, resamples, seed, k); r.err != nil {
				return
			}
			metrics = append(metrics, drawn...)
		}
		r.metrics = append(r.metrics, metrics)
	}
	if w.wrong == nil {
		return
	}
	var area float64
	if area, r.err = measure.AURC(in, w.wrong); r.err != nil {
		return
	}
	r.config.AURC = &area
	if resamples > 0 {
		r.aurc, r.err = measure.BootstrapAURC(ctx, in, w.wrong, resamples, seed)
	}
}

// report returns the results of all configurations, in the order of the grid.
func (w *methodRun) report() MethodReport {
	r := MethodReport{Name: w.m.Name, Control: w.m.Control, Configs: []Config{}}
	if w.m.Needs.Outliers {
		r.OutliersFitted = w.c.Training.Outliers.Len()
		for _, s := range w.c.oodSets() {
			r.OODRows += s.Len()
		}
	}
	var elapsed time.Duration
	var succeeded []result
	for i, res := range w.results {
		params := maps.Clone(w.grid[i])
		if params == nil {
			params = ood.Params{}
		}
		r.FitSeconds += res.fit.Seconds()
		elapsed += res.score
		if res.err != nil {
			if errors.Is(res.err, ood.ErrNotDifferentiable) || errors.Is(res.err, ood.ErrNoDropout) || errors.Is(res.err, classes.ErrNoClasses) || errors.Is(res.err, fitting.ErrMemory) {
				r.unsupported = res.err
			}
			r.Failed = append(r.Failed, Failed{Params: params, Error: res.err.Error()})
			continue
		}
		res.config.Params = params
		succeeded = append(succeeded, res)
	}
	if len(succeeded) == 0 {
		return r
	}
	r.Variant = fitting.Variant(w.m, w.c.Training.Network)
	r.ScoreMicroseconds = elapsed.Seconds() * 1e6 / float64(len(succeeded)) / float64(w.rows())
	r.summarise(w.c.oodSets(), succeeded)
	return r
}
