package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by every error that says that a file is no NumPy file
// or is a damaged one.
var ErrFormat = errors.New("not a valid NumPy file")

const (
	magic = "\x93NUMPY"
	// NumPy itself refuses headers over 10 000 bytes and ranks over 64.
	maxHeader = 1 << 16
	maxRank   = 64
)

// Header is what precedes an array's elements in a file.
type Header struct {
	DType   DType
	Fortran bool // column-major: the first index varies fastest
	Shape   []int
}

// Len returns the number of elements.
func (h Header) Len() int { return product(h.Shape) }

// Rows returns the length of the first axis, 1 for an array of rank 0.
func (h Header) Rows() int {
	if len(h.Shape) == 0 {
		return 1
	}
	return h.Shape[0]
}

// RowLen returns the number of elements of one row: the product of all axes
// but the first.
func (h Header) RowLen() int {
	if len(h.Shape) == 0 {
		return 1
	}
	return product(h.Shape[1:])
}

// strided says that elements are stored in another order than C's.
func (h Header) strided() bool { return h.Fortran && len(h.Shape) > 1 }

func (h Header) bytes() int64 { return int64(h.Len()) * int64(h.DType.Size) }

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// readHeader reads a header and says how many bytes it took.
func readHeader(r io.Reader) (Header, int64, error) {
	var h Header
	var pre [12]byte
	if _, err := io.ReadFull(r, pre[:8]); err != nil {
		return h, 0, truncated(err, "the file ends within its header")
	}
	if string(pre[:6]) != magic {
		return h, 0, fmt.Errorf("%w: it does not start with NumPy's magic string", ErrFormat)
	}
	width := 4
	switch pre[6] {
	case 1:
		width = 2
	case 2, 3:
	default:
		return h, 0, fmt.Errorf("%w: version %d.%d is not supported; versions 1 to 3 are", ErrFormat, pre[6], pre[7])
	}
	if _, err := io.ReadFull(r, pre[8:8+width]); err != nil {
		return h, 0, truncated(err, "the file ends within its header")
	}
	n := int64(binary.LittleEndian.Uint16(pre[8:]))
	if width == 4 {
		n = int64(binary.LittleEndian.Uint32(pre[8:]))
	}
	if n > maxHeader {
		return h, 0, fmt.Errorf("%w: its header claims %d bytes", ErrFormat, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, 0, truncated(err, "the file ends within its header")
	}
	h, err := parseHeader(string(text))
	return h, int64(8+width) + n, err
}

// truncated turns the end of a file into a format error and leaves other
// errors of reading alone.
func truncated(err error, what string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %s", ErrFormat, what)
	}
	return err
}

func parseHeader(text string) (Header, error) {
	var h Header
	p := literal{s: text}
	fail := func(what string) (Header, error) {
		return Header{}, fmt.Errorf("%w: its header has %s", ErrFormat, what)
	}
	if !p.take('{') {
		return fail("no dictionary")
	}
	var descr, order, shape bool
	for !p.take('}') {
		key, ok := p.str()
		if !ok || !p.take(':') {
			return fail("a malformed dictionary")
		}
		switch {
		case key == "descr" && !descr:
			descr = true
			if p.peek('[') {
				return h, fmt.Errorf("structured arrays are not supported; save each field as an array of its own")
			}
			s, ok := p.str()
			if !ok {
				return fail("a malformed descr")
			}
			d, err := parseDType(s)
			if err != nil {
				return h, err
			}
			h.DType = d
		case key == "fortran_order" && !order:
			order = true
			if h.Fortran, ok = p.boolean(); !ok {
				return fail("a malformed fortran_order")
			}
		case key == "shape" && !shape:
			shape = true
			if h.Shape, ok = p.tuple(); !ok {
				return fail("a malformed shape")
			}
		default:
			return fail(fmt.Sprintf("an unexpected key %.20q", key))
		}
		if !p.take(',') && !p.peek('}') {
			return fail("a malformed dictionary")
		}
	}
	if !p.end() {
		return fail("text after its dictionary")
	}
	if !descr || !order || !shape {
		return fail("not all of descr, fortran_order and shape")
	}
	return h, h.checkSize()
}

// checkSize refuses shapes whose size in bytes overflows, with zeros taken as
// ones so that every partial product is safe too.
func (h Header) checkSize() error {
	if len(h.Shape) > maxRank {
		return fmt.Errorf("%w: it has %d axes, more than %d", ErrFormat, len(h.Shape), maxRank)
	}
	n := 8
	for _, d := range h.Shape {
		d = max(d, 1)
		if d > math.MaxInt/n {
			return fmt.Errorf("%w: its shape %v is too large", ErrFormat, h.Shape)
		}
		n *= d
	}
	return nil
}

// literal reads the few forms of Python literals that headers are made of.
type literal struct {
	s string
}

func (p *literal) space() { p.s = strings.TrimLeft(p.s, " \t\r\n\f\v") }

func (p *literal) end() bool {
	p.space()
	return p.s == ""
}

func (p *literal) peek(c byte) bool {
	p.space()
	return p.s != "" && p.s[0] == c
}

func (p *literal) take(c byte) bool {
	if !p.peek(c) {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *literal) str() (string, bool) {
	p.space()
	if p.s == "" || p.s[0] != '\'' && p.s[0] != '"' {
		return "", false
	}
	body, rest, ok := strings.Cut(p.s[1:], p.s[:1])
	if !ok || strings.ContainsAny(body, "\\\n") {
		return "", false
	}
	p.s = rest
	return body, true
}

func (p *literal) boolean() (value, ok bool) {
	p.space()
	if rest, ok := strings.CutPrefix(p.s, "True"); ok {
		p.s = rest
		return true, true
	}
	if rest, ok := strings.CutPrefix(p.s, "False"); ok {
		p.s = rest
		return false, true
	}
	return false, false
}

func (p *literal) tuple() ([]int, bool) {
	if !p.take('(') {
		return nil, false
	}
	shape := []int{}
	comma := true
	for !p.take(')') {
		if !comma {
			return nil, false
		}
		p.space()
		end := strings.IndexFunc(p.s, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return nil, false
		}
		d, err := strconv.Atoi(p.s[:end])
		if err != nil {
			return nil, false
		}
		shape = append(shape, d)
		// Python 2 wrote long integers as 3L.
		p.s = strings.TrimPrefix(p.s[end:], "L")
		comma = p.take(',')
	}
	return shape, len(shape) != 1 || comma
}

// formatHeader returns magic string, version 1.0 and header, padded so that
// the elements start at a multiple of 64 bytes.
func formatHeader(descr string, shape []int) []byte {
	var b strings.Builder
	b.WriteString("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (")
	for i, d := range shape {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 {
		b.WriteByte(',')
	}
	b.WriteString("), }")
	const fixed = 10 // magic, version, length
	pad := 63 - (fixed+b.Len())%64
	text := b.String() + strings.Repeat(" ", pad) + "\n"
	out := append([]byte(magic), 1, 0, byte(len(text)), byte(len(text)>>8))
	return append(out, text...)
}
