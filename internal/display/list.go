package display

import (
	"fmt"
	"strings"
)

// maxNameLength is the maximum length of a name in a list, in characters. Most paths are
// shorter.
const maxNameLength = 200

// List joins up to maxNames names and counts the others: a, b and 3 more.
func List(names []string, maxNames int) string { return list(names, maxNames, "s") }

// Quoted joins names as List does, and puts each name in quotation marks.
func Quoted(names []string, maxNames int) string { return list(names, maxNames, "q") }

func list(names []string, maxNames int, verb string) string {
	var shown []string
	for _, name := range names[:min(len(names), maxNames)] {
		if letters := []rune(name); len(letters) > maxNameLength {
			name = string(letters[:maxNameLength]) + "…"
		}
		shown = append(shown, fmt.Sprintf("%"+verb, name))
	}
	text := strings.Join(shown, ", ")
	if n := len(names) - maxNames; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
