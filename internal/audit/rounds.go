package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Round is a step of a merge. Its tasks do not depend on each other, so several machines can run
// them, and repeat them. The task Scatter of each partition of the rows sends records to bins.
// The task Match of each bin compares the records that it got, and sends records about rows to
// their partitions. The task Gather of each partition writes these to files.
type Round struct {
	Name string
	Band int // of a round of near copies: see sketchIndex
}

// Names of rounds, and of the files that they write. Files of rounds have sorted records about rows.
const (
	exactRound = "exact"
	nearRound  = "near"
	flagRound  = "flags"
	sketchFile = "sketches" // sketchShapes of a partition
	pairFile   = "pairs"    // filePairs of a partition
	binFile    = "bin"      // binCopies of a bin
)

// RecordSizes returns the bytes of a record that is sent to a bin, and of one that is sent to a
// partition.
func (m *Merge) RecordSizes(r Round) (toBin, toPartition int) {
	switch r.Name {
	case exactRound:
		return hashRecordSize, markRecordSize
	case nearRound:
		return bucketRecordSize, edgeRecordSize
	}
	return memberRecordSize + 8*m.set.labelLists(), flagRecordSize
}

// Merge finds the copies among the rows of a set, and its results, in rounds.
type Merge struct {
	set        *ScoreSet
	partitions []*ScoreSet
	size       int // number of rows of each partition but the last
	bins       int
	files      Files
	prefix     string // of the names of files that rounds write; empty if all tasks run here
	fetched    bool   // whether the files of rows have names of files, and not paths
	header     []byte // of the first file of scores

	indices map[[2]byte]sketchIndex // by kind and size of sketches; set after exactRound
	near    []nearRow               // in the order of their rows; set after the rounds of near copies
	copies  copySummary             // set by findCopies
}

const (
	// minBins is the smallest number of bins. There are many, because the rows of one bin must fit
	// into memory.
	minBins = 128
	// binRows is the largest number of rows of a bin, on average.
	binRows = 1 << 21
)

func newMerge(w *ScoreSet, partitionRows int, files Files) *Merge {
	n := w.ranks.Rows()
	return &Merge{set: w, partitions: w.partitions(partitionRows), size: partitionRows, bins: max(minBins, n/binRows), files: files}
}

// Scatter runs the first task of a partition in a round. It calls the function send with the index
// of a bin and a record.
func (m *Merge) Scatter(ctx context.Context, r Round, partition int, send func(bin int, record []byte) error) error {
	switch r.Name {
	case exactRound:
		return m.scatterHashes(ctx, partition, send)
	case nearRound:
		return m.scatterSketches(ctx, r.Band, partition, send)
	}
	return m.scatterCopies(ctx, partition, send)
}

// Match runs the task of a bin in a round, with all records that were sent to it. It calls the
// function send with the index of a partition and a record.
func (m *Merge) Match(ctx context.Context, r Round, bin int, records Records, send func(partition int, record []byte) error) error {
	toRow := func(record []byte) error { return send(int(binary.BigEndian.Uint64(record))/m.size, record) }
	switch r.Name {
	case exactRound:
		return matchHashes(records, toRow)
	case nearRound:
		list, err := records.sort(bucketRecordSize)
		if err != nil {
			return err
		}
		return compareBuckets(list, m.indices, toRow)
	}
	return m.matchCopies(ctx, bin, records, toRow)
}

// Gather runs the last task of a partition in a round, with all records that were sent to it.
func (m *Merge) Gather(ctx context.Context, r Round, partition int, records Records) error {
	_, toPartition := m.RecordSizes(r)
	name := r.Name
	if r.Name == nearRound {
		name = nearBand(r.Band)
	}
	list, err := records.sort(toPartition)
	if err == nil {
		err = m.files.Put(ctx, m.fileName(name, partition), list)
	}
	if err != nil || r.Name != exactRound {
		return err
	}
	return m.countSketches(ctx, partition, len(list) > 0)
}

// runHere returns a function that runs a round on this machine. It writes temporary files to dir.
func (m *Merge) runHere(dir string) func(ctx context.Context, r Round) error {
	return func(ctx context.Context, r Round) error {
		toBin, toPartition := m.RecordSizes(r)
		bins, partitions := &spill{dir: dir, size: toBin}, &spill{dir: dir, size: toPartition}
		defer bins.close()
		defer partitions.close()
		err := inParallel(len(m.partitions), func(i int) error { return m.Scatter(ctx, r, i, bins.add) })
		if err != nil {
			return err
		}
		err = inParallel(m.bins, func(i int) error {
			return m.Match(ctx, r, i, bins.records(i), partitions.add)
		})
		if err != nil {
			return err
		}
		return inParallel(len(m.partitions), func(i int) error {
			return m.Gather(ctx, r, i, partitions.records(i))
		})
	}
}

// fileName returns the name of a file that belongs to a partition or to a bin.
func (m *Merge) fileName(kind string, index int) string {
	return fmt.Sprintf("%s%s-%05d", m.prefix, kind, index)
}

// put writes a value to a file.
func (m *Merge) put(ctx context.Context, name string, value any) error {
	var content bytes.Buffer
	if err := gob.NewEncoder(&content).Encode(value); err != nil {
		panic(err) // these types can be encoded
	}
	return m.files.Put(ctx, name, &content)
}

// get reads a value from a file.
func (m *Merge) get(ctx context.Context, name string, value any) error {
	paths, release, err := m.files.Local(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	f, err := os.Open(paths[0])
	if err != nil {
		return err
	}
	defer f.Close()
	if err := gob.NewDecoder(f).Decode(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// dirFiles holds the files of a merge in a folder of this machine.
type dirFiles string

// Put writes a file.
func (d dirFiles) Put(_ context.Context, name string, content io.WriterTo) error {
	f, err := os.Create(filepath.Join(string(d), name))
	if err != nil {
		return err
	}
	_, err = content.WriteTo(f)
	return cmp.Or(err, f.Close())
}

// Local returns the paths of files.
func (d dirFiles) Local(_ context.Context, names ...string) (paths []string, release func(), err error) {
	for _, name := range names {
		paths = append(paths, filepath.Join(string(d), name))
	}
	return paths, func() {}, nil
}
