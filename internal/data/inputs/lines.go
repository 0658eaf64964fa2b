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
	// content is the content of a pipe, which can be read only once.
	content []byte
	plain   bool // no line is a comment
}

func (f *textFile) unit() string { return "line" }

// open opens the file for reading from a position.
func (f *textFile) open(ctx context.Context, from position) (*lineReader, error) {
	l := &lineReader{Closer: io.NopCloser(nil), plain: f.plain}
	size := 1 << 16
	if f.content == nil {
		file, err := regularfile.Open(f.path)
		switch {
		case errors.Is(err, regularfile.ErrSpecial):
			if f.content, err = readStream(ctx, f.path); err != nil {
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
	if f.content != nil {
		l.file, l.size, size = bytes.NewReader(f.content), int64(len(f.content)), min(size, len(f.content)+1)
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
		l.seek(position{offset: 3})
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

// delimited is a text table with separators between cells. If plain is set, cells can be
// natural text, so quotes and spaces in them are kept and lines are not split at spaces.
type delimited struct {
	textFile
	comma rune // 0 for spaces, -1 if not yet known
	// oneCell is true if lines have one cell. A blank line is then a row with an empty
	// cell.
	oneCell bool
}

func (f *delimited) Names() []string { return nil }

// records returns the records from a position on. The first line that is neither blank nor
// a comment determines the separator.
func (f *delimited) records(ctx context.Context, _ []int, from position) (records, error) {
	lines, err := f.open(ctx, from)
	if err != nil {
		return nil, err
	}
	if f.comma < 0 {
		ahead, _ := lines.r.Peek(lines.r.Size())
		f.comma = separator(ahead, strings.EqualFold(filepath.Ext(f.path), ".tsv"), f.plain)
	}
	lines.blankIsRow = f.oneCell
	if f.comma == 0 {
		return &splitLines{lineReader: lines, format: f, split: splitAtSpaces}, nil
	}
	d := &separated{lineReader: lines, format: f}
	d.begin()
	return d, nil
}

// separated reads cells separated by commas, semicolons or tabs.
type separated struct {
	*lineReader
	format      *delimited
	csv         *csv.Reader
	linesBefore int // number of lines before the first line that csv reads
	rec         record
}

// begin creates a csv.Reader that starts at the current position.
func (d *separated) begin() {
	d.linesBefore, d.csv = d.line, csv.NewReader(d.lineReader)
	d.csv.Comma = d.format.comma
	d.csv.FieldsPerRecord = -1
	// Tabs count as spaces, so trimming would remove empty cells between tabs.
	d.csv.TrimLeadingSpace = d.format.comma != '\t' && !d.format.plain
	d.csv.LazyQuotes = d.format.plain
	d.csv.ReuseRecord = true
}

func (d *separated) seek(to position) {
	d.lineReader.seek(to)
	d.begin()
}

func (d *separated) next() (*record, error) {
	d.budget = maxRecord
	begin := d.offset
	cells, err := d.csv.Read()
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, quoteError(parse, d.linesBefore)
	}
	if err != nil {
		return nil, err
	}
	d.blankIsRow = len(cells) == 1
	d.format.oneCell = d.blankIsRow
	line, _ := d.csv.FieldPos(0)
	if line += d.linesBefore; d.csv.LazyQuotes && d.lastLine > line {
		err = d.checkQuotes(begin, line)
	}
	return d.rec.setTexts(line, cells), err
}

// checkQuotes returns an error for a row of several lines with quotes that only LazyQuotes
// accepts, because the row may contain other rows. The row begins at byte begin, on line
// first.
func (d *separated) checkQuotes(begin int64, first int) error {
	strict := csv.NewReader(io.NewSectionReader(d.file, begin, d.offset-begin))
	strict.Comma = d.csv.Comma
	if _, err := strict.Read(); errors.Is(err, csv.ErrQuote) {
		return unclosedQuote(first, d.lastLine)
	}
	return nil
}

// unclosedQuote returns the error for quotes in the row from line first to line last.
func unclosedQuote(first, last int) error {
	return fmt.Errorf("line %d: a quote is not closed, or a quote within a cell is not doubled, so that the cell continues to line %d", first, last)
}

// quoteError returns the error for wrong quotes. before is the number of lines before those
// that csv.Reader counted.
func quoteError(err *csv.ParseError, before int) error {
	first, last := before+err.StartLine, before+err.Line
	if last > first {
		return unclosedQuote(first, last)
	}
	return fmt.Errorf("line %d: at byte %d of the line a quote is not closed or is within a cell; quote the whole cell, and double the quotes in it", first, err.Column)
}

// plainLines is a file in which each line is one text.
type plainLines struct{ textFile }

func (f *plainLines) Names() []string { return []string{"text"} }

// hasHeader reports whether the first line contains all names, as the header of a table
// would.
func (f *plainLines) hasHeader(ctx context.Context, names []string) (bool, error) {
	lines, err := f.open(ctx, position{})
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.path, err)
	}
	defer lines.Close()
	lines.budget = maxRecord
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

func (f *plainLines) records(ctx context.Context, _ []int, from position) (records, error) {
	lines, err := f.open(ctx, from)
	return &splitLines{lineReader: lines, split: func(line string) []string { return []string{strings.TrimRight(line, "\r\n")} }}, err
}

// splitAtSpaces splits a line at spaces. It does not split a line with a single quoted
// cell, because the separator of a table with one column is unknown.
func splitAtSpaces(line string) []string {
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, `"`) {
		if cells, err := csv.NewReader(strings.NewReader(trimmed)).Read(); err == nil && len(cells) == 1 {
			return cells
		}
	}
	return strings.Fields(line)
}

// splitLines reads lines that are split into cells, and skips lines without cells.
type splitLines struct {
	*lineReader
	format *delimited // nil for lines of text
	split  func(line string) []string
	rec    record
}

func (c *splitLines) next() (*record, error) {
	for {
		c.budget = maxRecord
		line, err := c.lineReader.next()
		if err != nil {
			return nil, err
		}
		cells := c.split(string(line))
		if c.format != nil && len(cells) == 1 {
			c.format.oneCell, c.blankIsRow = true, true
		}
		if len(cells) > 0 {
			return c.rec.setTexts(c.line, cells), nil
		}
	}
}

// separator guesses the separator of a table from its first line: ';', ',' (also for a
// single quoted cell), a tab if the line has quotes, or 0 for spaces. If tabs is true, tabs
// are preferred to other separators. If texts is true, spaces do not separate cells, and
// semicolons probably belong to cells.
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
		if !quoted { // a quoted name may continue on the next line
			break
		}
	}
	switch {
	case texts && tabs, tabs && bytes.IndexByte(bare, '\t') >= 0: // otherwise decimal commas would be taken for separators
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

// isComment reports whether a line is a comment: # followed by a space, another # or
// nothing. A line that begins with #N/A is a row with a missing value. A line such as sep=;
// is skipped too. Spreadsheets write it to name the separator, which later lines also show.
func isComment(line []byte) bool {
	if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("sep=")); ok && len(rest) == 1 {
		return true
	}
	return len(line) > 0 && line[0] == '#' && (len(line) == 1 || bytes.IndexByte([]byte("# \t\r\n"), line[1]) >= 0)
}

// maxRecord limits the bytes of one record. Without it, a quote that is never closed would
// make one record of the whole file.
const maxRecord = 1 << 24

// position is the place in a file where a record begins.
type position struct {
	offset int64 // in bytes; in rows for a Parquet file
	line   int   // number of lines before it; of rows for a Parquet file
}

// lineReader reads lines and replaces comments by blank lines.
type lineReader struct {
	io.Closer
	file io.ReaderAt
	r    *bufio.Reader
	position
	plain    bool   // no line is a comment
	lastLine int    // number of the last line that was read
	unread   []byte // part of a line that Read has not yet returned
	budget   int    // bytes that may still be read for this record
	// blankIsRow is true if lines have one cell. A blank line then has an empty cell, so
	// that no row is lost. Blank lines after end, the end of the last line with content,
	// are not rows.
	blankIsRow bool
	inQuotes   bool // whether the previous line ends within a quoted cell
	size, end  int64
}

// at returns the position of the next record, or of skipped lines before it.
func (l *lineReader) at() position { return l.position }

func (l *lineReader) seek(to position) {
	l.r.Reset(io.NewSectionReader(l.file, to.offset, math.MaxInt64-to.offset))
	l.position, l.unread, l.inQuotes = to, nil, false
}

// emptyCell replaces a blank line that is a row, because csv.Reader skips blank lines.
const emptyCell = "\"\"\n"

// isBlankRow reports whether a line is blank, is not within a quoted cell, and is followed
// by lines with content. It must see every line, because it updates inQuotes.
func (l *lineReader) isBlankRow(line []byte) bool {
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) > 0 || l.inQuotes {
		if (l.inQuotes || trimmed[0] == '"') && bytes.Count(line, []byte{'"'})%2 == 1 {
			l.inQuotes = !l.inQuotes
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
			line = part // usually there is one part, which needs no copy
		} else {
			line = append(line, part...)
		}
		l.budget -= len(part)
		l.offset += int64(len(part))
		switch {
		case l.budget < 0:
			return nil, fmt.Errorf("line %d: more than %d bytes without the end of a row; is a quote not closed?", l.line, maxRecord)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || len(line) == 0):
			return nil, err
		case bytes.IndexByte(bytes.TrimRight(line, "\r\n"), '\r') >= 0:
			return nil, fmt.Errorf("line %d: it has a carriage return without a line feed; end lines with line feeds", l.line)
		}
		l.lastLine = l.line
		if !l.plain && isComment(line) {
			return []byte("\n"), nil
		}
		if l.blankIsRow && l.isBlankRow(line) {
			return []byte(emptyCell), nil
		}
		return line, nil
	}
}

// Read implements io.Reader, so that csv.Reader can read the lines.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.unread) == 0 {
		var err error
		if l.unread, err = l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.unread)
	l.unread = l.unread[n:]
	return n, nil
}
