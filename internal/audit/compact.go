package audit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// compaction says which files are copied.
type compaction struct {
	few   int // number of files that are worth no copy
	small int // largest number of rows of a file that is copied
	rows  int // number of rows of a copy at which the next one begins
}

// manyFiles copies files that are opened in more time than they are copied.
func manyFiles() compaction { return compaction{few: 64, small: 1 << 12, rows: 1 << 17} }

// compact copies the rows of many small files to a few temporary files in dir, because the rows
// of a set are read many times. The files exist until remove is called.
func (w *ScoreSet) compact(ctx context.Context, dir string, c compaction) (remove func(), err error) {
	small := map[*File]bool{}
	for _, s := range w.segments {
		small[s.file] = s.file.Rows() <= c.small
	}
	if len(small) <= c.few {
		return func() {}, nil
	}
	type run struct{ start, end int } // segments that go to one file
	var runs []run
	rows := c.rows
	for i, s := range w.segments {
		if !small[s.file] {
			rows = c.rows
			continue
		}
		if rows >= c.rows {
			runs, rows = append(runs, run{start: i}), 0
		}
		runs[len(runs)-1].end = i + 1
		rows += s.End - s.Start
	}
	w.segments = slices.Clone(w.segments)
	paths := make([]string, len(runs))
	remove = func() {
		for _, path := range paths {
			os.Remove(path)
		}
	}
	err = inParallel(len(runs), func(i int) error {
		f, err := os.CreateTemp(dir, ".attach-*.tmp")
		if err != nil {
			return err
		}
		paths[i] = f.Name()
		segments := w.segments[runs[i].start:runs[i].end]
		buffered := bufio.NewWriterSize(f, 1<<16)
		out := newWriter(buffered, w.columns())
		if err := cmp.Or(w.copyRows(ctx, segments, out), out.closeRows(), buffered.Flush(), f.Close()); err != nil {
			return err
		}
		to := &File{path: f.Name(), Identity: w.Identity}
		first := 0
		for k := range segments {
			s := &segments[k]
			to.Ranges = append(to.Ranges, s.Range)
			s.file, s.first = to, first
			first += s.End - s.Start
		}
		return nil
	})
	if err != nil {
		remove()
	}
	return remove, err
}

// copyRows writes the rows of some segments.
func (w *ScoreSet) copyRows(ctx context.Context, segments []segment, out *writer) error {
	part := &ScoreSet{Identity: w.Identity, segments: segments}
	return part.eachBlock(ctx, w.columns(), func(b block) error {
		for i := range b.n {
			if err := out.copyRow(b, i, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Combine writes the rows of several parts of an audit as one part. The parts need not have all
// rows of a shard. A merge of the combined part has the same results as a merge of its parts.
func Combine(ctx context.Context, parts []*File, to io.Writer) error {
	w, err := newScoreSet(parts)
	if err == nil {
		err = w.addFiles(parts, nil)
	}
	if err != nil {
		return err
	}
	for i, s := range w.segments {
		last := len(w.Shards) - 1
		switch {
		case last < 0 || w.Shards[last].Shard != s.Shard || w.Shards[last].End < s.Start:
			w.Shards = append(w.Shards, s.Range)
		case w.Shards[last].End > s.Start:
			return fmt.Errorf("%s and %s both have rows of %s", w.segments[i-1].file.path, s.file.path, s.Shard)
		default:
			w.Shards[last].End = s.End
			w.Shards[last].Digest += s.Digest
		}
	}
	header, err := json.Marshal(w.header())
	if err != nil {
		return err
	}
	out := newWriter(to, w.columns())
	return cmp.Or(w.copyRows(ctx, w.segments, out), out.close(header, checksum(header)))
}

// copyRow writes row i of a block. The functions in discovered replace the flags of the columns
// that they are named after.
func (w *writer) copyRow(b block, i int, discovered map[string]func(i int) bool) error {
	for j, c := range b.cells {
		switch b.nodes[j].Type().Kind() {
		case parquet.Boolean:
			found := discovered[b.names[j]]
			w.add(parquet.BooleanValue(found != nil && found(i)))
		case parquet.ByteArray:
			w.add(parquet.ByteArrayValue(c.Bytes[i]))
		case parquet.Int64:
			w.addInteger(int(c.Numbers[i]))
		default:
			w.addNumber(c.Numbers[i])
		}
	}
	return w.endRow()
}
