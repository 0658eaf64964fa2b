package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// ErrFormat is wrapped by errors about a file that is not a NumPy file, or whose structure
// is damaged. Errors of archive/zip while an entry is read, such as zip.ErrChecksum, do not
// wrap it.
var ErrFormat = errors.New("not a valid NumPy file")

const (
	magic = "\x93NUMPY"
	// maxHeader limits the bytes of a header, and maxRank the number of axes. NumPy itself
	// rejects headers over 10,000 bytes and more than 64 axes.
	maxHeader = 1 << 16
	maxRank   = 64
)

// Header describes the elements of an array in a file.
type Header struct {
	DType   DType
	Fortran bool // column-major: the first index varies fastest
	Shape   []int
}

// Len returns the number of elements.
func (h Header) Len() int { return rows.Elements(h.Shape) }

// Rows returns the length of the first axis, or 1 for an array of rank 0.
func (h Header) Rows() int { return rows.Elements(h.Shape[:min(1, len(h.Shape))]) }

// RowLen returns the number of elements in a row, the product of all axes except the first.
func (h Header) RowLen() int { return rows.Elements(h.Shape[min(1, len(h.Shape)):]) }

// strided reports whether elements are stored in an order other than C order.
func (h Header) strided() bool { return h.Fortran && len(h.Shape) > 1 }

func (h Header) bytes() int64 { return int64(h.Len()) * int64(h.DType.Size) }

// readHeader reads a header and returns its length in bytes.
func readHeader(r io.Reader) (Header, int64, error) {
	var pre [12]byte
	if _, err := io.ReadFull(r, pre[:8]); err != nil {
		return Header{}, 0, truncated(err, "the file ends within its header")
	}
	if string(pre[:6]) != magic {
		return Header{}, 0, fmt.Errorf("%w: it does not start with NumPy's magic string", ErrFormat)
	}
	if pre[6] < 1 || pre[6] > 3 {
		return Header{}, 0, fmt.Errorf("%w: version %d.%d is not supported; versions 1 to 3 are", ErrFormat, pre[6], pre[7])
	}
	width := 4
	if pre[6] == 1 {
		width = 2
	}
	if _, err := io.ReadFull(r, pre[8:8+width]); err != nil {
		return Header{}, 0, truncated(err, "the file ends within its header")
	}
	n := int64(binary.LittleEndian.Uint32(pre[8:])) // bytes that were not read are 0
	if n > maxHeader {
		return Header{}, 0, fmt.Errorf("%w: its header claims %d bytes", ErrFormat, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return Header{}, 0, truncated(err, "the file ends within its header")
	}
	h, err := parseHeader(string(text))
	return h, int64(8+width) + n, err
}

// truncated returns a format error if err is the end of a file, or else err itself.
func truncated(err error, what string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %s", ErrFormat, what)
	}
	return err
}

// dictEntry matches an entry of the header dictionary: a key, and a string, a boolean, a
// tuple of lengths or the beginning of a list. Python 2 wrote long lengths as 3L. A tuple
// of one length ends with a comma.
var dictEntry = regexp.MustCompile(`^\s*['"](\w+)['"]\s*:\s*(?:(\[)|(?:'([^'\\\n]*)'|"([^"\\\n]*)"|(True|False)|(\((?:\s*\d+L?\s*,)*(?:(?:\s*\d+L?\s*,)+\s*\d+L?)?\s*\)))\s*(,|}))`)

func parseHeader(text string) (Header, error) {
	var h Header
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "{")
	if !ok {
		return h, fmt.Errorf("%w: its header has no dictionary", ErrFormat)
	}
	seen := map[string]bool{}
	for ok = false; !ok; {
		m := dictEntry.FindStringSubmatch(rest)
		if m == nil && seen["shape"] && strings.TrimSpace(rest) == "}" {
			rest = ""
			break
		} else if m == nil {
			return h, fmt.Errorf("%w: its header has a malformed dictionary", ErrFormat)
		}
		rest, ok = rest[len(m[0]):], m[7] == "}"
		key, list, text, boolean, tuple := m[1], m[2], m[3]+m[4], m[5], m[6]
		var err error
		switch {
		case key == "descr" && list != "":
			err = errors.New("structured arrays are not supported; save each field as a separate array")
		case key == "descr" && text != "" && !seen[key]:
			h.DType, err = parseDType(text)
		case key == "fortran_order" && boolean != "" && !seen[key]:
			h.Fortran = boolean == "True"
		case key == "shape" && tuple != "" && !seen[key]:
			h.Shape, err = parseShape(tuple)
		default:
			err = fmt.Errorf("%w: its header has a malformed or unexpected %.20q", ErrFormat, key)
		}
		if err != nil {
			return h, err
		}
		seen[key] = true
	}
	if strings.TrimSpace(rest) != "" || len(seen) != 3 {
		return h, fmt.Errorf("%w: its header has not descr, fortran_order and shape alone", ErrFormat)
	}
	return h, h.checkSize()
}

func parseShape(tuple string) ([]int, error) {
	shape := []int{}
	for _, s := range strings.FieldsFunc(tuple, func(r rune) bool { return r < '0' || r > '9' }) {
		d, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("%w: its header has an axis of length %.30s", ErrFormat, s)
		}
		shape = append(shape, d)
	}
	return shape, nil
}

// checkSize returns an error for a shape with more than maxRank axes, or whose size in
// bytes may overflow an int. A length of 0 counts as 1, because otherwise the product of
// some of the lengths could still overflow.
func (h Header) checkSize() error {
	if len(h.Shape) > maxRank {
		return fmt.Errorf("%w: it has %d axes, more than %d", ErrFormat, len(h.Shape), maxRank)
	}
	n := max(8, h.DType.Size)
	for _, d := range h.Shape {
		d = max(d, 1)
		if d > math.MaxInt/n {
			return fmt.Errorf("%w: its shape %v is too large", ErrFormat, h.Shape)
		}
		n *= d
	}
	return nil
}

// checkLength returns an error if the number of bytes after a header is not the size that
// the header declares.
func (h Header) checkLength(have int64) error {
	if want := h.bytes(); have < want {
		return fmt.Errorf("%w: the header promises %d bytes of elements for shape %v, the file holds %d; it was cut short", ErrFormat, want, h.Shape, have)
	} else if have > want {
		return fmt.Errorf("%w: %d bytes follow the elements of shape %v", ErrFormat, have-want, h.Shape)
	}
	return nil
}

// formatHeader returns the magic string, version 1.0 and the header, padded so that the
// elements start at a multiple of 64 bytes.
func formatHeader(descr string, shape []int) []byte {
	tuple := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(shape), "[]")), ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const fixed = 10 // magic, version, length
	text += strings.Repeat(" ", 63-(fixed+len(text))%64) + "\n"
	out := append([]byte(magic), 1, 0, byte(len(text)), byte(len(text)>>8))
	return append(out, text...)
}
