package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is a regular expression in a subset of Oniguruma's syntax, which is used to split
// texts. It can contain classes, alternatives, groups, look-ahead, and repeats of single
// characters. Repeats cannot be nested, so the time of a match grows as a power of the
// text's length. A budget of steps limits the time.
type pattern struct {
	alts    []*node
	byFirst [utf8.RuneSelf][]*node // by ASCII character: the alternatives that can begin with it
}

// node matches something and continues with next.
type node struct {
	op         op
	set        *set    // for opRun
	min, max   int     // for opRun
	possessive bool    // for opRun: never backtracks
	alts       []*node // alternatives; each continues with next in opAlt, and ends by itself in a look-ahead
	next       *node
}

type op int

const (
	opEnd op = iota
	opRun
	opAlt
	opAhead
	opNotAhead
)

const unbounded = 1 << 30

var errSlow = errors.New("it takes too many steps on this text")

// find returns the start and end of the leftmost match at or after position from. Without a
// match, both are the length of the text. It reduces steps by the steps that it takes.
func (p *pattern) find(text string, from int, steps *int) (start, end int, err error) {
	for i := from; i < len(text); {
		b := text[i]
		alts := p.alts
		if b < utf8.RuneSelf {
			alts = p.byFirst[b]
		}
		for _, a := range alts {
			e := a.match(text, i, steps)
			if *steps < 0 {
				return 0, 0, errSlow
			}
			if e >= 0 {
				return i, e, nil
			}
		}
		if b < utf8.RuneSelf {
			i++
		} else {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
		}
	}
	return len(text), len(text), nil
}

// match returns the end of a match that begins at i, or −1 if there is none or steps run
// out.
func (n *node) match(text string, i int, steps *int) int {
	for {
		switch n.op {
		case opEnd:
			return i
		case opAlt, opAhead, opNotAhead:
			e := -1
			for _, a := range n.alts {
				if *steps--; *steps < 0 {
					return -1
				}
				if e = a.match(text, i, steps); e >= 0 {
					break
				}
			}
			if n.op == opAlt {
				return e
			}
			if (e >= 0) != (n.op == opAhead) {
				return -1
			}
		case opRun:
			count, begin := 0, i
			for count < n.max && i < len(text) {
				r, size := rune(text[i]), 1
				if r >= utf8.RuneSelf {
					r, size = utf8.DecodeRuneInString(text[i:])
				}
				if !n.set.has(r) {
					break
				}
				i += size
				count++
			}
			*steps -= i - begin
			if count < n.min {
				return -1
			}
			if *steps--; *steps < 0 {
				return -1
			}
			if n.possessive || count == n.min || n.next.op == opEnd {
				break
			}
			for ; ; count-- {
				if e := n.next.match(text, i, steps); e >= 0 {
					return e
				}
				if *steps--; count == n.min || *steps < 0 {
					return -1
				}
				_, size := utf8.DecodeLastRuneInString(text[:i])
				i -= size
			}
		}
		n = n.next
	}
}

// begins reports whether a match can begin with r or, if r is −1, can be empty. Nodes in
// seen were checked before, without success.
func (n *node) begins(r rune, seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	switch n.op {
	case opEnd:
		return true
	case opAlt:
		return slices.ContainsFunc(n.alts, func(a *node) bool { return a.begins(r, seen) })
	case opRun:
		return r >= 0 && n.set.has(r) || n.min == 0 && n.next.begins(r, seen)
	}
	return n.next.begins(r, seen)
}

// newPattern compiles a regular expression. Its errors name the parts that are not
// supported.
func newPattern(expr string) (*pattern, error) {
	if len(expr) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes is not supported, at most %d are", len(expr), maxPattern)
	}
	p := parser{src: expr}
	alts := p.group(0)(&node{})
	if p.src != "" {
		p.fail("a ) closes no group")
	}
	if slices.ContainsFunc(alts, func(a *node) bool { return a.begins(-1, map[*node]bool{}) }) {
		p.fail("it matches the empty text")
	}
	if p.err != nil {
		return nil, fmt.Errorf("the regular expression %.200q is not supported: %w", expr, p.err)
	}
	return withIndex(alts), nil
}

// literal returns a pattern that matches only s.
func literal(s string) *pattern {
	var items []item
	for _, r := range s {
		items = append(items, matchOnce(newSet([]span{{r, r}})))
	}
	return withIndex([]*node{link(items, &node{})})
}

func withIndex(alts []*node) *pattern {
	out := &pattern{alts: alts}
	for r := range rune(utf8.RuneSelf) {
		for _, a := range alts {
			if a.begins(r, map[*node]bool{}) {
				out.byFirst[r] = append(out.byFirst[r], a)
			}
		}
	}
	return out
}

// item is a node of a sequence whose successor is not yet known.
type item struct {
	node
	group  func(next *node) []*node // returns the alternatives of a group or look-ahead
	letter rune                     // the character, or 0 if the item is not a single character
}

func matchOnce(s *set) item { return item{node: node{op: opRun, set: s, min: 1, max: 1}} }

// link turns items into a chain of nodes that continues with next. It returns the first
// node.
func link(items []item, next *node) *node {
	for _, it := range slices.Backward(items) {
		n := it.node
		n.next = next
		switch n.op {
		case opAlt:
			n.alts = it.group(next)
			if n.min == 0 {
				n.alts = append(n.alts, next)
			}
		case opAhead, opNotAhead:
			n.alts = it.group(&node{})
		}
		next = &n
	}
	return next
}

// maxGroups limits the nesting of groups and classes, and maxPattern the length of an
// expression in bytes.
const (
	maxGroups  = 16
	maxPattern = 8192
)

// parser reads an expression. After an error, src is empty.
type parser struct {
	src        string
	ignoreCase bool
	err        error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.src = ""
}

// accept removes a prefix of src, and reports whether src began with it.
func (p *parser) accept(prefix string) (found bool) {
	p.src, found = strings.CutPrefix(p.src, prefix)
	return found
}

func (p *parser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.src)
	p.src = p.src[n:]
	return r
}

// group reads alternatives up to a closing parenthesis or the end. It returns a function
// that links them to the next node.
func (p *parser) group(depth int) func(next *node) []*node {
	if depth > maxGroups {
		p.fail("groups nest deeper than %d", maxGroups)
	}
	branches := [][]item{p.sequence(depth)}
	for p.accept("|") {
		branches = append(branches, p.sequence(depth))
	}
	return func(next *node) []*node {
		out := make([]*node, len(branches))
		for i, items := range branches {
			out[i] = link(items, next)
		}
		return out
	}
}

func (p *parser) sequence(depth int) (items []item) {
	for p.src != "" && p.src[0] != '|' && p.src[0] != ')' {
		it := p.atom(depth)
		p.repeat(&it)
		if n := len(items); n > 0 && p.ignoreCase && it.letter > 0 && items[n-1].letter > 0 &&
			slices.Contains([]string{"ss", "st", "ff", "fi", "fl"}, strings.ToLower(string([]rune{items[n-1].letter, it.letter}))) {
			p.fail("regardless of case, two of its letters are one ligature")
		}
		items = append(items, it)
	}
	return items
}

func (p *parser) atom(depth int) item {
	switch {
	case p.accept("["):
		return matchOnce(p.class(depth))
	case p.accept("("):
		return p.parenthesis(depth)
	case p.accept("."):
		return matchOnce(newSet([]span{{'\n', '\n'}}).inverted())
	case strings.IndexByte("*+?{^$", p.src[0]) >= 0:
		p.fail("%q stands where a character should", p.src[:1])
		return item{}
	}
	s, r := p.character()
	if s == nil {
		s = p.folded([]span{{r, r}})
	}
	it := matchOnce(s)
	it.letter = r
	return it
}

// folded returns the set of the characters in spans. If ignoreCase is true, it adds all
// characters that differ only by case.
func (p *parser) folded(spans []span) *set {
	for _, s := range spans[:len(spans):len(spans)] {
		if !p.ignoreCase {
			break
		}
		if s.hi >= utf8.RuneSelf {
			p.fail("%q regardless of case", s.hi)
		}
		for r := s.lo; r <= min(s.hi, utf8.RuneSelf); r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				spans = append(spans, span{f, f})
			}
		}
	}
	return newSet(spans)
}

func (p *parser) parenthesis(depth int) item {
	it := item{node: node{op: opAlt, min: 1, max: 1}}
	before := p.ignoreCase
	switch {
	case p.accept("?:"):
	case p.accept("?i:"):
		p.ignoreCase = true
	case p.accept("?="):
		it.op = opAhead
	case p.accept("?!"):
		it.op = opNotAhead
	case strings.HasPrefix(p.src, "?"):
		p.fail("the group %q", "("+p.src[:min(3, len(p.src))])
	}
	it.group = p.group(depth + 1)
	p.ignoreCase = before
	if !p.accept(")") {
		p.fail("a group is not closed")
	}
	return it
}

// repeat reads how often the item is repeated.
func (p *parser) repeat(it *item) {
	interval := false
	switch {
	case p.accept("?"):
		it.min, it.max = 0, 1
	case p.accept("*"):
		it.min, it.max = 0, unbounded
	case p.accept("+"):
		it.min, it.max = 1, unbounded
	case p.accept("{"):
		interval = true
		inside, rest, closed := strings.Cut(p.src, "}")
		low, high, ranged := strings.Cut(inside, ",")
		atLeast, err := strconv.Atoi(low)
		atMost, err2 := atLeast, error(nil)
		if ranged && high == "" {
			atMost = unbounded
		} else if ranged {
			atMost, err2 = strconv.Atoi(high)
		}
		if !closed || err != nil || err2 != nil || atLeast < 0 || atMost < max(atLeast, 1) {
			p.fail("the repeat {%.12s", p.src)
			return
		}
		it.min, it.max, p.src = atLeast, atMost, rest
	default:
		return
	}
	if it.op != opRun && (it.op != opAlt || it.min != 0 || it.max != 1) {
		p.fail("a repeated group")
	}
	it.letter = 0
	if !interval && it.op == opRun {
		it.possessive = p.accept("+")
	}
	if p.src != "" && strings.IndexByte("*+?{", p.src[0]) >= 0 {
		p.fail("the repeat of a repeat %q", p.src[:1])
	}
}

// class reads a class after its opening bracket. A class may contain other classes.
func (p *parser) class(depth int) *set {
	if depth > maxGroups {
		p.fail("classes nest deeper than %d", maxGroups)
	}
	negated := p.accept("^")
	if negated && p.ignoreCase {
		p.fail("a negated class regardless of case")
	}
	var classSpans, spans []span
	for n := 0; n == 0 || !p.accept("]"); n++ {
		switch {
		case p.src == "" || p.src[0] == ']':
			p.fail("a class is empty or not closed")
			return newSet(nil)
		case strings.HasPrefix(p.src, "[:") || strings.HasPrefix(p.src, "&&"):
			p.fail("%q in a class", p.src[:2])
			continue
		case p.accept("["):
			classSpans = append(classSpans, p.class(depth+1).spans...)
			continue
		}
		s, lo := p.character()
		if s != nil {
			classSpans = append(classSpans, s.spans...)
			continue
		}
		hi := lo
		if len(p.src) > 1 && p.src[0] == '-' && p.src[1] != ']' {
			p.src = p.src[1:]
			bracket := p.src[0] == '['
			if s, hi = p.character(); bracket || s != nil || hi < lo {
				p.fail("a range without an end")
			}
		}
		spans = append(spans, span{lo, hi})
	}
	s := newSet(append(classSpans, p.folded(spans).spans...))
	if negated {
		s = s.inverted()
	}
	return s
}

// character reads a character, or an escape such as \s or \p{L}, for which it returns a
// set.
func (p *parser) character() (*set, rune) {
	if !p.accept(`\`) {
		return nil, p.rune()
	}
	rest := p.src
	r := p.rune()
	if i := strings.IndexRune("tnrfvae", r); i >= 0 {
		return nil, rune("\t\n\r\f\v\a\x1b"[i])
	}
	name, inverted := map[rune]string{'s': "space", 'd': "Nd", 'w': "w"}[unicode.ToLower(r)], unicode.IsUpper(r)
	switch {
	case name != "":
	case r == 'p' || r == 'P':
		var closed bool
		name, p.src, closed = strings.Cut(p.src, "}")
		var opened, caret bool
		name, opened = strings.CutPrefix(name, "{")
		if name, caret = strings.CutPrefix(name, "^"); caret {
			inverted = !inverted
		}
		if !opened || !closed || p.ignoreCase || name == strings.ToLower(name) {
			p.fail("the property %.30q", name)
		}
	case rest == "" || unicode.IsLetter(r) || unicode.IsDigit(r):
		p.fail("the escape %q", `\`+rest[:min(1, len(rest))])
		return nil, 0
	default:
		return nil, r
	}
	s, ok := lookup(name)
	if !ok {
		p.fail("the property %.30q", name)
	}
	if inverted {
		s = s.inverted()
	}
	return s, 0
}
