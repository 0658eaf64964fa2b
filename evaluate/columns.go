package evaluate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// inputColumns holds the values of the input columns of a sample of the rows.
type inputColumns struct {
	profile *schema.Profile // nil if the columns are unknown
	matcher *schema.Matcher
	sample  reservoir
	codes   []map[string]int // number of each category in texts, by column
	texts   [][]string       // the first maxCuts categories; all others have the number maxCuts
}

func newInputColumns(p *schema.Profile, seed uint64) *inputColumns {
	c := &inputColumns{sample: newReservoir(seed)}
	if p != nil {
		c.profile, c.matcher = p, p.Matcher()
		c.codes, c.texts = make([]map[string]int, len(p.Columns)), make([][]string, len(p.Columns))
	}
	return c
}

// add adds the rows of a block if they have the inputs that the profile describes. All blocks
// must have them, because the sample must have the same rows as the other reservoirs.
func (c *inputColumns) add(inputs ood.Inputs) {
	block, ok := inputs.(ood.InputBlock)
	if c.profile == nil || !ok {
		c.profile = nil
		return
	}
	values := c.matcher.Values(block)
	for i := range values.Len() {
		row, texts := values.Numbers(i), values.Texts(i)
		for j, column := range c.profile.Columns {
			if column.Kind != schema.Category {
				continue
			}
			code, known := c.codes[j][texts[j]]
			switch {
			case known:
			case len(c.texts[j]) == maxCuts:
				code = maxCuts
			default:
				if c.codes[j] == nil {
					c.codes[j] = map[string]int{}
				}
				code = len(c.texts[j])
				c.codes[j][texts[j]], c.texts[j] = code, append(c.texts[j], texts[j])
			}
			row[j] = float32(code)
		}
		c.sample.add(row)
	}
}

// condition is a condition on one column. It holds for numbers in (low, high], or for
// numbers that are NaN.
type condition struct {
	column    int
	low, high float32
	empty     bool
}

func (d condition) holds(v float32) bool {
	if d.empty {
		return v != v
	}
	return d.low < v && v <= d.high
}

const (
	// maxCuts is the largest number of values at which a column is cut, and of its categories.
	maxCuts = 16
	// minRegion is the smallest fraction of the searched rows in a region.
	minRegion = .05
	// widened is the number of first conditions to which a second one is added.
	widened = 8
	// clearly is the factor by which a second condition must increase the score of a region.
	clearly = 1.15
)

// worstRegion describes a region of the columns in which rows are missed most, such as "carat >
// 1.5 and color = J". A region has one or two conditions. It is searched on the first half of
// order, or on fewer rows if there are hundreds of columns, which would take long. Members are
// its rows in the second half. Positions in order and members are positions in the sample. The
// result is empty if the columns are unknown.
func (c *inputColumns) worstRegion(order []int, covered []bool) (region string, members []int) {
	if c.profile == nil || c.sample.cols == 0 || len(c.sample.rows) != len(covered) {
		return "", nil
	}
	half := order[:min(len(order)/2, max(500, maxSearchCells/(2*c.sample.cols)))]
	all := c.conditions(half)
	var missed float64
	for _, i := range half {
		if !covered[i] {
			missed++
		}
	}
	rate := missed / float64(len(half))
	if missed == 0 || rate == 1 {
		return "", nil
	}
	// score returns by how many standard deviations the misses exceed their expected number.
	score := func(list ...condition) float64 {
		n, misses := 0., 0.
		for _, i := range half {
			if c.inRegion(i, list) {
				n++
				if !covered[i] {
					misses++
				}
			}
		}
		if n < max(10, minRegion*float64(len(half))) {
			return math.Inf(-1)
		}
		return (misses - n*rate) / math.Sqrt(n*rate*(1-rate))
	}
	type candidate struct {
		list  []condition
		score float64
	}
	var singles []candidate
	for _, d := range all {
		singles = append(singles, candidate{[]condition{d}, score(d)})
	}
	slices.SortStableFunc(singles, func(a, b candidate) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	if len(singles) == 0 || !(singles[0].score > 0) {
		return "", nil
	}
	best := singles[0]
	best.score *= clearly
	for _, single := range singles[:min(widened, len(singles))] {
		for _, d := range all {
			list := []condition{single.list[0], d}
			if s := score(list...); s > best.score {
				best = candidate{list, s}
			}
		}
	}
	for _, i := range order[len(order)/2:] {
		if c.inRegion(i, best.list) {
			members = append(members, i)
		}
	}
	if len(members) == 0 {
		return "", nil
	}
	return c.describe(best.list), members
}

func (c *inputColumns) inRegion(i int, list []condition) bool {
	for _, d := range list {
		if !d.holds(c.sample.x[i*c.sample.cols+d.column]) {
			return false
		}
	}
	return true
}

// conditions returns the conditions that a search tries: numbers at most or above a value, one
// category, and empty cells.
func (c *inputColumns) conditions(searched []int) (all []condition) {
	low, high := float32(math.Inf(-1)), float32(math.Inf(1))
	for j, column := range c.profile.Columns {
		if column.Kind == schema.Category {
			for code := range c.texts[j] {
				all = append(all, condition{column: j, low: float32(code) - .5, high: float32(code) + .5})
			}
			continue
		}
		var values []float32
		for _, i := range searched {
			if v := c.sample.x[i*c.sample.cols+j]; v == v {
				values = append(values, v)
			}
		}
		if len(values) < len(searched) {
			all = append(all, condition{column: j, empty: true})
		}
		slices.Sort(values)
		distinct := slices.Compact(slices.Clone(values))
		var cuts []float32
		for k := 1; k < maxCuts && len(values) > 0; k++ {
			cuts = append(cuts, rounded(values[k*len(values)/maxCuts]))
		}
		if len(distinct) <= maxCuts {
			cuts = nil
			for k, v := range distinct {
				cut := rounded(v)
				if cut < v && k+1 < len(distinct) {
					cut = rounded((v + distinct[k+1]) / 2)
				}
				cuts = append(cuts, cut)
			}
		}
		for _, cut := range slices.Compact(cuts) {
			if len(distinct) > 0 && cut < distinct[len(distinct)-1] {
				all = append(all, condition{column: j, low: low, high: cut}, condition{column: j, low: cut, high: high})
			}
		}
	}
	return all
}

// cutDigits is the number of significant digits of a cut.
const cutDigits = 4

// rounded rounds a cut to the digits that a description shows, so that it describes exactly the
// rows of the region.
func rounded(v float32) float32 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', cutDigits, 32), 32)
	return float32(r)
}

// describe describes the rows for which all conditions hold.
func (c *inputColumns) describe(list []condition) string {
	list = slices.Clone(list)
	if len(list) == 2 && list[0].column == list[1].column { // two bounds of one column
		list[0].low, list[0].high = max(list[0].low, list[1].low), min(list[0].high, list[1].high)
		list = list[:1]
	}
	var parts []string
	for _, d := range list {
		name := c.profile.Columns[d.column].Name
		switch number := func(v float32) string { return display.Number(float64(v), cutDigits) }; {
		case d.empty:
			parts = append(parts, name+" is empty")
		case c.profile.Columns[d.column].Kind == schema.Category:
			parts = append(parts, fmt.Sprintf("%s = %.100q", name, c.texts[d.column][int(d.high)]))
		case math.IsInf(float64(d.low), 0):
			parts = append(parts, name+" ≤ "+number(d.high))
		case math.IsInf(float64(d.high), 0):
			parts = append(parts, name+" > "+number(d.low))
		default:
			parts = append(parts, number(d.low)+" < "+name+" ≤ "+number(d.high))
		}
	}
	return strings.Join(parts, " and ")
}
