package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"

	"github.com/attach-uncertainty/attach/internal/audit/engine"
)

// fanIn is the number of tasks, or of groups of tasks, whose parts are combined together.
const fanIn = 64

// levels returns, for each step that combines parts, the number of the first shard of each group.
// The argument starts holds the number of the first shard of each task. There is no step unless
// the program that started the audit would read more parts than a group has.
func levels(starts []int) (all [][]int) {
	for len(starts) > fanIn {
		var groups []int
		for i := 0; i < len(starts); i += fanIn {
			groups = append(groups, starts[i])
		}
		all, starts = append(all, groups), groups
	}
	return all
}

// combineFn combines the small parts of a group of shards, after all shards were scored. Like
// scoreFn, it can be repeated. Its output is the group of the next step.
type combineFn struct {
	Parts, Run string // as in scoreFn
	Starts     []int  // number of the first shard of each group
}

// ProcessElement combines the parts of a group.
func (c *combineFn) ProcessElement(ctx context.Context, group int, _ func(*string) bool, emit func(int, string)) error {
	if err := c.combine(ctx, group); err != nil && !errors.Is(err, errReplaced) {
		if ctx.Err() != nil {
			return err
		}
		log.Errorf(ctx, "parts are not combined: %v", err) // the program that started the audit reads them as they are
	}
	emit(group/fanIn, "")
	return nil
}

func (c *combineFn) combine(ctx context.Context, group int) error {
	s := newStorage()
	current, scored, err := s.progress(ctx, c.Parts, c.Run)
	if err == nil && !current {
		err = errReplaced
	}
	if err == nil && !scored {
		err = s.put(ctx, c.Parts, scoredFile, bytes.NewBufferString(c.Run))
	}
	if err != nil {
		return err
	}
	first, last, prefix := engine.Place{}, engine.Place{Shard: math.MaxInt}, ""
	if group > 0 { // the first group also has parts of an earlier run
		first.Shard = c.Starts[group]
	}
	if group+1 < len(c.Starts) {
		last.Shard = c.Starts[group+1]
		prefix = commonPrefix(first.Shard, last.Shard)
	}
	paths, release, err := s.localFiles(ctx, c.Parts, prefix, func(name string) bool { return engine.StartsBetween(name, first, last) })
	if err != nil {
		return err
	}
	defer release()
	return engine.CombineParts(ctx, paths, func(name string, part io.WriterTo) error {
		if err := s.checkCurrent(ctx, c.Parts, c.Run); err != nil {
			return err
		}
		return s.put(ctx, c.Parts, name, part)
	}, func(names []string) error { return s.removeNamed(ctx, c.Parts, names) })
}
