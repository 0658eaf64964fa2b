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

// Summary returns the reason without the value, such as "cut has a new category", by which rows
// can be grouped.
func (r Reason) Summary() string {
	switch r.Cause {
	case NewGap:
		return r.Column + " is empty"
	case NewCategory:
		return r.Column + " has a new category"
	}
	return r.Column + " is out of range"
}

// Matcher finds the unusual values of rows. It is safe for concurrent use.
type Matcher struct {
	profile *Profile
	known   []map[string]int // index of each listed category, by column
	rare    []map[uint32]bool
}

// Matcher returns a Matcher for the profile.
func (p *Profile) Matcher() *Matcher {
	m := &Matcher{profile: p, known: make([]map[string]int, len(p.Columns)), rare: make([]map[uint32]bool, len(p.Columns))}
	for i, c := range p.Columns {
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

// Reasons returns the reasons of each row of a block, in the order of the columns. It returns
// nil if no row has a reason.
func (m *Matcher) Reasons(b ood.InputBlock) [][]Reason {
	if b.Len() == 0 {
		return nil
	}
	return m.reasons(m.values(b), b.Len())
}

func (m *Matcher) values(b ood.InputBlock) []cells {
	return valuesOf(m.profile.Columns, b, m.profile.Layout)
}

// reasons returns the reasons of n rows, or nil if there are none.
func (m *Matcher) reasons(values []cells, n int) [][]Reason {
	var all [][]Reason
	add := func(i int, r Reason) {
		if all == nil {
			all = make([][]Reason, n)
		}
		all[i] = append(all[i], r)
	}
	for j, v := range values {
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

// maxChecked is the largest number of rows whose numbers a Checker keeps for the comparison of
// whole columns.
const maxChecked = 1 << 13

// maxExamples is the largest number of values that a summary gives for a column.
const maxExamples = 3

// Checker compares new rows with a profile. It is safe for concurrent use, except that
// Summary needs all rows to be added.
type Checker struct {
	mu      sync.Mutex
	profile *Profile
	matcher *Matcher
	rows    int
	unusual int // rows with a reason
	columns []checkedColumn
	sample  sample
	keep    bool
	reasons map[int][]Reason // reasons by row that Take has not returned yet
	// newCategory is the first new category, in row newCategoryRow. It is nil if there is none.
	newCategory    *Reason
	newCategoryRow int
}

type checkedColumn struct {
	present                       int // rows of blocks that have the input
	empty, newGaps, newCategories int
	outOfRange                    int
	farOut                        bool // whether a number is outside the fitted range by more than the length of that range
	examples                      []string
	counts                        []int // number of rows of each listed category
	unknown                       int   // number of rows with an unknown category, even if Column.Open
}

// NewChecker returns a Checker that has seen no rows. If keep is true, Take returns the
// reasons of each row.
func (p *Profile) NewChecker(keep bool) *Checker {
	c := &Checker{profile: p, matcher: p.Matcher(), columns: make([]checkedColumn, len(p.Columns)), sample: sample{limit: maxChecked}, keep: keep, reasons: map[int][]Reason{}}
	for i := range c.columns {
		c.columns[i].counts = make([]int, len(p.Columns[i].Categories))
	}
	return c
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
	n := b.Len()
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	values := c.matcher.values(b)
	for i, list := range c.matcher.reasons(values, n) {
		if list == nil {
			continue
		}
		c.unusual++
		if c.keep {
			c.reasons[c.rows+i] = list
		}
		j := 0
		for _, r := range list {
			if r.Cause == NewCategory && c.newCategory == nil {
				c.newCategory, c.newCategoryRow = &r, c.rows+i
			}
			for c.profile.Columns[j].Name != r.Column {
				j++
			}
			c.columns[j].count(r)
			if x, err := strconv.ParseFloat(r.Value, 64); err == nil && r.Cause == OutOfRange {
				length := c.profile.Columns[j].Max - c.profile.Columns[j].Min
				c.columns[j].farOut = c.columns[j].farOut || x < c.profile.Columns[j].Min-length || x > c.profile.Columns[j].Max+length
			}
		}
	}
	for j, v := range values {
		k := &c.columns[j]
		if v.numbers != nil || v.texts != nil {
			k.present += n
		}
		k.empty += emptyCount(v)
		c.countCategories(j, v.texts)
	}
	c.sample.add(values, n)
	c.rows += n
}

func (k *checkedColumn) count(r Reason) {
	switch r.Cause {
	case NewGap:
		k.newGaps++
	case NewCategory:
		k.newCategories++
	case OutOfRange:
		k.outOfRange++
	}
	if r.Cause != NewGap && len(k.examples) < maxExamples && !slices.Contains(k.examples, r.Value) {
		k.examples = append(k.examples, r.Value)
	}
}

// countCategories counts the categories of column j.
func (c *Checker) countCategories(j int, texts []string) {
	k := &c.columns[j]
	for _, s := range texts {
		if s == "" {
			continue
		}
		switch i := c.matcher.category(j, s); i {
		case rareCategory:
		case newCategory:
			k.unknown++
		default:
			k.counts[i]++
		}
	}
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
	Examples      []string `json:"examples,omitempty"` // new categories or numbers out of range, at most three
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

// Summary returns the description of all rows so far.
//
// Changes are found by exact two-sample tests: of the number of empty cells and of the rows of
// each category with Fisher's test, and of the number of rows below each stored quantile with
// the distribution that it has if both samples are exchangeable. Together, the tests report a
// change with a probability of at most 1 % if the rows come from the source of the fit rows.
func (c *Checker) Summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Summary{Rows: c.rows, Unusual: c.unusual, Expected: c.profile.Rate * float64(c.rows), Columns: []ColumnSummary{}}
	changes := c.changes()
	for j, k := range c.columns {
		column := &c.profile.Columns[j]
		s.NewGaps += k.newGaps
		s.NewCategories += k.newCategories
		s.OutOfRange += k.outOfRange
		if changes[j].text == "" && k.newGaps+k.newCategories+k.outOfRange == 0 {
			continue
		}
		d := ColumnSummary{
			Column: column.Name, Kind: column.Kind, Rows: k.present, Empty: k.empty, FitEmpty: column.Empty, FitRows: c.profile.Rows, NewGaps: k.newGaps,
			NewCategories: k.newCategories, OutOfRange: k.outOfRange, Examples: k.examples,
		}
		if k.outOfRange > 0 {
			d.Low, d.High = column.Min, column.Max
		}
		if changes[j].text != "" {
			d.Change, d.PValue = changes[j].text, changes[j].p
			s.Changed++
		}
		d.Notable = d.Change != "" || d.NewGaps > 0 || d.NewCategories > 0 || k.farOut ||
			hypothesis.Binomial(d.OutOfRange, d.Rows, c.profile.Rate) <= falseAlarmRate/float64(len(c.columns))
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
func (c *Checker) changes() []change {
	all := make([]change, len(c.columns))
	samples := make([][]float32, len(c.columns))
	var shifted []int
	for j, k := range c.columns {
		column := &c.profile.Columns[j]
		// All categories of the fit rows count, because chance chooses which of them have
		// enough rows to be listed.
		tests := 2 + 4*len(column.Quantiles) + 2*column.distinct() + 3
		consider := func(p float64, text func() string) {
			p = min(1, p*float64(tests*len(c.columns)))
			if p <= falseAlarmRate && (all[j].text == "" || p < all[j].p) {
				all[j] = change{text(), p}
			}
		}
		if k.present == 0 {
			continue
		}
		low, high := fisher(k.empty, k.present, column.Empty, c.profile.Rows)
		consider(min(low, high), func() string {
			return fmt.Sprintf("empty in %.3g %% of the rows, but in %.3g %% of the fit rows", percent(k.empty, k.present), percent(column.Empty, c.profile.Rows))
		})
		c.compareCategories(column, k, consider)
		samples[j] = c.sample.sorted(j)
		before := all[j]
		all[j] = change{}
		for _, q := range column.Quantiles {
			p, below := compareQuantile(q, column.Sampled, samples[j])
			consider(p, func() string {
				return fmt.Sprintf("%.3g %% of the values are at most %.4g, but %.3g %% in the fit rows", percent(below, len(samples[j])), q.Value, percent(q.AtMost, column.Sampled))
			})
		}
		if all[j].text != "" {
			shifted = append(shifted, j)
			if text := rescaled(column, samples[j]); text != "" {
				all[j].text = text
			}
		} else if before.text != "" {
			all[j] = before
		}
	}
	c.nameSwaps(all, shifted, samples)
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
func (c *Checker) compareCategories(column *Column, k checkedColumn, consider func(p float64, text func() string)) {
	if column.Kind != Category {
		return
	}
	compare := func(name string, count, fitCount int) {
		low, high := fisher(count, k.present, fitCount, c.profile.Rows)
		consider(min(low, high), func() string {
			return fmt.Sprintf("%s in %.3g %% of the rows, but in %.3g %% of the fit rows", name, percent(count, k.present), percent(fitCount, c.profile.Rows))
		})
	}
	for i, category := range column.Categories {
		compare(fmt.Sprintf("category %.100q", category.Value), k.counts[i], category.Rows)
	}
	if len(column.Others) == 0 && column.OtherRows > 0 {
		return // the rare categories are too many to know, so other and new ones cannot be told apart
	}
	// A category with one row would be new if its row were left out.
	if _, oftener := fisher(k.unknown, k.present, column.Singles, c.profile.Rows); oftener < 1 {
		consider(oftener, func() string {
			return fmt.Sprintf("%.3g %% of the rows have a new category", percent(k.unknown, k.present))
		})
	}
}

// compareQuantile returns the p-value of the number of new values below and up to a quantile
// of the n fit values, and the number of new values that do not exceed it.
//
// If both samples are exchangeable, the number C of m new values that do not exceed the r-th
// smallest fit value has a negative hypergeometric distribution: C ≤ c if at most c of the
// first r+c values of both samples together are new. Equal values are ordered at random, so
// the count at the quantile's smallest and at its largest rank bounds C.
func compareQuantile(q Quantile, n int, sorted []float32) (p float64, atMost int) {
	m := len(sorted)
	v := float32(q.Value)
	below, _ := slices.BinarySearch(sorted, v)
	atMost, _ = slices.BinarySearchFunc(sorted, v, func(x, v float32) int {
		if x <= v {
			return -1
		}
		return 1
	})
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
	return p, atMost
}

// rescaled says by which factor the values of a column have changed, or returns "" if no
// factor explains the change.
func rescaled(column *Column, sorted []float32) string {
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
func (c *Checker) nameSwaps(all []change, shifted []int, samples [][]float32) {
	const maxColumns = 50 // because each pair is compared
	if len(shifted) > maxColumns {
		return
	}
	fits := func(values []float32, column *Column) bool {
		for _, q := range column.Quantiles {
			if p, _ := compareQuantile(q, column.Sampled, values); p*float64(4*len(column.Quantiles)) <= falseAlarmRate {
				return false
			}
		}
		return true
	}
	for _, i := range shifted {
		for _, j := range shifted {
			if i < j && fits(samples[i], &c.profile.Columns[j]) && fits(samples[j], &c.profile.Columns[i]) {
				all[i].text = fmt.Sprintf("the values look like those of %s: are the columns swapped?", c.profile.Columns[j].Name)
				all[j].text = fmt.Sprintf("the values look like those of %s: are the columns swapped?", c.profile.Columns[i].Name)
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
		parts = append(parts, fmt.Sprintf("far outside %.4g to %.4g in %s, such as %s", c.Low, c.High, rows.CountOf(c.OutOfRange, c.Rows, "row"), display.List(c.Examples, maxExamples)))
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
