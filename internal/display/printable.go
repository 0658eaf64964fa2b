package display

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable escapes invalid UTF-8 and characters that are not Visible, such as control
// characters, in Go syntax. Otherwise a name could end a line or change the terminal.
func Printable(text string) string { return PrintableExcept(text, "") }

// PrintableExcept escapes text as Printable does, but keeps the ASCII characters in except.
func PrintableExcept(text, except string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if strings.ContainsRune(except, r) && n == 1 && r != utf8.RuneError || Visible(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[:n])
		} else {
			quoted := strconv.Quote(text[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// Visible reports whether a character may be printed. It rejects control characters, line
// separators, and the marks that change the direction of text.
func Visible(r rune) bool { return unicode.IsGraphic(r) }
