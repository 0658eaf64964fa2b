package inputs

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// isHeader reports whether the first record is a header: it names columns of the fit, a
// requested column, or any columns. A row that is taken for a header would be lost silently. A
// header of unknown names must therefore have no cell that reads as a number, and at least one
// that can only be a name in plain text. In a column of texts, which may be single words, it
// must also stand above texts of several words. Anything else is a row, or an error.
func (t *tableReader) isHeader(first []string) bool {
	in := func(name string) bool {
		_, ok := t.places[name]
		return ok
	}
	if t.o.Columns != nil && !slices.ContainsFunc(t.o.Columns, func(name string) bool { return !in(name) }) {
		return true
	}
	asked := slices.Concat([]string{t.o.Groups, t.o.ID}, t.o.Targets, t.o.Ignore, t.o.Text)
	if t.o.HasText {
		asked = append(asked, usualText...)
	}
	if slices.ContainsFunc(asked, func(name string) bool { return name != "" && !numeric(name) && in(name) }) {
		return true
	}
	if t.o.allTargets && !slices.ContainsFunc(first, func(cell string) bool { return !slices.Contains(t.o.Classes, cell) }) {
		return false // the first row contains classes
	}
	plain := slices.ContainsFunc(first, isName) && !slices.ContainsFunc(first, numeric) && !slices.ContainsFunc(first, unprintable)
	if !plain || !t.o.HasText {
		return plain
	}
	return t.wordy && !slices.ContainsFunc(first, severalWords)
}

func severalWords(s string) bool { return strings.ContainsAny(strings.TrimSpace(s), " \t\n") }

// unprintable reports whether a cell is not printable text.
func unprintable(cell string) bool {
	return strings.ContainsFunc(cell, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// isName reports whether a cell has a letter, is not a mark for a missing value, and does not
// begin like a number.
func isName(cell string) bool {
	cell = strings.TrimSpace(cell)
	digits := strings.TrimLeft(cell, "+-.,")
	return strings.ContainsFunc(cell, unicode.IsLetter) && !slices.Contains(missing[:], cell) && (digits[0] < '0' || digits[0] > '9')
}

// isPandasIndex reports whether the first record is the header that pandas writes if
// rows and columns are only numbered.
func isPandasIndex(first []cell) bool {
	for j, c := range first {
		if j == 0 && c.text != "" || j > 0 && c.text != strconv.Itoa(j-1) {
			return false
		}
	}
	return len(first) > 1
}
