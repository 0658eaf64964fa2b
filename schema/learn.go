package schema

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// fractions lists the quantiles that a profile keeps.
var fractions = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995}

// maxSampled is the largest number of rows whose numbers are kept to compute quantiles.
const maxSampled = 1 << 16

// Learner learns a profile from the rows of a fit. Its memory does not grow with the number of
// rows beyond 65,536 numbers for each column and 4 million words for each text. It is not safe
// for concurrent use.
type Learner struct {
	o       LearnOptions
	rows    int
	columns []Column
	states  []columnState
	words   []wordSample // by column; empty unless the column measures unknown words
	sample  sample
}

// columnState collects what a Learner needs to know about one column.
type columnState struct {
	numbers int
	// low and high hold the two smallest and the two largest numbers, the extreme one first.
	low, high [2]float64
	counts    map[string]int // number of rows of each category; nil if there are too many categories
	tooMany   bool
}

// NewLearner returns a Learner that has seen no rows.
func NewLearner(o LearnOptions) *Learner { return &Learner{o: o, sample: sample{limit: maxSampled}} }

// Observe returns the same blocks, and adds each block to the profile.
func (l *Learner) Observe(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range blocks {
			if err == nil {
				l.Add(b)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// Add adds the rows of a block. All blocks need the same tensors.
func (l *Learner) Add(b ood.InputBlock) {
	if b.Len() == 0 {
		return
	}
	if l.columns == nil {
		l.columns = l.o.columnsOf(b)
		l.states, l.words = make([]columnState, len(l.columns)), make([]wordSample, len(l.columns))
	}
	values := valuesOf(l.columns, b, l.o.Layout)
	for i, v := range values {
		l.columns[i].Empty += emptyCount(v)
		l.states[i].add(v)
		if c := l.columns[i]; c.Quantity == unknownWords {
			l.words[i].add(textsOf(b.Find(c.Input)))
		}
	}
	l.sample.add(values, b.Len())
	l.rows += b.Len()
}

// emptyCount returns the number of empty cells.
func emptyCount(v cells) (n int) {
	for _, x := range v.numbers {
		if x != x {
			n++
		}
	}
	for _, s := range v.texts {
		if s == "" {
			n++
		}
	}
	return n
}

func (s *columnState) add(v cells) {
	for _, x32 := range v.numbers {
		x := float64(x32)
		switch {
		case x32 != x32:
			continue
		case s.numbers == 0:
			s.low, s.high = [2]float64{x, math.Inf(1)}, [2]float64{x, math.Inf(-1)}
			s.numbers++
			continue
		}
		s.numbers++
		switch {
		case x < s.low[0]:
			s.low = [2]float64{x, s.low[0]}
		case x < s.low[1]:
			s.low[1] = x
		}
		switch {
		case x > s.high[0]:
			s.high = [2]float64{x, s.high[0]}
		case x > s.high[1]:
			s.high[1] = x
		}
	}
	for _, text := range v.texts {
		if text == "" || s.tooMany {
			continue
		}
		if s.counts == nil {
			s.counts = map[string]int{}
		}
		s.counts[text]++
		if len(s.counts) > maxCategories+maxOthers {
			s.counts, s.tooMany = nil, true
		}
	}
}

// Profile returns the profile of the rows so far, or nil if there are no rows or no columns.
//
// A number is a reason if it is further outside the range of the fit rows than Limit allows.
// The limit is a quantile of how far the extreme number of each column is outside the range
// of the other rows, so it follows the leave-one-out argument of Good (1953), The Population
// Frequencies of Species and the Estimation of Population Parameters. The same argument
// chooses the columns in which a new category, or an empty cell, is rare.
func (l *Learner) Profile() *Profile {
	if l.rows == 0 || len(l.columns) == 0 {
		return nil
	}
	p := &Profile{Rows: l.rows, Columns: slices.Clone(l.columns), Layout: l.o.Layout}
	allowed := int(rate / 3 * float64(p.Rows)) // rows that may have a reason of each kind
	var excesses []float64
	partial := make([][]float64, len(p.Columns)) // excesses of columns whose range comes from a part of the rows
	for i := range p.Columns {
		c, s := &p.Columns[i], l.states[i]
		if s.numbers > 0 {
			excesses = append(excesses, c.setNumbers(s, l.sample.sorted(i))...)
		}
		if list := c.setWords(&l.words[i]); c.Words != nil && c.Words.Rows < p.Rows {
			partial[i] = list
		} else {
			excesses = append(excesses, list...)
		}
		c.setCategories(s)
	}
	slices.SortFunc(excesses, func(a, b float64) int { return cmp.Compare(b, a) })
	if allowed < len(excesses) {
		p.Limit = excesses[allowed]
	}
	expected := 1 + above(excesses, p.Limit) // number of rows with a reason among the fit rows and one more, an upper bound
	// Empty cells are always rare in a column without them. One category with a single row is
	// allowed, so that one typing error does not open a column.
	gaps, categories := make([]int, len(p.Columns)), make([]int, len(p.Columns))
	for i, c := range p.Columns {
		gaps[i], categories[i] = c.Empty, c.Singles
		if c.Kind != Category || c.Open {
			categories[i] = -1
		}
	}
	rareGaps, expectedGaps := rare(gaps, allowed, 0)
	rareCategories, expectedCategories := rare(categories, allowed, 1)
	for i := range p.Columns {
		c := &p.Columns[i]
		c.RareGap, c.Open = rareGaps[i], c.Kind == Category && !rareCategories[i]
	}
	p.Rate = float64(expected+expectedGaps+expectedCategories) / float64(p.Rows+1)
	for i, list := range partial {
		if list != nil {
			p.Rate += float64(above(list, p.Limit)+1) / float64(p.Columns[i].Sampled+1)
		}
	}
	p.Rate = min(1, p.Rate)
	return p
}

// above returns the number of elements above a limit.
func above(list []float64, limit float64) (n int) {
	for _, x := range list {
		if x > limit {
			n++
		}
	}
	return n
}

// rare returns in which columns a value of one kind is so rare that it is a reason. counts
// holds the number of fit rows with such a value by column, and -1 for a column that cannot
// have one. expected bounds the expected number of rows with such a reason, if each of the
// fit rows and one more row is compared with all other rows in turn.
//
// The value is rare in a column with count k if k is at most always, or if the counts that
// are at most k+1 have a sum of at most allowed. The second condition gives at most allowed+1
// rows a reason: among all rows, the column of such a row has the count k+1, and the counts
// up to it have a sum of at most allowed+1.
func rare(counts []int, allowed, always int) (isRare []bool, expected int) {
	upTo := func(limit int) (sum int) {
		for _, k := range counts {
			if k <= limit {
				sum += max(k, 0)
			}
		}
		return sum
	}
	isRare = make([]bool, len(counts))
	for i, k := range counts {
		isRare[i] = k >= 0 && (k <= always || upTo(k+1) <= allowed)
	}
	if slices.Max(counts) >= 0 {
		expected = max(min(allowed, upTo(math.MaxInt)), upTo(always+1)) + 1
	}
	return isRare, expected
}

// setNumbers sets the range and the quantiles. It returns how far the smallest and the
// largest number are outside the range of the other rows, in units of the tails of those.
func (c *Column) setNumbers(s columnState, sorted []float32) (excesses []float64) {
	n := len(sorted)
	c.Min, c.Max, c.Sampled = s.low[0], s.high[0], n
	at := func(fraction float64) float64 { return float64(sorted[min(n-1, int(fraction*float64(n)))]) }
	c.Tails = tails(c.Min, c.Max, at(0.1), at(0.9))
	if s.numbers > 1 {
		below := tails(s.low[1], c.Max, max(s.low[1], at(0.1)), at(0.9))
		above := tails(c.Min, s.high[1], at(0.1), min(s.high[1], at(0.9)))
		excesses = append(excesses, (s.low[1]-s.low[0])/below[0], (s.high[0]-s.high[1])/above[1])
	}
	for _, f := range fractions {
		v := sorted[min(n-1, int(f*float64(n)))]
		if k := len(c.Quantiles); k > 0 && c.Quantiles[k-1].Value == float64(v) {
			continue
		}
		below, _ := slices.BinarySearch(sorted, v)
		atMost, _ := slices.BinarySearchFunc(sorted, v, func(x, v float32) int {
			if x <= v {
				return -1
			}
			return 1
		})
		c.Quantiles = append(c.Quantiles, Quantile{float64(v), below, atMost})
	}
	return excesses
}

// tails returns the distances from the ends of a range to its 10 % and 90 % quantiles q and
// r. If many numbers equal an end, the distance is the length of the range, and for a
// constant column it is the absolute value of the constant, or 1 for 0.
func tails(low, high, q, r float64) [2]float64 {
	instead := high - low
	if instead <= 0 {
		instead = cmp.Or(math.Abs(high), 1)
	}
	t := [2]float64{q - low, high - r}
	for i := range t {
		if t[i] <= 0 {
			t[i] = instead
		}
	}
	return t
}

// setCategories sets the categories.
func (c *Column) setCategories(s columnState) {
	c.Open = s.tooMany
	names := slices.SortedFunc(maps.Keys(s.counts), func(a, b string) int {
		return cmp.Or(s.counts[b]-s.counts[a], cmp.Compare(a, b))
	})
	var others []uint32
	for _, name := range names {
		n := s.counts[name]
		if n == 1 {
			c.Singles++
		}
		if n >= leastRows && len(c.Categories) < maxCategories {
			c.Categories = append(c.Categories, CategoryCount{name, n})
			continue
		}
		others = append(others, hash(name))
		c.OtherRows += n
	}
	slices.Sort(others)
	for _, h := range slices.Compact(others) {
		c.Others = binary.LittleEndian.AppendUint32(c.Others, h)
	}
	if len(c.Others) > 4*maxOthers {
		c.Others, c.Open = nil, true
	}
}

// sample keeps the numbers of a random part of all rows. Whether a row is kept depends only
// on its number, so equal rows give equal samples.
type sample struct {
	limit   int
	rows    int // number of rows so far
	mask    uint64
	numbers [][]float32 // by column; nil for a column without numbers
	hashes  []uint64    // of the kept rows
}

// add adds n rows. It halves the sample when it has more than limit rows.
func (s *sample) add(values []cells, n int) {
	if s.numbers == nil {
		s.numbers = make([][]float32, len(values))
	}
	for i := range n {
		h := mix(uint64(s.rows + i))
		if h&s.mask != 0 {
			continue
		}
		s.hashes = append(s.hashes, h)
		for j, v := range values {
			if v.numbers != nil {
				s.numbers[j] = append(s.numbers[j], v.numbers[i])
			}
		}
	}
	s.rows += n
	for len(s.hashes) > s.limit {
		s.mask = s.mask<<1 | 1
		kept := 0
		for i, h := range s.hashes {
			if h&s.mask == 0 {
				s.hashes[kept] = h
				for _, column := range s.numbers {
					if column != nil {
						column[kept] = column[i]
					}
				}
				kept++
			}
		}
		s.hashes = s.hashes[:kept]
		for j := range s.numbers {
			if s.numbers[j] != nil {
				s.numbers[j] = s.numbers[j][:kept]
			}
		}
	}
}

// sorted returns the numbers of column j that are not NaN, in increasing order.
func (s *sample) sorted(j int) []float32 {
	if j >= len(s.numbers) {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(s.numbers[j]), func(x float32) bool { return x != x })
	slices.Sort(list)
	return list
}

// mix returns a hash of x: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
