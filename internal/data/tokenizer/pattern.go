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

// pattern is a regular expression with Oniguruma's meaning, of the subset that splits texts:
// classes, alternatives, groups, look-ahead, and repeats of single characters. Repeats are
// never nested, so that a match costs at most a power of the text's length; a budget of steps
// limits that power.
type pattern struct {
	alts    []*node
	byFirst [utf8.RuneSelf][]*node // alternatives that this character can begin
}

// node matches something and continues with next.
type node struct {
	op         op
	set        *set    // for opRun
	min, max   int     // for opRun
	possessive bool    // for opRun: never backtracks
	alts       []*node // for opAlt, each of which continues with next; for opAhead and opNotAhead, each of which ends
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

// find returns the leftmost match from position from on, or the end of the text if there is
// none.
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

// match returns the end of a match that begins at i, −1 if there is none.
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

// begins reports whether a match may begin with r or, if r is −1, be empty. Nodes in seen are
// known not to.
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

// newPattern compiles an expression. Errors name the parts that are not supported.
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
	return compiled(alts), nil
}

// literal returns the pattern of one string.
func literal(s string) *pattern {
	var items []item
	for _, r := range s {
		items = append(items, once(newSet([]span{{r, r}})))
	}
	return compiled([]*node{link(items, &node{})})
}

func compiled(alts []*node) *pattern {
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
	group  func(next *node) []*node // for a group or look-ahead: its alternatives
	letter rune                     // its character, 0 for a class
}

func once(s *set) item { return item{node: node{op: opRun, set: s, min: 1, max: 1}} }

// link chains the items, before next.
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

// parser reads an expression. After an error nothing is left to read.
type parser struct {
	src     string
	anyCase bool
	err     error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.src = ""
}

// take removes a prefix and reports whether it was there.
func (p *parser) take(prefix string) (found bool) {
	p.src, found = strings.CutPrefix(p.src, prefix)
	return found
}

func (p *parser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.src)
	p.src = p.src[n:]
	return r
}

// group reads the alternatives up to a closing parenthesis or the end.
func (p *parser) group(depth int) func(next *node) []*node {
	if depth > maxGroups {
		p.fail("groups nest deeper than %d", maxGroups)
	}
	branches := [][]item{p.sequence(depth)}
	for p.take("|") {
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
		if n := len(items); n > 0 && p.anyCase && it.letter > 0 && items[n-1].letter > 0 &&
			slices.Contains([]string{"ss", "st", "ff", "fi", "fl"}, strings.ToLower(string([]rune{items[n-1].letter, it.letter}))) {
			p.fail("regardless of case, two of its letters are one ligature")
		}
		items = append(items, it)
	}
	return items
}

func (p *parser) atom(depth int) item {
	switch {
	case p.take("["):
		return once(p.class(depth))
	case p.take("("):
		return p.parenthesis(depth)
	case p.take("."):
		return once(newSet([]span{{'\n', '\n'}}).inverted())
	case strings.IndexByte("*+?{^$", p.src[0]) >= 0:
		p.fail("%q stands where a character should", p.src[:1])
		return item{}
	}
	s, r := p.character()
	if s == nil {
		s = p.folded([]span{{r, r}})
	}
	it := once(s)
	it.letter = r
	return it
}

// folded returns the characters, or all that differ from one of them only by case.
func (p *parser) folded(spans []span) *set {
	for _, s := range spans[:len(spans):len(spans)] {
		if !p.anyCase {
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
	before := p.anyCase
	switch {
	case p.take("?:"):
	case p.take("?i:"):
		p.anyCase = true
	case p.take("?="):
		it.op = opAhead
	case p.take("?!"):
		it.op = opNotAhead
	case strings.HasPrefix(p.src, "?"):
		p.fail("the group %q", "("+p.src[:min(3, len(p.src))])
	}
	it.group = p.group(depth + 1)
	p.anyCase = before
	if !p.take(")") {
		p.fail("a group is not closed")
	}
	return it
}

// repeat reads how often the item is repeated.
func (p *parser) repeat(it *item) {
	interval := false
	switch {
	case p.take("?"):
		it.min, it.max = 0, 1
	case p.take("*"):
		it.min, it.max = 0, unbounded
	case p.take("+"):
		it.min, it.max = 1, unbounded
	case p.take("{"):
		interval = true
		inside, rest, closed := strings.Cut(p.src, "}")
		low, high, ranged := strings.Cut(inside, ",")
		least, err := strconv.Atoi(low)
		most, err2 := least, error(nil)
		if ranged && high == "" {
			most = unbounded
		} else if ranged {
			most, err2 = strconv.Atoi(high)
		}
		if !closed || err != nil || err2 != nil || least < 0 || most < max(least, 1) {
			p.fail("the repeat {%.12s", p.src)
			return
		}
		it.min, it.max, p.src = least, most, rest
	default:
		return
	}
	if it.op != opRun && (it.op != opAlt || it.min != 0 || it.max != 1) {
		p.fail("a repeated group")
	}
	it.letter = 0
	if !interval && it.op == opRun {
		it.possessive = p.take("+")
	}
	if p.src != "" && strings.IndexByte("*+?{", p.src[0]) >= 0 {
		p.fail("the repeat of a repeat %q", p.src[:1])
	}
}

// class reads the text after a [, which may contain nested classes.
func (p *parser) class(depth int) *set {
	if depth > maxGroups {
		p.fail("classes nest deeper than %d", maxGroups)
	}
	negated := p.take("^")
	if negated && p.anyCase {
		p.fail("a negated class regardless of case")
	}
	var whole, spans []span
	for n := 0; n == 0 || !p.take("]"); n++ {
		switch {
		case p.src == "" || p.src[0] == ']':
			p.fail("a class is empty or not closed")
			return newSet(nil)
		case strings.HasPrefix(p.src, "[:") || strings.HasPrefix(p.src, "&&"):
			p.fail("%q in a class", p.src[:2])
			continue
		case p.take("["):
			whole = append(whole, p.class(depth+1).spans...)
			continue
		}
		s, lo := p.character()
		if s != nil {
			whole = append(whole, s.spans...)
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
	s := newSet(append(whole, p.folded(spans).spans...))
	if negated {
		s = s.inverted()
	}
	return s
}

// character reads a character, or the set that an escape names.
func (p *parser) character() (*set, rune) {
	if !p.take(`\`) {
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
		if !opened || !closed || p.anyCase || name == strings.ToLower(name) {
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
