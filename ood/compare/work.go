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

// work fits, scores and measures one method.
type work struct {
	c       Options
	m       ood.Method
	batches []ood.Batch // in-distribution rows, then each out-of-distribution set
	wrong   []bool      // errors of the model on the in-distribution rows, or nil
	grid    []ood.Params
	results []result // one per configuration

	panicked string // what the method panicked with, or empty

	mu       sync.Mutex
	done     float64             // fraction that is done
	progress func(share float64) // or nil
}

// result is the result of one configuration.
type result struct {
	conf       Config
	err        error
	fit, score time.Duration

	metrics [][]measure.Metrics // per set: the metrics of the rows, then of each resample
	aurc    []float64           // one per resample
}

func (c Options) plan(m ood.Method, wrong []bool) *work {
	w := &work{c: c, m: m, wrong: wrong, batches: []ood.Batch{c.Test}, grid: []ood.Params{fitting.Default(m)}}
	for _, s := range c.oodSets() {
		w.batches = append(w.batches, s.Batch)
	}
	if grid := fitting.Grid(m); c.Sweep && len(grid) > 0 {
		w.grid = grid
	}
	w.results = make([]result, len(w.grid))
	return w
}

// Estimated fractions of the work, for progress.
const (
	scoredShare = .95 // fitting and scoring, of all work
	fitShare    = .8  // fitting, of fitting and scoring
)

// setProgress reports progress. It never decreases, although a grid that fails as a whole begins
// again.
func (w *work) setProgress(share float64) {
	if w.progress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = max(w.done, share)
	w.progress(w.done)
}

// run fits, scores and measures the configurations.
func (w *work) run(ctx context.Context) error {
	var able []int
	var most, sum float64
	for k, p := range w.grid {
		if w.results[k].err = fitting.Check(w.m, w.c.Training, p); w.results[k].err == nil {
			able = append(able, k)
			needs := fitting.Memory(w.m, w.c.Training, p)
			most, sum = max(most, needs), sum+needs
		}
	}
	together := len(able) > 1 && sum <= rows.MostMemory
	need := int64(most)
	if together {
		need = int64(sum)
	}
	if err := w.c.memory.Acquire(ctx, need); err != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, err)
	}
	defer w.c.memory.Release(need)
	ctx = memo.Share(ctx, w.c.Training.Batch)
	progress := rows.Progress(w.setProgress)
	progress.Tell(0)
	if err := w.fitAll(ctx, able, together, progress.Sub(0, scoredShare)); err != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, err)
	}
	for k := range w.results {
		w.results[k].measure(ctx, w)
		progress.Sub(scoredShare, 1).Part(k, len(w.results)).Tell(1)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, ctx.Err())
	}
	return nil
}

// fitAll fits and scores configurations together if asked to. Otherwise, or if one of them
// fails, it fits them one by one, so that one failure does not affect the others.
func (w *work) fitAll(ctx context.Context, configs []int, together bool, progress rows.Progress) error {
	if together {
		err := w.fit(ctx, configs, progress)
		if one := (interface{ Config() int })(nil); !errors.As(err, &one) || errors.Is(err, ood.ErrNotDifferentiable) || errors.Is(err, classes.ErrNoClasses) {
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
func (w *work) fit(ctx context.Context, configs []int, progress rows.Progress) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	grid, n := make([]ood.Params, len(configs)), time.Duration(len(configs))
	for i, k := range configs {
		grid[i] = w.grid[k]
	}
	t := w.c.Training
	t.Progress = progress.Sub(0, fitShare)
	start := time.Now()
	scorers, err := fitting.FitGrid(ctx, w.m, t, grid)
	fitted := time.Now()
	for _, k := range configs {
		w.results[k].fit += fitted.Sub(start) / n
	}
	if err != nil {
		return err
	}
	parts := make([][][]float64, len(scorers)) // per scorer, per batch
	before, total := 0, w.rows()
	for _, b := range w.batches {
		from := before
		before += b.Len()
		scored, err := fitting.ScoreGrid(ctx, scorers, b, progress.Sub(fitShare, 1).Sub(float64(from)/float64(total), float64(before)/float64(total)))
		if err != nil {
			return err
		}
		for i := range scorers {
			parts[i] = append(parts[i], scored[i])
		}
	}
	took := time.Since(fitted)
	for i, k := range configs {
		r := &w.results[k]
		r.conf.TestScores, r.conf.OODScores, r.score = parts[i][0], parts[i][1:], took/n
	}
	return nil
}

// rows is the number of rows to score.
func (w *work) rows() int {
	n := 0
	for _, b := range w.batches {
		n += b.Len()
	}
	return n
}

// measure computes the metrics of the scores.
func (r *result) measure(ctx context.Context, w *work) {
	if r.err != nil {
		return
	}
	in, seed, resamples := r.conf.TestScores, w.c.Training.Seed, w.c.Resamples
	for k, out := range r.conf.OODScores {
		on := make([]measure.Metrics, 1)
		if on[0], r.err = measure.Evaluate(in, out); r.err != nil {
			return
		}
		if resamples > 0 {
			var drawn []measure.Metrics
			if drawn, r.err = measure.Bootstrap(ctx, in, out, resamples, seed, k); r.err != nil {
				return
			}
			on = append(on, drawn...)
		}
		r.metrics = append(r.metrics, on)
	}
	if w.wrong == nil {
		return
	}
	var area float64
	if area, r.err = measure.AURC(in, w.wrong); r.err != nil {
		return
	}
	r.conf.AURC = &area
	if resamples > 0 {
		r.aurc, r.err = measure.BootstrapAURC(ctx, in, w.wrong, resamples, seed)
	}
}

// report collects the results in the order of the grid.
func (w *work) report() MethodReport {
	r := MethodReport{Name: w.m.Name, Control: w.m.Control, Configs: []Config{}}
	if w.m.Needs.Outliers {
		r.OutliersFitted = w.c.Training.Outliers.Len()
		for _, s := range w.c.oodSets() {
			r.OODRows += s.Len()
		}
	}
	var took time.Duration
	var done []result
	for i, res := range w.results {
		params := maps.Clone(w.grid[i])
		if params == nil {
			params = ood.Params{}
		}
		r.FitSeconds += res.fit.Seconds()
		took += res.score
		if res.err != nil {
			if errors.Is(res.err, ood.ErrNotDifferentiable) || errors.Is(res.err, ood.ErrNoDropout) || errors.Is(res.err, classes.ErrNoClasses) || errors.Is(res.err, fitting.ErrMemory) {
				r.unsupported = res.err
			}
			r.Failed = append(r.Failed, Failed{Params: params, Error: res.err.Error()})
			continue
		}
		res.conf.Params = params
		done = append(done, res)
	}
	if len(done) == 0 {
		return r
	}
	r.Variant = fitting.Variant(w.m, w.c.Training.Network)
	r.ScoreMicroseconds = took.Seconds() * 1e6 / float64(len(done)) / float64(w.rows())
	r.summarise(w.c.oodSets(), done)
	return r
}
