package schema

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// Cause says why a value is unusual.
type Cause string

const (
	NewGap      Cause = "new_gap"      // the cell is empty, and empty cells are rare in this column
	NewCategory Cause = "new_category" // no row of the fit has the category
	OutOfRange  Cause = "out_of_range" // the number is far outside the range of the fit rows
)

// Reason is an unusual value of a row.
type Reason struct {
	Column string `json:"column"`
	Cause  Cause  `json:"cause"`
	// Value is the text of the cell, or the number. It is empty if the cell is empty.
	Value string `json:"value,omitempty"`
	// Low and High are the smallest and the largest number of the fit rows if Cause is
	// OutOfRange.
	Low  float64 `json:"low,omitzero"`
	High float64 `json:"high,omitzero"`
}

// String returns a phrase such as "x = 212 (fit rows: 0 to 10)".
func (r Reason) String() string {
	switch r.Cause {
	case NewGap:
		return r.Column + " is empty"
	case NewCategory:
		return fmt.Sprintf("%s = %.100q (new category)", r.Column, r.Value)
	}
	return fmt.Sprintf("%s = %s (fit rows: %.4g to %.4g)", r.Column, r.Value, r.Low, r.High)
}

// Summary returns the reason without the value, such as "cut has a new category".
func (r Reason) Summary() string {
	switch r.Cause {
	case NewGap:
		return r.Column + " is empty"
	case NewCategory:
		return r.Column + " has a new category"
	}
	return r.Column + " is out of range"
}

// Group returns the reasons of a row without their values, such as "ram is empty, cut has a new
// category". It names at most three columns, and counts the others.
func Group(reasons []Reason) string {
	var parts []string
	for _, r := range reasons {
		parts = append(parts, r.Summary())
	}
	return display.List(parts, 3)
}

// Matcher finds the unusual values of rows. It is safe for concurrent use.
type Matcher struct {
	profile *Profile
	known   []map[string]int // index of each listed category, by column
	rare    []map[uint32]bool
	bounds  []*bounds // by column; nil for a column without numbers
}

// Matcher returns a Matcher for the profile.
func (p *Profile) Matcher() *Matcher {
	m := &Matcher{profile: p, known: make([]map[string]int, len(p.Columns)), rare: make([]map[uint32]bool, len(p.Columns)), bounds: make([]*bounds, len(p.Columns))}
	for i, c := range p.Columns {
		if c.Sampled > 0 {
			m.bounds[i] = newBounds(c.Quantiles)
		}
		if c.Kind != Category {
			continue
		}
		m.known[i], m.rare[i] = map[string]int{}, map[uint32]bool{}
		for k, category := range c.Categories {
			m.known[i][category.Value] = k
		}
		for _, h := range c.otherHashes() {
			m.rare[i][h] = true
		}
	}
	return m
}

const (
	rareCategory = -1 // a category of the fit rows that the profile does not list
	newCategory  = -2
)

// category returns the index of a category in the list of column j, or one of the constants
// above.
func (m *Matcher) category(j int, s string) int {
	if k, listed := m.known[j][s]; listed {
		return k
	}
	if m.rare[j][hash(s)] {
		return rareCategory
	}
	return newCategory
}

// Values returns the values of the profile's columns in the rows of a block.
func (m *Matcher) Values(b ood.InputBlock) Values {
	return Values{valuesOf(m.profile.Columns, b, m.profile.Layout), b.Len()}
}

// Reasons returns the reasons of each row, in the order of the columns. It returns nil if no
// row has a reason.
func (m *Matcher) Reasons(values Values) [][]Reason {
	var all [][]Reason
	add := func(i int, r Reason) {
		if all == nil {
			all = make([][]Reason, values.rows)
		}
		all[i] = append(all[i], r)
	}
	for j, v := range values.columns {
		c := &m.profile.Columns[j]
		low, high := c.Range(m.profile.Limit)
		if c.Sampled == 0 {
			low, high = math.Inf(-1), math.Inf(1)
		}
		for i, x32 := range v.numbers {
			switch x := float64(x32); {
			case x32 != x32:
				if c.RareGap {
					add(i, Reason{Column: c.Name, Cause: NewGap})
				}
			case x < low || x > high:
				add(i, Reason{Column: c.Name, Cause: OutOfRange, Value: formatNumber(x), Low: c.Min, High: c.Max})
			}
		}
		for i, s := range v.texts {
			switch {
			case s == "" && c.RareGap:
				add(i, Reason{Column: c.Name, Cause: NewGap})
			case s != "" && !c.Open && m.category(j, s) == newCategory:
				add(i, Reason{Column: c.Name, Cause: NewCategory, Value: s})
			}
		}
	}
	return all
}

// formatNumber formats a float32 with as many digits as identify it.
func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 32) }

// maxExamples is the largest number of values that a summary gives for a column.
const maxExamples = 3

// maxChecked is the largest number of rows whose numbers a Checker keeps. Summary uses them to
// name changes that the counts have found.
const maxChecked = 1 << 13

// Checker compares new rows with a profile. It is safe for concurrent use, except that
// Summary needs all rows to be added.
type Checker struct {
	mu      sync.Mutex
	profile *Profile
	matcher *Matcher
	counts  *Counts
	sample  sample
	keep    bool
	reasons map[int][]Reason // reasons by row that Take has not returned yet
	// newCategory is the first new category, in row newCategoryRow. It is nil if there is none.
	newCategory    *Reason
	newCategoryRow int
}

// NewChecker returns a Checker that has seen no rows. If keep is true, Take returns the
// reasons of each row.
func (p *Profile) NewChecker(keep bool) *Checker {
	return &Checker{profile: p, matcher: p.Matcher(), counts: p.NewCounts(), sample: sample{limit: maxChecked}, keep: keep, reasons: map[int][]Reason{}}
}

// Observe returns the same blocks, and adds each block to the checker.
func (c *Checker) Observe(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range blocks {
			if err == nil {
				c.Add(b)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// Add adds the rows of a block, which follow the rows of the block before.
func (c *Checker) Add(b ood.InputBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, values := c.counts.Rows, c.matcher.Values(b)
	for i, list := range c.counts.Add(c.matcher, values) {
		if c.keep && list != nil {
			c.reasons[first+i] = list
		}
		if k := slices.IndexFunc(list, func(r Reason) bool { return r.Cause == NewCategory }); k >= 0 && c.newCategory == nil {
			c.newCategory, c.newCategoryRow = &list[k], first+i
		}
	}
	c.sample.add(values.columns, values.rows)
}

// Take returns the reasons of a row, counted from 0 in the order of Add, and forgets them. It
// returns nil if the row has none, or if the checker does not keep reasons.
func (c *Checker) Take(row int) []Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.reasons[row]
	delete(c.reasons, row)
	return list
}

// NewCategory returns the first new category and its row, counted from 0. ok is false if there
// is none. Some models fail on such a row.
func (c *Checker) NewCategory() (r Reason, row int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newCategory == nil {
		return Reason{}, 0, false
	}
	return *c.newCategory, c.newCategoryRow, true
}

// falseAlarmRate bounds the probability that Summary reports a changed column if all rows come
// from the source of the fit rows.
const falseAlarmRate = 0.01

// Summary describes the rows of a Checker by column.
type Summary struct {
	Rows int `json:"rows"`
	// Unusual is the number of rows with at least one reason, and Expected the largest number
	// to expect if all rows come from the source of the fit rows.
	Unusual  int     `json:"unusual_rows"`
	Expected float64 `json:"expected"`
	// NewGaps, NewCategories and OutOfRange count cells, and Changed counts columns.
	NewGaps       int             `json:"new_gaps"`
	NewCategories int             `json:"new_categories"`
	OutOfRange    int             `json:"out_of_range"`
	Changed       int             `json:"changed_columns"`
	Columns       []ColumnSummary `json:"columns"` // columns with a reason or a change
}

// ColumnSummary describes a column that has an unusual value or has changed as a whole.
type ColumnSummary struct {
	Column        string   `json:"column"`
	Kind          Kind     `json:"kind"`
	Rows          int      `json:"rows"`
	Empty         int      `json:"empty,omitempty"`
	FitEmpty      int      `json:"fit_empty,omitempty"`
	FitRows       int      `json:"fit_rows"`
	NewGaps       int      `json:"new_gaps,omitempty"`
	NewCategories int      `json:"new_categories,omitempty"`
	OutOfRange    int      `json:"out_of_range,omitempty"`
	Examples      []string `json:"examples,omitempty"` // as in ColumnCounts
	Low           float64  `json:"low,omitzero"`       // the range of the fit rows, if OutOfRange is not 0
	High          float64  `json:"high,omitzero"`
	// Change says how the values of the whole column differ from the fit rows. It is empty if
	// the difference may be chance. PValue is the p-value of that difference, corrected for
	// the number of columns.
	Change string  `json:"change,omitempty"`
	PValue float64 `json:"p_value,omitempty"`
	// Notable reports whether people should look at the column. It is false for a few numbers
	// outside the range that chance explains.
	Notable bool `json:"notable"`
}

// Summary returns the description of all rows so far. See [Profile.Summary].
func (c *Checker) Summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.profile.Summary(c.counts, c.sample.sorted)
}

// Summary describes rows by their counts. The function sample returns the numbers of a column
// in some of the rows, in increasing order. It is used only to name changes, such as a change
// of unit.
//
// Changes are found by exact two-sample tests: of the number of empty cells and of the rows of
// each category with Fisher's test, and of the number of rows below each stored quantile with
// the distribution that it has if both samples are exchangeable. Together, the tests report a
// change with a probability of at most 1 % if the rows come from the source of the fit rows.
func (p *Profile) Summary(counts *Counts, sample func(column int) []float32) Summary {
	s := Summary{Rows: counts.Rows, Unusual: counts.Unusual, Expected: p.Rate * float64(counts.Rows), Columns: []ColumnSummary{}}
	changes := p.changes(counts, sample)
	for j, k := range counts.Columns {
		column := &p.Columns[j]
		s.NewGaps += k.NewGaps
		s.NewCategories += k.NewCategories
		s.OutOfRange += k.OutOfRange
		if changes[j].text == "" && k.NewGaps+k.NewCategories+k.OutOfRange == 0 {
			continue
		}
		d := ColumnSummary{
			Column: column.Name, Kind: column.Kind, Rows: k.Present, Empty: k.Empty, FitEmpty: column.Empty, FitRows: p.Rows, NewGaps: k.NewGaps,
			NewCategories: k.NewCategories, OutOfRange: k.OutOfRange, Examples: k.Examples,
		}
		if k.OutOfRange > 0 {
			d.Low, d.High = column.Min, column.Max
		}
		if changes[j].text != "" {
			d.Change, d.PValue = changes[j].text, changes[j].p
			s.Changed++
		}
		d.Notable = d.Change != "" || d.NewGaps > 0 || d.NewCategories > 0 || k.farOut(column) ||
			hypothesis.Binomial(d.OutOfRange, d.Rows, p.Rate) <= falseAlarmRate/float64(len(p.Columns))
		s.Columns = append(s.Columns, d)
	}
	return s
}

// change is a difference between new rows and the fit rows in one column.
type change struct {
	text string
	p    float64
}

// changes returns the change of each column. Its text is empty if there is none.
func (p *Profile) changes(counts *Counts, sample func(column int) []float32) []change {
	all := make([]change, len(p.Columns))
	samples := make([][]float32, len(p.Columns))
	var shifted []int // columns whose numbers have changed
	for j := range p.Columns {
		column, k := &p.Columns[j], &counts.Columns[j]
		if k.Present == 0 {
			continue
		}
		// The number of tests must not depend on chance. All categories of the fit rows count,
		// because chance chooses which of them have enough rows to be listed.
		tests := 2 + 4*len(column.Quantiles) + 2*column.distinct() + 3
		consider := func(pValue float64, text func() string) {
			pValue = min(1, pValue*float64(tests*len(p.Columns)))
			if pValue <= falseAlarmRate && (all[j].text == "" || pValue < all[j].p) {
				all[j] = change{text(), pValue}
			}
		}
		rarer, oftener := fisher(k.Empty, k.Present, column.Empty, p.Rows)
		consider(min(rarer, oftener), func() string {
			return fmt.Sprintf("empty in %.3g %% of the rows, but in %.3g %% of the fit rows", percent(k.Empty, k.Present), percent(column.Empty, p.Rows))
		})
		p.compareCategories(column, k, consider)
		before := all[j]
		all[j] = change{}
		numbers := k.numbers()
		for i, q := range column.Quantiles {
			below, atMost := k.ranks(i)
			consider(compareQuantile(q, column.Sampled, below, atMost, numbers), func() string {
				return fmt.Sprintf("%.3g %% of the values are at most %.4g, but %.3g %% in the fit rows", percent(atMost, numbers), q.Value, percent(q.AtMost, column.Sampled))
			})
		}
		if all[j].text != "" {
			samples[j] = sample(j)
			shifted = append(shifted, j)
			if text := rescaled(column, samples[j]); text != "" {
				all[j].text = text
			}
		} else if before.text != "" {
			all[j] = before
		}
	}
	p.nameSwaps(all, shifted, samples)
	return all
}

func percent(k, n int) float64 { return 100 * float64(k) / float64(max(n, 1)) }

// fisher returns the one-sided p-values of Fisher's exact test that an event with count of n
// new rows is rarer, or more frequent, than with fitCount of fitRows fit rows.
func fisher(count, n, fitCount, fitRows int) (rarer, oftener float64) {
	if !differs(count, n, fitCount, fitRows) {
		return 1, 1
	}
	return hypothesis.Hypergeometric(count, n, count+fitCount, n+fitRows), hypothesis.Hypergeometric(fitCount, fitRows, count+fitCount, n+fitRows)
}

// differs reports whether two fractions differ by so much that an exact test can be
// significant. It saves most tests.
func differs(count, n, fitCount, fitRows int) bool {
	if n == 0 || fitRows == 0 {
		return false
	}
	p := float64(count+fitCount) / float64(n+fitRows)
	deviation := math.Sqrt(p * (1 - p) * (1/float64(n) + 1/float64(fitRows)))
	return math.Abs(float64(count)/float64(n)-float64(fitCount)/float64(fitRows)) > 2*deviation
}

// compareCategories compares the number of rows of each category.
func (p *Profile) compareCategories(column *Column, k *ColumnCounts, consider func(pValue float64, text func() string)) {
	if column.Kind != Category {
		return
	}
	compare := func(name string, count, fitCount int) {
		low, high := fisher(count, k.Present, fitCount, p.Rows)
		consider(min(low, high), func() string {
			return fmt.Sprintf("%s in %.3g %% of the rows, but in %.3g %% of the fit rows", name, percent(count, k.Present), percent(fitCount, p.Rows))
		})
	}
	for i, category := range column.Categories {
		compare(fmt.Sprintf("category %.100q", category.Value), k.Categories[i], category.Rows)
	}
	if len(column.Others) == 0 && column.OtherRows > 0 {
		return // the rare categories are too many to know, so other and new ones cannot be told apart
	}
	// A category with one row would be new if its row were left out.
	if _, oftener := fisher(k.Unknown, k.Present, column.Singles, p.Rows); oftener < 1 {
		consider(oftener, func() string {
			return fmt.Sprintf("%.3g %% of the rows have a new category", percent(k.Unknown, k.Present))
		})
	}
}

// compareQuantile returns the p-value of the ranks that a quantile of n fit values has among m
// new values: below of these are smaller, and atMost are smaller or equal.
//
// If both samples are exchangeable, the number C of m new values that do not exceed the r-th
// smallest fit value has a negative hypergeometric distribution: C ≤ c if at most c of the
// first r+c values of both samples together are new. Equal values are ordered at random, so
// the count at the quantile's smallest and at its largest rank bounds C.
func compareQuantile(q Quantile, n, below, atMost, m int) (p float64) {
	p = 1
	fewer := func(c, r int) {
		if r >= 1 && r <= n && differs(c, m, r, n) {
			p = min(p, hypothesis.Hypergeometric(c, r+c, m, n+m))
		}
	}
	more := func(c, r int) {
		if r >= 1 && r <= n && c >= 1 && differs(c, m, r, n) {
			p = min(p, hypothesis.Hypergeometric(r-1, r+c-1, n, n+m))
		}
	}
	fewer(atMost, q.AtMost)
	more(atMost, q.AtMost+1)
	fewer(below, q.Below)
	more(below, q.Below+1)
	return p
}

// ranksIn returns how many sorted values are smaller than v, and how many do not exceed it.
func ranksIn(sorted []float32, v float32) (below, atMost int) {
	below, _ = slices.BinarySearch(sorted, v)
	atMost, _ = slices.BinarySearch(sorted, math.Nextafter32(v, float32(math.Inf(1))))
	return below, atMost
}

// rescaled says by which factor the values of a column have changed, or returns "" if no
// factor explains the change.
func rescaled(column *Column, sorted []float32) string {
	if len(sorted) == 0 || column.Words != nil { // a fraction of words has no unit
		return ""
	}
	at := func(f float64) float64 { return float64(sorted[min(len(sorted)-1, int(f*float64(len(sorted))))]) }
	var factors []float64
	for _, f := range []float64{0.25, 0.5, 0.75} {
		factor := at(f) / column.Quantile(f)
		if !(factor > 0) || math.IsInf(factor, 0) {
			return ""
		}
		factors = append(factors, factor)
	}
	slices.Sort(factors)
	switch factor := factors[1]; {
	// A change of unit multiplies all quantiles by the same factor. A small factor may come
	// from a shift instead, so it must fit all quantiles well.
	case factors[2] > 1.3*factors[0], max(factor, 1/factor) < 5 && factors[2] > 1.1*factors[0], max(factor, 1/factor) < 1.5:
		return ""
	case factor > 1:
		return fmt.Sprintf("the values are about %s times as large: another unit?", display.Number(factor, 3))
	default:
		return fmt.Sprintf("the values are about %s times smaller: another unit?", display.Number(1/factor, 3))
	}
}

// nameSwaps replaces the changes of two columns whose values would not be unusual if the
// columns were exchanged.
func (p *Profile) nameSwaps(all []change, shifted []int, samples [][]float32) {
	const maxColumns = 50 // because each pair is compared
	if len(shifted) > maxColumns {
		return
	}
	fits := func(values []float32, column *Column) bool {
		for _, q := range column.Quantiles {
			below, atMost := ranksIn(values, float32(q.Value))
			if compareQuantile(q, column.Sampled, below, atMost, len(values))*float64(4*len(column.Quantiles)) <= falseAlarmRate {
				return false
			}
		}
		return true
	}
	for _, i := range shifted {
		for _, j := range shifted {
			// A small shift is seen only in all rows. In the sample, such a column still fits itself,
			// and also similar columns, so it must not.
			if i < j && !fits(samples[i], &p.Columns[i]) && !fits(samples[j], &p.Columns[j]) && fits(samples[i], &p.Columns[j]) && fits(samples[j], &p.Columns[i]) {
				all[i].text = fmt.Sprintf("the values look like those of %s: are the columns swapped?", p.Columns[j].Name)
				all[j].text = fmt.Sprintf("the values look like those of %s: are the columns swapped?", p.Columns[i].Name)
			}
		}
	}
}

// String returns a line such as "ram: empty in 1,878 of 1,878 rows, in 0 of the 7,511 rows fitted on".
func (c ColumnSummary) String() string {
	var parts []string
	if c.NewGaps > 0 {
		parts = append(parts, fmt.Sprintf("empty in %s, in %s of the %s fitted on", rows.CountOf(c.Empty, c.Rows, "row"), display.Count(c.FitEmpty), rows.Count(c.FitRows, "row")))
	}
	examples := display.Quoted(c.Examples, maxExamples)
	if c.NewCategories > 0 {
		parts = append(parts, fmt.Sprintf("new categories in %s, such as %s", rows.CountOf(c.NewCategories, c.Rows, "row"), examples))
	}
	if c.OutOfRange > 0 {
		parts = append(parts, fmt.Sprintf("outside %.4g to %.4g in %s, such as %s", c.Low, c.High, rows.CountOf(c.OutOfRange, c.Rows, "row"), display.List(c.Examples, maxExamples)))
	}
	if c.Change != "" && !(c.NewGaps > 0 && strings.HasPrefix(c.Change, "empty in")) {
		parts = append(parts, c.Change)
	}
	return c.Column + ": " + strings.Join(parts, "; ")
}

// NotableColumns returns the columns that people should look at.
func (s Summary) NotableColumns() []ColumnSummary {
	return slices.DeleteFunc(slices.Clone(s.Columns), func(c ColumnSummary) bool { return !c.Notable })
}
