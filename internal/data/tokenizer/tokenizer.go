// Package tokenizer converts texts to the token ids that a model reads. It reads a model's
// tokenizer.json and returns the same ids as Hugging Face's library tokenizers (release
// 0.23.3). It supports the models WordPiece, byte-level BPE, BPE with byte fallback,
// Unigram and WordLevel, with their normalizers, pre-tokenizers, added tokens and special
// tokens.
//
// If a file contains an unsupported part, reading it returns an error that names the part.
// Unsupported parts include
//
//   - the normalizer Nmt, and the pre-tokenizers UnicodeScripts, FixedLength and
//     CharDelimiterSplit
//   - BPE with dropout, and models other than BPE without a token for unknown text
//   - regular expressions with look-behind, anchors, lazy repeats or repeated groups
//
// Ids differ from the library's in one case. In this package, Unicode normal forms insert
// U+034F after every 30 combining marks in a row, as in Unicode's Stream-Safe Text Format.
// The library does not insert it.
//
// Time and memory grow linearly with the length of a text. In a text that is not valid
// UTF-8, U+FFFD replaces each ill-formed part, as with Python's errors="replace".
package tokenizer

import (
	"fmt"
	"math"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Tokenizer converts texts to tokens. Several goroutines may use a Tokenizer as long as its
// fields do not change.
type Tokenizer struct {
	MaxTokens int      // limit for a text or a pair, including special tokens; 0 for no limit
	Truncate  Strategy // which text of a pair is truncated
	CutLeft   bool     // whether truncation removes the first tokens instead of the last
	PadLeft   bool     // whether padding comes before the tokens
	PadID     int64    // token that pads shorter texts of a batch
	PadType   int64    // token type of PadID

	normalizers []normalizer
	splitters   []splitter
	model       model
	template    *template
	original    addedTokens // added tokens to find in the original text
	normalized  addedTokens // added tokens to find in the normalized text
	added       vocabulary  // ids of all added tokens
}

// Strategy selects the text of a pair that is truncated if both together have too many tokens.
type Strategy string

const (
	LongestFirst Strategy = "longest_first" // shorten the longer text first, then both (the default)
	OnlyFirst    Strategy = "only_first"
	OnlySecond   Strategy = "only_second"
)

// Encoding holds the tokens of a text or of a pair of texts.
type Encoding struct {
	IDs   []int64
	Types []int64 // type of each token; most models use 0 in the first text and 1 in the second
	Cut   bool    // whether the text was truncated
}

// id returns the id of a token, or −1 if there is none.
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
	total, cut := countSpecial(parts), false
	if t.MaxTokens > 0 {
		room := t.MaxTokens - total
		if room < 0 {
			return Encoding{}, fmt.Errorf("at most %d tokens are wanted, and the special ones are %d", t.MaxTokens, total)
		}
		cut = len(ids[0])+len(ids[1]) > room
		var err error
		if ids, err = t.truncate(ids, room, len(texts) == 2); err != nil {
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
			e.Types[i] = p.tokenType
		}
	}
	return e, nil
}

// tokens returns the tokens of one text, without special tokens. A single text is tokenized
// only as far as truncation keeps it, unless its first tokens are removed. Texts of a pair
// are tokenized completely, because truncation compares their lengths.
func (t *Tokenizer) tokens(text string, single bool) (ids []int64, err error) {
	if !utf8.ValidString(text) {
		if text, err = unicode.UTF8.NewDecoder().String(text); err != nil {
			return nil, fmt.Errorf("the text is not UTF-8: %w", err)
		}
	}
	token := func(id int32) { ids = append(ids, int64(id)) }
	limit := math.MaxInt
	if single && t.MaxTokens > 0 && !t.CutLeft {
		limit = t.MaxTokens + 1 // one more than allowed, to notice truncation
	}
	var pieces, cut []piece
	err = t.original.split(text, func(part string, start int) error {
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
				if len(ids) >= limit {
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
	limit := maxNormalized(len(s))
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

// truncate shortens the tokens of the texts until at most room remain.
func (t *Tokenizer) truncate(ids [2][]int64, room int, pair bool) ([2][]int64, error) {
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
		shorter := 0
		if n[0] > n[1] {
			shorter = 1
		}
		n[1-shorter] = max(n[shorter], room-n[shorter])
		if n[0]+n[1] > room {
			n[shorter] = room / 2
			n[1-shorter] = room - room/2
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
