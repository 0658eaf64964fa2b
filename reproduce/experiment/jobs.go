package experiment

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Job is one part of a long experiment.
type Job struct {
	Kind string  // within a kind, the running time is proportional to Cost
	Cost float64 // expected work, in a unit that may differ between kinds
	What string
	Seed int // jobs with low seeds run first, so an unfinished run has results for every setting
	Run  func(ctx context.Context, progress func(fraction float64)) error
}

// RunJobs creates the output folder and runs the jobs, at most s.Parallel at a time. It
// reports progress.
func RunJobs(ctx context.Context, s *Settings, jobs []Job) error {
	if err := os.MkdirAll(s.Out, 0o755); err != nil {
		return err
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return a.Seed - b.Seed })
	p := NewProgress(s.Stderr, max(s.Parallel, 1))
	p.Expect(jobs...)
	return p.Run(ctx, jobs...)
}

// Progress runs jobs and reports how many are done. It also estimates the remaining time.
// For kinds without a finished job, the estimate assumes the time per cost of all jobs that
// have run so far.
type Progress struct {
	mu         sync.Mutex
	out        io.Writer
	isTerminal bool // reports whether the output is a terminal, so that lines can be overwritten
	parallel   int

	jobs, done int
	remaining  map[string]float64 // cost of unfinished jobs, by kind
	elapsed    map[string]float64 // seconds of finished jobs, by kind
	cost       map[string]float64 // cost of finished jobs, by kind
	running    map[*runningJob]bool
	lastShown  time.Time
}

type runningJob struct {
	Job
	began    time.Time
	fraction float64
}

// NewProgress returns a Progress that runs at most parallel jobs at a time.
func NewProgress(out io.Writer, parallel int) *Progress {
	p := &Progress{
		out: out, parallel: parallel, running: map[*runningJob]bool{},
		remaining: map[string]float64{}, elapsed: map[string]float64{}, cost: map[string]float64{},
	}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.isTerminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Expect adds jobs to the expected total.
func (p *Progress) Expect(jobs ...Job) {
	for _, j := range jobs {
		p.jobs++
		p.remaining[j.Kind] += j.Cost
	}
}

// Run starts the jobs in order. The caller must have passed them to Expect.
func (p *Progress) Run(ctx context.Context, jobs ...Job) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.parallel)
	for _, j := range jobs {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			r := p.start(j)
			if err := j.Run(ctx, func(fraction float64) { p.advance(r, fraction) }); err != nil {
				return fmt.Errorf("%s: %w", j.What, err)
			}
			p.finish(r)
			return nil
		})
	}
	return group.Wait()
}

func (p *Progress) start(j Job) *runningJob {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &runningJob{Job: j, began: time.Now()}
	p.running[r] = true
	return r
}

// advance records the completed fraction of a running job.
func (p *Progress) advance(r *runningJob, fraction float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.fraction = fraction
	if p.isTerminal && time.Since(p.lastShown) > time.Second/2 {
		p.lastShown = time.Now()
		fmt.Fprintf(p.out, "\r\x1b[K%d of %d, %s left", p.done, p.jobs, p.timeLeft())
	}
}

// finish removes a job from the running jobs and prints a line about it.
func (p *Progress) finish(r *runningJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, r)
	p.done++
	p.remaining[r.Kind] -= r.Cost
	p.cost[r.Kind] += r.Cost
	took := time.Since(r.began)
	p.elapsed[r.Kind] += took.Seconds()
	if p.isTerminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	fmt.Fprintf(p.out, "%d of %d  %s  %.1f s, %s left\n", p.done, p.jobs, r.What, took.Seconds(), p.timeLeft())
}

func (p *Progress) timeLeft() string {
	var spent, cost float64
	for kind := range p.cost {
		spent, cost = spent+p.elapsed[kind], cost+p.cost[kind]
	}
	for r := range p.running {
		if r.fraction > .02 {
			spent, cost = spent+time.Since(r.began).Seconds(), cost+r.fraction*r.Cost
		}
	}
	if cost == 0 {
		return "unknown time"
	}
	rate := func(kind string) float64 {
		if p.cost[kind] > 0 {
			return p.elapsed[kind] / p.cost[kind]
		}
		return spent / cost
	}
	var seconds float64
	for kind, remaining := range p.remaining {
		seconds += remaining * rate(kind)
	}
	for r := range p.running {
		seconds -= r.fraction * r.Cost * rate(r.Kind)
	}
	return time.Duration(max(seconds, 0) / float64(p.parallel) * float64(time.Second)).Round(time.Second).String()
}
