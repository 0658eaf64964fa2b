package evaluate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// These constants name further kinds of parts, which are known before the truth is.
const (
	byPredictedClass  = "predicted_class"
	byWidth           = "width"            // fifth of the width of the interval
	bySize            = "size"             // number of classes in the set
	byColumns         = "columns"          // region of the input columns with many misses
	byPredictedMisses = "predicted_misses" // rows for which a forest predicts the most misses
	bySlab            = "slab"             // worst slab
)

// These are the verdicts of a ConditionalTest, besides "too_few_rows".
const (
	failed     = "failed"
	noEvidence = "no_evidence"
)

// ConditionalTest is the test whether intervals or prediction sets at the level of the
// predictor keep their coverage in parts of the rows. A guarantee is only an average over all
// rows, so it can be met although such a test fails.
type ConditionalTest struct {
	// Kind is interval_coverage, joint_coverage or set_coverage.
	Kind   string `json:"kind"`
	Target int    `json:"target,omitempty"` // index of the target, counted from 0
	// Part says how the rows are divided: by "class" (the label), "predicted_class", "group",
	// "decile" of the prediction, "width" of the interval or "size" of the set. A test of a
	// single part looks for the rows with the most misses: in a region of the input
	// "columns", in the worst "slab" of the features, or among the rows for which a forest
	// predicts the most misses ("predicted_misses"). The search and the test use different
	// rows.
	Part string `json:"part"`
	// Verdict is "failed" if the Rate.AdjustedPValue of a part is at most 0.05. It is
	// "too_few_rows" if it did not fail, but less than half of the rows are in parts in which
	// the test would detect twice the guaranteed rate of misses with a probability of 80 %.
	// Otherwise it is "no_evidence".
	Verdict string `json:"verdict"`
	Parts   int    `json:"parts"`
	Failing int    `json:"failing"` // number of parts with an adjusted p-value of at most 0.05
	// Worst is the part with the smallest p-value.
	Worst Rate `json:"worst"`
	// ERT says how far coverage deviates from the level in dependence on the features. It is
	// set only for "predicted_misses".
	ERT *ERT `json:"ert,omitempty"`
}

// whereIs describes the rows of the named part.
func whereIs(part, name string) string {
	switch part {
	case byDecile:
		return "where the prediction is " + name
	case byPredictedClass:
		return "where the predicted class is " + name
	case byWidth:
		return "where the width of the interval is " + name
	case bySize:
		return "where the set has " + name
	case byColumns:
		return "where " + name
	case byPredictedMisses:
		return "in the fifth of the rows for which a forest predicts the most misses"
	case bySlab:
		return "in the worst slab of the features"
	}
	return "in " + part + " " + cmp.Or(name, `""`)
}

// search holds parts of the rows that were found because they have many misses. They are
// measured on other rows than those of the search.
type search struct {
	columns, misses grouping
	ert             *ERT
}

// singlePart returns the grouping of n rows whose only part contains the given rows.
func singlePart(n int, name string, members []int) grouping {
	p := grouping{names: []string{name}, index: slices.Repeat([]int{-1}, n)}
	for _, i := range members {
		p.index[i] = 0
	}
	return p
}

// conditionalFamilies returns families with further parts of the rows for the guarantee of a
// coverage. Widths are nil for intervals and sets without a width that depends only on the
// inputs.
func (g *accumulator) conditionalFamilies(ctx context.Context, p Guarantee, c outcomes, coverage *Coverage, s strata) (list []*family) {
	add := func(part string, by grouping, parts []Rate) {
		if len(parts) > 0 {
			list = append(list, &family{guarantee: p, part: part, by: by, parts: parts, distributions: s.misses(by, p.alpha())})
		}
	}
	covered := func(i int) bool { return c.covered[i] }
	if p.Kind == hypothesis.SetCoverage {
		add(byPredictedClass, g.byPredicted(), coverage.ByPredictedClass)
		if coverage.BySize != nil {
			add(bySize, setSizes(c.width), coverage.BySize)
		}
	} else if coverage.ByWidth != nil {
		add(byWidth, byIntervalWidth(c.width), coverage.ByWidth)
	}
	found := g.searchMisses(ctx, c, coverage, p)
	for part, by := range map[string]grouping{byColumns: found.columns, byPredictedMisses: found.misses} {
		if by.names != nil {
			add(part, by, by.rates(covered, c.width))
		}
	}
	slices.SortFunc(list, func(a, b *family) int { return cmp.Compare(partOrder(a.part), partOrder(b.part)) })
	for _, f := range list {
		if f.part == byPredictedMisses {
			f.ert = found.ert
		}
	}
	if w := coverage.WorstSlab; w != nil && w.Rows > 0 {
		w.part = 0
		all := singlePart(g.n, "", nil)
		all.index = make([]int, g.n) // the calibration rows of all rows, because a slab can have rows of any group
		list = append(list, &family{guarantee: p, part: bySlab, parts: []Rate{*w}, distributions: s.misses(all, p.alpha())})
	}
	return list
}

// partOrder returns the position of a kind of parts in results: the kinds on which a user
// can act come first.
func partOrder(part string) int {
	return slices.Index([]string{byClass, byGroup, byPredictedClass, byDecile, byColumns, bySize, byWidth, byPredictedMisses, bySlab}, part)
}

// widthParts is the number of parts by the width of the interval.
const widthParts = 5

// byIntervalWidth groups rows by the fifth of the width of their interval. Infinite intervals are
// in a part of their own.
func byIntervalWidth(width []float64) grouping {
	var finite []float64
	for _, w := range width {
		if !math.IsInf(w, 0) {
			finite = append(finite, w)
		}
	}
	var p grouping
	if finite != nil {
		p = quantileParts(finite, widthParts)
	}
	index := p.index
	p.index = nil
	for _, w := range width {
		if math.IsInf(w, 0) {
			p.index = append(p.index, len(p.names))
			continue
		}
		p.index, index = append(p.index, index[0]), index[1:]
	}
	p.names = append(p.names, "infinite")
	return p
}

// setSizes groups rows by the size of their prediction set. Large sizes are grouped together,
// in the steps of Angelopoulos et al. (2021), Uncertainty Sets for Image Classifiers using
// Conformal Prediction, section 4.4.
func setSizes(sizes []float64) grouping {
	limits, names := []float64{0, 1, 2, 3, 10, 100, math.Inf(1)}, []string{"0 classes", "1 class", "2 classes", "3 classes", "4 to 10 classes", "11 to 100 classes", "more than 100 classes"}
	p := grouping{names: names}
	for _, size := range sizes {
		k, _ := slices.BinarySearch(limits, size)
		p.index = append(p.index, k)
	}
	return p
}

// addTests adds a ConditionalTest for each family of a coverage guarantee. total is the
// number of parts of all families, which were tested together.
func (e *Evaluation) addTests(families []*family, total int) {
	for _, f := range families {
		if !f.guarantee.isCoverage() {
			continue
		}
		t := ConditionalTest{Kind: f.guarantee.Kind, Target: f.guarantee.Target, Part: f.part, Parts: len(f.parts), Verdict: noEvidence, ERT: f.ert}
		t.Worst = slices.MinFunc(f.parts, func(a, b Rate) int {
			return cmp.Or(cmp.Compare(*a.AdjustedPValue, *b.AdjustedPValue), cmp.Compare(a.Fraction, b.Fraction))
		})
		t.Worst.Nominal = f.guarantee.Nominal
		alpha := f.guarantee.alpha()
		all, tested := 0, 0
		for _, r := range f.parts {
			if *r.AdjustedPValue <= hypothesis.Unlikely {
				t.Failing++
			}
			all += r.Rows
			if d := f.distributions[r.part]; d.Allowed > 0 && d.Power(r.Rows, hypothesis.Unlikely/float64(total), min(2*alpha, (1+alpha)/2)) >= power {
				tested += r.Rows
			}
		}
		switch {
		case t.Failing > 0:
			t.Verdict = failed
		case 2*tested < all:
			t.Verdict = hypothesis.TooFewRows
		}
		e.Conditional = append(e.Conditional, t)
	}
	slices.SortStableFunc(e.Conditional, func(a, b ConditionalTest) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target), cmp.Compare(partOrder(a.Part), partOrder(b.Part)))
	})
}

// partNoun returns the noun for parts of a kind, such as "decile".
func partNoun(part string) string {
	switch part {
	case byPredictedClass:
		return "predicted class"
	case byWidth, bySize:
		return "part"
	}
	return part
}
