package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells how far a list of jobs is. Jobs of one kind take time in
// proportion to their cost; kinds that were not seen yet are guessed from the
// others.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	live     bool // a terminal, where lines can be overwritten
	began    time.Time
	parallel int

	jobs, done int
	left       map[string]float64 // cost of jobs that are not finished, by kind
	spent      map[string]float64 // seconds of finished jobs
	cost       map[string]float64 // and their cost
	running    map[int]*runningJob
	shown      time.Time
}

type runningJob struct {
	kind  string
	cost  float64
	began time.Time
	share float64
}

func newProgress(out io.Writer, parallel int) *progress {
	p := &progress{
		out: out, began: time.Now(), parallel: parallel, running: map[int]*runningJob{},
		left: map[string]float64{}, spent: map[string]float64{}, cost: map[string]float64{},
	}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// expect announces a job.
func (p *progress) expect(kind string, cost float64) {
	p.jobs++
	p.left[kind] += cost
}

// start begins a job that was expected.
func (p *progress) start(id int, kind string, cost float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[id] = &runningJob{kind: kind, cost: cost, began: time.Now()}
}

// advance says what share of a running job is done.
func (p *progress) advance(id int, share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[id].share = share
	if p.live && time.Since(p.shown) > time.Second/2 {
		p.shown = time.Now()
		fmt.Fprintf(p.out, "\r\x1b[K%d of %d, %s left", p.done, p.jobs, p.timeLeft())
	}
}

// finish ends a job and prints a line about it.
func (p *progress) finish(id int, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running[id]
	delete(p.running, id)
	p.done++
	p.left[r.kind] -= r.cost
	p.cost[r.kind] += r.cost
	took := time.Since(r.began)
	p.spent[r.kind] += took.Seconds()
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	fmt.Fprintf(p.out, "%d of %d  %s  %.1f s, %s left\n", p.done, p.jobs, what, took.Seconds(), p.timeLeft())
}

func (p *progress) timeLeft() string {
	var spent, cost float64
	for kind := range p.cost {
		spent, cost = spent+p.spent[kind], cost+p.cost[kind]
	}
	for _, r := range p.running {
		if r.share > .02 {
			spent, cost = spent+time.Since(r.began).Seconds(), cost+r.share*r.cost
		}
	}
	if cost == 0 {
		return "unknown time"
	}
	var seconds float64
	for kind, left := range p.left {
		rate := spent / cost
		if p.cost[kind] > 0 {
			rate = p.spent[kind] / p.cost[kind]
		}
		seconds += left * rate
	}
	for _, r := range p.running {
		rate := spent / cost
		if p.cost[r.kind] > 0 {
			rate = p.spent[r.kind] / p.cost[r.kind]
		}
		seconds -= r.share * r.cost * rate
	}
	return time.Duration(max(seconds, 0) / float64(p.parallel) * float64(time.Second)).Round(time.Second).String()
}
