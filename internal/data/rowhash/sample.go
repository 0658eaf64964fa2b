package rowhash

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// OfInputs and OfFeatures name the data that hashes of rows are computed from.
const (
	OfInputs   = "inputs"
	OfFeatures = "features"
)

// Of returns the hashes of the rows of a batch. source is OfInputs or OfFeatures. Of
// returns nil if the batch lacks these data.
func Of(b ood.Batch, source string) []Hash {
	switch {
	case source == OfFeatures && b.Features.Cols > 0:
		return Features(b.Features)
	case source != OfInputs || b.Hashes == nil:
		return nil
	}
	list := make([]Hash, len(b.Hashes))
	for i, h := range b.Hashes {
		list[i] = h
	}
	return list
}

// Numbers returns the first halves of hashes as sorted numbers.
func Numbers(list []Hash) []uint64 {
	numbers := make([]uint64, len(list))
	for i, h := range list {
		numbers[i] = h.Number()
	}
	slices.Sort(numbers)
	return numbers
}

// Number returns the first half of the hash as a number.
func (h Hash) Number() uint64 { return binary.BigEndian.Uint64(h[:]) }

// MostSampled is the largest number of hashes in a sample.
const MostSampled = 4096

// Sample holds the smallest distinct hashes of rows. They are a random sample of the
// distinct rows, because hashes behave like random numbers.
type Sample struct {
	Hashes []uint64 // increasing
	// Rows is the number of rows whose hash is in Hashes. Repeated is the number of such
	// rows that equal another row by chance.
	Rows, Repeated int
}

// NewSample restores a sample from its stored hashes and counts. ties holds the fields Rows
// and Repeated.
func NewSample(hashes []uint64, ties [2]int) Sample {
	return Sample{Hashes: hashes, Rows: ties[0], Repeated: ties[1]}
}

// SampleOf returns a sample of rows, given their sorted hashes. If copies is true, equal
// rows were copied and do not count as equal by chance.
func SampleOf(sorted []uint64, copies bool) (s Sample) {
	for hash, n := range runs(sorted) {
		if len(s.Hashes) == MostSampled {
			break
		}
		s.Hashes = append(s.Hashes, hash)
		s.Rows += n
		if n > 1 && !copies {
			s.Repeated += n
		}
	}
	return s
}

// OK reports whether s can be a sample of at most n rows.
func (s Sample) OK(n int) bool {
	for i := 1; i < len(s.Hashes); i++ {
		if s.Hashes[i] <= s.Hashes[i-1] {
			return false
		}
	}
	return len(s.Hashes) <= MostSampled && s.Rows >= len(s.Hashes) && s.Rows <= n && s.Repeated >= 0 && s.Repeated <= s.Rows
}

// Matches counts rows that were compared with a sample.
type Matches struct {
	Rows     int `json:"rows"`
	Compared int `json:"compared"` // number of rows with a hash in the range of the sample
	Found    int `json:"found"`    // number of compared rows with a hash in the sample
	// Sampled and Repeated are the fields Rows and Repeated of the sample. Part is true if
	// the sample may lack the hashes of some rows.
	Sampled  int  `json:"sampled"`
	Repeated int  `json:"repeated"`
	Part     bool `json:"part,omitempty"`
}

// Add compares the hash of a row with the sample and counts the row. It reports whether the
// hash is in the sample.
func (m *Matches) Add(s Sample, hash uint64) bool {
	m.Rows++
	m.Sampled, m.Repeated, m.Part = s.Rows, s.Repeated, len(s.Hashes) == MostSampled
	if m.Part && hash > s.Hashes[MostSampled-1] {
		return false
	}
	m.Compared++
	_, found := slices.BinarySearch(s.Hashes, hash)
	if found {
		m.Found++
	}
	return found
}

// OK reports whether the counts are consistent with each other.
func (m Matches) OK() bool {
	return 0 <= m.Found && m.Found <= m.Compared && m.Compared <= m.Rows && 0 <= m.Repeated && m.Repeated <= m.Sampled
}

// Merge adds the counts of other rows, which were compared with the same sample.
func (m *Matches) Merge(others Matches) {
	others.Rows, others.Compared, others.Found = m.Rows+others.Rows, m.Compared+others.Compared, m.Found+others.Found
	*m = others
}

// Doubt is the significance level of tests for copies: the probability that rows are
// reported as copies although none were copied.
const Doubt = 1e-4

// minCopied is the smallest fraction of copied rows that is reported.
const minCopied = .01

// Known estimates how many of the counted rows also occur among the rows from which the
// sample was taken. It returns 0 if the fraction of matches is below minCopied. It also
// returns 0 if chance explains the matches, because rows with few columns and few values
// are often equal. By chance, a new row equals a sampled row about as often as sampled rows
// equal each other.
func (m Matches) Known() int {
	if m.Compared == 0 {
		return 0
	}
	fraction := float64(m.Found) / float64(m.Compared)
	if fraction < minCopied || hypothesis.Binomial(m.Found, m.Compared, equalRateBound(m.Repeated, m.Sampled)) >= Doubt {
		return 0
	}
	return int(math.Round(fraction * float64(m.Rows)))
}

// Says describes how many rows are known, for example "about 250 of 1,000 rows". It returns
// an empty string if no row is known.
func (m Matches) Says(what string) string {
	n := m.Known()
	switch {
	case n == 0:
		return ""
	case m.Part:
		return "about " + rows.CountOf(n, m.Rows, what)
	}
	return rows.CountOf(n, m.Rows, what)
}

// equalRateBound returns an upper bound, with 99 % confidence, for the probability that a
// row equals another row. repeated is the number of rows that do.
func equalRateBound(repeated, rows int) float64 {
	_, high := hypothesis.Interval(repeated, rows, .98)
	return high
}
