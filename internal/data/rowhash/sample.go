package rowhash

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// What the hashes of rows are of.
const (
	OfInputs   = "inputs"
	OfFeatures = "features"
)

// Of hashes the rows of a batch by their inputs or by their features. It is nil if the
// batch lacks those.
func Of(b ood.Batch, of string) []Hash {
	switch {
	case of == OfFeatures && b.Features.Cols > 0:
		return Features(b.Features)
	case of != OfInputs || b.Hashes == nil:
		return nil
	}
	list := make([]Hash, len(b.Hashes))
	for i, h := range b.Hashes {
		list[i] = h
	}
	return list
}

// Numbers shortens hashes to numbers, sorted.
func Numbers(list []Hash) []uint64 {
	numbers := make([]uint64, len(list))
	for i, h := range list {
		numbers[i] = h.Number()
	}
	slices.Sort(numbers)
	return numbers
}

// Number is the first half of the hash.
func (h Hash) Number() uint64 { return binary.BigEndian.Uint64(h[:]) }

// MostSampled is how many hashes of rows a sample holds at most.
const MostSampled = 4096

// Sample is the least of the distinct hashes of rows. They are a random draw of the
// distinct rows, because a hash is as good as random.
type Sample struct {
	Hashes []uint64 // increasing
	// Rows is how many rows have one of the hashes, and Repeated how many of these equal
	// another of the rows by chance.
	Rows, Repeated int
}

// NewSample is the sample that a file keeps as hashes and as two counts: the rows that
// have these hashes, and the rows among them that equal another row by chance.
func NewSample(hashes []uint64, ties [2]int) Sample {
	return Sample{Hashes: hashes, Rows: ties[0], Repeated: ties[1]}
}

// SampleOf draws a sample of rows with these hashes, which are sorted. If copies is true,
// rows that equal others are taken to be copies, and not equal by chance.
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

// OK says that a sample may be one of at most n rows.
func (s Sample) OK(n int) bool {
	for i := 1; i < len(s.Hashes); i++ {
		if s.Hashes[i] <= s.Hashes[i-1] {
			return false
		}
	}
	return len(s.Hashes) <= MostSampled && s.Rows >= len(s.Hashes) && s.Rows <= n && s.Repeated >= 0 && s.Repeated <= s.Rows
}

// Matches counts rows that are compared with a sample.
type Matches struct {
	Rows     int `json:"rows"`
	Compared int `json:"compared"` // of Rows, those whose hashes the sample would hold
	Found    int `json:"found"`    // of Compared, those whose hashes it holds
	// Sampled and Repeated are what the sample says of its rows, and Part says that it
	// has not the hashes of all rows that it was drawn from.
	Sampled  int  `json:"sampled"`
	Repeated int  `json:"repeated"`
	Part     bool `json:"part,omitempty"`
}

// Add counts a row.
func (m *Matches) Add(s Sample, hash uint64) {
	m.Rows++
	m.Sampled, m.Repeated, m.Part = s.Rows, s.Repeated, len(s.Hashes) == MostSampled
	if m.Part && hash > s.Hashes[MostSampled-1] {
		return
	}
	m.Compared++
	if _, found := slices.BinarySearch(s.Hashes, hash); found {
		m.Found++
	}
}

// OK says that the counts may be of rows and a sample.
func (m Matches) OK() bool {
	return 0 <= m.Found && m.Found <= m.Compared && m.Compared <= m.Rows && 0 <= m.Repeated && m.Repeated <= m.Sampled
}

// Merge counts the rows of others, which were compared with the same sample.
func (m *Matches) Merge(others Matches) {
	others.Rows, others.Compared, others.Found = m.Rows+others.Rows, m.Compared+others.Compared, m.Found+others.Found
	*m = others
}

// Doubt is how likely rows of which none was copied are to look copied.
const Doubt = 1e-4

// leastShare is the share of rows that must be copies to be worth a word.
const leastShare = .01

// Known estimates how many of the rows are among those that the sample is of. It is 0
// if as many would be found by chance: rows of few columns with few values are often
// equal. A row drawn like those of the sample equals one of them about as often as they
// equal each other.
func (m Matches) Known() int {
	if m.Compared == 0 {
		return 0
	}
	share := float64(m.Found) / float64(m.Compared)
	if share < leastShare || hypothesis.Binomial(m.Found, m.Compared, atMost(m.Repeated, m.Sampled)) >= Doubt {
		return 0
	}
	return int(math.Round(share * float64(m.Rows)))
}

// Says writes how many rows are known, or nothing if none are: about 250 of 1,000 rows.
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

// atMost is how likely a row is at most to equal another, with 99 % confidence, if so many
// of all do.
func atMost(repeated, rows int) float64 {
	_, high := hypothesis.Interval(repeated, rows, .98)
	return high
}
