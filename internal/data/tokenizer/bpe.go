package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe merges the characters of a piece into tokens, pair by pair. Pairs are merged in the
// order in which training found them (Sennrich, Haddow & Birch 2016, arXiv 1508.07909).
type bpe struct {
	vocabulary
	merges         map[uint64]merge // keys are from pairKey
	prefix, suffix string           // prefix of all characters except the first, and suffix of the last
	unk            int32            // id for unknown characters; −1 drops them
	fuseUnk        bool
	byteFallback   bool
	ignoreMerges   bool
	bytes          [256]int32
	chars          [512]int32 // ids of characters up to U+01FF, used if prefix and suffix are empty
}

// merge holds the rank of a pair, and the id of the token that replaces the pair.
type merge struct{ rank, id int32 }

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// pair is a pair of tokens in the "merges" of a file, written as ["a", "b"] or "a b".
type pair [2]string

func (p *pair) UnmarshalJSON(raw []byte) error {
	var tokens []string
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		tokens = strings.Split(s, " ")
	} else if err := json.Unmarshal(raw, &tokens); err != nil {
		return err
	}
	if len(tokens) != 2 {
		return fmt.Errorf("the merge %.80q is not of two tokens", tokens)
	}
	*p = pair(tokens)
	return nil
}

func newBPE(v modelJSON, vocab vocabulary) (model, error) {
	if v.Dropout != nil && *v.Dropout != 0 {
		return nil, errors.New("dropout, which is random, is not supported")
	}
	m := &bpe{vocabulary: vocab, unk: -1, fuseUnk: v.FuseUnk, byteFallback: v.ByteFallback, ignoreMerges: v.IgnoreMerges}
	if v.Prefix != nil {
		m.prefix = *v.Prefix
	}
	if v.Suffix != nil {
		m.suffix = *v.Suffix
	}
	if v.UnkToken != nil {
		var err error
		if m.unk, err = v.unknownID(vocab); err != nil {
			return nil, err
		}
	}
	var pairs []pair
	if err := decode(v.Merges, "its merges", &pairs); err != nil {
		return nil, err
	}
	m.merges = make(map[uint64]merge, len(pairs))
	for i, p := range pairs {
		if i == 0 && strings.HasPrefix(p[0], "#version") {
			return nil, errors.New("its merges begin with a #version line, which is not supported")
		}
		tail, ok := strings.CutPrefix(p[1], m.prefix)
		a, b, merged := vocab.id(p[0]), vocab.id(p[1]), vocab.id(p[0]+tail)
		if !ok || a < 0 || b < 0 || merged < 0 {
			return nil, fmt.Errorf("the merge of %.80q and %.80q is not in its vocabulary", p[0], p[1])
		}
		m.merges[pairKey(a, b)] = merge{int32(i), merged}
	}
	m.bytes = byteTokens(vocab)
	for r := range m.chars {
		m.chars[r] = vocab.id(string(rune(r)))
	}
	return m, nil
}

// symbol is a token of a piece in a linked list. Merged symbols leave the list.
type symbol struct {
	id         int32 // −1 if the symbol was merged into the previous one
	prev, next int32 // −1 at the ends
}

func (m *bpe) tokens(dst []int64, text string) []int64 {
	if m.ignoreMerges {
		if id := m.id(text); id >= 0 {
			return append(dst, int64(id))
		}
	}
	var buffer [32]symbol
	symbols := m.symbols(buffer[:0], text)
	m.mergePairs(symbols)
	for _, s := range symbols {
		if s.id >= 0 {
			dst = append(dst, int64(s.id))
		}
	}
	return dst
}

// symbols returns the characters of a piece. An unknown character is pending until the next
// known one, so that fuseUnk can combine it with unknown characters that follow. Byte
// tokens are added before a pending character, as in the library.
func (m *bpe) symbols(out []symbol, text string) []symbol {
	add := func(id int32) {
		n := int32(len(out))
		out = append(out, symbol{id, n - 1, n + 1})
	}
	pending := false
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		char, id := text[i:i+n], int32(-1)
		if m.prefix == "" && m.suffix == "" && r < 512 {
			id = m.chars[r]
		} else {
			if i > 0 {
				char = m.prefix + char
			}
			if i+n == len(text) {
				char += m.suffix
			}
			id = m.id(char)
		}
		i += n
		if id >= 0 {
			if pending {
				add(m.unk)
				pending = false
			}
			add(id)
			continue
		}
		if m.byteFallback && m.hasBytes(char) {
			for j := range len(char) {
				add(m.bytes[char[j]])
			}
			continue
		}
		if m.unk >= 0 {
			if pending && !m.fuseUnk {
				add(m.unk)
			}
			pending = true
		}
	}
	if pending {
		add(m.unk)
	}
	if len(out) > 0 {
		out[len(out)-1].next = -1
	}
	return out
}

func (m *bpe) hasBytes(char string) bool {
	for i := range len(char) {
		if m.bytes[char[i]] < 0 {
			return false
		}
	}
	return true
}

// candidate is a pair of symbols that may be merged. at is the index of its first symbol.
type candidate struct {
	merge
	at int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// mergePairs merges pairs until no pair can be merged. It takes the pair with the lowest
// rank first, and the leftmost of equal ranks.
func (m *bpe) mergePairs(symbols []symbol) {
	var buffer [64]candidate
	h := heap(buffer[:0])
	for i := 0; i+1 < len(symbols); i++ {
		if g, ok := m.merges[pairKey(symbols[i].id, symbols[i+1].id)]; ok {
			h.push(candidate{g, int32(i)})
		}
	}
	for len(h) > 0 {
		top := h.pop()
		left := &symbols[top.at]
		if left.id < 0 || left.next < 0 {
			continue
		}
		right := &symbols[left.next]
		// The symbols of a candidate may have changed since it was pushed. It is still
		// valid if the current symbols merge to the same token.
		if g, ok := m.merges[pairKey(left.id, right.id)]; !ok || g.id != top.id {
			continue
		}
		left.id, left.next, right.id = top.id, right.next, -1
		if left.next >= 0 {
			symbols[left.next].prev = top.at
			if g, ok := m.merges[pairKey(left.id, symbols[left.next].id)]; ok {
				h.push(candidate{g, top.at})
			}
		}
		if left.prev >= 0 {
			if g, ok := m.merges[pairKey(symbols[left.prev].id, left.id)]; ok {
				h.push(candidate{g, left.prev})
			}
		}
	}
}

// heap is a binary heap of candidates, with the next one to merge on top.
type heap []candidate

func (h *heap) push(c candidate) {
	s := append(*h, c)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !c.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = c
	*h = s
}

func (h *heap) pop() candidate {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	for i := 0; len(s) > 0; {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if child >= len(s) || !s[child].before(last) {
			s[i] = last
			break
		}
		s[i] = s[child]
		i = child
	}
	*h = s
	return top
}
