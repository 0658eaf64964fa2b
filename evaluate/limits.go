package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// These constants name the kinds of parts of the rows in which guarantees are tested.
const (
	byDecile = "decile" // decile of the prediction
	byClass  = "class"
	byGroup  = "group"
)

// strata divides rows by the calibration rows that they are compared with.
type strata struct {
	index []int // stratum of each row; nil if there is only one
	n     []int // number of calibration rows of each stratum
}

// misses returns the distribution of the number of misses in each part of the rows, if rows
// are exchangeable with the calibration rows of their stratum.
//
// If the rows of a part are in several strata, the part is treated like a single stratum. Its
// number of calibration rows is chosen so that the rate of misses varies at least as much as
// in the real strata.
func (s strata) misses(p grouping, alpha float64) []hypothesis.Misses {
	all := make([]hypothesis.Misses, len(p.names))
	if s.index == nil {
		for k := range all {
			all[k] = hypothesis.Misses{Allowed: hypothesis.Allowed(s.n[0], hypothesis.Forgive(alpha)), Calibration: s.n[0]}
		}
		return all
	}
	counts, total := make([][]int, len(p.names)), make([]int, len(p.names))
	for i, k := range p.index {
		if k < 0 {
			continue
		}
		if counts[k] == nil {
			counts[k] = make([]int, len(s.n))
		}
		counts[k][s.index[i]]++
		total[k]++
	}
	for k, strataCounts := range counts {
		var rate, variance float64
		for stratum, count := range strataCounts {
			n, fraction := s.n[stratum], float64(count)/float64(total[k])
			rate += fraction * float64(hypothesis.Allowed(n, hypothesis.Forgive(alpha))) / float64(n+1)
			variance += fraction * fraction / float64(n+2) // divided by α(1−α)
		}
		if variance > 0 {
			n := int(1/variance + 1e-9 - 2)
			all[k] = hypothesis.Misses{Allowed: int(math.Ceil(rate*float64(n+1) - 1e-9)), Calibration: n}
		}
	}
	return all
}

// selectRows returns the strata of the rows with the given numbers.
func (s strata) selectRows(numbers []int) strata {
	if s.index != nil {
		s.index = grouping{index: s.index}.selectRows(numbers).index
	}
	return s
}

// family holds the parts of the rows (classes, groups or deciles) in which one guarantee is
// tested. The guarantee itself is only an average over all rows.
type family struct {
	guarantee     Guarantee           // only Kind, Target and Nominal are set
	part          string              // kind of the parts, such as byDecile
	by            grouping            // the part of each row; empty for bySlab
	parts         []Rate              // the rates of the evaluation that get an AdjustedPValue
	distributions []hypothesis.Misses // indexed by Rate.part
	worstPart     int                 // Rate.part of the failing part with the lowest coverage, for remedy
	ert           *ERT                // set only for byPredictedMisses
	// remedy returns advice, and the name and value of an option if the advice names one.
	// It may try other options on the evaluated rows.
	remedy func(f *family) (advice, option, value string)
}

// pValues returns, for each part, the probability of at least as many misses if the guarantee
// holds in that part. The result is 1 if there are too few calibration rows for a guarantee.
func (f *family) pValues() []float64 {
	p := make([]float64, len(f.parts))
	for k, r := range f.parts {
		p[k] = 1
		if distribution := f.distributions[r.part]; distribution.Allowed > 0 {
			p[k] = distribution.AtLeast(f.guarantee.misses(r), r.Rows)
		}
	}
	return p
}

// searched reports whether the only part of the family was found by a search for misses.
func (f *family) searched() bool {
	return f.part == byColumns || f.part == byPredictedMisses || f.part == bySlab
}

// compareParts tests the parts of all families together. It adds a ConditionalTest for each
// family of a coverage, and notes about families with a part that has significantly more
// misses than the guarantee allows on average. It does not test families with a violated
// guarantee, or with a single part that is all rows.
func (e *Evaluation) compareParts(families []*family) {
	var p []float64
	families = slices.DeleteFunc(families, func(f *family) bool {
		return len(f.parts) < 2 && !f.searched() || slices.ContainsFunc(e.Guarantees, func(guarantee Guarantee) bool {
			return guarantee.Kind == f.guarantee.Kind && guarantee.Target == f.guarantee.Target && guarantee.Nominal == f.guarantee.Nominal && guarantee.Verdict == hypothesis.Violated
		})
	})
	for _, f := range families {
		p = append(p, f.pValues()...)
	}
	adjusted := hypothesis.Holm(p)
	noted := map[Guarantee]bool{}
	for _, f := range families {
		for k := range f.parts {
			f.parts[k].AdjustedPValue, adjusted = new(adjusted[0]), adjusted[1:]
		}
		// One reason explains most failures of a guarantee, so other kinds of parts get a note
		// only if the classes, groups and deciles do not fail.
		switch f.part {
		case byClass, byGroup, byDecile:
		case byColumns:
			if noted[f.guarantee] { // the columns tell more about the rows, but the same helps
				f.remedy = nil
			}
		default:
			if noted[f.guarantee] {
				continue
			}
		}
		noted[f.guarantee] = e.noteFailingParts(f) || noted[f.guarantee]
	}
	e.addTests(families, len(p))
}

// noteFailingParts adds a note about the worst part of a family if any part has significantly
// more misses than allowed. It reports whether it did.
func (e *Evaluation) noteFailingParts(f *family) bool {
	sign := 1.
	if !f.guarantee.isCoverage() {
		sign = -1
	}
	var failing []Rate
	for _, r := range f.parts {
		if *r.AdjustedPValue <= hypothesis.Unlikely {
			failing = append(failing, r)
		}
	}
	if failing == nil {
		return false
	}
	byFraction := func(a, b Rate) int { return cmp.Compare(sign*a.Fraction, sign*b.Fraction) }
	worst, best := slices.MinFunc(failing, byFraction), slices.MaxFunc(f.parts, byFraction)
	what, are, _ := strings.Cut(f.guarantee.clause(2), " are ")
	message := fmt.Sprintf("the guarantee holds on average only: %s, %s of %s %s are %s (%s to %s)", whereIs(f.part, worst.Name), display.Percent(worst.Fraction), display.Count(worst.Rows), what,
		are, display.Percent(worst.Low), display.Percent(worst.High))
	if !f.searched() {
		message += fmt.Sprintf("; %s, %s are", whereIs(f.part, best.Name), display.Percent(best.Fraction))
	}
	if n := len(failing) - 1; n > 0 {
		message += fmt.Sprintf("; it also fails, by more than chance, in %s of the %s", display.Count(n), rows.Count(len(f.parts), partNoun(f.part)))
	}
	if f.guarantee.Kind == hypothesis.IntervalCoverage {
		message = e.targetPrefix(f.guarantee.Target) + message
	}
	note := Note{Message: message, Part: f.part}
	if f.worstPart = worst.part; f.remedy != nil {
		note.Advice, note.Option, note.Value = f.remedy(f)
	}
	e.Notes = append(e.Notes, note)
	return true
}

// findFailingParts looks for classes, groups and deciles in which a guarantee that holds on
// average fails, and adds notes about them.
func (g *accumulator) findFailingParts(ctx context.Context, e *Evaluation) {
	var families []*family
	add := func(p Guarantee, part string, parts []Rate, by grouping, s strata, remedy func(f *family) (advice, option, value string)) {
		families = append(families, &family{guarantee: p, part: part, by: by, parts: parts, distributions: s.misses(by, p.alpha()), remedy: remedy})
	}
	addFound := func(p Guarantee, c outcomes, coverage *Coverage, s strata, remedy func(f *family) (advice, option, value string)) {
		for _, f := range g.conditionalFamilies(ctx, p, c, coverage, s) {
			if f.part != bySlab {
				f.remedy = remedy
			}
			families = append(families, f)
		}
	}
	p := g.predictors[g.mainLevel]
	adviseSeparateFits := func(*family) (advice, option, value string) { return "fit and calibrate each group separately", "", "" }
	if f := e.Flags; f != nil {
		guarantee := Guarantee{Kind: hypothesis.FalseAlarmRate, Rate: Rate{Nominal: e.Alpha}}
		s := strata{n: []int{len(g.bundle.Calibration.OOD)}}
		if p.Options().FlagByClass {
			s.index, s.n = g.predicted, nil
			for k := range slices.Max(g.predicted) + 1 {
				s.n = append(s.n, len(p.Conformal(k).Scores))
			}
		}
		add(guarantee, byClass, f.ByClass, g.byLabel(), s, g.adviseFlagsByClass)
		add(guarantee, byGroup, f.ByGroup, g.byGroup(), s, adviseSeparateFits)
	}
	if c := e.Classifier; c != nil && c.Sets != nil {
		guarantee, s := Guarantee{Kind: hypothesis.SetCoverage, Rate: Rate{Nominal: e.Level}}, g.setStrata()
		if c.SetsBy != byClass {
			add(guarantee, byClass, c.Sets[g.mainLevel].ByClass, g.byLabel(), s, g.adviseSets)
		}
		add(guarantee, byGroup, c.Sets[g.mainLevel].ByGroup, g.byGroup(), s, func(f *family) (advice, option, value string) {
			if advice, option, value = g.adviseSets(f); option == "" {
				return adviseSeparateFits(f)
			}
			return advice, option, value
		})
		addFound(guarantee, g.classes.sets[g.mainLevel], &c.Sets[g.mainLevel], s, g.adviseSets)
	}
	s := g.intervalStrata(e.IntervalScore)
	joint := p.Options().Joint
	for t, target := range e.Targets {
		if target.Coverage == nil || joint {
			continue
		}
		guarantee, coverage := Guarantee{Kind: hypothesis.IntervalCoverage, Target: t, Rate: Rate{Nominal: e.Level}}, &target.Coverage[g.mainLevel]
		add(guarantee, byDecile, coverage.ByDecile, g.targets[t].deciles(), s, g.adviseIntervalScore)
		if s.index == nil {
			add(guarantee, byGroup, coverage.ByGroup, g.byGroup(), s, g.adviseGroups)
		}
		addFound(guarantee, g.targets[t].levels[g.mainLevel], coverage, s, g.adviseIntervalScore)
	}
	if e.Joint != nil {
		guarantee := Guarantee{Kind: hypothesis.JointCoverage, region: e.Region, Rate: Rate{Nominal: e.Level}}
		if s.index == nil {
			add(guarantee, byGroup, e.Joint[g.mainLevel].ByGroup, g.byGroup(), s, g.adviseGroups)
		}
		addFound(guarantee, g.joint[g.mainLevel], &e.Joint[g.mainLevel], s, nil)
	}
	e.compareParts(families)
}

// setStrata divides rows by the calibration rows that calibrate their sets.
func (g *accumulator) setStrata() strata {
	by, n := g.setParts(g.mainLevel)
	return strata{index: by.index, n: n}
}

// intervalStrata divides rows by the calibration rows that calibrate their intervals with the
// given score.
func (g *accumulator) intervalStrata(score string) strata {
	calibrating := func(n int) int {
		if score == conformal.RCP || g.predictors[g.mainLevel].Options().Region == conformal.Ellipsoid {
			return hypothesis.Halved(n)
		}
		return n
	}
	if g.bundle.Calibration.Groups == nil {
		return strata{n: []int{calibrating(g.bundle.Calibration.IntervalRows())}}
	}
	by, counts := g.byGroup(), map[string]int{}
	for _, name := range g.bundle.Calibration.Groups {
		counts[name]++
	}
	s := strata{index: by.index}
	for _, name := range by.names {
		s.n = append(s.n, calibrating(counts[name]))
	}
	return s
}

// predictorWith returns a predictor with the options of the user and a change, but without
// outputs that advice does not need. It returns nil if the .attach file does not support
// the change.
func (g *accumulator) predictorWith(change func(o *attach.PredictOptions)) *attach.Predictor {
	o := g.predictors[g.mainLevel].Options()
	o.Levels, o.Samples, o.MaxError, o.VennAbers, o.ClassPValues = nil, 0, 0, false, false
	change(&o)
	predictor, err := g.bundle.Predictor(o)
	if err != nil {
		return nil
	}
	return predictor
}

// withOutcomes returns the family for different outcomes of the rows, for example with a
// different interval score. It also returns the number of parts with significantly more
// misses than allowed.
func (f *family) withOutcomes(by grouping, c outcomes, distributions []hypothesis.Misses) (other *family, failing int) {
	other = &family{guarantee: f.guarantee, part: f.part, distributions: distributions}
	other.parts = by.rates(func(i int) bool { return c.covered[i] }, c.width)
	for _, p := range hypothesis.Holm(other.pValues()) {
		if p <= hypothesis.Unlikely {
			failing++
		}
	}
	return other, failing
}

// worst returns the smallest coverage of any part, or the largest false-alarm rate.
func (f *family) worst() float64 {
	fractions := make([]float64, len(f.parts))
	for k, r := range f.parts {
		fractions[k] = r.Fraction
	}
	if f.guarantee.isCoverage() {
		return slices.Min(fractions)
	}
	return slices.Max(fractions)
}

// selectRows returns the grouping of the rows with the given numbers.
func (p grouping) selectRows(numbers []int) grouping {
	return grouping{names: p.names, index: rows.Pick(p.index, numbers)}
}

// remedy holds what an option achieves in the parts of some evaluated rows.
type remedy struct {
	value   string  // value of the option
	worst   float64 // smallest coverage of a part
	failing int     // number of parts with significantly more misses than allowed
	width   float64 // mean width of the intervals, or mean size of the sets
	part    float64 // coverage of the part that the note is about
}

// better reports whether r is better than other. The remedy with fewer failing parts is
// better. If both have none, the narrower intervals are better. If both have the same number
// above 0, the higher coverage of the worst part is better.
func (r remedy) better(other remedy) bool {
	switch {
	case r.failing != other.failing:
		return r.failing < other.failing
	case r.failing == 0:
		return r.width < other.width
	}
	return r.worst > other.worst
}

// bestRemedy returns the best of the remedies in others that cover the worst part more often
// than current. If there is none, it returns current.
func bestRemedy(current remedy, others []remedy) remedy {
	best := current
	for _, r := range others {
		if r.worst > current.worst && r.better(best) {
			best = r
		}
	}
	return best
}

// meanWidth returns the mean of the finite widths, or NaN if there is none.
func meanWidth(c outcomes) float64 {
	sum, n := 0., 0
	for _, w := range c.width {
		if !math.IsInf(w, 0) {
			sum += w
			n++
		}
	}
	return sum / float64(n)
}

// fewRowsAdvice returns advice to calibrate with more rows if a class of the rows has too few
// calibration rows for a guarantee of its own. No row of such a class could be flagged, and
// every set would contain the class. index holds the class of each row.
func (f *family) fewRowsAdvice(s strata, index []int) string {
	required := hypothesis.LeastRows(hypothesis.Forgive(f.guarantee.alpha()))
	for _, k := range index {
		if k >= 0 && k < len(s.n) && s.n[k] < required {
			return fmt.Sprintf("calibrate with more rows: at least %d of each class, so that each class can be calibrated separately", required)
		}
	}
	return ""
}

// adviseFlagsByClass advises p-values by predicted class if fewer rows of the worst class are
// then flagged. If a class has too few calibration rows, it advises calibrating with more
// rows.
func (g *accumulator) adviseFlagsByClass(f *family) (advice, option, value string) {
	predictor := g.predictorWith(func(o *attach.PredictOptions) { o.FlagByClass = true })
	if predictor == nil || g.predictors[g.mainLevel].Options().FlagByClass {
		return "", "", ""
	}
	var c outcomes // covered means flagged here, and flags have no width
	for i, score := range g.scores {
		c.add(predictor.Conformal(g.predicted[i]).PValue(score) <= f.guarantee.Nominal, math.Inf(1))
	}
	labels := g.byLabel()
	s := strata{index: g.predicted}
	for k := range slices.Max(g.predicted) + 1 {
		s.n = append(s.n, len(predictor.Conformal(k).Scores))
	}
	if few := f.fewRowsAdvice(s, g.predicted); few != "" {
		return few, "", ""
	}
	separate, _ := f.withOutcomes(labels, c, s.misses(labels, f.guarantee.alpha()))
	if separate.worst() >= f.worst() {
		return "", "", ""
	}
	return fmt.Sprintf("rank scores by predicted class: on these rows this flags %s of the worst class", display.Percent(separate.worst())), "flag_by_class", ""
}

// outputsOf returns the numbers from which intervals or sets of a row are computed: the
// quantiles of all targets, or the logits.
func outputsOf(prediction attach.Prediction, logits blas32.General, i int) []float32 {
	if prediction.Targets == nil && logits.Cols > 0 {
		return rows.Row(logits, i)
	}
	var all []float32
	for _, target := range prediction.Targets {
		all = append(all, dense.Single(target.Quantiles)...)
	}
	return all
}
