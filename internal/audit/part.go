package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	pq "github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/schema"
)

const (
	// headerKey is the metadata key of the header of a file of scores, and sumKey that of
	// the header's checksum. Rows need no checksum here, because Parquet pages have one.
	headerKey = "attach.audit"
	sumKey    = "attach.audit.crc32"
)

func checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }

// header is the header of a file of scores. It counts the rows of the file.
type header struct {
	Identity
	// Ranges are in the order of the rows.
	Ranges []Range `json:"ranges"`
	// Ranks holds the ranks of the OOD scores. Widths holds the ranks of the interval
	// widths, with one element per target.
	Ranks  sparseRanks   `json:"ranks"`
	Widths []sparseRanks `json:"widths,omitempty"`
	// Labels holds the ranks of the given labels, for each part of Identity.LabelRows.
	Labels []sparseRanks `json:"labels,omitempty"`
	// Profile describes the columns of the fit rows, and Counts the columns of the rows of the
	// file. Both are nil unless Identity.Profiled is set.
	Profile *schema.Profile `json:"profile,omitempty"`
	Counts  *schema.Counts  `json:"counts,omitempty"`
	// Retained holds rows with their features.
	Retained retainedRows `json:"kept"`
	// Used counts the rows that the .attach file was fitted or calibrated on.
	Used usedCounts `json:"used,omitzero"`
}

// sparseRanks counts rows by rank. Each pair is a rank, counted from 0, and the number of
// rows with this rank.
type sparseRanks [][2]int

func newSparseRanks(r calibrate.Ranks) sparseRanks {
	s := sparseRanks{}
	for k, count := range r {
		if count > 0 {
			s = append(s, [2]int{k, count})
		}
	}
	return s
}

// addTo adds the counts to r.
func (s sparseRanks) addTo(r calibrate.Ranks) {
	for _, pair := range s {
		r[pair[0]] += pair[1]
	}
}

// valid reports whether the pairs count exactly the given number of rows, with ranks among
// n calibration rows.
func (s sparseRanks) valid(rows, n int) bool {
	left, ok := s.uncounted(rows, n)
	return ok && left == 0
}

// uncounted returns the number of the given rows that the pairs do not count. It reports
// whether the pairs count at most these rows, with ranks among n calibration rows.
func (s sparseRanks) uncounted(rows, n int) (left int, ok bool) {
	for _, pair := range s {
		if pair[0] < 0 || pair[0] > n || pair[1] < 0 || pair[1] > rows {
			return 0, false
		}
		rows -= pair[1]
	}
	return rows, true
}

// writer writes a file of scores. It writes the rows first, then the header.
type writer struct {
	columns  *columns
	w        *parquet.GenericWriter[any]
	rows     []parquet.Row
	values   []parquet.Value
	texts    []byte // bytes of the text values
	buffered int
}

const (
	// batchRows is the largest number of rows that are passed to the Parquet writer at a time.
	batchRows = 256
	// maxBuffered is the number of rows that the Parquet writer holds in memory before a
	// flush.
	maxBuffered = 1 << 15
)

func newWriter(to io.Writer, c *columns) *writer {
	return &writer{columns: c, w: parquet.NewGenericWriter[any](to, c.schema(), parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(1<<16),
		parquet.CreatedBy("attach", "", ""))}
}

// add appends the next value of a row. Values are in the order of columns.
func (w *writer) add(value parquet.Value) {
	w.values = append(w.values, value.Level(0, 0, len(w.values)%len(w.columns.names)))
}

func (w *writer) addNumber(x float64) { w.add(parquet.DoubleValue(x)) }

func (w *writer) addInteger(n int) { w.add(parquet.Int64Value(int64(n))) }

func (w *writer) addText(s string) { w.addBytes([]byte(strings.ToValidUTF8(s, "\ufffd"))) }

func (w *writer) addBytes(b []byte) {
	at := len(w.texts)
	w.texts = append(w.texts, b...)
	w.add(parquet.ByteArrayValue(w.texts[at:len(w.texts):len(w.texts)]))
}

// endRow ends a row. It writes the collected rows when they fill a batch.
func (w *writer) endRow() error {
	if len(w.values) < batchRows*len(w.columns.names) {
		return nil
	}
	return w.writeBatch()
}

func (w *writer) writeBatch() error {
	n := len(w.columns.names)
	w.rows = w.rows[:0]
	for at := 0; at < len(w.values); at += n {
		w.rows = append(w.rows, w.values[at:at+n])
	}
	w.values = w.values[:0]
	defer func() { w.texts = w.texts[:0] }()
	if _, err := w.w.WriteRows(w.rows); err != nil {
		return err
	}
	if w.buffered += len(w.rows); w.buffered < maxBuffered {
		return nil
	}
	w.buffered = 0
	return w.w.Flush()
}

// close writes the last rows, a header unless it is nil, and its checksum.
func (w *writer) close(header []byte, sum string) error {
	if header != nil {
		w.w.SetKeyValueMetadata(headerKey, string(header))
	}
	w.w.SetKeyValueMetadata(sumKey, sum)
	return w.closeRows()
}

func (w *writer) closeRows() error { return cmp.Or(w.writeBatch(), w.w.Close()) }

// Part holds scored rows of one or more shards, as a Parquet file in memory.
type Part struct {
	header
	bytes      bytes.Buffer
	w          *writer
	ranks      calibrate.Ranks
	widths     []calibrate.Ranks
	labels     []calibrate.Ranks
	rows       int
	incomplete bool // an error occurred within its last batch
}

// First returns the first range of the part.
func (p *Part) First() Range { return p.Ranges[0] }

// Rows returns the number of rows in the part.
func (p *Part) Rows() int { return p.rows }

// WriteTo writes the Parquet file of the part.
func (p *Part) WriteTo(w io.Writer) (int64, error) { return p.bytes.WriteTo(w) }

// At returns a File for the part after it was written to path.
func (p *Part) At(path string) *File {
	return &File{path: path, Identity: p.Identity, Ranges: p.Ranges}
}

// newPart returns a part without rows. The profile is used only if Identity.Profiled is set.
func newPart(id Identity, profile *schema.Profile) *Part {
	p := &Part{header: header{Identity: id}, ranks: calibrate.NewRanks(id.Calibration)}
	p.w = newWriter(&p.bytes, id.columns())
	if id.Profiled {
		p.Profile, p.Counts = profile, profile.NewCounts()
	}
	for range id.Targets {
		p.widths = append(p.widths, calibrate.NewRanks(id.widthRows()))
	}
	p.labels = id.newLabelRanks()
	return p
}

// close writes the header of the part.
func (p *Part) close() error {
	p.Ranks = newSparseRanks(p.ranks)
	for _, r := range p.widths {
		p.Widths = append(p.Widths, newSparseRanks(r))
	}
	for _, r := range p.labels {
		p.Labels = append(p.Labels, newSparseRanks(r))
	}
	encoded, err := json.Marshal(p.header)
	if err != nil {
		return err
	}
	return p.w.close(encoded, checksum(encoded))
}

// File describes a file of scores, or a folder of files with one header. Its header was read and
// checked.
type File struct {
	path string
	Identity
	// Ranges are in the order of the rows.
	Ranges []Range
	header *header  // nil unless OpenFiles kept it
	paths  []string // files of a folder, or nil
	ends   []int    // number of rows up to the end of each of paths
}

// at returns the path of the file with a row of f, its first row and the row after its last one.
func (f *File) at(row int) (path string, start, end int) {
	if f.paths == nil {
		return f.path, 0, f.Rows()
	}
	i := sort.SearchInts(f.ends, row+1)
	if i > 0 {
		start = f.ends[i-1]
	}
	return f.paths[i], start, f.ends[i]
}

// ErrNotScores is wrapped by errors about files that are damaged or that no audit wrote.
var ErrNotScores = errors.New("not a file of scores of an audit")

// OpenFile reads the header of the file of scores at path, or of the folder of such files. It
// checks that the columns and the number of rows match the header, but does not read the rows.
func OpenFile(path string) (*File, error) {
	if isDir(path) {
		return openFolder(path)
	}
	h, _, err := readHeader(path)
	if err != nil {
		return nil, err
	}
	return &File{path: path, Identity: h.Identity, Ranges: h.Ranges}, nil
}

// openFolder opens a folder of files of scores. If it has several complete results, because a
// run was killed before it removed an earlier one, the result with the most rows is opened.
func openFolder(path string) (most *File, err error) {
	all, err := sets(path)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s: %w: it has no complete result", path, ErrNotScores)
	for _, paths := range all {
		h, ends, setErr := readSet(paths)
		if setErr != nil {
			err = setErr
			continue
		}
		f := &File{path: path, Identity: h.Identity, Ranges: h.Ranges, paths: paths, ends: ends}
		if most == nil || f.Rows() > most.Rows() {
			most = f
		}
	}
	if most != nil {
		return most, nil
	}
	return nil, err
}

// maxKeptHeaders is the largest number of bytes of headers that OpenFiles keeps. The decoded
// headers need about twice as much memory.
const maxKeptHeaders = 1 << 27

// OpenFiles opens several files of scores at once. If check is true, it reads all of their rows. For each path,
// either the element of files is nil or that of errs is. Join need not read most headers again,
// because OpenFiles keeps as many as fit into bounded memory.
func OpenFiles(ctx context.Context, paths []string, check bool) (files []*File, errs []error) {
	files, errs = make([]*File, len(paths)), make([]error, len(paths))
	var kept atomic.Int64
	inParallel(len(paths), func(i int) error {
		h, size, err := readHeader(paths[i])
		if err == nil {
			f := &File{path: paths[i], Identity: h.Identity, Ranges: h.Ranges}
			if check {
				err = f.Check(ctx)
			}
			if err == nil {
				files[i] = f
				if kept.Add(int64(size)) <= maxKeptHeaders {
					f.header = h
				}
			}
		}
		errs[i] = err
		return nil
	})
	return files, errs
}

// inParallel calls the function do with each index below n, on all processors. It returns the
// error of the smallest index.
func inParallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// maxCalibration limits the number of calibration rows in a header, because the memory for
// ranks grows with it.
const maxCalibration = 1 << 26

// readHeader reads and checks the header of a file of scores. It also returns the number of
// bytes of the header.
func readHeader(path string) (h *header, size int, err error) {
	rows, err := pq.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return checkHeader(rows, rows.Rows())
}

// readHeader returns the header, which it reads again unless OpenFiles kept it.
func (f *File) readHeader() (h *header, err error) {
	switch {
	case f.header != nil:
		return f.header, nil
	case f.paths != nil:
		h, _, err = readSet(f.paths)
	default:
		h, _, err = readHeader(f.path)
	}
	return h, err
}

// readSet reads and checks the header of several files of scores, and returns the number of rows
// up to the end of each file.
func readSet(paths []string) (h *header, ends []int, err error) {
	var first *pq.File
	n := 0
	for i, path := range paths {
		rows, err := pq.Open(path)
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = rows
		}
		sum, _ := rows.Metadata(sumKey)
		if want, _ := first.Metadata(sumKey); sum != want || filepath.Base(path) != setName(i, sum) {
			return nil, nil, fmt.Errorf("%s: %w: it does not continue the file before it", path, ErrNotScores)
		}
		if !slices.Equal(rows.Names(), first.Names()) {
			return nil, nil, fmt.Errorf("%s: %w: its columns differ from those of the file before it", path, ErrNotScores)
		}
		n += rows.Rows()
		ends = append(ends, n)
	}
	h, _, err = checkHeader(first, n)
	return h, ends, err
}

// checkHeader reads and checks the header in a file of scores. The file and the files that
// continue it have total rows.
func checkHeader(file *pq.File, total int) (h *header, size int, err error) {
	path := file.Path()
	h = &header{}
	invalid := func(format string, args ...any) (*header, int, error) {
		return nil, 0, fmt.Errorf("%s: %w: %w", path, ErrNotScores, fmt.Errorf(format, args...))
	}
	text, ok := file.Metadata(headerKey)
	if !ok {
		return invalid("it has no header")
	}
	if stored, _ := file.Metadata(sumKey); stored != checksum([]byte(text)) {
		return invalid("its header is damaged")
	}
	if err := json.Unmarshal([]byte(text), h); err != nil {
		return invalid("%w", err)
	}
	n := 0
	ends := map[string]int{} // the row after the last row of each shard
	for _, r := range h.Ranges {
		if r.Start < 0 || r.End <= r.Start || r.Audited < r.End || r.Rows < r.Audited || r.End-r.Start > math.MaxInt-n {
			return invalid("rows %d to %d of %d", r.Start, r.End, r.Audited)
		}
		n += r.End - r.Start
		ends[r.Shard] = max(ends[r.Shard], r.End)
	}
	want, have := h.columns(), file.Columns()
	// The checksum of the header is right, so other columns are not due to damage.
	if len(have) != len(want.names) {
		return invalid("it has %d columns where this version of attach writes %d", len(have), len(want.names))
	}
	for i, c := range have {
		if c.Name != want.names[i] || !c.Is(want.nodes[i]) {
			return invalid("another version of attach wrote its column %q", c.Name)
		}
	}
	if n == 0 || n != total || h.Calibration < 1 || h.Calibration > maxCalibration || h.Interval < 0 || h.Interval >= h.Calibration || len(h.Widths) != len(h.Targets) || !h.validLabelParts() || len(h.Labels) != len(h.LabelRows) {
		return invalid("its rows do not match its header")
	}
	valid := h.Ranks.valid(n, h.Calibration)
	for _, ranks := range h.Widths {
		valid = valid && ranks.valid(n, h.widthRows())
	}
	for k, left := 0, n; k < len(h.Labels) && valid; k++ {
		if h.Task == attach.Regression { // each target counts all rows
			left = n
		}
		left, valid = h.Labels[k].uncounted(left, h.LabelRows[k])
	}
	if !valid {
		return invalid("its ranks do not match its %d rows", n)
	}
	columns := 0
	switch {
	case h.Profiled != (h.Profile != nil) || h.Profiled != (h.Counts != nil):
		return invalid("its columns do not match its header")
	case h.Profiled:
		if err := cmp.Or(h.Profile.Check(), h.Counts.Check(h.Profile)); err != nil || h.Counts.Rows != n {
			return invalid("its counts of values do not match its %d rows", n)
		}
		columns = len(h.Profile.Columns)
	}
	for _, r := range h.Retained.Sample {
		if len(r.Numbers) != columns {
			return invalid("its rows have different numbers of columns")
		}
	}
	for _, m := range h.Used {
		if m.Rows > n || !m.OK() {
			return invalid("its counts of used rows do not match its %d rows", n)
		}
	}
	width := h.Retained.width()
	for _, r := range slices.Concat(h.Retained.Worst, h.Retained.Labels, h.Retained.Sample) {
		if r.At < 0 || r.At >= ends[r.Shard] {
			return invalid("it lists row %d of %.100s, which does not exist", r.At, r.Shard)
		}
		if r.Features == nil || len(r.Features) != width {
			return invalid("its rows have different numbers of features")
		}
	}
	return h, len(text), nil
}

// Damaged reports whether an error is about a damaged file of scores, or about a file that
// no audit wrote.
func Damaged(err error) bool { return errors.Is(err, pq.ErrFormat) || errors.Is(err, ErrNotScores) }

// Check reads all rows of the file. If they are damaged, it returns an error that Damaged
// recognises.
func (f *File) Check(ctx context.Context) error {
	w := &ScoreSet{Identity: f.Identity, segments: f.segments()}
	return w.eachBlock(ctx, w.columns(), func(block) error { return nil })
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// At returns a File for the same scores after they were moved to path.
func (f *File) At(path string) *File {
	moved := *f
	moved.path = path
	return &moved
}

// WithResultOptions returns id with the options of other that do not affect scores: Alpha,
// FDR, Delta, Conditional and LabelNoise. It sets SkipBad if either identity has it. An audit without
// SkipBad stops at the first bad input, so all of its inputs are good and SkipBad would not
// change its scores.
func (id Identity) WithResultOptions(other Identity) Identity {
	id.Alpha, id.FDR, id.Delta, id.Conditional, id.LabelNoise = other.Alpha, other.FDR, other.Delta, other.Conditional, other.LabelNoise
	id.Reading.SkipBad = id.Reading.SkipBad || other.Reading.SkipBad
	return id
}

// Shards returns the names of the shards that the file has rows of.
func (f *File) Shards() []string {
	var names []string
	for _, r := range f.Ranges {
		names = append(names, r.Shard)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
