package schema

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"github.com/attach-uncertainty/attach/ood"
)

// unknownWords is the quantity of a column that measures which fraction of the words of a text
// the profile does not know.
const unknownWords = "unknown words"

const (
	maxWords      = 1 << 13 // largest number of words that a profile knows
	maxTextWords  = 1 << 12 // number of words of a text that are looked up: the first
	maxWordHashes = 1 << 22 // largest number of words of all texts that a Learner keeps
	levelBits     = 4       // bits of an element of Words.Known that hold the logarithm
)

// Words holds the words of a text column in the rows of a fit, as hashes.
//
// Words are separated by white space. Upper and lower case are equal, as are all digits.
// Characters at the ends of a word that are neither letters nor numbers are left out, unless
// there are no others. A word counts once for each row that has it.
type Words struct {
	Rows     int `json:"rows"`     // number of fit rows whose words were counted: all, or a random part
	Distinct int `json:"distinct"` // number of different words in these rows
	// Least is the smallest number of rows with a known word. It is 1 unless there are too many
	// words, so that only the most frequent ones are known.
	Least int `json:"least"`
	// Total is the sum of the numbers of different words of each row. Unknown is the part of it
	// that would be unknown if the row were left out.
	Total   int `json:"total"`
	Unknown int `json:"unknown"`
	// Known holds four bytes for each known word, in increasing order of the hash: a 28-bit hash,
	// and in the lowest four bits the logarithm to base 2 of the number of rows with the word,
	// rounded down, at most 15.
	Known []byte `json:"known"`
}

// Len returns the number of known words, at most 8,192.
func (w *Words) Len() int { return len(w.Known) / 4 }

// RowsWith returns the number of counted fit rows that have a word, rounded down to a power of
// two and at most 32,768. It returns 0 for an unknown word. An unknown word is reported as known
// with a probability of at most 1 in 32,768, because words are stored as hashes.
func (w *Words) RowsWith(word string) int {
	if level, known := w.level(hashWord(word)); known {
		return 1 << level
	}
	return 0
}

// UnknownFraction returns the fraction of the words of new rows that are expected to be unknown
// if the rows come from the source of the fit rows. It is the estimate of Good (1953), which
// leaves out each fit row in turn.
func (w *Words) UnknownFraction() float64 { return float64(w.Unknown) / float64(max(w.Total, 1)) }

func (w *Words) at(i int) uint32 { return binary.LittleEndian.Uint32(w.Known[4*i:]) }

// level returns the logarithm to base 2 of the number of rows with the word of a hash, rounded
// down.
func (w *Words) level(hash uint32) (level int, known bool) {
	low, high := 0, w.Len()
	for low < high {
		if middle := (low + high) / 2; w.at(middle)>>levelBits < hash {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == w.Len() || w.at(low)>>levelBits != hash {
		return 0, false
	}
	return int(w.at(low) & (1<<levelBits - 1)), true
}

// checkWords returns an error unless a Learner can make the words of c from the given number of
// fit rows.
func (c *Column) checkWords(fitRows int) error {
	w := c.Words
	if w == nil {
		return nil
	}
	switch n := w.Len(); {
	case c.Quantity != unknownWords || c.Sampled != w.Rows:
		return fmt.Errorf("it measures %q of %d rows, and knows words of %d", c.Quantity, c.Sampled, w.Rows)
	case w.Rows < 1 || w.Rows > fitRows || w.Distinct < 0 || w.Distinct > w.Total || w.Total > maxTextWords*w.Rows:
		return fmt.Errorf("%d of %d rows have %d words, %d of them different", w.Rows, fitRows, w.Total, w.Distinct)
	case w.Unknown < 0 || w.Unknown > w.Total:
		return fmt.Errorf("%d of %d words would be unknown", w.Unknown, w.Total)
	case len(w.Known) != 4*n || n > maxWords || n > w.Distinct || w.Least < 1 || w.Least > w.Rows+1 || (w.Least == 1) != (n == w.Distinct):
		return fmt.Errorf("it knows %d bytes of hashes of %d words, which at least %d rows have", len(w.Known), w.Distinct, w.Least)
	}
	before := int64(-1)
	for i := range w.Len() {
		hash, level := int64(w.at(i)>>levelBits), w.at(i)&(1<<levelBits-1)
		if hash <= before || w.Rows>>level == 0 || 2<<level <= w.Least && level < 1<<levelBits-1 {
			return errors.New("the hashes of its words are not valid")
		}
		before = hash
	}
	return nil
}

// hashWord returns the 28-bit hash of a word.
func hashWord(word string) uint32 {
	trimmed := strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	h := hash(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '0' // numbers are new in most rows, but their form is not
		}
		return unicode.ToLower(r)
	}, cmp.Or(trimmed, word)))
	return h>>(32-levelBits) ^ h<<levelBits>>levelBits
}

// wordsOf returns the hashes of the different words of a text.
func wordsOf(text string) (hashes []uint32) {
	for word := range strings.FieldsSeq(text) {
		if len(hashes) == maxTextWords {
			break
		}
		hashes = append(hashes, hashWord(word))
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// unknown returns the fraction of the words of each text that are unknown. It is 0 for a text
// without words.
func (w *Words) unknown(texts []string) []float32 {
	fractions := make([]float32, len(texts))
	for i, text := range texts {
		words, unknown := wordsOf(text), 0
		for _, h := range words {
			if _, known := w.level(h); !known {
				unknown++
			}
		}
		fractions[i] = float32(unknown) / float32(max(len(words), 1))
	}
	return fractions
}

// textsOf returns the texts of a tensor, or nil unless each row has one text.
func textsOf(t *ood.Tensor) []string {
	if t == nil || len(t.Strings) != t.Shape[0] {
		return nil
	}
	return t.Strings
}

// wordSample keeps the words of a random part of all texts. Whether a text is kept depends only
// on the number of its row.
type wordSample struct {
	rows   int // number of rows so far
	mask   uint64
	kept   []uint64 // hashes of the numbers of the kept rows
	ends   []int    // end of the words of each kept row in words
	hashes []uint32
}

// add adds texts. It halves the sample when it is too large.
func (s *wordSample) add(texts []string) {
	for i, text := range texts {
		h := mix(uint64(s.rows + i))
		if h&s.mask != 0 {
			continue
		}
		s.hashes = append(s.hashes, wordsOf(text)...)
		s.kept, s.ends = append(s.kept, h), append(s.ends, len(s.hashes))
		for len(s.kept) > maxSampled || len(s.hashes) > maxWordHashes {
			s.halve()
		}
	}
	s.rows += len(texts)
}

func (s *wordSample) halve() {
	s.mask = s.mask<<1 | 1
	kept, hashes, start := 0, s.hashes[:0], 0
	for i, h := range s.kept {
		end := s.ends[i]
		if h&s.mask == 0 {
			hashes = append(hashes, s.hashes[start:end]...)
			s.kept[kept], s.ends[kept] = h, len(hashes)
			kept++
		}
		start = end
	}
	s.kept, s.ends, s.hashes = s.kept[:kept], s.ends[:kept], hashes
}

// words returns the words of the sample, and the fraction of the words of each row that would
// be unknown if the row were left out, in increasing order. It returns nil if there are no rows.
func (s *wordSample) words() (w *Words, unknown []float32) {
	if len(s.kept) == 0 {
		return nil, nil
	}
	w = &Words{Rows: len(s.kept), Least: 1, Total: len(s.hashes), Known: []byte{}}
	all := slices.Sorted(slices.Values(s.hashes))
	var counts []int // number of rows with each different word, in the order of hashes
	for i, h := range all {
		if i == 0 || h != all[i-1] {
			counts = append(counts, 0)
		}
		counts[len(counts)-1]++
	}
	w.Distinct = len(counts)
	if w.Distinct > maxWords {
		largest := slices.Sorted(slices.Values(counts))
		w.Least = largest[len(largest)-maxWords-1] + 1
	}
	once := map[uint32]bool{} // known words that are unknown to their last row
	for i, k := 0, 0; k < len(counts); k++ {
		if counts[k] >= w.Least {
			level := min(bits.Len(uint(counts[k]))-1, 1<<levelBits-1)
			w.Known = binary.LittleEndian.AppendUint32(w.Known, all[i]<<levelBits|uint32(level))
			once[all[i]] = counts[k] == w.Least
		}
		i += counts[k]
	}
	start := 0
	for _, end := range s.ends {
		n := 0
		for _, h := range s.hashes[start:end] {
			if last, known := once[h]; last || !known {
				n++
			}
		}
		w.Unknown += n
		unknown = append(unknown, float32(n)/float32(max(end-start, 1)))
		start = end
	}
	slices.Sort(unknown)
	return w, unknown
}

// setWords sets the words of a column, and its range and quantiles. It returns how far the
// largest number is outside the range of the other rows, as setNumbers does.
func (c *Column) setWords(s *wordSample) (excesses []float64) {
	var unknown []float32
	if c.Words, unknown = s.words(); c.Words == nil {
		return nil
	}
	var state columnState
	state.add(cells{numbers: unknown})
	return c.setNumbers(state, unknown)
}
