package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text that is tokenized separately.
type piece struct {
	text  string
	start bool // whether the piece is at the beginning of the text
}

// splitter splits a piece and appends the parts that are not empty.
type splitter func(dst []piece, p piece) ([]piece, error)

// behavior selects what a splitter does with its matches.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

// gptPattern is the pattern of GPT-2. The pre-tokenizer ByteLevel uses it.
const gptPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// patternJSON is a pattern in a file.
type patternJSON struct{ String, Regex *string }

func (p *patternJSON) compile() (*pattern, error) {
	switch {
	case p == nil || p.String == nil && p.Regex == nil:
		return nil, fmt.Errorf("its pattern has neither String nor Regex")
	case p.Regex != nil:
		return newPattern(*p.Regex)
	case *p.String == "" || len(*p.String) > maxPattern:
		return nil, fmt.Errorf("a pattern of %d bytes is not supported, 1 to %d are", len(*p.String), maxPattern)
	}
	return literal(*p.String), nil
}

// readSplitters reads the "pre_tokenizer" of a file as a list of steps. dropsFirst reports
// whether normalizers can remove the first character of a text.
func readSplitters(raw json.RawMessage, dropsFirst bool, depth int) ([]splitter, error) {
	var v struct {
		Type          string
		Pretokenizers []json.RawMessage
		PrefixSpace   *bool        `json:"add_prefix_space"`
		UseRegex      *bool        `json:"use_regex"`
		Replacement   string       `json:"replacement"`
		Scheme        string       `json:"prepend_scheme"`
		Split         *bool        `json:"split"`
		Pattern       *patternJSON `json:"pattern"`
		Behavior      behavior     `json:"behavior"`
		Invert        bool         `json:"invert"`
		Individual    bool         `json:"individual_digits"`
	}
	if err := decode(raw, "the pre-tokenizer", &v); err != nil {
		return nil, err
	}
	checkBehavior := func() error {
		switch v.Behavior {
		case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous:
			return nil
		}
		return fmt.Errorf("the pre-tokenizer %s: the behavior %.80q is not supported", v.Type, v.Behavior)
	}
	switch v.Type {
	case "BertPreTokenizer":
		return []splitter{splitAt(unicode.IsSpace, removed), splitAt(charSet("punctuation").has, isolated)}, nil
	case "WhitespaceSplit":
		return []splitter{splitAt(unicode.IsSpace, removed)}, nil
	case "Whitespace":
		return []splitter{whitespace}, nil
	case "Punctuation":
		if v.Behavior == "" {
			v.Behavior = isolated
		}
		return []splitter{splitAt(charSet("punctuation").has, v.Behavior)}, checkBehavior()
	case "Digits":
		if v.Individual {
			return []splitter{splitAt(charSet("numeric").has, isolated)}, nil
		}
		return []splitter{splitAt(charSet("numeric").has, contiguous)}, nil
	case "Split":
		p, err := v.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("the pre-tokenizer Split: %w", err)
		}
		return []splitter{p.splitter(v.Behavior, v.Invert)}, checkBehavior()
	case "ByteLevel":
		var steps []splitter
		if v.PrefixSpace == nil || *v.PrefixSpace {
			steps = append(steps, func(dst []piece, p piece) ([]piece, error) {
				if p.text[0] != ' ' {
					p.text = " " + p.text
				}
				return append(dst, p), nil
			})
		}
		if v.UseRegex == nil || *v.UseRegex {
			p, err := newPattern(gptPattern)
			if err != nil {
				return nil, err
			}
			steps = append(steps, p.splitter(isolated, false))
		}
		return append(steps, func(dst []piece, p piece) ([]piece, error) {
			return append(dst, piece{byteLevel(p.text), p.start}), nil
		}), nil
	case "Metaspace":
		if v.PrefixSpace != nil && !*v.PrefixSpace {
			if v.Scheme != "" && v.Scheme != "never" {
				return nil, fmt.Errorf("the pre-tokenizer Metaspace: add_prefix_space is false and prepend_scheme %.80q", v.Scheme)
			}
			v.Scheme = "never"
		}
		switch {
		case v.Scheme == "":
			v.Scheme = "always"
		case v.Scheme == "first" && dropsFirst:
			return nil, fmt.Errorf("the pre-tokenizer Metaspace: prepend_scheme \"first\" behind a normalizer that may drop a text's first character is not supported")
		case v.Scheme != "always" && v.Scheme != "first" && v.Scheme != "never":
			return nil, fmt.Errorf("the pre-tokenizer Metaspace: the prepend_scheme %.80q is not supported", v.Scheme)
		}
		r, n := utf8.DecodeRuneInString(v.Replacement)
		if n == 0 || n != len(v.Replacement) {
			return nil, fmt.Errorf("the pre-tokenizer Metaspace: the replacement %.80q is not one character", v.Replacement)
		}
		steps := []splitter{func(dst []piece, p piece) ([]piece, error) {
			p.text = strings.ReplaceAll(p.text, " ", v.Replacement)
			if (v.Scheme == "always" || v.Scheme == "first" && p.start) && !strings.HasPrefix(p.text, v.Replacement) {
				p.text = v.Replacement + p.text
			}
			return append(dst, p), nil
		}}
		if v.Split == nil || *v.Split {
			steps = append(steps, splitAt(func(c rune) bool { return c == r }, mergedWithNext))
		}
		return steps, nil
	case "Sequence":
		if depth == maxNesting {
			return nil, fmt.Errorf("pre-tokenizers nest deeper than %d", maxNesting)
		}
		var steps []splitter
		for _, r := range v.Pretokenizers {
			more, err := readSplitters(r, dropsFirst, depth+1)
			if err != nil {
				return nil, err
			}
			steps = append(steps, more...)
		}
		return steps, nil
	}
	return nil, fmt.Errorf("the pre-tokenizer %.80q is not supported", v.Type)
}

// cutter divides a piece into matches and the text between matches. Its behavior selects
// which of these parts are joined or removed.
type cutter struct {
	behavior behavior
	p        piece
	dst      []piece
	from     int  // start of the pending part
	to       int  // end of the pending part
	pending  bool // whether there is a part that the next one may be joined to
	matched  bool // whether the last part was a match
}

// add adds the next part of the piece, which ends at end.
func (c *cutter) add(end int, match bool) {
	if end == c.to {
		return
	}
	start := c.to
	join := false
	switch c.behavior {
	case removed:
		if match {
			c.flush()
			c.from, c.to = end, end
			return
		}
	case contiguous:
		join = match == c.matched
	case mergedWithPrevious:
		join = match && !c.matched
	case mergedWithNext:
		join = !match && c.matched
	}
	if !join || !c.pending {
		c.flush()
		c.from = start
	}
	c.to, c.pending, c.matched = end, true, match
}

func (c *cutter) flush() {
	if c.pending {
		c.dst = append(c.dst, piece{c.p.text[c.from:c.to], c.p.start && c.from == 0})
	}
	c.pending = false
}

// splitAt returns a splitter that treats each character r with isMatch(r) as one match.
func splitAt(isMatch func(r rune) bool, b behavior) splitter {
	return func(dst []piece, p piece) ([]piece, error) {
		c := cutter{behavior: b, p: p, dst: dst}
		for i, r := range p.text {
			if isMatch(r) {
				c.add(i, false)
				c.add(i+utf8.RuneLen(r), true)
			}
		}
		c.add(len(p.text), false)
		c.flush()
		return c.dst, nil
	}
}

// stepsFor returns the budget of steps for a pattern on a text. Normal patterns need only a
// small part of it.
func stepsFor(text string) int { return 256*len(text) + 65536 }

// splitter returns a splitter that divides a piece into the matches of the pattern and the
// text between them, to which it applies the behavior. If invert is true, the text between
// matches is treated as a match, and each match as the text between.
func (p *pattern) splitter(b behavior, invert bool) splitter {
	return func(dst []piece, in piece) ([]piece, error) {
		c := cutter{behavior: b, p: in, dst: dst}
		steps := stepsFor(in.text)
		for at := 0; at < len(in.text); {
			start, end, err := p.find(in.text, at, &steps)
			if err != nil {
				return nil, fmt.Errorf("the pre-tokenizer's regular expression %w", err)
			}
			c.add(start, invert)
			c.add(end, !invert)
			at = end
		}
		c.flush()
		return c.dst, nil
	}
}

// replace returns s with content in place of each match.
func (p *pattern) replace(s, content string) (string, error) {
	var b strings.Builder
	steps := stepsFor(s)
	for at := 0; at < len(s); {
		start, end, err := p.find(s, at, &steps)
		if err != nil {
			return "", fmt.Errorf("the normalizer's regular expression %w", err)
		}
		if at == 0 && start == len(s) {
			return s, nil
		}
		b.WriteString(s[at:start])
		if start < end {
			b.WriteString(content)
		}
		if b.Len() > maxNormalized(len(s)) {
			return "", errGrows
		}
		at = end
	}
	return b.String(), nil
}

// whitespace splits a piece into the matches of \w+|[^\w\s]+.
func whitespace(dst []piece, p piece) ([]piece, error) {
	word := charSet("word")
	kind := func(r rune) int {
		switch {
		case word.has(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	from, last := 0, 0
	for i, r := range p.text {
		if k := kind(r); k != last {
			if last != 0 {
				dst = append(dst, piece{p.text[from:i], p.start && from == 0})
			}
			from, last = i, k
		}
	}
	if last != 0 {
		dst = append(dst, piece{p.text[from:], p.start && from == 0})
	}
	return dst, nil
}

// byteLevel represents each byte of s by one character, as GPT-2 does.
func byteLevel(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	for i := range len(s) {
		b.WriteRune(byteRune(s[i]))
	}
	return b.String()
}

// byteRune returns the character that represents a byte. A visible byte represents itself.
// Each other byte gets the next free character from U+0100 on.
func byteRune(b byte) rune {
	switch {
	case b <= ' ':
		return 0x100 + rune(b)
	case b >= 0x7F && b <= 0xA0:
		return 0x121 + rune(b) - 0x7F
	case b == 0xAD:
		return 0x143
	}
	return rune(b)
}
