package command

import (
	"strings"

	"github.com/xrash/smetrics"
)

// minSimilarity is the similarity from 0 to 1 above which a name is suggested.
const minSimilarity = .86

// prefixSimilarity is the least similarity between a name and a longer word that the user
// typed and that begins with the name. With it, --calibration suggests --cal and not
// --cal-fraction.
const prefixSimilarity = .9

// mostSimilar returns the name that the user most likely meant, or "". The argument given
// is the text that the user typed. The function ignores case, and prefers the most similar
// name. If no name is similar enough, it returns the only name that begins with given, if
// given has at least three letters. The library's own suggestions are not used, because
// they have no minimum similarity.
func mostSimilar(given string, names []string) (name string) {
	given = strings.ToLower(given)
	likeness := minSimilarity
	for _, n := range names {
		l := smetrics.JaroWinkler(n, given, .7, 4)
		if len(n) >= 3 && strings.HasPrefix(given, n) {
			l = max(l, prefixSimilarity)
		}
		if l > likeness {
			name, likeness = n, l
		}
	}
	if name != "" || len(given) < 3 {
		return name
	}
	for _, n := range names {
		if strings.HasPrefix(n, given) {
			if name != "" {
				return "" // several names begin with given
			}
			name = n
		}
	}
	return name
}

// suggest returns a hint with the most similar name. If no name is similar, it returns the
// text all, which says where to find all names.
func suggest(given string, names []string, all string) string {
	if name := mostSimilar(given, names); name != "" {
		return "did you mean " + name + "?"
	}
	return all
}
