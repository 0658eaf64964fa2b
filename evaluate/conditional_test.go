package evaluate

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// TestERTReference compares both figures with evaluate_with_predictions of covmetrics 0.1.2, the
// package of the authors. A prediction equal to the level counts neither as above nor below.
func TestERTReference(t *testing.T) {
	predicted, covered := []float64{.95, .8, .9, .7, .92, .5, .99}, []bool{true, false, true, true, false, false, true}
	e := ertOf(.9, predicted, covered)
	if e.Rows != 7 || math.Abs(e.Deviation-0.14285714285714285) > 1e-12 || math.Abs(e.ExcessRisk-0.09014285714285708) > 1e-12 {
		t.Errorf("the ERT is %+v", e)
	}
}

// uniformRows returns n rows of uniform numbers.
func uniformRows(rng *rand.Rand, n, cols int) blas32.General {
	x := rows.New(n, cols)
	for i := range x.Data {
		x.Data[i] = rng.Float32()
	}
	return x
}

// TestPredictMisses checks the ERT against its true value. A fifth of the rows is covered with
// probability 0.6 instead of 0.9, so the mean deviation is 0.2·0.3 and the mean squared
// deviation 0.2·0.3². The riskiest rows of each block must be mostly these rows.
func TestPredictMisses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	const n = 5000
	x, covered := uniformRows(rng, n, 3), make([]bool, n)
	bad := func(i int) bool { return x.Data[3*i+1] > .8 }
	for i := range covered {
		p := .9
		if bad(i) {
			p = .6
		}
		covered[i] = rng.Float64() < p
	}
	tested, predicted, risky := predictMisses(context.Background(), x, covered, rng.Perm(n), 1)
	var truth []bool
	for _, i := range tested {
		truth = append(truth, covered[i])
	}
	if len(tested) != 3000 || len(predicted) != 3000 || len(risky) != 600 {
		t.Fatalf("%d rows are tested, %d predicted, %d risky", len(tested), len(predicted), len(risky))
	}
	slices.Sort(tested)
	if len(slices.Compact(tested)) != 3000 {
		t.Error("a row is tested twice")
	}
	hits := 0
	for _, i := range risky {
		if bad(i) {
			hits++
		}
	}
	if e := ertOf(.9, predicted, truth); math.Abs(e.Deviation-.06) > .02 || math.Abs(e.ExcessRisk-.018) > .006 || hits < 500 {
		t.Errorf("the ERT is %+v, and %d of %d risky rows are from the region", e, hits, len(risky))
	}
}

// TestSearchErrorRate checks that rows which a search finds have the distribution of misses of
// random rows if coverage is the same everywhere. The p-value of found rows, over draws of the
// calibration rows, must then be at most 0.1 in about a tenth of the draws or fewer.
func TestSearchErrorRate(t *testing.T) {
	const draws, n, cal, alpha = 60, 150, 100, .1
	rng := rand.New(rand.NewPCG(2, 5))
	m := hypothesis.Misses{Allowed: hypothesis.Allowed(cal, hypothesis.Forgive(alpha)), Calibration: cal}
	var small [2]int
	for range draws {
		scores := make([]float64, cal)
		for i := range scores {
			scores[i] = rng.Float64()
		}
		slices.Sort(scores)
		x, covered := uniformRows(rng, n, 2), make([]bool, n)
		for i := range covered {
			covered[i] = rng.Float64() < scores[cal-m.Allowed]
		}
		order := rng.Perm(n)
		_, _, risky := predictMisses(context.Background(), x, covered, order, 1)
		_, members := columnsOf(x).worstRegion(order, covered)
		for k, list := range [][]int{risky, members} {
			misses := 0
			for _, i := range list {
				if !covered[i] {
					misses++
				}
			}
			if m.AtLeast(misses, len(list)) <= .1 {
				small[k]++
			}
		}
	}
	for k, count := range small {
		if count > 13 { // more has a probability of 0.4 % at a rate of 0.1
			t.Errorf("search %d: %d of %d p-values are at most 0.1", k, count, draws)
		}
	}
}

// columnsOf returns the columns a, b, … of a table of numbers.
func columnsOf(x blas32.General) *inputColumns {
	p := &schema.Profile{}
	for j := range x.Cols {
		p.Columns = append(p.Columns, schema.Column{Name: string(rune('a' + j)), Kind: schema.Number, Index: j})
	}
	c := newInputColumns(p, 1)
	c.add(ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{x.Rows, x.Cols}, Data: x.Data}}})
	return c
}

// TestWorstRegion checks that a planted region is found and described: two conditions, one
// category, and empty cells. Its members must be rows of the second half.
func TestWorstRegion(t *testing.T) {
	const n = 2000
	rng := rand.New(rand.NewPCG(3, 5))
	x := uniformRows(rng, n, 3)
	cuts := make([]string, n)
	for i := range n {
		cuts[i] = []string{"Fair", "Good", "Ideal"}[rng.IntN(3)]
		x.Data[3*i] = float32(math.Round(100*float64(x.Data[3*i])) / 100)
		if rng.IntN(10) == 0 {
			x.Data[3*i+2] = float32(math.NaN())
		}
	}
	p := &schema.Profile{Columns: []schema.Column{
		{Name: "carat", Input: "numbers", Kind: schema.Number}, {Name: "depth", Input: "numbers", Index: 1, Kind: schema.Number}, {Name: "table", Input: "numbers", Index: 2, Kind: schema.Number},
		{Name: "cut", Input: "texts", Kind: schema.Category},
	}}
	c := newInputColumns(p, 1)
	for from := 0; from < n; from += 500 { // in blocks, as files are read
		c.add(ood.InputBlock{Start: from, Tensors: []ood.Tensor{
			{Name: "numbers", Shape: []int{500, 3}, Data: x.Data[3*from : 3*(from+500)]}, {Name: "texts", Shape: []int{500, 1}, Strings: cuts[from : from+500]},
		}})
	}
	order := rng.Perm(n)
	for _, test := range []struct {
		name string
		in   func(i int) bool
		want []string
	}{
		{"number and category", func(i int) bool { return x.Data[3*i] > .7 && cuts[i] == "Ideal" }, []string{"carat > 0.", `cut = "Ideal"`, " and "}},
		{"at most", func(i int) bool { return x.Data[3*i+1] <= .2 }, []string{"depth ≤ 0."}},
		{"empty", func(i int) bool { return x.Data[3*i+2] != x.Data[3*i+2] }, []string{"table is empty"}},
		{"between", func(i int) bool { return x.Data[3*i+1] > .4 && x.Data[3*i+1] <= .6 }, []string{"0.", " < depth ≤ 0."}},
	} {
		covered := make([]bool, n)
		for i := range covered {
			covered[i] = rng.Float64() < .95
			if test.in(i) {
				covered[i] = rng.Float64() < .5
			}
		}
		region, members := c.worstRegion(order, covered)
		if slices.ContainsFunc(test.want, func(part string) bool { return !strings.Contains(region, part) }) || strings.Contains(region, " and ") != (len(test.want) == 3) {
			t.Errorf("%s: the region is %q", test.name, region)
		}
		hits := 0
		for _, i := range members {
			if test.in(i) {
				hits++
			}
			if slices.Contains(order[:n/2], i) {
				t.Fatalf("%s: row %d was searched", test.name, i)
			}
		}
		if 10*hits < 7*len(members) || len(members) < 30 {
			t.Errorf("%s: %d of %d members are in the region", test.name, hits, len(members))
		}
	}
	if region, _ := c.worstRegion(order, make([]bool, n)); region != "" {
		t.Errorf("if no row is covered, the region is %q", region)
	}
	c.add(nil) // rows without inputs
	if region, _ := c.worstRegion(order, make([]bool, n)); region != "" {
		t.Errorf("without inputs of all rows, the region is %q", region)
	}
}

// TestManyCategories checks that the memory for categories is limited, as for a column of names.
func TestManyCategories(t *testing.T) {
	c := newInputColumns(&schema.Profile{Columns: []schema.Column{{Name: "name", Kind: schema.Category}}}, 1)
	var names []string
	for i := range 100 {
		names = append(names, string(rune('a'+i)))
	}
	for range 2 {
		c.add(ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{100, 1}, Strings: names}}})
	}
	if len(c.texts[0]) != maxCuts || len(c.codes[0]) != maxCuts || c.sample.x[1] != 1 || c.sample.x[101] != 1 || c.sample.x[99] != maxCuts {
		t.Errorf("%d categories, and the numbers %v", len(c.codes[0]), c.sample.x[:102])
	}
}

// TestPartsBySize checks that rows are grouped by the width of intervals and the size of sets.
func TestPartsBySize(t *testing.T) {
	covered := func(int) bool { return true }
	var names []string
	for _, r := range byIntervalWidth([]float64{5, math.Inf(1), 1, 2, 3, 4, math.Inf(1)}).rates(covered, nil) {
		names = append(names, r.Name)
	}
	if got, want := strings.Join(names, ", "), "1 to 2, 2 to 3, 3 to 4, 4 to 5, 5 to 5, infinite"; got != want {
		t.Errorf("widths are grouped by %s, want %s", got, want)
	}
	if list := byIntervalWidth([]float64{math.Inf(1)}).rates(covered, nil); len(list) != 1 || list[0].Name != "infinite" {
		t.Errorf("infinite intervals are grouped by %+v", list)
	}
	names = nil
	for _, r := range setSizes([]float64{0, 1, 3, 4, 10, 11, 1000}).rates(covered, nil) {
		names = append(names, r.Name)
	}
	if got, want := strings.Join(names, ", "), "0 classes, 1 class, 3 classes, 4 to 10 classes, 11 to 100 classes, more than 100 classes"; got != want {
		t.Errorf("sizes are grouped by %s, want %s", got, want)
	}
}

// TestVerdictsOfParts checks the three verdicts of a conditional test, for parts of 1,000 and 10
// rows.
func TestVerdictsOfParts(t *testing.T) {
	for _, c := range []struct {
		covered, rows int
		want          string
	}{{900, 1000, noEvidence}, {700, 1000, failed}, {9, 10, hypothesis.TooFewRows}, {1, 10, failed}} {
		e, p := &Evaluation{}, Guarantee{Kind: hypothesis.IntervalCoverage, Rate: Rate{Nominal: .9}}
		first, second := rate(c.covered, c.rows), rate(c.rows*9/10, c.rows)
		first.Name, second.Name, second.part = "a", "b", 1
		m := hypothesis.Misses{Allowed: 500, Calibration: 5000}
		e.compareParts([]*family{{guarantee: p, part: byGroup, parts: []Rate{*first, *second}, distributions: []hypothesis.Misses{m, m}}})
		if len(e.Conditional) != 1 || e.Conditional[0].Verdict != c.want || e.Conditional[0].Worst.Name != "a" || e.Conditional[0].Parts != 2 {
			t.Errorf("%d of %d rows are covered: %+v, want %s", c.covered, c.rows, e.Conditional, c.want)
		}
	}
}
