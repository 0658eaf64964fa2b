package audit

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
)

// Workers are machines that run the tasks of a merge. They share its files.
type Workers interface {
	Files
	// Run runs a round with a number of partitions and bins. The task Match must run for each bin,
	// and Gather for each partition, even if they got no records. If there are no bins,
	// only the task Results of each partition runs. All tasks use OpenMerge with this prefix.
	Run(ctx context.Context, prefix string, r Round, partitions, bins int) error
	// Suit reports whether the workers are to merge this number of partitions.
	Suit(partitions int) bool
	// Shared reports whether Output.Dir is the folder of these files. If it is a copy, the caller
	// puts the tables that workers write in place.
	Shared() bool
	// Fetch completes the copy. Until then, it may lack the rows of files of scores.
	Fetch(ctx context.Context) error
}

// StagedFolder returns the name of the folder in which workers write a table of the results.
func StagedFolder(table string) string { return temporaryFolder(table, "new") }

// resultRound is the round in which results are written.
const resultRound = "results"

// mergePlan describes a merge to other machines.
type mergePlan struct {
	Header json.RawMessage // of the first file of scores
	Files  []plannedFile
	Size   int
	Bins   int
}

// plannedFile is a File. Names are those of Files.
type plannedFile struct {
	Name   string
	Ranges []Range
	Names  []string `json:",omitempty"` // of the files of a folder
	Ends   []int    `json:",omitempty"`
}

// share writes a value that the tasks of later rounds read, if these run on other machines.
func (m *Merge) share(ctx context.Context, kind string, value any) error {
	if m.prefix == "" {
		return nil
	}
	return m.put(ctx, m.prefix+kind, value)
}

// Kinds of files that all tasks of a round read.
const (
	planFile    = "plan"
	shapesFile  = "shapes"  // sketchShapes of the set
	nearFile    = "near"    // nearRows
	summaryFile = "summary" // copySummary
	tallyFile   = "tally"   // tallyState of a partition
)

// plan writes the plan of the merge. The names of files are relative to the folder dir.
func (m *Merge) plan(ctx context.Context, header []byte, files []*File, dir string) error {
	p := mergePlan{Header: header, Size: m.size, Bins: m.bins}
	name := func(path string) (string, error) {
		name, err := filepath.Rel(dir, path)
		return filepath.ToSlash(name), err
	}
	for _, f := range files {
		to := plannedFile{Ranges: f.Ranges, Ends: f.ends}
		var err error
		if to.Name, err = name(f.path); err != nil {
			return err
		}
		for _, path := range f.paths {
			part, err := name(path)
			if err != nil {
				return err
			}
			to.Names = append(to.Names, part)
		}
		p.Files = append(p.Files, to)
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return m.files.Put(ctx, m.prefix+planFile, written(encoded))
}

// there merges the rows of files on other machines. The folder dir holds the files.
func (m *Merge) there(ctx context.Context, workers Workers, header []byte, files []*File, dir string) (*Audit, error) {
	m.files, m.prefix = workers, "parts/merge-"+rand.Text()+"-"
	if err := m.plan(ctx, header, files, dir); err != nil {
		return nil, err
	}
	err := m.findCopies(ctx, func(ctx context.Context, r Round) error {
		return workers.Run(ctx, m.prefix, r, len(m.partitions), m.bins)
	})
	if err == nil {
		err = workers.Run(ctx, m.prefix, Round{Name: resultRound}, len(m.partitions), 0)
	}
	if err != nil {
		return nil, err
	}
	tallies := make([]*tally, len(m.partitions))
	for i, w := range m.partitions {
		var counted tallyState
		err := m.get(ctx, m.fileName(tallyFile, i), &counted)
		if err == nil {
			tallies[i], err = w.newTally(&m.copies, nil)
		}
		if err != nil {
			return nil, err
		}
		tallies[i].restore(counted)
	}
	return mergeTallies(ctx, tallies)
}

// OpenMerge opens the merge whose files have a prefix, to run tasks of a round on another machine.
func OpenMerge(ctx context.Context, files Files, prefix string, r Round) (*Merge, error) {
	paths, release, err := files.Local(ctx, prefix+planFile)
	if err != nil {
		return nil, err
	}
	defer release()
	content, err := os.ReadFile(paths[0])
	if err != nil {
		return nil, err
	}
	var p mergePlan
	var h header
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(p.Header, &h); err != nil {
		return nil, err
	}
	var list []*File
	for _, f := range p.Files {
		list = append(list, &File{path: f.Name, Identity: h.Identity, Ranges: f.Ranges, paths: f.Names, ends: f.Ends})
	}
	w, err := newScoreSet(list)
	if err == nil {
		err = w.joinSegments()
	}
	if err == nil {
		err = w.addFile(prefix+planFile, &h, nil)
	}
	if err != nil {
		return nil, err
	}
	m := newMerge(w, p.Size, files)
	m.bins, m.prefix, m.fetched, m.header = p.Bins, prefix, true, p.Header
	switch r.Name {
	case nearRound:
		var found sketchShapes
		err = m.get(ctx, prefix+shapesFile, &found)
		m.setIndices(found.Counts)
	case flagRound:
		err = m.get(ctx, prefix+nearFile, &m.near)
	case resultRound:
		err = cmp.Or(m.get(ctx, prefix+nearFile, &m.near), m.get(ctx, prefix+summaryFile, &m.copies))
	}
	return m, err
}

// open returns a partition whose files are on this machine until release is called.
func (m *Merge) open(ctx context.Context, partition int) (w *ScoreSet, release func(), err error) {
	w = m.partitions[partition]
	if !m.fetched {
		return w, func() {}, nil
	}
	var names []string
	for _, s := range w.segments {
		names = append(names, s.file.namesOf(s.first, s.first+s.End-s.Start)...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	paths, release, err := m.files.Local(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	local := map[string]string{}
	for i, name := range names {
		local[name] = paths[i]
	}
	copies := map[*File]*File{}
	opened := *w
	opened.segments = slices.Clone(w.segments)
	for i, s := range opened.segments {
		if copies[s.file] == nil {
			f := *s.file
			f.path, f.paths = local[f.path], slices.Clone(f.paths)
			for k, name := range f.paths {
				f.paths[k] = local[name]
			}
			copies[s.file] = &f
		}
		opened.segments[i].file = copies[s.file]
	}
	return &opened, release, nil
}

// namesOf returns the paths of the files that hold rows from first up to but not including end.
func (f *File) namesOf(first, end int) (names []string) {
	for first < end {
		path, _, next := f.at(first)
		names, first = append(names, path), next
	}
	return names
}

// eachBlock reads columns of the rows of a partition.
func (m *Merge) eachBlock(ctx context.Context, partition int, columns *columns, use func(b block) error) error {
	w, release, err := m.open(ctx, partition)
	if err != nil {
		return err
	}
	defer release()
	return w.eachBlock(ctx, columns, use)
}

// Results writes the scores and the copies of a partition, and what it counted. It is the only task
// of a round of results.
func (m *Merge) Results(ctx context.Context, partition int) error {
	duplicates, err := os.CreateTemp("", "attach-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(duplicates.Name())
	defer duplicates.Close()
	sum := checksum(m.header)
	var counted *tally
	err = m.files.Put(ctx, stagedName(Scores, partition, sum), writerTo(func(to io.Writer) error {
		scores, copies := bufio.NewWriterSize(to, 1<<16), bufio.NewWriterSize(duplicates, 1<<16)
		out := tableFiles{&tableFile{newWriter(scores, m.set.columns()), nil, sum, scores}, &tableFile{newWriter(copies, duplicateColumns()), nil, sum, copies}}
		if partition == 0 {
			out.scores.header = m.header
		}
		var err error
		counted, err = m.tally(ctx, partition, &out)
		return err
	}))
	if err == nil {
		_, err = duplicates.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = m.files.Put(ctx, stagedName(Duplicates, partition, sum), duplicates)
	}
	if err != nil {
		return err
	}
	return m.put(ctx, m.fileName(tallyFile, partition), counted.state())
}

// writerTo is a WriterTo that calls itself. It does not count bytes.
type writerTo func(to io.Writer) error

// WriteTo calls the function.
func (write writerTo) WriteTo(to io.Writer) (int64, error) { return 0, write(to) }

// stagedName returns the name of a file of results before all files are in place.
func stagedName(table string, partition int, sum string) string {
	return StagedFolder(table) + "/" + setName(partition, sum)
}

// tallyState is what a tally counted, for other machines.
type tallyState struct {
	Intervals      []intervalState
	DistinctWidths []calibrate.Ranks
	FitDuplicates  int
	Highest        map[int]storedRow // of HighestScoring
	Mapped         map[int]storedRow
	MapReasons     map[int]string // MapRow.ReasonGroup
	Keys           [][]string     // of Copies.MostCopied
	Labels         []labelState
	Groups         map[groupKey]*groupCounts
	Reasons        map[string]*reasonCounts
}

type intervalState struct {
	WithTarget, Covered int
	Widths              []float64
	Widest              []storedRow
}

type labelState struct {
	Confusions map[[2]int]*Confusion
	Order      []suspicion
	Rows       []storedRow
}

// storedRow is a Row in a form that package gob keeps. It drops pointers to 0.
type storedRow struct {
	Row                     Row
	Class, Label, Suggested []int
	Confidence              []JSONFloat
	// Shown is 0, or the number of the retained row that has Row.Shown, counted from 1.
	Shown int
}

func storeRow(r Row, retained []retainedRow) storedRow {
	s := storedRow{Row: r, Class: listOf(r.Class), Label: listOf(r.Label), Suggested: listOf(r.Suggested), Confidence: listOf(r.Confidence)}
	s.Shown = 1 + slices.IndexFunc(retained, func(k retainedRow) bool { return r.Shown != nil && k.Shown == r.Shown })
	s.Row.Class, s.Row.Label, s.Row.Suggested, s.Row.Confidence, s.Row.Shown = nil, nil, nil, nil, nil
	return s
}

func (s storedRow) row(retained []retainedRow) Row {
	s.Row.Class, s.Row.Label, s.Row.Suggested, s.Row.Confidence = pointerTo(s.Class), pointerTo(s.Label), pointerTo(s.Suggested), pointerTo(s.Confidence)
	if s.Shown > 0 {
		s.Row.Shown = retained[s.Shown-1].Shown
	}
	return s.Row
}

func listOf[T any](value *T) []T {
	if value == nil {
		return nil
	}
	return []T{*value}
}

func pointerTo[T any](list []T) *T {
	if list == nil {
		return nil
	}
	return &list[0]
}

func storeRows(list []Row, retained []retainedRow) (stored []storedRow) {
	for _, r := range list {
		stored = append(stored, storeRow(r, retained))
	}
	return stored
}

func rowList(stored []storedRow, retained []retainedRow) (list []Row) {
	for _, s := range stored {
		list = append(list, s.row(retained))
	}
	return list
}

// state returns what the tally counted.
func (t *tally) state() tallyState {
	retained := &t.scores.retained
	s := tallyState{DistinctWidths: t.distinctWidths, Groups: t.groups, Reasons: t.reasonGroups, Highest: map[int]storedRow{}, Mapped: map[int]storedRow{}, MapReasons: map[int]string{}}
	for k, interval := range t.a.Intervals {
		s.Intervals = append(s.Intervals, intervalState{interval.WithTarget, interval.Covered, t.widths[k], storeRows(interval.Widest, nil)})
	}
	if t.a.FitDuplicates != nil {
		s.FitDuplicates = *t.a.FitDuplicates
	}
	for i, r := range t.a.HighestScoring {
		if r.Key != "" {
			s.Highest[i] = storeRow(r, retained.Worst)
		}
	}
	for i, r := range t.a.mapped {
		if r.Key != "" {
			s.Mapped[i], s.MapReasons[i] = storeRow(r.Row, retained.Worst), r.ReasonGroup
		}
	}
	if t.a.Copies != nil {
		for _, set := range t.a.Copies.MostCopied {
			s.Keys = append(s.Keys, set.Keys)
		}
	}
	for _, l := range t.labels {
		s.Labels = append(s.Labels, labelState{l.confusions, l.order, storeRows(l.result.MostSuspicious, retained.Labels)})
	}
	return s
}

// restore sets what another tally of the set counted.
func (t *tally) restore(s tallyState) {
	retained := &t.scores.retained
	t.distinctWidths, t.groups, t.reasonGroups = s.DistinctWidths, s.Groups, s.Reasons
	for k, from := range s.Intervals {
		interval := &t.a.Intervals[k]
		interval.WithTarget, interval.Covered, interval.Widest, t.widths[k] = from.WithTarget, from.Covered, rowList(from.Widest, nil), from.Widths
	}
	if t.a.FitDuplicates != nil {
		*t.a.FitDuplicates = s.FitDuplicates
	}
	for i, r := range s.Highest {
		t.a.HighestScoring[i] = r.row(retained.Worst)
	}
	for i, r := range s.Mapped {
		t.a.mapped[i] = MapRow{Row: r.row(retained.Worst), ReasonGroup: s.MapReasons[i]}
	}
	for i, keys := range s.Keys {
		t.a.Copies.MostCopied[i].Keys = keys
	}
	for i, from := range s.Labels {
		l := t.labels[i]
		l.order, l.result.MostSuspicious = from.Order, rowList(from.Rows, retained.Labels)
		if from.Confusions != nil {
			l.confusions = from.Confusions
		}
	}
}
