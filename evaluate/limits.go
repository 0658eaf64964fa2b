package evaluate

import (
	"cmp"
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
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// Kinds of parts in which a guarantee is compared.
const (
	byDecile = "decile" // of the prediction
	byClass  = "class"
	byGroup  = "group"
)

// strata groups rows by the calibration rows they are compared with.
type strata struct {
	index []int // the stratum of each row, or nil for a single stratum
	n     []int // number of calibration rows of each stratum
}

// misses returns the distribution of the number of misses in each part, if its rows are
// exchangeable with the calibration rows of their stratum. If the rows of a part are in
// several strata, they are treated as one stratum, whose number of calibration rows makes the
// rate vary at least as much.
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
		if counts[k] == nil {
			counts[k] = make([]int, len(s.n))
		}
		counts[k][s.index[i]]++
		total[k]++
	}
	for k, of := range counts {
		var rate, variance float64
		for stratum, count := range of {
			n, fraction := s.n[stratum], float64(count)/float64(total[k])
			rate += fraction * float64(hypothesis.Allowed(n, hypothesis.Forgive(alpha))) / float64(n+1)
			variance += fraction * fraction / float64(n+2) // in units of α(1−α)
		}
		if variance > 0 {
			n := int(1/variance + 1e-9 - 2)
			all[k] = hypothesis.Misses{Allowed: int(math.Ceil(rate*float64(n+1) - 1e-9)), Calibration: n}
		}
	}
	return all
}

// among selects the rows with the given numbers.
func (s strata) among(numbers []int) strata {
	if s.index != nil {
		s.index = grouping{index: s.index}.among(numbers).index
	}
	return s
}

// family holds the parts of the rows in which one average guarantee is compared.
type family struct {
	guarantee     Guarantee // its Kind, Target and Nominal
	part          string    // byDecile, byClass or byGroup
	parts         []Rate    // of the evaluation
	distributions []hypothesis.Misses
	// remedy tries other options on these rows. It returns advice, and the option and its
	// value if advice names one.
	remedy func(f *family) (advice, option, value string)
}

// pValues returns, for each part, the probability of at least as many misses if all parts are
// alike. It is 1 if the part has no guarantee.
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

// compareParts tests the parts of all families together. It adds a note for each family with a
// part that misses more often than the guarantee allows on average. If a guarantee is
// violated, its parts are not compared.
func (e *Evaluation) compareParts(families []*family) {
	var p []float64
	families = slices.DeleteFunc(families, func(f *family) bool {
		return len(f.parts) < 2 || slices.ContainsFunc(e.Guarantees, func(of Guarantee) bool {
			return of.Kind == f.guarantee.Kind && of.Target == f.guarantee.Target && of.Nominal == f.guarantee.Nominal && of.Verdict == hypothesis.Violated
		})
	})
	for _, f := range families {
		p = append(p, f.pValues()...)
	}
	adjusted := hypothesis.Holm(p)
	for _, f := range families {
		for k := range f.parts {
			f.parts[k].AdjustedPValue, adjusted = new(adjusted[0]), adjusted[1:]
		}
		e.noteLimit(f)
	}
}

// noteLimit adds a note on the worst part if any part misses too often.
func (e *Evaluation) noteLimit(f *family) {
	sign := 1.
	if !f.guarantee.covers() {
		sign = -1
	}
	var off []Rate
	for _, r := range f.parts {
		if *r.AdjustedPValue <= hypothesis.Unlikely {
			off = append(off, r)
		}
	}
	if off == nil {
		return
	}
	byFraction := func(a, b Rate) int { return cmp.Compare(sign*a.Fraction, sign*b.Fraction) }
	worst, best := slices.MinFunc(off, byFraction), slices.MaxFunc(f.parts, byFraction)
	where := func(r Rate) string {
		if f.part == byDecile {
			return "where the prediction is " + r.Name
		}
		return "in " + f.part + " " + cmp.Or(r.Name, `""`)
	}
	what, are, _ := strings.Cut(f.guarantee.clause(2), " are ")
	message := fmt.Sprintf("the guarantee holds on average only: %s, %s of %s %s are %s (%s to %s); %s, %s are", where(worst), display.Percent(worst.Fraction), display.Count(worst.Rows), what,
		are, display.Percent(worst.Low), display.Percent(worst.High), where(best), display.Percent(best.Fraction))
	if n := len(off) - 1; n > 0 {
		message += fmt.Sprintf("; it also fails, by more than chance, in %s of the %s", display.Count(n), rows.Count(len(f.parts), f.part))
	}
	if f.guarantee.Kind == hypothesis.IntervalCoverage {
		message = e.ofTarget(f.guarantee.Target) + message
	}
	note := Note{Message: message, Part: f.part}
	if f.remedy != nil {
		note.Advice, note.Option, note.Value = f.remedy(f)
	}
	e.Notes = append(e.Notes, note)
}

// limits looks for parts of the rows in which an average guarantee does not hold.
func (g *accumulator) limits(e *Evaluation) {
	var families []*family
	add := func(p Guarantee, part string, parts []Rate, by grouping, s strata, remedy func(f *family) (advice, option, value string)) {
		families = append(families, &family{p, part, parts, s.misses(by, p.alpha()), remedy})
	}
	p := g.at[g.main]
	separately := func(*family) (advice, option, value string) { return "fit and calibrate each group separately", "", "" }
	if f := e.Flags; f != nil {
		of := Guarantee{Kind: hypothesis.FalseAlarmRate, Rate: Rate{Nominal: e.Alpha}}
		s := strata{n: []int{len(g.bundle.Calibration.OOD)}}
		if p.Options().FlagByClass {
			s.index, s.n = g.predicted, nil
			for k := range slices.Max(g.predicted) + 1 {
				s.n = append(s.n, len(p.Conformal(k).Scores))
			}
		}
		add(of, byClass, f.ByClass, g.byLabel(), s, g.flagsByClass)
		add(of, byGroup, f.ByGroup, g.byGroup(), s, separately)
	}
	if c := e.Classifier; c != nil && c.Sets != nil {
		of, s := Guarantee{Kind: hypothesis.SetCoverage, Rate: Rate{Nominal: e.Level}}, strata{}
		var by grouping
		by, s.n = g.setParts(g.main)
		s.index = by.index
		if c.SetsBy != byClass {
			add(of, byClass, c.Sets[g.main].ByClass, g.byLabel(), s, g.setsByClass)
		}
		add(of, byGroup, c.Sets[g.main].ByGroup, g.byGroup(), s, separately)
	}
	s := g.intervalStrata(e.IntervalScore)
	groups := func(*family) (advice, option, value string) {
		return "calibrate intervals by group", "groups", ""
	}
	joint := p.Options().Joint
	for t, one := range e.Targets {
		if one.Coverage == nil || joint {
			continue
		}
		of, at := Guarantee{Kind: hypothesis.IntervalCoverage, Target: t, Rate: Rate{Nominal: e.Level}}, &one.Coverage[g.main]
		add(of, byDecile, at.ByDecile, g.targets[t].deciles(), s, g.otherScores)
		if s.index == nil {
			add(of, byGroup, at.ByGroup, g.byGroup(), s, groups)
		}
	}
	if e.Joint != nil && s.index == nil {
		add(Guarantee{Kind: hypothesis.JointCoverage, Rate: Rate{Nominal: e.Level}}, byGroup, e.Joint[g.main].ByGroup, g.byGroup(), s, groups)
	}
	e.compareParts(families)
}

// intervalStrata groups rows by the calibration rows that calibrate their intervals with the
// given score.
func (g *accumulator) intervalStrata(score string) strata {
	calibrating := func(n int) int {
		if score == conformal.RCP {
			return hypothesis.Halved(n)
		}
		return n
	}
	if g.bundle.Calibration.Groups == nil {
		return strata{n: []int{calibrating(g.bundle.Calibration.NCal)}}
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

// predictorWith returns the predictor with one option changed, or nil if the .attach file does
// not support the change.
func (g *accumulator) predictorWith(change func(o *attach.PredictOptions)) *attach.Predictor {
	o := g.at[g.main].Options()
	o.Levels, o.Samples, o.MaxError, o.VennAbers, o.ClassPValues = nil, 0, 0, false, false
	change(&o)
	at, err := g.bundle.Predictor(o)
	if err != nil {
		return nil
	}
	return at
}

// retried returns the family with other coverings of the rows, and the number of its parts
// that miss too often.
func (f *family) retried(by grouping, c coverings, distributions []hypothesis.Misses) (other *family, off int) {
	other = &family{guarantee: f.guarantee, part: f.part, distributions: distributions}
	other.parts = by.rates(func(i int) bool { return c.covered[i] }, c.width)
	for _, p := range hypothesis.Holm(other.pValues()) {
		if p <= hypothesis.Unlikely {
			off++
		}
	}
	return other, off
}

// worst returns the smallest coverage, or the largest false-alarm rate, of any part.
func (f *family) worst() float64 {
	fractions := make([]float64, len(f.parts))
	for k, r := range f.parts {
		fractions[k] = r.Fraction
	}
	if f.guarantee.covers() {
		return slices.Min(fractions)
	}
	return slices.Max(fractions)
}

// among selects the rows with the given numbers.
func (p grouping) among(numbers []int) grouping {
	index := make([]int, len(numbers))
	for k, i := range numbers {
		index[k] = p.index[i]
	}
	return grouping{names: p.names, index: index}
}

// remedy describes what an option changes in the parts of these rows.
type remedy struct {
	value string
	worst float64 // smallest coverage of a part
	off   int     // number of parts that miss too often
	width float64 // mean width of the intervals
}

// better reports whether a remedy leaves fewer parts that miss too often than another one. If
// no part misses too often with either, the narrower intervals are better. If equally many
// parts do, the higher coverage of the worst part is better.
func (r remedy) better(other remedy) bool {
	switch {
	case r.off != other.off:
		return r.off < other.off
	case r.off == 0:
		return r.width < other.width
	}
	return r.worst > other.worst
}

// bestOf returns own, or the best of those remedies that cover the worst part more often.
func bestOf(own remedy, others []remedy) remedy {
	best := own
	for _, r := range others {
		if r.worst > own.worst && r.better(best) {
			best = r
		}
	}
	return best
}

// otherScores advises the interval score that covers the deciles of these rows most evenly, if
// it is better than the present one.
func (g *accumulator) otherScores(f *family) (advice, option, value string) {
	o := g.at[g.main].Options()
	if o.Side != "" {
		return "", "", ""
	}
	by := g.targets[f.guarantee.Target].deciles().among(g.outputs.rows)
	// All scores are tested against one distribution. Intervals by rcp are calibrated on half
	// of the rows, so their own distribution is wider and would hide more misses.
	distributions := g.intervalStrata(cmp.Or(o.IntervalScore, conformal.CQR)).among(g.outputs.rows).misses(by, f.guarantee.alpha())
	measure := func(score string, c coverings) remedy {
		other, off := f.retried(by, c, distributions)
		return remedy{score, other.worst(), off, meanWidth(c)}
	}
	own := measure("", g.sampled(g.targets[f.guarantee.Target].levels[g.main]))
	var others []remedy
	for _, score := range []string{conformal.CQRR, conformal.RCP} {
		at := g.predictorWith(func(o *attach.PredictOptions) { o.IntervalScore = score })
		if at == nil || score == o.IntervalScore || !slices.Equal(at.Bundle().Calibration.Quantiles[0].Levels, quantile.Levels()) {
			continue
		}
		others = append(others, measure(score, g.intervalsBy(at, f.guarantee.Target)))
	}
	best := bestOf(own, others)
	if best.value == "" {
		return "no other interval score covers these deciles more evenly; look for features that tell where errors are large", "", ""
	}
	advice = fmt.Sprintf("use the interval score %s: on these rows it covers the worst decile %s of the time", best.value, display.Percent(best.worst))
	if ratio := best.width / own.width; !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
		than := "wider"
		if ratio < 1 {
			than = "narrower"
		}
		advice += fmt.Sprintf(", with intervals that are %s %s on average", display.Percent(math.Abs(ratio-1)), than)
	}
	return advice, "interval_score", best.value
}

// meanWidth is the mean of the finite widths.
func meanWidth(c coverings) float64 {
	sum, n := 0., 0
	for _, w := range c.width {
		if !math.IsInf(w, 0) {
			sum += w
			n++
		}
	}
	return sum / float64(n)
}

// sampled selects the rows whose predictions are in the reservoir.
func (g *accumulator) sampled(c coverings) coverings {
	var out coverings
	for _, i := range g.outputs.rows {
		out.add(c.covered[i], c.width[i])
	}
	return out
}

// intervalsBy returns how the intervals of another predictor cover one target. The intervals
// are made from the quantiles in the reservoir.
func (g *accumulator) intervalsBy(at *attach.Predictor, target int) coverings {
	var out coverings
	n, levels := len(g.targets), len(at.Bundle().Calibration.Quantiles[0].Levels)
	lower, upper, bands := make([]float64, n), make([]float64, n), make([][]float32, n)
	for k, i := range g.outputs.rows {
		group := ""
		if g.bundle.Calibration.Groups != nil {
			group = g.groups[i]
		}
		c := at.Intervals(group)
		for t := range bands {
			from := k*g.outputs.cols + t*levels
			bands[t] = g.outputs.x[from : from+levels]
		}
		c.Predict(lower, upper, bands, uint64(i))
		low, high, truth := lower[target], upper[target], g.targets[target].truth[i]
		if slices.ContainsFunc(bands[target], func(v float32) bool { return !(math.Abs(float64(v)) <= math.MaxFloat32) }) {
			low, high = math.Inf(-1), math.Inf(1)
		}
		out.add(low <= truth && truth <= high, high-low)
	}
	return out
}

// setsByClass advises prediction sets by class if they cover the worst class more often.
func (g *accumulator) setsByClass(f *family) (advice, option, value string) {
	at := g.predictorWith(func(o *attach.PredictOptions) { o.SetsByClass, o.SetsByCluster = true, false })
	if at == nil {
		return "", "", ""
	}
	n := len(g.outputs.rows)
	logits := blas32.General{Rows: n, Cols: g.outputs.cols, Stride: g.outputs.cols, Data: g.outputs.x}
	own, c := g.sampled(g.classes.sets[g.main]), coverings{}
	labels := g.byLabel().among(g.outputs.rows)
	for k, set := range at.Sets().Predict(logits, 0) {
		if len(set) == 0 && !at.Options().Smoothed {
			set = []int{g.predicted[g.outputs.rows[k]]}
		}
		c.add(slices.Contains(set, labels.index[k]), float64(len(set)))
	}
	s := strata{index: labels.index}
	for k := range labels.names {
		_, n := at.Sets().Part(k)
		s.n = append(s.n, n)
	}
	if few := f.fewRows(s, labels.index); few != "" {
		return few, "", ""
	}
	separate, _ := f.retried(labels, c, s.misses(labels, f.guarantee.alpha()))
	if separate.worst() <= f.worst() {
		return "", "", ""
	}
	return fmt.Sprintf("calibrate sets by class: on these rows this covers the worst class %s of the time, with a mean set size of %s instead of %s",
		display.Percent(separate.worst()), display.Number(meanWidth(c), 3), display.Number(meanWidth(own), 3)), "sets_by_class", ""
}

// fewRows returns advice to calibrate with more rows if a class has too few calibration rows
// of its own. Nothing of this class could then be flagged, and every set would contain it.
// index is the class of each row.
func (f *family) fewRows(s strata, index []int) string {
	least := hypothesis.LeastRows(hypothesis.Forgive(f.guarantee.alpha()))
	for _, k := range index {
		if k >= 0 && k < len(s.n) && s.n[k] < least {
			return fmt.Sprintf("calibrate with more rows: at least %d of each class, so that each class can be calibrated separately", least)
		}
	}
	return ""
}

// flagsByClass advises p-values by predicted class if they flag fewer rows of the worst
// class.
func (g *accumulator) flagsByClass(f *family) (advice, option, value string) {
	at := g.predictorWith(func(o *attach.PredictOptions) { o.FlagByClass = true })
	if at == nil || g.at[g.main].Options().FlagByClass {
		return "", "", ""
	}
	var c coverings
	for i, score := range g.scores {
		c.add(at.Conformal(g.predicted[i]).PValue(score) <= f.guarantee.Nominal, math.Inf(1))
	}
	labels := g.byLabel()
	s := strata{index: g.predicted}
	for k := range slices.Max(g.predicted) + 1 {
		s.n = append(s.n, len(at.Conformal(k).Scores))
	}
	if few := f.fewRows(s, g.predicted); few != "" {
		return few, "", ""
	}
	separate, _ := f.retried(labels, c, s.misses(labels, f.guarantee.alpha()))
	if separate.worst() >= f.worst() {
		return "", "", ""
	}
	return fmt.Sprintf("rank scores by predicted class: on these rows this flags %s of the worst class", display.Percent(separate.worst())), "flag_by_class", ""
}

// outputsOf returns the predictions from which intervals or sets are made: the quantiles of
// all targets of a row, or its logits.
func outputsOf(of attach.Prediction, logits blas32.General, i int) []float32 {
	if of.Targets == nil && logits.Cols > 0 {
		return rows.Row(logits, i)
	}
	var all []float32
	for _, one := range of.Targets {
		all = append(all, dense.Single(one.Quantiles)...)
	}
	return all
}
