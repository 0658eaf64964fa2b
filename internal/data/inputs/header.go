package inputs

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// isHeader reports whether the first record names columns: those that were fitted on,
// one that is asked for, or any. Taking a row for a header would lose it in silence, so
// that a header of other names has no cell that reads as a number and one, at least,
// that can be nothing but a name, in plain text. Of texts, which may be of one word, it
// must also stand above others of several words. All else is a row, or an error.
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
		return false // the first row is of classes
	}
	plain := slices.ContainsFunc(first, isName) && !slices.ContainsFunc(first, numeric) && !slices.ContainsFunc(first, unprintable)
	if !plain || !t.o.HasText {
		return plain
	}
	return t.wordy && !slices.ContainsFunc(first, severalWords)
}

func severalWords(s string) bool { return strings.ContainsAny(strings.TrimSpace(s), " \t\n") }

// unprintable reports whether a cell is of no text.
func unprintable(cell string) bool {
	return strings.ContainsFunc(cell, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// isName reports whether a cell has a letter, is not a mark of a missing value, and
// does not begin like a number.
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
