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
	// held is what a pipe gave, which can be read once.
	held  []byte
	plain bool // all lines are of rows, and none is a comment
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

// delimited is a table of text: cells with separators between. Where lines are plain cells
// may be texts for people, with quotes and blanks as they are, and a line is not cut at
// blanks.
type delimited struct {
	textFile
	comma rune // 0 for blanks, -1 where it is not known yet
	// single says that lines have one cell, so that a blank one is a row with a gap.
	single bool
}

func (f *delimited) Names() []string { return nil }

// records reads from a place on. How cells are separated is seen from the first
// line that is neither blank nor a comment.
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

// separated reads cells that are separated by commas, semicolons or tabs.
type separated struct {
	*lineReader
	of    *delimited
	csv   *csv.Reader
	first int // lines before those that csv has seen
	rec   record
}

// begin has csv read on from here.
func (d *separated) begin() {
	d.first, d.csv = d.line, csv.NewReader(d.lineReader)
	d.csv.Comma = d.of.comma
	d.csv.FieldsPerRecord = -1
	// It would take empty cells between tabs for space.
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

// checkQuotes refuses a row of several lines whose quotes LazyQuotes let pass: it may hold
// other rows. It begins at a byte of the file, on line first.
func (d *separated) checkQuotes(begin int64, first int) error {
	strict := csv.NewReader(io.NewSectionReader(d.file, begin, d.offset-begin))
	strict.Comma = d.csv.Comma
	if _, err := strict.Read(); errors.Is(err, csv.ErrQuote) {
		return notClosed(first, d.last)
	}
	return nil
}

// notClosed says what is wrong with quotes in the row from line first to line last.
func notClosed(first, last int) error {
	return fmt.Errorf("line %d: a quote is not closed, or one within a cell is not doubled: the cell goes on to line %d", first, last)
}

// quoteError says what is wrong with quotes. Lines are counted from the one after line
// before.
func quoteError(err *csv.ParseError, before int) error {
	first, last := before+err.StartLine, before+err.Line
	if last > first {
		return notClosed(first, last)
	}
	return fmt.Errorf("line %d: a quote is not closed, or stands within a cell, at byte %d of the line; quote the whole cell, and double the quotes in it", first, err.Column)
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

// cutAtBlanks cuts a line at blanks. A line that is one quoted cell is not cut: of a table of
// one column no separator is known.
func cutAtBlanks(line string) []string {
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, `"`) {
		if cells, err := csv.NewReader(strings.NewReader(trimmed)).Read(); err == nil && len(cells) == 1 {
			return cells
		}
	}
	return strings.Fields(line)
}

// cutLines reads lines that are cut into cells, but for those without any.
type cutLines struct {
	*lineReader
	of  *delimited // nil of lines that are texts
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

// separator is ';', ',' (also of one quoted cell) or a tab between quoted or
// empty cells, and 0 for blanks. Tabs says that there are tabs if any, and texts
// that blanks separate nothing and semicolons are likelier within a cell.
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
		if !quoted { // else a name of two lines
			break
		}
	}
	switch {
	case texts && tabs, tabs && bytes.IndexByte(bare, '\t') >= 0: // else decimal commas would separate
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

// isComment reports whether a line is a comment: # and then a blank, another #
// or nothing. #N/A is a cell, and its row must not be passed over. In sep=; a
// spreadsheet names its separator, which the lines below show too.
func isComment(line []byte) bool {
	if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("sep=")); ok && len(rest) == 1 {
		return true
	}
	return len(line) > 0 && line[0] == '#' && (len(line) == 1 || bytes.IndexByte([]byte("# \t\r\n"), line[1]) >= 0)
}

// maxRecord bounds the bytes of one record. Without it, a quote that is never closed
// would make one record of the whole file.
const maxRecord = 1 << 24

// mark is the position at which a record begins.
type mark struct {
	offset int64 // in bytes; in a Parquet file in rows
	line   int   // of the one before, counted from one
}

// lineReader reads lines, with comments made blank.
type lineReader struct {
	io.Closer
	file io.ReaderAt
	r    *bufio.Reader
	mark
	plain bool   // there are no comments
	last  int    // the line that was read last
	rest  []byte // of a line that Read has not returned
	left  int    // bytes that may still be read for a record
	// gaps says that lines have one cell. A blank line is then one without a value, so
	// that no row is lost, but for those after end, the end of the last other line.
	gaps      bool
	quoted    bool // the line before ends within a cell
	size, end int64
}

// at is where the next record begins, or what is passed over before it.
func (l *lineReader) at() mark { return l.mark }

func (l *lineReader) seek(to mark) {
	l.r.Reset(io.NewSectionReader(l.file, to.offset, math.MaxInt64-to.offset))
	l.mark, l.rest, l.quoted = to, nil, false
}

// emptyCell is a line of one cell without a value. A blank line would be passed over.
const emptyCell = "\"\"\n"

// isGap says whether a line is blank, stands alone, and has others after it.
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
			return nil, fmt.Errorf("line %d: up to here there are more than %d bytes without the end of a row; is a quote not closed?", l.line, maxRecord)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || len(line) == 0):
			return nil, err
		case bytes.IndexByte(bytes.TrimRight(line, "\r\n"), '\r') >= 0:
			return nil, fmt.Errorf("line %d: it has a carriage return without a line feed; end lines in line feeds", l.line)
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

// Read passes lines on.
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
