package command

import (
	"strings"

	"github.com/xrash/smetrics"
)

// leastSimilarity is how similar a name must be to be suggested, from 0 to 1.
const leastSimilarity = .87

// similar returns the name that a user most likely meant by one that is not known, or "".
// It ignores case, prefers the most similar name, and else takes the only name that the
// given one abbreviates. The library's own suggestions have no least similarity.
func similar(given string, names []string) (name string) {
	given = strings.ToLower(given)
	likeness := leastSimilarity
	for _, n := range names {
		if l := smetrics.JaroWinkler(n, given, .7, 4); l > likeness {
			name, likeness = n, l
		}
	}
	if name != "" || len(given) < 3 {
		return name
	}
	for _, n := range names {
		if strings.HasPrefix(n, given) {
			if name != "" {
				return "" // several are possible
			}
			name = n
		}
	}
	return name
}

// orSimilar returns a hint that names a similar name, or else where to find all names.
func orSimilar(given string, names []string, all string) string {
	if name := similar(given, names); name != "" {
		return "did you mean " + name + "?"
	}
	return all
}
