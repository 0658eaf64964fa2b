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
)

// work is one method's share of a comparison. Its parts may run at a time.
type work struct {
	c       Comparison
	m       Method
	batches []Batch // in-domain rows, then every out-of-domain set
	wrong   []bool  // of the in-domain rows, or nil
	grid    []Params
	parts   []*part
	results []result // one per configuration

	mu       sync.Mutex
	progress func(share float64) // or nil
}

// part is configurations that are fitted one after another, or at once.
type part struct {
	configs []int
	share   float64 // of it that is done
}

// result is what came of one configuration.
type result struct {
	conf       Config
	variant    string
	err        error
	fit, score time.Duration

	on   []measured // one per set
	aurc []float64  // one per resample
}

// plan cuts a method's configurations into parts: one for all where the method
// fits its grid at once, else one for each.
func (c Comparison) plan(m Method, wrong []bool) *work {
	c.Training.Cache = &Cache{}
	w := &work{c: c, m: m, wrong: wrong, batches: []Batch{c.In}, grid: []Params{m.Default}}
	for _, s := range c.outSets() {
		w.batches = append(w.batches, s.Batch)
	}
	if c.Sweep && len(m.Grid) > 0 {
		w.grid = m.Grid
	}
	w.results = make([]result, len(w.grid))
	if m.FitGrid != nil && len(w.grid) > 1 {
		all := make([]int, len(w.grid))
		for i := range all {
			all[i] = i
		}
		w.parts = []*part{{configs: all}}
		return w
	}
	for i := range w.grid {
		w.parts = append(w.parts, &part{configs: []int{i}})
	}
	return w
}

// Shares of a part's work that fitting and scoring are taken to be, for
// progress alone.
const (
	fitShare   = .75
	scoreShare = .2
)

// done notes how much of a part is done.
func (w *work) done(p *part, share float64) {
	if w.progress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// A grid that fails when fitted at once begins again, one by one.
	p.share = max(p.share, share)
	var sum float64
	for _, p := range w.parts {
		sum += p.share
	}
	w.progress(sum / float64(len(w.parts)))
}

// run fits, scores and measures the configurations of a part.
func (w *work) run(ctx context.Context, p *part) error {
	need := int64(0)
	for _, k := range p.configs {
		if w.results[k].err = w.m.CheckMemory(w.c.Training, w.grid[k]); w.results[k].err == nil {
			need = max(need, int64(w.m.memory(w.c.Training, w.grid[k])))
		}
	}
	if err := w.c.room.Acquire(ctx, need); err != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, err)
	}
	defer w.c.room.Release(need)
	w.done(p, 0)
	n := float64(len(p.configs))
	if together := len(p.configs) > 1 && w.fitTogether(ctx, p); !together {
		for i, k := range p.configs {
			w.fitAlone(ctx, p, k, float64(i), n)
		}
	}
	for i, k := range p.configs {
		w.results[k].measure(ctx, w)
		w.done(p, fitShare+scoreShare+(1-fitShare-scoreShare)*float64(i+1)/n)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("method %q: %w", w.m.Name, ctx.Err())
	}
	w.done(p, 1)
	return nil
}

// fitTogether fits and scores the grid at once, and says false where that
// fails: one by one, a bad configuration does not take the others with it.
func (w *work) fitTogether(ctx context.Context, p *part) bool {
	if slices.ContainsFunc(p.configs, func(k int) bool { return w.results[k].err != nil }) {
		return false
	}
	t := w.c.Training
	t.Progress = func(share float64) { w.done(p, fitShare*share) }
	start := time.Now()
	scorers, err := w.m.FitGrid(ctx, t, w.grid)
	if err != nil {
		return false
	}
	took := time.Since(start)
	for i := range w.results {
		w.results[i].fit = took / time.Duration(len(scorers))
		w.results[i].variant = VariantOf(scorers[i])
	}
	start = time.Now()
	scoring := func(share float64) { w.done(p, fitShare+scoreShare*share) }
	if scores, ok := scoreTogether(ctx, scorers, watched(w.batches, scoring)); ok {
		took = time.Since(start)
		for i, s := range scores {
			w.results[i].conf.Scores = s
			w.results[i].score = took / time.Duration(len(scorers))
		}
		return true
	}
	for i, s := range scorers {
		w.results[i].scoreWith(ctx, s, watched(w.batches, func(share float64) { scoring((float64(i) + share) / float64(len(scorers))) }))
	}
	return true
}

// scoreTogether says false where the scorers can't be asked at once, or asking
// fails: one by one, the error finds its configuration.
func scoreTogether(ctx context.Context, scorers []Scorer, batches []Batch) ([]Scores, bool) {
	g, ok := scorers[0].(GridScorer)
	if !ok {
		return nil, false
	}
	parts := make([][][]float64, len(scorers)) // per scorer, per batch
	for _, b := range batches {
		scored, err := g.ScoreGrid(ctx, scorers, b)
		if err != nil {
			return nil, false
		}
		for i := range scorers {
			parts[i] = append(parts[i], scored[i])
		}
	}
	scores := make([]Scores, len(scorers))
	for i, p := range parts {
		scores[i] = joined(p)
	}
	return scores, true
}

// joined puts the scores of the in-domain rows and of every set together.
func joined(parts [][]float64) Scores {
	s := Scores{In: parts[0], Out: parts[1], Sets: parts[1:]}
	if len(s.Sets) == 1 {
		return s
	}
	s.Out = slices.Concat(parts[1:]...)
	end := 0
	for i, p := range s.Sets {
		s.Sets[i] = s.Out[end : end+len(p) : end+len(p)]
		end += len(p)
	}
	return s
}

// fitAlone fits and scores configuration k, which is the i-th of n in its part.
func (w *work) fitAlone(ctx context.Context, p *part, k int, i, n float64) {
	r := &w.results[k]
	if r.err = cmp.Or(r.err, ctx.Err()); r.err != nil {
		return
	}
	t := w.c.Training
	t.Progress = func(share float64) { w.done(p, (fitShare+scoreShare)/n*i+fitShare/n*share) }
	start := time.Now()
	scorer, err := w.m.Fit(ctx, t, w.grid[k])
	r.fit = time.Since(start)
	if r.err = err; err != nil {
		return
	}
	r.variant = VariantOf(scorer)
	r.scoreWith(ctx, scorer, watched(w.batches, func(share float64) {
		w.done(p, (fitShare+scoreShare)/n*i+fitShare/n+scoreShare/n*share)
	}))
}

func (r *result) scoreWith(ctx context.Context, s Scorer, batches []Batch) {
	start := time.Now()
	var parts [][]float64
	for _, b := range batches {
		scores, err := s.Score(ctx, nil, b)
		if err != nil {
			r.err = err
			return
		}
		parts = append(parts, scores)
	}
	r.score = time.Since(start)
	r.conf.Scores = joined(parts)
}

// measure computes the metrics of what was scored.
func (r *result) measure(ctx context.Context, w *work) {
	if r.err != nil {
		return
	}
	s, seed, resamples := r.conf.Scores, w.c.Training.Seed, w.c.Resamples
	for k, out := range s.Sets {
		var m measured
		if m.Metrics, r.err = Evaluate(s.In, out); r.err != nil {
			return
		}
		if resamples > 0 {
			if m.drawn, r.err = resampled(ctx, s.In, out, resamples, seed, k); r.err != nil {
				return
			}
		}
		r.on = append(r.on, m)
	}
	if w.wrong == nil {
		return
	}
	var area float64
	if area, r.err = AURC(s.In, w.wrong); r.err != nil {
		return
	}
	r.conf.AURC = &area
	if resamples > 0 {
		r.aurc, r.err = resampledAURC(ctx, s.In, w.wrong, resamples, seed)
	}
}

// report puts the results together, in the order of the grid.
func (w *work) report() MethodReport {
	r := MethodReport{Name: w.m.Name, Control: w.m.Control, Configs: []Config{}}
	if w.m.Needs&NeedOutliers != 0 {
		r.NOutliers = w.c.Training.Outliers.Len()
		for _, s := range w.c.outSets() {
			r.NOut += s.Len()
		}
	}
	var took time.Duration
	var done []result
	for i, res := range w.results {
		params := maps.Clone(w.grid[i])
		if params == nil {
			params = Params{}
		}
		r.FitSeconds += res.fit.Seconds()
		took += res.score
		if res.err != nil {
			tooLarge := (*MemoryError)(nil)
			if errors.Is(res.err, ErrNotDifferentiable) || errors.Is(res.err, ErrNoDropout) || errors.Is(res.err, ErrNoClasses) || errors.As(res.err, &tooLarge) {
				r.unable = res.err
			}
			r.Failed = append(r.Failed, Failed{Params: params, Error: res.err.Error()})
			continue
		}
		res.conf.Params = params
		r.Variant = cmp.Or(r.Variant, res.variant)
		done = append(done, res)
	}
	if len(done) == 0 {
		return r
	}
	rows := 0
	for _, b := range w.batches {
		rows += b.Len()
	}
	r.ScoreMicroseconds = took.Seconds() * 1e6 / float64(len(done)) / float64(rows)
	r.summarise(w.c.outSets(), done)
	return r
}
