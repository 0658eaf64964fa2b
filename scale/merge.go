package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/attach-uncertainty/attach/internal/audit"
)

// registerMergeTypes registers the DoFns of merges with Beam by name.
func registerMergeTypes() {
	register.DoFn3x1[context.Context, int, func(int, []byte), error](&scatterFn{})
	register.DoFn4x1[context.Context, int, func(*[]byte) bool, func(int, []byte), error](&matchFn{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&gatherFn{})
	register.DoFn2x1[context.Context, int, error](&resultsFn{})
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// mergeTask is a task of a merge: see audit.Merge. Tasks can be repeated, because they write the
// same files again.
type mergeTask struct {
	Folder           string // folder or URL of the results
	Prefix           string
	Round            audit.Round
	Partitions, Bins int
}

// scatterFn, matchFn, gatherFn and resultsFn run the tasks of a round.
type (
	scatterFn struct{ mergeTask }
	matchFn   struct{ mergeTask }
	gatherFn  struct{ mergeTask }
	resultsFn struct{ mergeTask }
)

// ProcessElement sends the records of a partition to bins.
func (f *scatterFn) ProcessElement(ctx context.Context, partition int, emit func(int, []byte)) error {
	return f.run(ctx, func(m *audit.Merge) error {
		out := chunks{emit: emit}
		if partition == 0 {
			out.begin(f.Bins)
		}
		err := m.Scatter(ctx, f.Round, partition, out.send)
		out.flush()
		return err
	})
}

// ProcessElement compares the records of a bin.
func (f *matchFn) ProcessElement(ctx context.Context, bin int, records func(*[]byte) bool, emit func(int, []byte)) error {
	return f.run(ctx, func(m *audit.Merge) error {
		out := chunks{emit: emit}
		if bin == 0 {
			out.begin(f.Partitions)
		}
		size, _ := m.RecordSizes(f.Round)
		all, remove, err := audit.Spool(next(records), size)
		defer remove()
		if err == nil {
			err = m.Match(ctx, f.Round, bin, all, out.send)
		}
		out.flush()
		return err
	})
}

// ProcessElement writes what was found for a partition.
func (f *gatherFn) ProcessElement(ctx context.Context, partition int, records func(*[]byte) bool) error {
	return f.run(ctx, func(m *audit.Merge) error {
		_, size := m.RecordSizes(f.Round)
		all, remove, err := audit.Spool(next(records), size)
		defer remove()
		if err != nil {
			return err
		}
		return m.Gather(ctx, f.Round, partition, all)
	})
}

// ProcessElement writes the results of a partition.
func (f *resultsFn) ProcessElement(ctx context.Context, partition int) error {
	return f.run(ctx, func(m *audit.Merge) error { return m.Results(ctx, partition) })
}

// next returns a function that returns one chunk after another, and false after the last one.
func next(chunks func(*[]byte) bool) func() (chunk []byte, ok bool) {
	return func() (chunk []byte, ok bool) {
		ok = chunks(&chunk)
		return chunk, ok
	}
}

// chunkBytes is the number of bytes of records that are sent at a time.
const chunkBytes = 1 << 16

// chunks collects records and emits many of them at once.
type chunks struct {
	emit func(int, []byte)
	open map[int][]byte
}

// begin emits a chunk without records to each of n tasks, so that all of them run.
func (c *chunks) begin(n int) {
	for i := range n {
		c.emit(i, []byte{})
	}
}

// send adds a record to a chunk. It never fails.
func (c *chunks) send(to int, record []byte) error {
	if c.open == nil {
		c.open = map[int][]byte{}
	}
	if c.open[to] = append(c.open[to], record...); len(c.open[to]) >= chunkBytes {
		c.emit(to, c.open[to])
		delete(c.open, to)
	}
	return nil
}

// flush emits the remaining records.
func (c *chunks) flush() {
	for to, records := range c.open {
		c.emit(to, records)
	}
}

// openMerge is a merge that the tasks of a round in this process share.
type openMerge struct {
	once  sync.Once
	merge *audit.Merge
	err   error
}

var (
	mergesMu sync.Mutex
	merges   = map[string]*openMerge{} // the current round; tests have several
)

// run opens the merge and runs a task. It records the reason if the task fails, because a runner
// wraps errors in many lines of its own.
func (t *mergeTask) run(ctx context.Context, task func(*audit.Merge) error) error {
	files := sharedFolder{newStorage(), t.Folder}
	key := fmt.Sprint(t.Folder, t.Prefix, t.Round)
	mergesMu.Lock()
	open := merges[key]
	if open == nil {
		open = &openMerge{}
		clear(merges)
		merges[key] = open
	}
	mergesMu.Unlock()
	open.once.Do(func() { open.merge, open.err = audit.OpenMerge(context.WithoutCancel(ctx), files, t.Prefix, t.Round) })
	err := open.err
	if err == nil {
		err = task(open.merge)
	} else { // the runner repeats the task, and storage may answer then
		mergesMu.Lock()
		delete(merges, key)
		mergesMu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		files.Put(ctx, t.Prefix+failedFile, bytes.NewBufferString(err.Error()))
	}
	return err
}

// failedFile is the name of a file with the reason why a merge failed.
const failedFile = "failed"

// sharedFolder holds the files of a merge in the folder of its results, which may be a URL. It
// implements audit.Files.
type sharedFolder struct {
	*storage
	folder string
}

// place returns the folder and the base of the name of a file.
func (f sharedFolder) place(name string) (folder, base string) {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	switch {
	case dir == "":
		return f.folder, base
	case strings.Contains(f.folder, "://"):
		return joinURL(f.folder, dir), base
	}
	return filepath.Join(f.folder, filepath.FromSlash(dir)), base
}

// Put writes a file.
func (f sharedFolder) Put(ctx context.Context, name string, content io.WriterTo) error {
	folder, base := f.place(name)
	if !strings.Contains(folder, "://") {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	return f.put(ctx, folder, base, content)
}

// Local returns the paths of files on this machine.
func (f sharedFolder) Local(ctx context.Context, names ...string) (paths []string, release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	for _, name := range names {
		folder, base := f.place(name)
		found, done, err := f.localFiles(ctx, folder, base, func(other string) bool { return other == base })
		if err == nil {
			releases = append(releases, done)
		}
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s/%s: %w", folder, base, os.ErrNotExist)
		}
		if err != nil {
			release()
			return nil, nil, err
		}
		paths = append(paths, found[0])
	}
	return paths, release, nil
}

// mergeWorkers are the workers of a pipeline. They implement audit.Workers.
type mergeWorkers struct {
	sharedFolder
	pipeline *pipeline
}

// Suit reports whether workers are to merge partitions. One partition takes less time than the start
// of a job. Prism in this process would keep all records in memory.
func (w mergeWorkers) Suit(partitions int) bool { return partitions > 1 && !w.pipeline.alone }

// Shared reports whether the folder of results is not a URL.
func (w mergeWorkers) Shared() bool { return w.pipeline.cloud == "" }

// Fetch copies the parts that have only a header on this machine.
func (w mergeWorkers) Fetch(ctx context.Context) error {
	for _, path := range w.pipeline.partial {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if len(w.pipeline.partial) == 0 {
		return nil
	}
	return w.get(ctx, joinURL(w.folder, "parts"), "", isPart, filepath.Dir(w.pipeline.partial[0]))
}

// Run runs a round as a job.
func (w mergeWorkers) Run(ctx context.Context, prefix string, r audit.Round, partitions, bins int) error {
	t := mergeTask{w.folder, prefix, r, partitions, bins}
	all := make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	if bins == 0 && !w.Shared() { // a killed run may have left files of other results
		for _, table := range []string{audit.Scores, audit.Duplicates} {
			if err := w.removeFolder(ctx, joinURL(w.folder, audit.StagedFolder(table)), isTableFile); err != nil {
				return err
			}
		}
	}
	p, s := beam.NewPipelineWithRoot()
	elements := beam.Reshuffle(s, beam.CreateList(s, all))
	if bins == 0 {
		beam.ParDo0(s, &resultsFn{t}, elements)
	} else {
		toBins := beam.ParDo(s, &scatterFn{t}, elements)
		toPartitions := beam.ParDo(s, &matchFn{t}, beam.GroupByKey(s, toBins))
		beam.ParDo0(s, &gatherFn{t}, beam.GroupByKey(s, toPartitions))
	}
	begun := time.Now()
	_, err := beamx.RunWithMetrics(ctx, p)
	if err == nil {
		w.pipeline.merged = bins == 0
		fmt.Fprintf(w.pipeline.log, "workers merged %d partitions, round %s, in %.1f s\n", partitions, r.Name, time.Since(begun).Seconds())
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if paths, release, reasonErr := w.Local(ctx, prefix+failedFile); reasonErr == nil {
		defer release()
		if reason, readErr := os.ReadFile(paths[0]); readErr == nil {
			return fmt.Errorf("merging failed: %s", reason)
		}
	}
	return fmt.Errorf("the Beam runner failed: %w", err)
}
