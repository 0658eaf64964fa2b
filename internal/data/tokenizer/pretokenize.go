package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text that contains whole tokens.
type piece struct {
	text  string
	start bool // whether the text begins with it
}

// splitter splits a piece and appends the parts that are not empty.
type splitter func(dst []piece, p piece) ([]piece, error)

// behavior is the treatment of the matches of a split.
type behavior string

const (
	removed    behavior = "Removed"
	isolated   behavior = "Isolated"
	previous   behavior = "MergedWithPrevious"
	next       behavior = "MergedWithNext"
	contiguous behavior = "Contiguous"
)

// gptPattern is the pattern of GPT-2, which the pre-tokenizer ByteLevel uses if the file has
// no other.
const gptPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// patternJSON is a pattern in the file.
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

// readSplitters reads the file's "pre_tokenizer" as a list of steps. drops tells that the
// normalizers may remove the first character of a text.
func readSplitters(raw json.RawMessage, drops bool, depth int) ([]splitter, error) {
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
	known := func() error {
		switch v.Behavior {
		case removed, isolated, previous, next, contiguous:
			return nil
		}
		return fmt.Errorf("the pre-tokenizer %s: the behavior %.80q is not supported", v.Type, v.Behavior)
	}
	switch v.Type {
	case "BertPreTokenizer":
		return []splitter{splitAt(unicode.IsSpace, removed), splitAt(named("punctuation").has, isolated)}, nil
	case "WhitespaceSplit":
		return []splitter{splitAt(unicode.IsSpace, removed)}, nil
	case "Whitespace":
		return []splitter{whitespace}, nil
	case "Punctuation":
		if v.Behavior == "" {
			v.Behavior = isolated
		}
		return []splitter{splitAt(named("punctuation").has, v.Behavior)}, known()
	case "Digits":
		if v.Individual {
			return []splitter{splitAt(named("numeric").has, isolated)}, nil
		}
		return []splitter{splitAt(named("numeric").has, contiguous)}, nil
	case "Split":
		p, err := v.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("the pre-tokenizer Split: %w", err)
		}
		return []splitter{p.splitter(v.Behavior, v.Invert)}, known()
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
		case v.Scheme == "first" && drops:
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
			steps = append(steps, splitAt(func(c rune) bool { return c == r }, next))
		}
		return steps, nil
	case "Sequence":
		if depth == maxNesting {
			return nil, fmt.Errorf("pre-tokenizers nest deeper than %d", maxNesting)
		}
		var steps []splitter
		for _, r := range v.Pretokenizers {
			more, err := readSplitters(r, drops, depth+1)
			if err != nil {
				return nil, err
			}
			steps = append(steps, more...)
		}
		return steps, nil
	}
	return nil, fmt.Errorf("the pre-tokenizer %.80q is not supported", v.Type)
}

// cutter appends the parts of a piece, the matches and the text between them, according to its
// behavior.
type cutter struct {
	behavior behavior
	p        piece
	dst      []piece
	from     int  // start of the waiting part
	to       int  // end of the waiting part
	waiting  bool // whether a part waits for the next one
	matched  bool // whether the last part was a match
}

// part adds the next part of the piece, up to end.
func (c *cutter) part(end int, match bool) {
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
	case previous:
		join = match && !c.matched
	case next:
		join = !match && c.matched
	}
	if !join || !c.waiting {
		c.flush()
		c.from = start
	}
	c.to, c.waiting, c.matched = end, true, match
}

func (c *cutter) flush() {
	if c.waiting {
		c.dst = append(c.dst, piece{c.p.text[c.from:c.to], c.p.start && c.from == 0})
	}
	c.waiting = false
}

// splitAt returns a split whose matches are single characters.
func splitAt(is func(r rune) bool, b behavior) splitter {
	return func(dst []piece, p piece) ([]piece, error) {
		c := cutter{behavior: b, p: p, dst: dst}
		for i, r := range p.text {
			if is(r) {
				c.part(i, false)
				c.part(i+utf8.RuneLen(r), true)
			}
		}
		c.part(len(p.text), false)
		c.flush()
		return c.dst, nil
	}
}

// stepsFor returns the budget of steps for a pattern on a text, many times what a normal
// pattern needs.
func stepsFor(text string) int { return 256*len(text) + 65536 }

// splitter returns a splitter that uses the pattern's matches.
func (p *pattern) splitter(b behavior, invert bool) splitter {
	return func(dst []piece, in piece) ([]piece, error) {
		c := cutter{behavior: b, p: in, dst: dst}
		steps := stepsFor(in.text)
		for at := 0; at < len(in.text); {
			start, end, err := p.find(in.text, at, &steps)
			if err != nil {
				return nil, fmt.Errorf("the pre-tokenizer's regular expression %w", err)
			}
			c.part(start, invert)
			c.part(end, !invert)
			at = end
		}
		c.flush()
		return c.dst, nil
	}
}

// replace replaces each match by content.
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
		if b.Len() > mayGrowTo(len(s)) {
			return "", errGrows
		}
		at = end
	}
	return b.String(), nil
}

// whitespace splits like \w+|[^\w\s]+.
func whitespace(dst []piece, p piece) ([]piece, error) {
	word := named("word")
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

// byteLevel writes each byte as a separate character, as GPT-2 does.
func byteLevel(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	for i := range len(s) {
		b.WriteRune(byteRune(s[i]))
	}
	return b.String()
}

// byteRune returns the character for a byte: the byte itself if it is visible, or else the
// next free one from U+0100 on.
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
