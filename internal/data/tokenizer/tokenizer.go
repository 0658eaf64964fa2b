// Package tokenizer turns texts into the numbers that a model reads, like Hugging Face's
// library tokenizers with a model's tokenizer.json. It supports WordPiece, byte-level BPE, BPE
// with byte fallback, Unigram and WordLevel, with their normalizers, pre-tokenizers, added
// tokens and special tokens. Every id equals that of the library (release 0.23.3). Reading a
// file with an unsupported part returns an error that names it: other types of these parts
// (Nmt, UnicodeScripts, FixedLength, CharDelimiterSplit), BPE with dropout, models without a
// token for unknown text, and regular expressions with look-behind, anchors, lazy repeats or
// repeated groups.
//
// Ids differ in one case: a normal form inserts U+034F after every 30 combining marks in a
// row, as in Unicode's Stream-Safe Text Format, and the library does not.
//
// Time and memory grow linearly with the length of a text. In a text that is not UTF-8, U+FFFD
// replaces each ill-formed part, as with Python's errors="replace".
package tokenizer

import (
	"fmt"
	"math"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Tokenizer turns texts into tokens. Several goroutines may use it while its fields do not
// change.
type Tokenizer struct {
	MaxTokens int      // largest number of tokens of a text or a pair, including special ones; 0: any number
	Truncate  Strategy // which text of a pair is truncated
	CutLeft   bool     // whether truncation removes the first tokens instead of the last
	PadLeft   bool     // whether padding comes before the tokens
	PadID     int64    // token that pads shorter texts of a batch
	PadType   int64    // its token type

	normalizers []normalizer
	splitters   []splitter
	model       model
	template    *template
	asIs        addedTokens
	normalized  addedTokens
	added       vocabulary
}

// Strategy selects the text of a pair that is truncated if both together have too many tokens.
type Strategy string

const (
	LongestFirst Strategy = "longest_first" // the longer one, then both; the default
	OnlyFirst    Strategy = "only_first"
	OnlySecond   Strategy = "only_second"
)

// Encoding is the tokens of a text or of a pair.
type Encoding struct {
	IDs   []int64
	Types []int64 // type of each token: for most models 0 in the first text and 1 in the second
	Cut   bool    // whether the text was truncated
}

// id returns the id of a token, −1 if there is none.
func (t *Tokenizer) id(token string) int32 {
	if id, ok := t.added[token]; ok {
		return id
	}
	return t.model.id(token)
}

// Encode returns the tokens of a text.
func (t *Tokenizer) Encode(text string) (Encoding, error) { return t.encode(text) }

// EncodePair returns the tokens of a pair of texts.
func (t *Tokenizer) EncodePair(a, b string) (Encoding, error) { return t.encode(a, b) }

func (t *Tokenizer) encode(texts ...string) (Encoding, error) {
	var ids [2][]int64
	for i, text := range texts {
		var err error
		if ids[i], err = t.tokens(text, len(texts) == 1); err != nil {
			return Encoding{}, err
		}
	}
	parts := t.template.parts(len(texts) == 2)
	total, cut := special(parts), false
	if t.MaxTokens > 0 {
		room := t.MaxTokens - total
		if room < 0 {
			return Encoding{}, fmt.Errorf("at most %d tokens are wanted, and the special ones are %d", t.MaxTokens, total)
		}
		cut = len(ids[0])+len(ids[1]) > room
		var err error
		if ids, err = t.truncated(ids, room, len(texts) == 2); err != nil {
			return Encoding{}, err
		}
	}
	for _, p := range parts {
		if p.sequence >= 0 {
			total += len(ids[p.sequence])
		}
	}
	e := Encoding{IDs: make([]int64, 0, total), Types: make([]int64, total), Cut: cut}
	for _, p := range parts {
		from := len(e.IDs)
		if p.sequence >= 0 {
			e.IDs = append(e.IDs, ids[p.sequence]...)
		}
		e.IDs = append(e.IDs, p.ids...)
		for i := from; i < len(e.IDs); i++ {
			e.Types[i] = p.kind
		}
	}
	return e, nil
}

// tokens returns the tokens of one text, without special ones. For a single text it may stop
// at the truncation; for a pair, truncation compares the lengths.
func (t *Tokenizer) tokens(text string, alone bool) (ids []int64, err error) {
	if !utf8.ValidString(text) {
		if text, err = unicode.UTF8.NewDecoder().String(text); err != nil {
			return nil, fmt.Errorf("the text is not UTF-8: %w", err)
		}
	}
	token := func(id int32) { ids = append(ids, int64(id)) }
	enough := math.MaxInt
	if alone && t.MaxTokens > 0 && !t.CutLeft {
		enough = t.MaxTokens + 1 // one too many
	}
	var pieces, cut []piece
	err = t.asIs.split(text, func(part string, start int) error {
		part, err := t.normalize(part)
		if err != nil {
			return err
		}
		return t.normalized.split(part, func(part string, within int) error {
			pieces = append(pieces[:0], piece{part, start == 0 && within == 0})
			for _, s := range t.splitters {
				cut = cut[:0]
				for _, p := range pieces {
					if cut, err = s(cut, p); err != nil {
						return err
					}
				}
				pieces, cut = cut, pieces
			}
			for _, p := range pieces {
				if len(ids) >= enough {
					break
				}
				ids = t.model.tokens(ids, p.text)
			}
			return nil
		}, token)
	}, token)
	return ids, err
}

func (t *Tokenizer) normalize(s string) (string, error) {
	limit := mayGrowTo(len(s))
	var err error
	for _, n := range t.normalizers {
		if s, err = n(s); err != nil {
			return "", err
		}
		if len(s) > limit {
			return "", errGrows
		}
	}
	return s, nil
}

// truncated shortens the tokens of the texts until both fit.
func (t *Tokenizer) truncated(ids [2][]int64, room int, pair bool) ([2][]int64, error) {
	n := [2]int{len(ids[0]), len(ids[1])}
	excess := n[0] + n[1] - room
	if excess <= 0 {
		return ids, nil
	}
	which := 0
	switch {
	case room == 0:
		n = [2]int{}
	case t.Truncate == OnlyFirst || t.Truncate == OnlySecond:
		if t.Truncate == OnlySecond {
			which = 1
		}
		if t.Truncate == OnlySecond && !pair {
			return ids, fmt.Errorf("the text has %d tokens too many, and only a second text, which is absent, may lose some", excess)
		}
		if n[which] <= excess {
			return ids, fmt.Errorf("the texts have %d tokens too many, and the one that may lose some has %d", excess, n[which])
		}
		n[which] -= excess
	case !pair:
		n[0] = room
	default:
		short := 0
		if n[0] > n[1] {
			short = 1
		}
		n[1-short] = max(n[short], room-n[short])
		if n[0]+n[1] > room {
			n[short] = room / 2
			n[1-short] = room - room/2
		}
	}
	for i := range ids {
		if t.CutLeft {
			ids[i] = ids[i][len(ids[i])-n[i]:]
		} else {
			ids[i] = ids[i][:n[i]]
		}
	}
	return ids, nil
}
