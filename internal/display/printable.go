package display

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable escapes, the way Go does, what would end a line or steer a
// terminal, and bytes that are no UTF-8.
func Printable(text string) string { return PrintableBut(text, "") }

// PrintableBut is Printable but for characters that are left as they are.
func PrintableBut(text, but string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if strings.ContainsRune(but, r) && n == 1 && r != utf8.RuneError || Visible(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[:n])
		} else {
			quoted := strconv.Quote(text[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// Visible reports whether a character may be printed. Marks that turn the direction of
// writing may not.
func Visible(r rune) bool { return unicode.IsGraphic(r) }
