package reasons

import (
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// A check is one way to compare new rows with the rows of a fit.
type check int

const (
	change  check = iota // package schema: the whole column has changed
	notable              // package schema: predict prints a note about the column
	ranges               // a value outside the smallest and largest, a new category, a new gap
	tests5               // a new category, or a two-sample test of the column with p < 0.05
	tests1               // the same two-sample tests with p < 0.01 over all columns together
	numChecks
)

func (c check) String() string {
	return [...]string{"schema: change", "schema: note", "range", "tests, 5 %", "tests, 1 % in all"}[c]
}

// fitted holds what each check keeps of the rows of a fit.
type fitted struct {
	profile *schema.Profile
	columns []fittedColumn
	rows    int
}

type fittedColumn struct {
	sorted []float64      // numbers in increasing order
	counts map[string]int // rows of each category; an empty cell is the category ""
	gaps   bool
	common [2]string // the most frequent categories
}

func newFitted(b ood.InputBlock) fitted {
	l := schema.NewLearner(schema.LearnOptions{})
	l.Add(b)
	f := fitted{profile: l.Profile(), rows: b.Len()}
	for _, t := range b.Tensors {
		c := fittedColumn{}
		c.sorted, c.counts, c.gaps = describe(t)
		names := make([]string, 0, len(c.counts))
		for name := range c.counts {
			if name != "" {
				names = append(names, name)
			}
		}
		slices.SortFunc(names, func(a, b string) int {
			if d := c.counts[b] - c.counts[a]; d != 0 {
				return d
			}
			return len(a) - len(b)
		})
		copy(c.common[:], names)
		f.columns = append(f.columns, c)
	}
	return f
}

// describe returns the numbers of a column in increasing order, or the rows of each category.
func describe(t ood.Tensor) (sorted []float64, counts map[string]int, gaps bool) {
	if t.Strings != nil {
		counts = map[string]int{}
		for _, s := range t.Strings {
			counts[s]++
		}
		return nil, counts, counts[""] > 0
	}
	for _, x := range t.Data {
		if x == x {
			sorted = append(sorted, float64(x))
		} else {
			gaps = true
		}
	}
	slices.Sort(sorted)
	return sorted, nil, gaps
}

// found returns which of the columns with the given indices each check reports.
func (f fitted) found(b ood.InputBlock, columns []int) (found [numChecks]bool, s schema.Summary) {
	c := f.profile.NewChecker(false)
	c.Add(b)
	s = c.Summary()
	for _, j := range columns {
		for _, d := range s.Columns {
			if d.Column == f.profile.Columns[j].Name {
				found[change] = found[change] || d.Change != ""
				found[notable] = found[notable] || d.Notable
			}
		}
		outside, p := f.columns[j].compare(b.Tensors[j])
		found[ranges] = found[ranges] || outside
		found[tests5] = found[tests5] || p < 0.05 || outside && b.Tensors[j].Strings != nil
		found[tests1] = found[tests1] || p < 0.01/float64(len(f.columns))
	}
	return found, s
}

// compare reports whether a column has a value outside the range, a new category or a new
// gap. p is the p-value of the Kolmogorov–Smirnov test for numbers, and of the χ² test for
// categories.
func (c fittedColumn) compare(t ood.Tensor) (outside bool, p float64) {
	sorted, counts, gaps := describe(t)
	if counts != nil {
		for s := range counts {
			outside = outside || c.counts[s] == 0
		}
		return outside, chiSquared(c.counts, counts)
	}
	outside = gaps && !c.gaps
	if len(sorted) == 0 {
		return outside, 1 // the test has no value, as in the tools that drop empty cells
	}
	if len(c.sorted) > 0 {
		outside = outside || sorted[0] < c.sorted[0] || sorted[len(sorted)-1] > c.sorted[len(c.sorted)-1]
	}
	_, p = hypothesis.Kolmogorov(c.sorted, sorted)
	return outside, p
}

// chiSquared returns the p-value of Pearson's test that two samples have the same categories.
func chiSquared(a, b map[string]int) float64 {
	var n, m float64
	both := map[string]int{}
	for s, k := range a {
		both[s] += k
		n += float64(k)
	}
	for s, k := range b {
		both[s] += k
		m += float64(k)
	}
	if len(both) < 2 {
		return 1
	}
	var sum float64
	for s, k := range both {
		wantA, wantB := float64(k)*n/(n+m), float64(k)*m/(n+m)
		sum += (float64(a[s])-wantA)*(float64(a[s])-wantA)/wantA + (float64(b[s])-wantB)*(float64(b[s])-wantB)/wantB
	}
	return distuv.ChiSquared{K: float64(len(both) - 1)}.Survival(sum)
}
