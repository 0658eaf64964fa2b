// Package schema learns what the columns of a model's inputs look like in the rows of a fit,
// and says how new rows differ: an empty cell in a column that was never empty, a category
// that was never seen, a number far outside the fitted range, or a column whose values have
// changed as a whole.
//
// For a table, the columns are the columns that the model reads. Inputs that are not tables
// have measures instead, such as the brightness of an image or the number of words in a
// text. A [Learner] reads the rows of a fit and makes a [Profile], which contains no rows.
// A [Checker] compares new rows with it.
//
// Rows are compared before the model runs, so a reason does not depend on the model. A
// reason says that a value is unusual. It does not say that the prediction is wrong.
package schema

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
)

// Kind says how the values of a column are compared.
type Kind string

const (
	Number   Kind = "number"   // cells of a table that are numbers
	Category Kind = "category" // cells of a table that are texts
	Measure  Kind = "measure"  // numbers that describe an image, a text or another input as a whole
)

// Profile describes the columns of the rows of a fit. A profile has some kilobytes for each
// column, and up to 44 kB for the words of a text. It contains the smallest and the largest
// value of each column and its frequent categories, so it is as confidential as such values
// are. Rare categories and words are hashes, but whoever guesses one can tell whether the
// profile knows it.
type Profile struct {
	Rows    int      `json:"rows"` // number of rows of the fit, including rows that Fit split off for calibration
	Columns []Column `json:"columns"`
	// Layout is the order of the axes of images: "nchw" or "nhwc". It is empty if no input is
	// an image.
	Layout string `json:"layout,omitempty"`
	// Limit is how far a number may be outside the range of the fit rows, in units of the
	// column's tail: see Column.Range.
	Limit float64 `json:"limit"`
	// Rate bounds the expected fraction of rows from the same source that have at least one
	// reason, over all columns together.
	Rate float64 `json:"rate"`
}

// Column describes the values of one column in the rows of a fit.
type Column struct {
	Name  string `json:"name"`
	Input string `json:"input,omitempty"` // name of the model's input; empty if the input has no name
	Index int    `json:"index,omitempty"` // index of the cell in a row of the input
	Kind  Kind   `json:"kind"`
	// Quantity is what a measure measures, such as "words". It is empty for cells.
	Quantity string `json:"quantity,omitempty"`

	Empty   int  `json:"empty"`              // number of rows in which the cell is empty
	RareGap bool `json:"rare_gap,omitempty"` // whether an empty cell is a reason

	// Min and Max are the smallest and the largest number. Tails holds the units in which
	// Profile.Limit extends this range downwards and upwards. All are 0 without numbers.
	Min   float64    `json:"min,omitempty"`
	Max   float64    `json:"max,omitempty"`
	Tails [2]float64 `json:"tails,omitzero"`
	// Sampled is the number of numbers that Quantiles were computed from.
	Sampled   int        `json:"sampled,omitempty"`
	Quantiles []Quantile `json:"quantiles,omitempty"`

	// Categories lists categories in at least five rows, the most frequent first, at most 64.
	// Others holds 32-bit hashes of all other categories, four bytes each, in increasing
	// order. OtherRows is the number of rows with such a category, and Singles the number of
	// categories with one row.
	Categories []CategoryCount `json:"categories,omitempty"`
	Others     []byte          `json:"others,omitempty"`
	OtherRows  int             `json:"other_rows,omitempty"`
	Singles    int             `json:"singles,omitempty"`
	// Open reports whether new categories are normal in this column, so that a new category
	// is no reason.
	Open bool `json:"open,omitempty"`

	// Words holds the known words of a text if Quantity is "unknown words". Otherwise it is nil.
	Words *Words `json:"words,omitempty"`
}

// Quantile is a value of a column with its ranks: of the sampled numbers, Below are smaller
// than Value and AtMost are smaller or equal.
type Quantile struct {
	Value  float64 `json:"value"`
	Below  int     `json:"below"`
	AtMost int     `json:"at_most"`
}

// CategoryCount is a category with the number of rows that have it.
type CategoryCount struct {
	Value string `json:"value"`
	Rows  int    `json:"rows"`
}

const (
	maxCategories = 64   // largest number of categories that a profile lists by name
	maxOthers     = 1024 // largest number of categories that a profile knows by their hash
	leastRows     = 5    // smallest number of rows of a category that a profile lists by name
	// rate is the intended fraction of rows with a reason. A third is for gaps, for categories
	// and for numbers each.
	rate = 0.001
)

// Range returns the smallest and the largest number that are no reason. The range of the fit
// rows is extended by limit times the distance between its end and the 10 % or 90 %
// quantile, so it grows with the tail of the column.
func (c *Column) Range(limit float64) (low, high float64) {
	return c.Min - limit*c.Tails[0], c.Max + limit*c.Tails[1]
}

// Quantile returns the smallest value that at least a fraction of the sampled numbers does
// not exceed, among the stored quantiles. It returns NaN without numbers.
func (c *Column) Quantile(fraction float64) float64 {
	for _, q := range c.Quantiles {
		if float64(q.AtMost) >= fraction*float64(c.Sampled) {
			return q.Value
		}
	}
	return math.NaN()
}

// Knows reports whether a row of the fit had the category. An unknown category is reported as
// known with a probability below 1 in 4 million, because most categories are stored as hashes.
func (c *Column) Knows(category string) bool {
	if slices.ContainsFunc(c.Categories, func(k CategoryCount) bool { return k.Value == category }) {
		return true
	}
	_, found := slices.BinarySearch(c.otherHashes(), hash(category))
	return found
}

func (c *Column) otherHashes() []uint32 {
	hashes := make([]uint32, len(c.Others)/4)
	for i := range hashes {
		hashes[i] = binary.LittleEndian.Uint32(c.Others[4*i:])
	}
	return hashes
}

// distinct returns the number of different categories in the fit rows. If the profile does not
// store all of them, it is a lower bound.
func (c *Column) distinct() int {
	if c.Others == nil && c.OtherRows > 0 {
		return len(c.Categories) + maxOthers
	}
	return len(c.Categories) + len(c.Others)/4
}

// hash returns the 32-bit FNV-1a hash of a category.
func hash(category string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(category))
	return h.Sum32()
}

// Check returns an error unless p is a profile that a Learner can make.
func (p *Profile) Check() error {
	if p.Rows < 1 || len(p.Columns) == 0 || !nonNegative(p.Limit) || !(p.Rate > 0 && p.Rate <= 1) {
		return fmt.Errorf("it has %d rows, %d columns, the limit %v and the rate %v", p.Rows, len(p.Columns), p.Limit, p.Rate)
	}
	for i := range p.Columns {
		if err := p.Columns[i].check(p.Rows); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

func (c *Column) check(rows int) error {
	switch {
	case c.Kind != Number && c.Kind != Category && c.Kind != Measure:
		return fmt.Errorf("its kind is %q", c.Kind)
	case (c.Kind == Measure) != (c.Quantity != ""):
		return fmt.Errorf("a %s measures %q", c.Kind, c.Quantity)
	case c.Empty < 0 || c.Empty > rows || c.Index < 0:
		return fmt.Errorf("cell %d is empty in %d of %d rows", c.Index, c.Empty, rows)
	case !finite(c.Min) || !finite(c.Max) || c.Min > c.Max || !nonNegative(c.Tails[0]) || !nonNegative(c.Tails[1]):
		return errors.New("its range is not valid")
	case c.Sampled < 0 || c.Sampled > rows || len(c.Quantiles) > len(fractions) || (c.Sampled == 0) != (len(c.Quantiles) == 0):
		return fmt.Errorf("it has %d quantiles of %d of %d rows", len(c.Quantiles), c.Sampled, rows)
	case len(c.Categories) > maxCategories || len(c.Others) > 4*maxOthers || len(c.Others)%4 != 0 || !slices.IsSorted(c.otherHashes()):
		return fmt.Errorf("it has %d categories and %d bytes of hashes", len(c.Categories), len(c.Others))
	case c.OtherRows < 0 || c.OtherRows > rows || c.Singles < 0 || c.Singles > rows:
		return fmt.Errorf("%d rows have other categories, and %d categories have one row", c.OtherRows, c.Singles)
	}
	if err := c.checkWords(rows); err != nil {
		return err
	}
	before := math.Inf(-1)
	for _, q := range c.Quantiles {
		if !finite(q.Value) || q.Value <= before || q.Below < 0 || q.Below >= q.AtMost || q.AtMost > c.Sampled {
			return fmt.Errorf("its quantile %v has the ranks %d and %d", q.Value, q.Below, q.AtMost)
		}
		before = q.Value
	}
	for _, k := range c.Categories {
		if k.Rows < leastRows || k.Rows > rows {
			return fmt.Errorf("category %.100q has %d of %d rows", k.Value, k.Rows, rows)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func nonNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

// Encode returns the profile as JSON, in the form that Decode reads.
func (p *Profile) Encode() ([]byte, error) { return json.Marshal(p) }

// Decode decodes a profile. It returns an error unless Encode could have written b.
func Decode(b []byte) (*Profile, error) {
	p := new(Profile)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	again, err := p.Encode()
	if err == nil && string(again) != string(b) {
		err = errors.New("it has values that no fit writes")
	}
	return p, err
}
