package inputs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// textFile is a file of text lines.
type textFile struct {
	path string
	// held is the content of a pipe, which can be read only once.
	held  []byte
	plain bool // all lines are rows, none is a comment
}

func (f *textFile) unit() string { return "line" }

// open opens the file for reading from a position.
func (f *textFile) open(ctx context.Context, from mark) (*lineReader, error) {
	l := &lineReader{Closer: io.NopCloser(nil), plain: f.plain}
	size := 1 << 16
	if f.held == nil {
		file, err := regularfile.Open(f.path)
		switch {
		case errors.Is(err, regularfile.ErrSpecial):
			if f.held, err = readStream(ctx, f.path); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			l.Closer, l.file = file, file
			if info, err := file.Stat(); err == nil {
				l.size = info.Size()
			}
		}
	}
	if f.held != nil {
		l.file, l.size, size = bytes.NewReader(f.held), int64(len(f.held)), min(size, len(f.held)+1)
	}
	l.r = bufio.NewReaderSize(nil, size)
	l.seek(from)
	if from.offset > 0 {
		return l, nil
	}
	switch start, _ := l.r.Peek(3); {
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		l.Close()
		return nil, errors.New("the text is UTF-16; save it as UTF-8")
	case string(start) == "\xef\xbb\xbf":
		l.seek(mark{offset: 3})
	}
	return l, nil
}

// readStream reads all bytes of a pipe. It stops waiting for the writer when the context
// ends.
func readStream(ctx context.Context, path string) ([]byte, error) {
	r, w := io.Pipe()
	go func() {
		f, err := os.Open(path)
		if err == nil {
			_, err = io.Copy(w, f)
			f.Close()
		}
		w.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })()
	return io.ReadAll(r)
}

// delimited is a table of text: cells with separators between them. In plain lines, cells may
// be texts for people, with quotes and spaces unchanged, and lines are not split at spaces.
type delimited struct {
	textFile
	comma rune // 0 for spaces, -1 if not yet known
	// single tells that lines have one cell, so that a blank line is a row with an empty cell.
	single bool
}

func (f *delimited) Names() []string { return nil }

// records reads from a position on. The first line that is neither blank nor a comment
// determines the separator.
func (f *delimited) records(ctx context.Context, _ []int, from mark) (records, error) {
	lines, err := f.open(ctx, from)
	if err != nil {
		return nil, err
	}
	if f.comma < 0 {
		ahead, _ := lines.r.Peek(lines.r.Size())
		f.comma = separator(ahead, strings.EqualFold(filepath.Ext(f.path), ".tsv"), f.plain)
	}
	lines.gaps = f.single
	if f.comma == 0 {
		return &cutLines{lineReader: lines, of: f, cut: cutAtBlanks}, nil
	}
	d := &separated{lineReader: lines, of: f}
	d.begin()
	return d, nil
}

// separated reads cells separated by commas, semicolons or tabs.
type separated struct {
	*lineReader
	of    *delimited
	csv   *csv.Reader
	first int // lines before those that csv reads
	rec   record
}

// begin makes csv read from here.
func (d *separated) begin() {
	d.first, d.csv = d.line, csv.NewReader(d.lineReader)
	d.csv.Comma = d.of.comma
	d.csv.FieldsPerRecord = -1
	// It would treat empty cells between tabs as space.
	d.csv.TrimLeadingSpace = d.of.comma != '\t' && !d.of.plain
	d.csv.LazyQuotes = d.of.plain
	d.csv.ReuseRecord = true
}

func (d *separated) seek(to mark) {
	d.lineReader.seek(to)
	d.begin()
}

func (d *separated) next() (*record, error) {
	d.left = maxRecord
	begin := d.offset
	cells, err := d.csv.Read()
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, quoteError(parse, d.first)
	}
	if err != nil {
		return nil, err
	}
	d.gaps = len(cells) == 1
	d.of.single = d.gaps
	line, _ := d.csv.FieldPos(0)
	if line += d.first; d.csv.LazyQuotes && d.last > line {
		err = d.checkQuotes(begin, line)
	}
	return d.rec.set(line, cells), err
}

// checkQuotes returns an error for a row of several lines with quotes that LazyQuotes
// accepted: it may contain other rows. The row begins at a byte of the file, on line first.
func (d *separated) checkQuotes(begin int64, first int) error {
	strict := csv.NewReader(io.NewSectionReader(d.file, begin, d.offset-begin))
	strict.Comma = d.csv.Comma
	if _, err := strict.Read(); errors.Is(err, csv.ErrQuote) {
		return notClosed(first, d.last)
	}
	return nil
}

// notClosed returns the error for quotes in the row from line first to line last.
func notClosed(first, last int) error {
	return fmt.Errorf("line %d: a quote is not closed, or a quote within a cell is not doubled, so that the cell continues to line %d", first, last)
}

// quoteError returns the error for wrong quotes. Lines count from the one after line before.
func quoteError(err *csv.ParseError, before int) error {
	first, last := before+err.StartLine, before+err.Line
	if last > first {
		return notClosed(first, last)
	}
	return fmt.Errorf("line %d: at byte %d of the line a quote is not closed or is within a cell; quote the whole cell, and double the quotes in it", first, err.Column)
}

// plainLines is a file in which each line is one text.
type plainLines struct{ textFile }

func (f *plainLines) Names() []string { return []string{"text"} }

// isHeaded reports whether the first line has all of the names, as the header of a table
// would.
func (f *plainLines) isHeaded(ctx context.Context, names []string) (bool, error) {
	lines, err := f.open(ctx, mark{})
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.path, err)
	}
	defer lines.Close()
	lines.left = maxRecord
	line, err := lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("%s: %w", f.path, err)
	}
	cells := strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune("\t,;\"\r\n", r) })
	for _, name := range names {
		if !slices.Contains(cells, name) {
			return false, nil
		}
	}
	return len(names) > 0, nil
}

func (f *plainLines) records(ctx context.Context, _ []int, from mark) (records, error) {
	lines, err := f.open(ctx, from)
	return &cutLines{lineReader: lines, cut: func(line string) []string { return []string{strings.TrimRight(line, "\r\n")} }}, err
}

// cutAtBlanks splits a line at spaces. A line with a single quoted cell is not split, because
// the separator of a table with one column is unknown.
func cutAtBlanks(line string) []string {
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, `"`) {
		if cells, err := csv.NewReader(strings.NewReader(trimmed)).Read(); err == nil && len(cells) == 1 {
			return cells
		}
	}
	return strings.Fields(line)
}

// cutLines reads lines that are split into cells, and skips lines without cells.
type cutLines struct {
	*lineReader
	of  *delimited // nil for lines of text
	cut func(line string) []string
	rec record
}

func (c *cutLines) next() (*record, error) {
	for {
		c.left = maxRecord
		line, err := c.lineReader.next()
		if err != nil {
			return nil, err
		}
		cells := c.cut(string(line))
		if c.of != nil && len(cells) == 1 {
			c.of.single, c.gaps = true, true
		}
		if len(cells) > 0 {
			return c.rec.set(c.line, cells), nil
		}
	}
}

// separator returns ';', ',' (also for a single quoted cell), a tab between quoted or empty
// cells, or 0 for spaces. tabs tells that tabs separate if there are any. texts tells that
// spaces do not separate and that semicolons probably belong to cells.
func separator(text []byte, tabs, texts bool) rune {
	var bare []byte
	quoted, quotes := false, false
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if !quoted && (len(bytes.TrimSpace(line)) == 0 || !texts && isComment(line)) {
			continue
		}
		for _, c := range line {
			if c == '"' {
				quoted, quotes = !quoted, true
			}
			if !quoted {
				bare = append(bare, c)
			}
		}
		if !quoted { // otherwise a name of two lines
			break
		}
	}
	switch {
	case texts && tabs, tabs && bytes.IndexByte(bare, '\t') >= 0: // otherwise decimal commas would separate
		return '\t'
	case texts && (bytes.IndexByte(bare, ',') >= 0 || bytes.IndexByte(bare, ';') < 0):
		return ','
	case bytes.IndexByte(bare, ';') >= 0:
		return ';'
	case bytes.IndexByte(bare, ',') >= 0, string(bare) == `"`:
		return ','
	case bytes.IndexByte(bare, '\t') >= 0 && (tabs || quotes):
		return '\t'
	}
	return 0
}

// isComment reports whether a line is a comment: # followed by a space, another # or nothing.
// #N/A is a cell whose row must not be skipped. A spreadsheet names its separator in sep=;,
// which later lines show too.
func isComment(line []byte) bool {
	if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("sep=")); ok && len(rest) == 1 {
		return true
	}
	return len(line) > 0 && line[0] == '#' && (len(line) == 1 || bytes.IndexByte([]byte("# \t\r\n"), line[1]) >= 0)
}

// maxRecord limits the bytes of one record. Without it, a quote that is never closed would
// make one record of the whole file.
const maxRecord = 1 << 24

// mark is the position at which a record begins.
type mark struct {
	offset int64 // in bytes; in rows for a Parquet file
	line   int   // line of the previous record, counted from one
}

// lineReader reads lines and replaces comments by blank lines.
type lineReader struct {
	io.Closer
	file io.ReaderAt
	r    *bufio.Reader
	mark
	plain bool   // there are no comments
	last  int    // the last line that was read
	rest  []byte // part of a line that Read has not yet returned
	left  int    // bytes that may still be read for this record
	// gaps tells that lines have one cell. A blank line then has an empty cell, so that no row
	// is lost, except blank lines after end, the end of the last other line.
	gaps      bool
	quoted    bool // the previous line ends within a cell
	size, end int64
}

// at returns the position of the next record, or of skipped lines before it.
func (l *lineReader) at() mark { return l.mark }

func (l *lineReader) seek(to mark) {
	l.r.Reset(io.NewSectionReader(l.file, to.offset, math.MaxInt64-to.offset))
	l.mark, l.rest, l.quoted = to, nil, false
}

// emptyCell is a line with one empty cell, because a blank line would be skipped.
const emptyCell = "\"\"\n"

// isGap reports whether a line is blank, is a line of its own, and is followed by others.
func (l *lineReader) isGap(line []byte) bool {
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) > 0 || l.quoted {
		if (l.quoted || trimmed[0] == '"') && bytes.Count(line, []byte{'"'})%2 == 1 {
			l.quoted = !l.quoted
		}
		return false
	}
	if l.end == 0 {
		l.end = contentEnd(l.file, l.size)
	}
	return l.offset < l.end
}

// contentEnd returns the end of the last line that is not blank.
func contentEnd(file io.ReaderAt, size int64) int64 {
	var block [4096]byte
	for size > 0 {
		part := block[:min(size, int64(len(block)))]
		if n, _ := file.ReadAt(part, size-int64(len(part))); n < len(part) {
			return size
		}
		if kept := bytes.TrimRight(part, " \t\r\n"); len(kept) > 0 {
			return size - int64(len(part)-len(kept))
		}
		size -= int64(len(part))
	}
	return 0
}

func (l *lineReader) next() ([]byte, error) {
	l.line++
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if line == nil && err == nil {
			line = part // the usual case, without a copy
		} else {
			line = append(line, part...)
		}
		l.left -= len(part)
		l.offset += int64(len(part))
		switch {
		case l.left < 0:
			return nil, fmt.Errorf("line %d: more than %d bytes without the end of a row; is a quote not closed?", l.line, maxRecord)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || len(line) == 0):
			return nil, err
		case bytes.IndexByte(bytes.TrimRight(line, "\r\n"), '\r') >= 0:
			return nil, fmt.Errorf("line %d: it has a carriage return without a line feed; end lines with line feeds", l.line)
		}
		l.last = l.line
		if !l.plain && isComment(line) {
			return []byte("\n"), nil
		}
		if l.gaps && l.isGap(line) {
			return []byte(emptyCell), nil
		}
		return line, nil
	}
}

// Read returns the bytes of lines.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		var err error
		if l.rest, err = l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
