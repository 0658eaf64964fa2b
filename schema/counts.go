package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Values holds the values of a profile's columns in consecutive rows, as they are before the
// model reads them.
type Values struct {
	columns []cells
	rows    int
}

// Len returns the number of rows.
func (v Values) Len() int { return v.rows }

// Slice returns the rows [from, to).
func (v Values) Slice(from, to int) Values {
	part := Values{slices.Clone(v.columns), to - from}
	for j, c := range part.columns {
		if c.numbers != nil {
			part.columns[j].numbers = c.numbers[from:to]
		}
		if c.texts != nil {
			part.columns[j].texts = c.texts[from:to]
		}
	}
	return part
}

// Join returns the rows of all parts, which must be of the same profile.
func Join(parts ...Values) Values {
	parts = slices.DeleteFunc(parts, func(v Values) bool { return v.rows == 0 })
	if len(parts) == 1 {
		return parts[0]
	}
	var all Values
	for _, v := range parts {
		if all.columns == nil {
			all.columns = make([]cells, len(v.columns))
		}
		for j, c := range v.columns {
			all.columns[j].numbers = append(all.columns[j].numbers, c.numbers...)
			all.columns[j].texts = append(all.columns[j].texts, c.texts...)
		}
		all.rows += v.rows
	}
	return all
}

// Numbers returns the numbers of row i, one for each column. A column without a number has
// NaN.
func (v Values) Numbers(i int) []float32 {
	list := make([]float32, len(v.columns))
	for j, c := range v.columns {
		if list[j] = float32(math.NaN()); c.numbers != nil {
			list[j] = c.numbers[i]
		}
	}
	return list
}

// Texts returns the texts of row i, one for each column. A column without a text has "".
func (v Values) Texts(i int) []string {
	list := make([]string, len(v.columns))
	for j, c := range v.columns {
		if c.texts != nil {
			list[j] = c.texts[i]
		}
	}
	return list
}

// Counts says how many of some rows have unusual values, and how the values of each column are
// distributed. It does not depend on the order of the rows, and counts of several sets of rows
// add up: see Merge.
type Counts struct {
	Rows    int            `json:"rows"`
	Unusual int            `json:"unusual,omitempty"` // number of rows with a reason
	Columns []ColumnCounts `json:"columns"`           // in the order of Profile.Columns
}

// ColumnCounts counts the values of one column.
type ColumnCounts struct {
	Present int `json:"present"` // number of rows that have the model input of the column
	Empty   int `json:"empty,omitempty"`
	// NewGaps, NewCategories and OutOfRange count reasons.
	NewGaps       int `json:"new_gaps,omitempty"`
	NewCategories int `json:"new_categories,omitempty"`
	OutOfRange    int `json:"out_of_range,omitempty"`
	// Examples holds the smallest and the largest number out of range, or the first three new
	// categories in alphabetical order.
	Examples []string `json:"examples,omitempty"`
	// Slots counts numbers by their position among the quantiles of the fit rows. Slot 2i+1
	// counts numbers equal to quantile i. Slots 2i and 2i+2 count numbers between it and its
	// neighbours.
	Slots []int `json:"slots,omitempty"`
	// Categories counts the rows of each category that the profile lists. Unknown is the
	// number of rows with a category of no fit row.
	Categories []int `json:"categories,omitempty"`
	Unknown    int   `json:"unknown,omitempty"`
}

// NewCounts returns counts of no rows.
func (p *Profile) NewCounts() *Counts {
	c := &Counts{Columns: make([]ColumnCounts, len(p.Columns))}
	for j, column := range p.Columns {
		c.Columns[j].Slots, c.Columns[j].Categories = make([]int, column.slots()), make([]int, len(column.Categories))
	}
	return c
}

// slots returns the length of ColumnCounts.Slots.
func (c *Column) slots() int {
	if len(c.Quantiles) == 0 {
		return 0
	}
	return 2*len(c.Quantiles) + 1
}

// Add counts rows. It returns the reasons of each row, or nil if no row has a reason. The
// matcher must be of the same profile as the counts.
func (c *Counts) Add(m *Matcher, values Values) [][]Reason {
	reasons := m.Reasons(values)
	for _, list := range reasons {
		if list != nil {
			c.Unusual++
		}
		j := 0
		for _, r := range list {
			for m.profile.Columns[j].Name != r.Column {
				j++
			}
			c.Columns[j].addReason(r)
		}
	}
	for j, v := range values.columns {
		k := &c.Columns[j]
		if v.numbers != nil || v.texts != nil {
			k.Present += values.rows
		}
		k.Empty += emptyCount(v)
		if bounds := m.bounds[j]; bounds != nil {
			for _, x := range v.numbers {
				if x == x {
					k.Slots[bounds.slot(x)]++
				}
			}
		}
		for _, s := range v.texts {
			if s == "" {
				continue
			}
			switch i := m.category(j, s); i {
			case rareCategory:
			case newCategory:
				k.Unknown++
			default:
				k.Categories[i]++
			}
		}
	}
	c.Rows += values.rows
	return reasons
}

// bounds holds the quantiles of a column as integers in the same order. The other elements are
// larger than any number. Comparing integers needs no branches, which chance would mispredict.
type bounds [32]int64

func newBounds(quantiles []Quantile) *bounds {
	b := new(bounds)
	for i := range b {
		if b[i] = 1 << 40; i < len(quantiles) {
			b[i] = ordered(float32(quantiles[i].Value))
		}
	}
	return b
}

// ordered returns an integer in the order of the numbers x.
func ordered(x float32) int64 {
	bits := int32(math.Float32bits(x + 0)) // the sum makes -0 equal to 0
	return int64(bits ^ bits>>31&math.MaxInt32)
}

// slot returns the slot of x: see ColumnCounts.Slots. It is a binary search for the number of
// bounds below x.
func (b *bounds) slot(x float32) int {
	v := ordered(x)
	at := 16 & int((b[15]-v)>>63)
	at += 8 & int((b[(at+7)&31]-v)>>63)
	at += 4 & int((b[(at+3)&31]-v)>>63)
	at += 2 & int((b[(at+1)&31]-v)>>63)
	at += 1 & int((b[at&31]-v)>>63)
	slot := 2 * at
	if b[at&31] == v {
		slot++
	}
	return slot
}

func (k *ColumnCounts) addReason(r Reason) {
	switch r.Cause {
	case NewGap:
		k.NewGaps++
		return
	case NewCategory:
		k.NewCategories++
	case OutOfRange:
		k.OutOfRange++
	}
	k.addExamples(r.Value)
}

// addExamples adds values to Examples, which does not depend on their order.
func (k *ColumnCounts) addExamples(values ...string) {
	for _, v := range values {
		if v = shorten(v); slices.Contains(k.Examples, v) {
			continue
		}
		k.Examples = append(k.Examples, v)
		if k.NewCategories > 0 {
			slices.Sort(k.Examples)
			k.Examples = k.Examples[:min(maxExamples, len(k.Examples))]
			continue
		}
		slices.SortFunc(k.Examples, func(a, b string) int { return cmp.Or(cmp.Compare(parse(a), parse(b)), cmp.Compare(a, b)) }) // -0 and 0 differ in their text
		if n := len(k.Examples); n > 2 {
			k.Examples = []string{k.Examples[0], k.Examples[n-1]}
		}
	}
}

// shorten returns the first characters of a value, as valid UTF-8, so that counts stay small
// and equal after they were stored as JSON.
func shorten(value string) string {
	const maxCharacters = 100
	letters := []rune(strings.ToValidUTF8(value, "\ufffd"))
	return string(letters[:min(maxCharacters, len(letters))])
}

// parse returns the number that formatNumber formatted, or NaN.
func parse(s string) float64 {
	x, err := strconv.ParseFloat(s, 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return math.NaN()
	}
	return x
}

// farOut reports whether a number is outside the range of the fit rows by more than the length
// of that range.
func (k *ColumnCounts) farOut(column *Column) bool {
	length := column.Max - column.Min
	return k.OutOfRange > 0 && slices.ContainsFunc(k.Examples, func(s string) bool {
		x := parse(s)
		return x < column.Min-length || x > column.Max+length
	})
}

// numbers returns the number of rows with a number.
func (k *ColumnCounts) numbers() (n int) {
	for _, count := range k.Slots {
		n += count
	}
	return n
}

// ranks returns how many numbers are smaller than quantile i of the fit rows, and how many do
// not exceed it.
func (k *ColumnCounts) ranks(i int) (below, atMost int) {
	for _, count := range k.Slots[:2*i+1] {
		below += count
	}
	return below, below + k.Slots[2*i+1]
}

// Merge adds the counts of other rows. Both must be counts for the same profile.
func (c *Counts) Merge(other *Counts) {
	c.Rows += other.Rows
	c.Unusual += other.Unusual
	for j, o := range other.Columns {
		k := &c.Columns[j]
		k.Present += o.Present
		k.Empty += o.Empty
		k.NewGaps += o.NewGaps
		k.NewCategories += o.NewCategories
		k.OutOfRange += o.OutOfRange
		k.addExamples(o.Examples...)
		addTo(k.Slots, o.Slots)
		addTo(k.Categories, o.Categories)
		k.Unknown += o.Unknown
	}
}

func addTo(sums, counts []int) {
	for i, n := range counts {
		sums[i] += n
	}
}

// Check returns an error unless c can be the counts of rows for the profile.
func (c *Counts) Check(p *Profile) error {
	if c.Rows < 0 || c.Unusual < 0 || c.Unusual > c.Rows || len(c.Columns) != len(p.Columns) {
		return fmt.Errorf("it counts %d of %d rows in %d of %d columns", c.Unusual, c.Rows, len(c.Columns), len(p.Columns))
	}
	for j := range c.Columns {
		k, column := &c.Columns[j], &p.Columns[j]
		if len(k.Slots) != column.slots() || len(k.Categories) != len(column.Categories) || len(k.Examples) > maxExamples {
			return fmt.Errorf("column %d has %d slots, %d categories and %d examples", j, len(k.Slots), len(k.Categories), len(k.Examples))
		}
		remaining := k.Present - k.Empty - k.Unknown
		for _, n := range slices.Concat(k.Slots, k.Categories) {
			if n < 0 || n > remaining {
				return fmt.Errorf("column %d counts more values than its %d rows have", j, k.Present)
			}
			remaining -= n
		}
		if k.Present < 0 || k.Present > c.Rows || k.Empty < 0 || k.Unknown < 0 || remaining < 0 || min(k.NewGaps, k.NewCategories, k.OutOfRange) < 0 ||
			k.NewGaps > k.Empty || k.NewCategories > k.Unknown || k.OutOfRange > k.Present-k.Empty {
			return fmt.Errorf("column %d counts more values than its %d rows have", j, k.Present)
		}
		if column.Kind != Category && slices.ContainsFunc(k.Examples, func(s string) bool { return math.IsNaN(parse(s)) }) {
			return fmt.Errorf("column %d has examples that are no numbers", j)
		}
	}
	return nil
}
