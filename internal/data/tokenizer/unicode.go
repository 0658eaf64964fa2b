package tokenizer

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// unicodeText contains character sets of the library, as written by testdata/unicode.py.
// The library's parts use Unicode versions 7 to 17. With Go's tables, which have a
// different version, different marks would be stripped and ids would differ.
//
//go:embed unicode.txt
var unicodeText string

// span contains the characters from lo to hi, inclusive.
type span struct{ lo, hi rune }

// set is a set of characters. low finds characters below 256 without a search.
type set struct {
	low   [256]bool
	spans []span // increasing
}

func (s *set) has(r rune) bool {
	if r < 256 {
		return s.low[r]
	}
	lo, hi := 0, len(s.spans)
	for lo < hi {
		if m := (lo + hi) / 2; s.spans[m].hi < r {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo < len(s.spans) && s.spans[lo].lo <= r
}

// newSet returns the set of the spans, which may overlap and have any order.
func newSet(spans []span) *set {
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo - b.lo) })
	s := &set{}
	for _, p := range spans {
		if last := len(s.spans) - 1; last >= 0 && p.lo <= s.spans[last].hi+1 {
			s.spans[last].hi = max(s.spans[last].hi, p.hi)
		} else {
			s.spans = append(s.spans, p)
		}
	}
	for _, p := range s.spans {
		for r := p.lo; r <= min(p.hi, 255); r++ {
			s.low[r] = true
		}
	}
	return s
}

func (s *set) inverted() *set {
	var out []span
	next := rune(0)
	for _, p := range s.spans {
		if next < p.lo {
			out = append(out, span{next, p.lo - 1})
		}
		next = p.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, span{next, unicode.MaxRune})
	}
	return newSet(out)
}

// characters holds the content of unicode.txt.
type characters struct {
	sets  map[string]*set
	lower map[rune]rune // lower-case characters that Go's tables may lack
}

var unicodeTables = sync.OnceValue(func() characters {
	out := characters{sets: map[string]*set{}, lower: map[rune]rune{}}
	hex := func(s string) rune {
		n, err := strconv.ParseUint(s, 16, 32)
		if err != nil {
			panic(fmt.Sprintf("tokenizer: unicode.txt: %v", err))
		}
		return rune(n)
	}
	for line := range strings.Lines(unicodeText) {
		fields := strings.Fields(line)
		var spans []span
		end := rune(0)
		for _, f := range fields[1:] {
			a, b, _ := strings.Cut(f, ",")
			if fields[0] == "lower" {
				out.lower[hex(a)] = hex(b)
				continue
			}
			first := end + hex(a)
			end = first + hex(b)
			spans = append(spans, span{first, end - 1})
		}
		out.sets[fields[0]] = newSet(spans)
	}
	var space []span
	for r := rune(0); r <= 0x3000; r++ {
		if unicode.IsSpace(r) {
			space = append(space, span{r, r})
		}
	}
	out.sets["space"] = newSet(space)
	return out
})

// lookup returns the set of unicode.txt with the given name, or the characters of a general
// category. For example, L stands for Lu, Ll, Lt, Lm and Lo.
func lookup(name string) (*set, bool) {
	sets := unicodeTables().sets
	if s, ok := sets[name]; ok {
		return s, true
	}
	var spans []span
	if len(name) == 1 && strings.Contains("LMNPSZ", name) {
		for member, s := range sets {
			if len(member) == 2 && member[:1] == name {
				spans = append(spans, s.spans...)
			}
		}
	}
	return newSet(spans), spans != nil
}

// charSet returns the set of unicode.txt with the given name.
func charSet(name string) *set { return unicodeTables().sets[name] }

func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
