package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	pq "github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/schema"
)

// segment is a range of rows of a shard that is stored in a file.
type segment struct {
	Range
	file  *File
	first int // row of the file at which the range begins
	shard int // index in ScoreSet.Shards
}

// segments returns the ranges of a file, in the order of its rows.
func (f *File) segments() (list []segment) {
	first := 0
	for _, r := range f.Ranges {
		list = append(list, segment{Range: r, file: f, first: first})
		first += r.End - r.Start
	}
	return list
}

// Rows returns the number of rows of a file.
func (f *File) Rows() (n int) {
	for _, r := range f.Ranges {
		n += r.End - r.Start
	}
	return n
}

// ScoreSet is a set of files of scores that together hold all audited rows of their shards.
type ScoreSet struct {
	Identity
	Shards   []Range // one range per shard, with all audited rows of the shard
	segments []segment
	firstRow int // number of the first row of segments, which is not 0 in a partition
	ranks    calibrate.Ranks
	widths   []calibrate.Ranks
	labels   []calibrate.Ranks
	profile  *schema.Profile // nil unless Identity.Profiled is set
	counts   *schema.Counts
	retained retainedRows
	used     usedCounts
}

// Join joins files of scores. It returns an error if the files differ in identity, in the
// number of features, or in the columns of their profiles. It also returns an error if rows of
// a shard are missing or occur twice, if a shard changed between two audits, or if a header
// cannot be read again.
func Join(files []*File) (*ScoreSet, error) {
	w, err := newScoreSet(files)
	if err != nil {
		return nil, err
	}
	if err := w.joinSegments(); err != nil {
		return nil, err
	}
	digests := map[string]uint64{} // digest of each shard by name
	for _, s := range w.Shards {
		digests[s.Shard] = s.Digest
	}
	if err := w.addFiles(files, digests); err != nil {
		return nil, err
	}
	return w, nil
}

// newScoreSet returns the sorted segments of files with equal identities.
func newScoreSet(files []*File) (*ScoreSet, error) {
	w := &ScoreSet{Identity: files[0].Identity}
	w.ranks = calibrate.NewRanks(w.Calibration)
	for range w.Targets {
		w.widths = append(w.widths, calibrate.NewRanks(w.widthRows()))
	}
	w.labels = w.newLabelRanks()
	for _, f := range files {
		if d := w.Differs(f.Identity); d != nil {
			return nil, &MergeError{files[0].path, f.path, *d}
		}
		w.segments = append(w.segments, f.segments()...)
	}
	slices.SortStableFunc(w.segments, func(a, b segment) int { return byStart(a.Range, b.Range) })
	return w, nil
}

// addFiles adds the counts in the headers of files to the set.
func (w *ScoreSet) addFiles(files []*File, digests map[string]uint64) error {
	var adding sync.Mutex // the order of the files does not matter
	return inParallel(len(files), func(i int) error {
		h, err := files[i].readHeader()
		if err != nil {
			return err
		}
		adding.Lock()
		defer adding.Unlock()
		return w.addFile(files[i].path, h, digests)
	})
}

// SharedNames returns each name that several shards have.
func (w *ScoreSet) SharedNames() (names []string) {
	for i, s := range w.Shards[1:] {
		if s.Shard == w.Shards[i].Shard {
			names = append(names, s.Shard)
		}
	}
	return slices.Compact(names)
}

// joinSegments joins the sorted segments into shards. It returns an error if segments
// overlap, leave a gap, or give different numbers of rows for the same shard.
func (w *ScoreSet) joinSegments() error {
	for i, s := range w.segments {
		last := len(w.Shards) - 1
		var previous Range
		if last >= 0 && w.Shards[last].Shard == s.Shard {
			previous = w.Shards[last]
		}
		// Different files may have the same name if they come from different machines.
		sameName := previous.complete() && s.complete() && previous.Digest != s.Digest
		switch {
		case previous.Audited == 0 || sameName:
			if last >= 0 && w.Shards[last].End < w.Shards[last].Audited {
				return fmt.Errorf("rows of %s are missing from row %d on; audit it again", w.Shards[last].Shard, w.Shards[last].End)
			}
			if s.Start > 0 {
				return fmt.Errorf("rows of %s are missing before row %d; audit it again", s.Shard, s.Start)
			}
			w.Shards = append(w.Shards, s.Range)
		case previous.Audited != s.Audited || previous.Rows != s.Rows:
			return fmt.Errorf("%s and %s have %d and %d rows of %s: the file changed between the audits", w.segments[i-1].file.path, s.file.path, previous.Rows, s.Rows, s.Shard)
		case s.Start < previous.End:
			return fmt.Errorf("%s and %s both have rows of %s; audit each input once", w.segments[i-1].file.path, s.file.path, s.Shard)
		case s.Start > previous.End:
			return fmt.Errorf("rows of %s are missing before row %d; audit it again", s.Shard, s.Start)
		default:
			w.Shards[last].End = s.End
			w.Shards[last].Digest += s.Digest
		}
		w.segments[i].shard = len(w.Shards) - 1
	}
	if last := w.Shards[len(w.Shards)-1]; last.End < last.Audited {
		return fmt.Errorf("rows of %s are missing from row %d on; audit it again", last.Shard, last.End)
	}
	return nil
}

// addFile adds the counts in the header of a file to the set. Retained rows of parts have no
// shard digest yet. They get it from digests by the name of their shard. This is safe
// because only finished audits can have several shards with one name.
func (w *ScoreSet) addFile(path string, h *header, digests map[string]uint64) error {
	if oldWidth, newWidth := w.retained.width(), h.Retained.width(); oldWidth >= 0 && newWidth >= 0 && oldWidth != newWidth {
		return fmt.Errorf("%s: it has %d features, and other files have %d", path, newWidth, oldWidth)
	}
	for _, list := range [][]retainedRow{h.Retained.Worst, h.Retained.Labels, h.Retained.Sample} {
		for i, r := range list {
			list[i].Digest = cmp.Or(r.Digest, digests[r.Shard])
		}
	}
	w.retained.merge(h.Retained)
	if w.Profiled {
		if w.profile == nil {
			w.profile, w.counts = h.Profile, h.Profile.NewCounts()
		}
		if err := h.Counts.Check(w.profile); err != nil {
			return fmt.Errorf("%s: it has other columns than other files: %w", path, err)
		}
		w.counts.Merge(h.Counts)
	}
	w.used.merge(h.Used)
	h.Ranks.addTo(w.ranks)
	for k, r := range h.Widths {
		r.addTo(w.widths[k])
	}
	for k, r := range h.Labels {
		r.addTo(w.labels[k])
	}
	return nil
}

// blockRows is the largest number of rows that are read at a time.
const blockRows = 1 << 10

// block holds n consecutive rows of a shard. Cells are stored by column.
type block struct {
	*columns
	cells []pq.Values
	shard int // index in ScoreSet.Shards
	name  string
	start int
	row   int // number of the first row among those of all shards
	n     int
}

func (b block) numbers(column string) []float64 { return b.cells[b.index[column]].Numbers }

func (b block) texts(column string) [][]byte { return b.cells[b.index[column]].Bytes }

// eachBlock reads the given columns of all rows. It calls the function use for one block after
// another, in the order of the rows.
func (w *ScoreSet) eachBlock(ctx context.Context, columns *columns, use func(b block) error) error {
	open := map[*File]*openFile{}
	defer func() {
		for _, o := range open {
			o.Close()
		}
	}()
	unread := map[*File]int{} // number of segments of each file that are still to be read
	number := w.firstRow
	for _, s := range w.segments {
		unread[s.file]++
	}
	for _, s := range w.segments {
		for at := s.Start; at < s.End; {
			row := s.first + at - s.Start
			o := open[s.file]
			if o == nil || row < o.start || row >= o.end { // a folder has several files
				if o != nil {
					o.Close()
					delete(open, s.file)
				}
				var err error
				if o, err = s.file.open(row, columns); err != nil {
					return err
				}
				open[s.file] = o
			}
			n := min(blockRows, s.End-at, o.end-row)
			cells, err := o.Read(ctx, row-o.start, n)
			if err != nil {
				return err
			}
			if err := use(block{columns, cells, s.shard, s.Shard, at, number, n}); err != nil {
				return err
			}
			at += n
			number += n
		}
		if unread[s.file]--; unread[s.file] == 0 {
			open[s.file].Close()
			delete(open, s.file)
		}
	}
	return nil
}

// openFile reads the rows from start to end of a File.
type openFile struct {
	*pq.Cursor
	start, end int
}

// open opens the file with a row of f.
func (f *File) open(row int, columns *columns) (*openFile, error) {
	path, start, end := f.at(row)
	c, err := pq.OpenCursor(path, end-start, len(f.columns().names), columns.fileColumns...)
	return &openFile{c, start, end}, err
}

// Results returns the results of the set, and writes no scores. It creates temporary files in
// dir.
func (w *ScoreSet) Results(ctx context.Context, dir string) (*Audit, error) {
	m := newMerge(w, fileRows, dirFiles(dir))
	if err := m.findCopies(ctx, m.runHere(dir)); err != nil {
		return nil, err
	}
	return m.results(ctx, nil)
}

// header returns the header of a file with all rows of the set.
func (w *ScoreSet) header() header {
	h := header{Identity: w.Identity, Ranges: w.Shards, Ranks: newSparseRanks(w.ranks), Profile: w.profile, Counts: w.counts, Retained: w.retained, Used: w.used}
	for _, r := range w.widths {
		h.Widths = append(h.Widths, newSparseRanks(r))
	}
	for _, r := range w.labels {
		h.Labels = append(h.Labels, newSparseRanks(r))
	}
	return h
}

// Scores is the name of the file of scores of a finished audit, or of a folder of such files.
// OpenFile reads both. Duplicates is the name of the file or folder of copies.
const (
	Scores     = "scores.parquet"
	Duplicates = "duplicates.parquet"
)

// Output says what Finish writes, and where.
type Output struct {
	// Dir is the folder of the results. It is created if necessary.
	Dir string
	// Look reads rows again. If it is not nil, the report shows those with the highest scores.
	Look *Look
	// Page writes report.html. Note is the content of run.json.
	Page func(w io.Writer, a *Audit) error
	Note any
	// Workers merge the rows if they suit the number of partitions, unless it is nil.
	Workers Workers
	// FileRows is the largest number of rows of a partition, and so of a file of scores. More
	// rows are written to a folder of files, and so are their copies. The default is 8,388,608.
	FileRows int
}

// Finish joins files of scores. It writes Scores, Duplicates, audit.json, report.html and
// run.json. Earlier results in the folder stay until all files are on disk, so files may include
// the earlier Scores.
func Finish(ctx context.Context, files []*File, to Output) (a *Audit, err error) {
	joined, err := Join(files)
	if err != nil {
		return nil, err
	}
	if to.Look != nil {
		if err := joined.showRetained(ctx, to.Look); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(to.Dir, 0o777); err != nil {
		return nil, err
	}
	header, err := json.Marshal(joined.header())
	if err != nil {
		return nil, err
	}
	m := newMerge(joined, cmp.Or(to.FileRows, fileRows), nil)
	tableOf := func(name string, columns *columns) *table {
		return &table{ctx: ctx, path: filepath.Join(to.Dir, name), columns: columns, sum: checksum(header), files: make([]*atomicfile.File, len(m.partitions))}
	}
	scores, duplicates := tableOf(Scores, joined.columns()), tableOf(Duplicates, duplicateColumns())
	scores.header = header
	defer scores.abort()
	defer duplicates.abort()
	written := []*table{scores, duplicates}
	switch {
	case to.Workers == nil:
		a, err = m.here(ctx, to.Dir, &tables{scores, duplicates})
	case !to.Workers.Suit(len(m.partitions)):
		if err = to.Workers.Fetch(ctx); err == nil {
			a, err = m.here(ctx, to.Dir, &tables{scores, duplicates})
		}
	default:
		if a, err = m.there(ctx, to.Workers, header, files, to.Dir); !to.Workers.Shared() {
			written = nil
		}
	}
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	var others []*atomicfile.File
	for _, result := range []struct {
		name  string
		write func(w io.Writer) error
	}{
		{"audit.json", func(w io.Writer) error { return WriteJSON(w, a.bounded()) }},
		{"report.html", func(w io.Writer) error { return to.Page(w, a) }},
		{"run.json", func(w io.Writer) error { return WriteJSON(w, to.Note) }},
	} {
		f, err := atomicfile.Prepare(ctx, filepath.Join(to.Dir, result.name), result.write)
		if err != nil {
			return nil, err
		}
		defer f.Abort()
		others = append(others, f)
	}
	if err := commitTables(written, others...); err != nil {
		return nil, interrupted(ctx, err)
	}
	return a, nil
}

// here merges the rows on this machine.
func (m *Merge) here(ctx context.Context, dir string, to *tables) (*Audit, error) {
	remove, err := m.set.compact(ctx, dir, manyFiles())
	if err != nil {
		return nil, err
	}
	defer remove()
	m.partitions = m.set.partitions(m.size)
	temporary, err := os.MkdirTemp(dir, ".attach-*.tmp")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	m.files = dirFiles(temporary)
	if err := m.findCopies(ctx, m.runHere(temporary)); err != nil {
		return nil, err
	}
	return m.results(ctx, to)
}

// interrupted returns the reason why ctx ended, or err if it has not.
func interrupted(ctx context.Context, err error) error { return cmp.Or(context.Cause(ctx), err) }

// Look reads audited rows again, to show them in the report.
type Look struct {
	// Rows returns what the report shows of some rows of a shard, or nil if the shard cannot
	// be read. It also gets the features of the rows. If explain is true, it attributes their
	// scores.
	Rows func(ctx context.Context, shard string, rows []int, features blas32.General, explain bool) ([]Shown, error)
	// Explains reports whether Rows can attribute scores. Total is the number of rows whose
	// scores it attributes in all calls together. It is set before the first call.
	Explains bool
	Total    int
}

// showRetained sets what the report shows of the rows with the highest scores, and of those with
// the most suspicious labels. It leaves out rows for which an earlier audit has set it.
func (w *ScoreSet) showRetained(ctx context.Context, look *Look) error {
	for _, r := range w.retained.Worst {
		if look.Explains && (r.Shown == nil || r.Shown.Explained == nil) {
			look.Total++
		}
	}
	if err := w.show(ctx, look, w.retained.Worst, look.Explains); err != nil {
		return err
	}
	return w.show(ctx, look, w.retained.Labels, false)
}

// show sets what the report shows of the rows in a list.
func (w *ScoreSet) show(ctx context.Context, look *Look, list []retainedRow, explain bool) error {
	places := map[string][]int{} // indices in the list, by shard
	for i, r := range list {
		if r.Shown == nil || explain && r.Shown.Explained == nil {
			places[r.Shard] = append(places[r.Shard], i)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(places)) {
		var at []int
		var some []retainedRow
		for _, i := range places[shard] {
			at, some = append(at, list[i].At), append(some, list[i])
		}
		shown, err := look.Rows(ctx, shard, at, features(some), explain)
		if err != nil {
			return err
		}
		for k, i := range places[shard][:min(len(shown), len(at))] {
			list[i].Shown = &shown[k]
		}
	}
	return nil
}

// WriteJSON writes v as indented JSON. It is used for audit.json and run.json.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
