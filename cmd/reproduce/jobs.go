package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// job is a piece of a long experiment.
type job struct {
	kind string  // jobs of one kind take time in proportion to their cost
	cost float64 // in units of that kind
	what string
	run  func(ctx context.Context, progress func(share float64)) error
}

// inOrderOf sorts jobs by a number of each, their split's: an unfinished run
// then has something of everything.
func inOrderOf(numbers []int, jobs []job) []job {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return numbers[a] - numbers[b] })
	sorted := make([]job, len(jobs))
	for i, at := range order {
		sorted[i] = jobs[at]
	}
	return sorted
}

// runJobs runs them, so many at once, and tells how far they are.
func runJobs(ctx context.Context, s settings, jobs []job) error {
	if len(jobs) == 0 {
		return nil
	}
	shown := newProgress(s.stderr, s.intervals.parallel)
	for _, j := range jobs {
		shown.expect(j.kind, j.cost)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.intervals.parallel)
	for id, j := range jobs {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			shown.start(id, j.kind, j.cost)
			if err := j.run(ctx, func(share float64) { shown.advance(id, share) }); err != nil {
				return fmt.Errorf("%s: %w", j.what, err)
			}
			shown.finish(id, j.what)
			return nil
		})
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: what was measured is in %s, and the same command goes on from there", s.intervals.out)
	}
	return err
}
