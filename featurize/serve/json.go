package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// scanner reads JSON (RFC 8259) from memory. It copies and decodes only the values that its
// caller requests.
type scanner struct {
	text []byte
	pos  int
}

// maxDepth limits the nesting of arrays and objects.
const maxDepth = 64

// syntaxError returns an error that says which byte was found and what was expected.
func (s *scanner) syntaxError(want string) error {
	if s.pos >= len(s.text) {
		return fmt.Errorf("the text ends, expected %s", want)
	}
	r, _ := utf8.DecodeRune(s.text[s.pos:])
	return fmt.Errorf("byte %d is %q, expected %s", s.pos, r, want)
}

// peek skips white space and returns the next byte without consuming it. It returns 0 at
// the end of the text.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end returns an error if anything except white space follows.
func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.text) {
		return s.syntaxError("the end of the text")
	}
	return nil
}

// expect skips white space and consumes the byte c. It returns an error if the next byte is
// not c.
func (s *scanner) expect(c byte, want string) error {
	if s.peek() != c || s.pos >= len(s.text) {
		return s.syntaxError(want)
	}
	s.pos++
	return nil
}

// hasNext reports whether another element follows. It consumes the comma before that element,
// or the closing byte.
func (s *scanner) hasNext(first bool, close byte) (bool, error) {
	switch c := s.peek(); {
	case s.pos < len(s.text) && c == close:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, s.syntaxError("a comma or " + strconv.QuoteRune(rune(close)))
	}
	s.pos++
	return true, nil
}

// object reads an object and calls visit with the name of each member. The function visit
// must read the member's value. If the value is null, object skips it and does not call visit.
func (s *scanner) object(visit func(name string) error) error {
	if err := s.expect('{', "an object"); err != nil {
		return err
	}
	for first := true; ; first = false {
		hasNext, err := s.hasNext(first, '}')
		if err != nil || !hasNext {
			return err
		}
		name, err := s.string()
		if err == nil {
			err = s.expect(':', "a colon")
		}
		if err == nil && !s.literal("null") {
			err = visit(name)
		}
		if err != nil {
			return err
		}
	}
}

// array reads an array and calls visit for each element. The function visit must read the
// element.
func (s *scanner) array(visit func() error) error {
	if err := s.expect('[', "an array"); err != nil {
		return err
	}
	for first := true; ; first = false {
		hasNext, err := s.hasNext(first, ']')
		if err == nil && hasNext {
			err = visit()
		}
		if err != nil || !hasNext {
			return err
		}
	}
}

// string reads a string. The result shares the memory of s.text, unless the string contains
// escapes or invalid UTF-8.
func (s *scanner) string() (text string, err error) {
	if err := s.expect('"', "a string"); err != nil {
		return "", err
	}
	begin, verbatim := s.pos-1, true
	for ; s.pos < len(s.text) && s.text[s.pos] != '"'; s.pos++ {
		if c := s.text[s.pos]; c == '\\' {
			s.pos++
			verbatim = false
		} else if c < ' ' {
			verbatim = false
		}
	}
	if s.pos >= len(s.text) {
		s.pos = len(s.text) // a backslash was the last byte
		return "", s.syntaxError("a quotation mark")
	}
	s.pos++
	raw := s.text[begin:s.pos]
	if verbatim && utf8.Valid(raw) {
		return view(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &text)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		s.pos = begin + int(syntax.Offset) - 1
		if s.text[s.pos] < ' ' {
			return "", s.syntaxError("a character of a string")
		}
		return "", s.syntaxError("an escaped character")
	}
	return text, err
}

// view returns b as a string without copying. The caller must not change b while the string
// is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number reads a number and returns its text. integer reports whether it is written
// without a fraction or an exponent.
func (s *scanner) number() (text string, integer bool, err error) {
	s.peek()
	begin := s.pos
	if s.nextIs('-') {
		s.pos++
	}
	switch {
	case s.nextIs('0'):
		s.pos++
	case !s.digits():
		return "", false, s.syntaxError("a number")
	}
	integer = true
	if s.nextIs('.') {
		s.pos++
		if integer = false; !s.digits() {
			return "", false, s.syntaxError("a digit")
		}
	}
	if s.nextIs('e') || s.nextIs('E') {
		s.pos++
		if s.nextIs('+') || s.nextIs('-') {
			s.pos++
		}
		if integer = false; !s.digits() {
			return "", false, s.syntaxError("a digit")
		}
	}
	return view(s.text[begin:s.pos]), integer, nil
}

func (s *scanner) nextIs(c byte) bool { return s.pos < len(s.text) && s.text[s.pos] == c }

// digits skips digits and reports whether there was at least one.
func (s *scanner) digits() bool {
	begin := s.pos
	for s.pos < len(s.text) && isDigit(s.text[s.pos]) {
		s.pos++
	}
	return s.pos > begin
}

// integer reads a 64-bit integer.
func (s *scanner) integer() (int64, error) {
	begin := s.pos
	text, integer, err := s.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if !integer || err != nil {
		s.pos = begin
		return 0, fmt.Errorf("%.40s is not a 64-bit integer", text)
	}
	return v, nil
}

// bool reads true or false.
func (s *scanner) bool() (bool, error) {
	if s.literal("true") {
		return true, nil
	}
	if s.literal("false") {
		return false, nil
	}
	return false, s.syntaxError("true or false")
}

// literal consumes the given word if it comes next, and reports whether it did.
func (s *scanner) literal(word string) bool {
	s.peek()
	if len(s.text)-s.pos < len(word) || view(s.text[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// skip skips a value and returns its text.
func (s *scanner) skip() ([]byte, error) {
	s.peek()
	begin := s.pos
	err := s.skipValue(0)
	return s.text[begin:s.pos], err
}

func (s *scanner) skipValue(depth int) error {
	if depth > maxDepth {
		return errors.New("it is nested too deeply")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(func(string) error { return s.skipValue(depth + 1) })
	case c == '[':
		return s.array(func() error { return s.skipValue(depth + 1) })
	case c == '"':
		_, err := s.string()
		return err
	case c == '-' || isDigit(c):
		_, _, err := s.number()
		return err
	case s.literal("true"), s.literal("false"), s.literal("null"):
		return nil
	}
	return s.syntaxError("a value")
}
