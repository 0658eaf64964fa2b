package inputs

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// isHeader reports whether the first record is a header. It is one if it contains the names
// of all columns of the fit, or a requested name. Any other header must contain a cell that
// can only be a name, and neither numbers nor unprintable text. Otherwise a row could be
// taken for a header and be lost silently. If the model takes texts, a row can consist of
// single words. A header must then consist of single words above texts of several words.
func (t *tableReader) isHeader(first []string) bool {
	hasColumn := func(name string) bool {
		_, ok := t.columnIndex[name]
		return ok
	}
	if t.o.Columns != nil && !slices.ContainsFunc(t.o.Columns, func(name string) bool { return !hasColumn(name) }) {
		return true
	}
	requested := slices.Concat([]string{t.o.Groups, t.o.ID}, t.o.Targets, t.o.Ignore, t.o.Text)
	if t.o.HasText {
		requested = append(requested, defaultTextNames...)
	}
	if slices.ContainsFunc(requested, func(name string) bool { return name != "" && !isNumeric(name) && hasColumn(name) }) {
		return true
	}
	if t.o.allTargets && !slices.ContainsFunc(first, func(cell string) bool { return !slices.Contains(t.o.Classes, cell) }) {
		return false // the first row contains classes, not names
	}
	looksLikeNames := slices.ContainsFunc(first, isName) && !slices.ContainsFunc(first, isNumeric) && !slices.ContainsFunc(first, unprintable)
	if !looksLikeNames || !t.o.HasText {
		return looksLikeNames
	}
	return t.hasPhrases && !slices.ContainsFunc(first, severalWords)
}

func severalWords(s string) bool { return strings.ContainsAny(strings.TrimSpace(s), " \t\n") }

// unprintable reports whether a cell contains control characters other than newlines and
// tabs.
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

// isPandasIndex reports whether the first record is the header that pandas writes if rows
// and columns have numbers instead of names.
func isPandasIndex(first []cell) bool {
	for j, c := range first {
		if j == 0 && c.text != "" || j > 0 && c.text != strconv.Itoa(j-1) {
			return false
		}
	}
	return len(first) > 1
}
