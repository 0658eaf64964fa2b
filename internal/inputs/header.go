package inputs

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// isHeader reports whether the first record names columns: those that are asked for, or
// any. Of texts, which may be of one word, it must name one that is asked for or
// usual, or stand above others of several words.
func (t *tableReader) isHeader(first []string) bool {
	known := t.o.Columns != nil
	for _, name := range t.o.Columns {
		known = known && slices.Contains(first, name)
	}
	asked := slices.Concat([]string{t.o.Groups}, t.o.Targets, t.o.Ignore, t.o.Text)
	if known || !t.o.HasText {
		return known || isHeader(first, asked...)
	}
	for _, name := range slices.Concat(asked, usualText) {
		if name != "" && !numeric(name) && slices.Contains(first, name) {
			return true
		}
	}
	words := func(s string) bool { return strings.ContainsAny(strings.TrimSpace(s), " \t\n") }
	if slices.ContainsFunc(first, words) || !isHeader(first) {
		return false
	}
	return slices.ContainsFunc(t.sample[1:], func(rec []cell) bool {
		return slices.ContainsFunc(rec, func(c cell) bool { return words(c.text) })
	})
}

// isHeader reports whether a first record names columns. Taking a row for a
// header would lose it in silence, so a header has no cell that reads as a
// number and one, at least, that can be nothing but a name, in plain text; or it
// has a name that is asked for. All else is a row of numbers, or an error.
func isHeader(first []string, asked ...string) bool {
	for _, name := range asked {
		if name != "" && !numeric(name) && slices.Contains(first, name) {
			return true
		}
	}
	return slices.ContainsFunc(first, isName) && !slices.ContainsFunc(first, numeric) && !slices.ContainsFunc(first, unprintable)
}

// unprintable reports whether a cell is of no text.
func unprintable(cell string) bool {
	return strings.ContainsFunc(cell, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// isName reports whether a cell has a letter, is no mark of a missing value and
// does not begin as a number does.
func isName(cell string) bool {
	cell = strings.TrimSpace(cell)
	digits := strings.TrimLeft(cell, "+-.,")
	return strings.ContainsFunc(cell, unicode.IsLetter) && !slices.Contains(missing[:], cell) && (digits[0] < '0' || digits[0] > '9')
}

// isPandasIndex reports whether a first record is what pandas writes above
// numbered rows of numbered columns.
func isPandasIndex(first []cell) bool {
	for j, c := range first {
		if j == 0 && c.text != "" || j > 0 && c.text != strconv.Itoa(j-1) {
			return false
		}
	}
	return len(first) > 1
}
