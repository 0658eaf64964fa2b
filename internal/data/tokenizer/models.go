package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// model turns a piece of text into tokens.
type model interface {
	// tokens appends the ids of the tokens of text, which is not empty.
	tokens(dst []int64, text string) []int64
	// id returns the id of a token, or −1 if there is none.
	id(token string) int32
	// size returns the number of tokens.
	size() int
}

// vocabulary maps tokens to ids.
type vocabulary map[string]int32

func (v vocabulary) id(token string) int32 {
	if id, ok := v[token]; ok {
		return id
	}
	return -1
}

func (v vocabulary) size() int { return len(v) }

// modelJSON is the "model" of a file.
type modelJSON struct {
	Type         string
	Vocab        json.RawMessage
	Merges       json.RawMessage
	UnkToken     *string  `json:"unk_token"`
	UnkID        *int32   `json:"unk_id"`
	Prefix       *string  `json:"continuing_subword_prefix"`
	Suffix       *string  `json:"end_of_word_suffix"`
	MaxChars     *int     `json:"max_input_chars_per_word"`
	Dropout      *float64 `json:"dropout"`
	FuseUnk      bool     `json:"fuse_unk"`
	ByteFallback bool     `json:"byte_fallback"`
	IgnoreMerges bool     `json:"ignore_merges"`
}

func readModel(raw json.RawMessage) (model, error) {
	var v modelJSON
	if err := decode(raw, "the model", &v); err != nil {
		return nil, err
	}
	if v.Type == "" { // files from 2020 have no type
		switch {
		case v.Merges != nil:
			v.Type = "BPE"
		case v.MaxChars != nil:
			v.Type = "WordPiece"
		case strings.HasPrefix(string(v.Vocab), "["):
			v.Type = "Unigram"
		default:
			v.Type = "WordLevel"
		}
	}
	switch v.Type {
	case "WordPiece", "WordLevel", "BPE", "Unigram":
	default:
		return nil, fmt.Errorf("the model %.80q is not supported", v.Type)
	}
	var m model
	var err error
	if v.Type == "Unigram" {
		m, err = newUnigram(v)
	} else {
		var vocab vocabulary
		if err := decode(v.Vocab, "the model's vocab", &vocab); err != nil {
			return nil, err
		}
		for token, id := range vocab {
			if id < 0 {
				return nil, fmt.Errorf("the token %.80q has the id %d, which is negative", token, id)
			}
		}
		switch v.Type {
		case "WordPiece":
			m, err = newWordPiece(v, vocab)
		case "BPE":
			m, err = newBPE(v, vocab)
		default:
			m, err = newWordLevel(v, vocab)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the model %s: %w", v.Type, err)
	}
	return m, nil
}

// unknownID returns the id of the token that stands for unknown text.
func (v modelJSON) unknownID(vocab vocabulary) (int32, error) {
	if v.UnkToken == nil {
		return 0, errors.New("it has no unk_token")
	}
	id := vocab.id(*v.UnkToken)
	if id < 0 {
		return 0, fmt.Errorf("its unk_token %.80q is not in its vocabulary", *v.UnkToken)
	}
	return id, nil
}

// wordLevel represents each word by one token.
type wordLevel struct {
	vocabulary
	unk int32
}

func newWordLevel(v modelJSON, vocab vocabulary) (model, error) {
	unk, err := v.unknownID(vocab)
	return &wordLevel{vocab, unk}, err
}

func (m *wordLevel) tokens(dst []int64, text string) []int64 {
	id := m.id(text)
	if id < 0 {
		id = m.unk
	}
	return append(dst, int64(id))
}

// wordPiece splits a word greedily. It takes the longest token that the word begins with,
// and then repeatedly the longest token that continues the word (Wu et al. 2016, arXiv
// 1609.08144).
type wordPiece struct {
	vocabulary
	trie         *trie
	prefix       string // prefix of tokens that continue a word
	continuation int32  // trie node at the end of prefix; 0 if prefix is empty or no token continues a word
	unk          int32
	maxChars     int
}

func newWordPiece(v modelJSON, vocab vocabulary) (model, error) {
	if v.Prefix == nil || v.MaxChars == nil {
		return nil, errors.New("it lacks continuing_subword_prefix or max_input_chars_per_word")
	}
	unk, err := v.unknownID(vocab)
	m := &wordPiece{vocabulary: vocab, trie: newTrie(vocab), prefix: *v.Prefix, unk: unk, maxChars: *v.MaxChars}
	m.continuation = m.trie.find(m.prefix)
	return m, err
}

func (m *wordPiece) tokens(dst []int64, text string) []int64 {
	chars := 0
	for range text {
		if chars++; chars > m.maxChars {
			return append(dst, int64(m.unk))
		}
	}
	oldLen := len(dst)
	node := int32(0)
	for text != "" {
		id, n := m.trie.longest(node, text)
		if n == 0 {
			return append(dst[:oldLen], int64(m.unk))
		}
		dst, text = append(dst, int64(id)), text[n:]
		if node = m.continuation; node == 0 && m.prefix != "" && text != "" {
			return append(dst[:oldLen], int64(m.unk))
		}
	}
	return dst
}

// unigram splits a piece into the tokens with the largest sum of scores (Kudo 2018, arXiv
// 1804.10959).
type unigram struct {
	trie         *trie
	scores       []float64
	unk          int32
	unkScore     float64
	byteFallback bool
	bytes        [256]int32
}

// scoredToken is a token and its score in the "vocab" of a file.
type scoredToken struct {
	token string
	score float64
}

func (s *scoredToken) UnmarshalJSON(raw []byte) error {
	var entry []json.RawMessage
	if err := json.Unmarshal(raw, &entry); err != nil {
		return err
	}
	if len(entry) != 2 || entry[0][0] != '"' {
		return fmt.Errorf("%.80q is not a token and its score", raw)
	}
	if err := json.Unmarshal(entry[0], &s.token); err != nil {
		return err
	}
	var err error
	s.score, err = parseScore(string(entry[1]))
	return err
}

// parseScore parses a number as the library does. It multiplies or divides the digits by a
// power of ten, which rounds twice. The last bit of a score can decide between sequences
// with nearly equal sums.
func parseScore(number string) (float64, error) {
	var exact float64
	if err := json.Unmarshal([]byte(number), &exact); err != nil {
		return 0, err
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	power, err := strconv.Atoi(cmp.Or(exponent, "0"))
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	var digits uint64
	overflowed := false
	for i, d := range whole + fraction {
		n := digits*10 + uint64(d-'0')
		overflowed = overflowed || digits > math.MaxUint64/10 || n < digits*10
		if !overflowed {
			digits = n
		}
		if i < len(whole) && overflowed {
			power++
		} else if i >= len(whole) && !overflowed {
			power--
		}
	}
	if err != nil || power > 308 || power < -308 {
		return exact, nil
	}
	f := float64(digits) * math.Pow10(max(power, 0)) / math.Pow10(max(-power, 0))
	if negative {
		f = -f
	}
	return f, nil
}

func newUnigram(v modelJSON) (model, error) {
	var pieces []scoredToken
	if err := decode(v.Vocab, "its vocab", &pieces); err != nil {
		return nil, err
	}
	if v.UnkID == nil || *v.UnkID < 0 || int(*v.UnkID) >= len(pieces) {
		return nil, errors.New("its unk_id is not in its vocabulary")
	}
	m := &unigram{unk: *v.UnkID, byteFallback: v.ByteFallback, scores: make([]float64, len(pieces))}
	minScore := math.Inf(1)
	vocab := make(vocabulary, len(pieces))
	for i, p := range pieces {
		vocab[p.token], m.scores[i] = int32(i), p.score
		minScore = min(minScore, p.score)
	}
	m.trie, m.unkScore = newTrie(vocab), minScore-10
	m.bytes = byteTokens(vocab)
	return m, nil
}

// byteTokens returns the ids of <0x00> to <0xFF>, with −1 for missing tokens.
func byteTokens(vocab vocabulary) (ids [256]int32) {
	for b := range ids {
		ids[b] = vocab.id(fmt.Sprintf("<0x%02X>", b))
	}
	return ids
}

func (m *unigram) id(token string) int32 { return m.trie.get(token) }
func (m *unigram) size() int             { return len(m.scores) }

func (m *unigram) tokens(dst []int64, text string) []int64 {
	type end struct {
		score float64 // score of the best sequence of tokens that ends here
		start int32   // start of the last token of that sequence, −1 if there is no sequence
		id    int32
	}
	ends := make([]end, len(text)+1)
	for i := range ends {
		ends[i].start = -1
	}
	for i := range text {
		score, hasChar := ends[i].score, false
		width := runeWidth(text[i])
		node := int32(0)
		for j := i; j < len(text); {
			if node = m.trie.step(node, text[j]); node == 0 {
				break
			}
			j++
			id := m.trie.value[node]
			if id < 0 {
				continue
			}
			if e := &ends[j]; e.start < 0 || score+m.scores[id] > e.score {
				*e = end{score + m.scores[id], int32(i), id}
			}
			hasChar = hasChar || j == i+width
		}
		if e := &ends[i+width]; !hasChar && (e.start < 0 || score+m.unkScore > e.score) {
			*e = end{score + m.unkScore, int32(i), m.unk}
		}
	}
	// The best sequence is followed back from its end. Consecutive unknown tokens become
	// one.
	var path []string
	for i := len(text); i > 0; {
		e := ends[i]
		j := int(e.start)
		for e.id == m.unk && j > 0 && ends[j].id == m.unk {
			j = int(ends[j].start)
		}
		path = append(path, text[j:i])
		i = j
	}
	for k := len(path) - 1; k >= 0; k-- {
		dst = m.appendToken(dst, path[k])
	}
	return dst
}

// appendToken appends the id of a token. If the vocabulary lacks the token, it appends the
// tokens of its bytes. Without byteFallback, or if one of these byte tokens is missing too,
// it appends the unknown token.
func (m *unigram) appendToken(dst []int64, token string) []int64 {
	if id := m.id(token); id >= 0 {
		return append(dst, int64(id))
	}
	if m.byteFallback {
		oldLen := len(dst)
		for i := range len(token) {
			if m.bytes[token[i]] < 0 {
				return append(dst[:oldLen], int64(m.unk))
			}
			dst = append(dst, int64(m.bytes[token[i]]))
		}
		return dst
	}
	return append(dst, int64(m.unk))
}

// runeWidth returns the number of bytes of the character that begins with b.
func runeWidth(b byte) int {
	switch {
	case b < 0x80:
		return 1
	case b < 0xE0:
		return 2
	case b < 0xF0:
		return 3
	}
	return 4
}
