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

// What the rows of a limit have in common.
const (
	byDecile = "decile" // of the prediction
	byClass  = "class"
	byGroup  = "group"
)

// strata divide rows by the calibration rows that they are compared with.
type strata struct {
	of []int // the stratum of each row; nil: there is one
	n  []int // how many calibration rows each has
}

// misses is the law of misses by part, if the rows of a part are like all others of
// their stratum. A part with rows of several strata has the law of one with so many
// calibration rows that its rate varies as much, or more.
func (s strata) misses(p grouping, alpha float64) []hypothesis.Misses {
	all := make([]hypothesis.Misses, len(p.names))
	if s.of == nil {
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
		counts[k][s.of[i]]++
		total[k]++
	}
	for k, of := range counts {
		var rate, variance float64
		for stratum, count := range of {
			n, share := s.n[stratum], float64(count)/float64(total[k])
			rate += share * float64(hypothesis.Allowed(n, hypothesis.Forgive(alpha))) / float64(n+1)
			variance += share * share / float64(n+2) // over α(1−α)
		}
		if variance > 0 {
			n := int(1/variance + 1e-9 - 2)
			all[k] = hypothesis.Misses{Allowed: int(math.Ceil(rate*float64(n+1) - 1e-9)), Calibration: n}
		}
	}
	return all
}

// among are the strata of some rows.
func (s strata) among(some []int) strata {
	if s.of != nil {
		s.of = grouping{index: s.of}.among(some).index
	}
	return s
}

// family are the parts that a guarantee of the average is compared among.
type family struct {
	guarantee Guarantee // of the average, as far as it says which
	part      string    // decile, class or group
	parts     []Rate    // in the evaluation
	law       []hypothesis.Misses
	// tried is what another choice would have made of these rows, or nil.
	tried func(f *family) (do, option, value string)
}

// pValues are the probabilities of so many misses or more by part, 1 where nothing is
// promised.
func (f *family) pValues() []float64 {
	p := make([]float64, len(f.parts))
	for k, r := range f.parts {
		p[k] = 1
		if law := f.law[r.part]; law.Allowed > 0 {
			p[k] = law.AtLeast(f.guarantee.missed(r), r.Rows)
		}
	}
	return p
}

// limit tests all families at once, and notes those with a part that misses more often
// than the average is allowed to. If a guarantee of the average is violated, its parts
// tell nothing new.
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

// noteLimit names the worst part of those that miss too often, if there are any.
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
	byShare := func(a, b Rate) int { return cmp.Compare(sign*a.Fraction, sign*b.Fraction) }
	worst, best := slices.MinFunc(off, byShare), slices.MaxFunc(f.parts, byShare)
	where := func(r Rate) string {
		if f.part == byDecile {
			return "where the prediction is " + r.Name
		}
		return "in " + f.part + " " + cmp.Or(r.Name, `""`)
	}
	what, are, _ := strings.Cut(f.guarantee.clause(2), " are ")
	says := fmt.Sprintf("the guarantee is for the average only: of %s %s %s, %s are %s (%s to %s), and %s %s", display.Count(worst.Rows), what, where(worst),
		display.Percent(worst.Fraction), are, display.Percent(worst.Low), display.Percent(worst.High), display.Percent(best.Fraction), where(best))
	if n := len(off) - 1; n > 0 {
		says += fmt.Sprintf("; by more than chance it also fails in %s of the %s", display.Count(n), rows.Count(len(f.parts), f.part))
	}
	if f.guarantee.Kind == hypothesis.IntervalCoverage {
		says = e.ofTarget(f.guarantee.Target) + says
	}
	note := Note{Message: says, Part: f.part}
	if f.tried != nil {
		note.Advice, note.Option, note.Value = f.tried(f)
	}
	e.Notes = append(e.Notes, note)
}

// limits looks for parts of the rows for which a guarantee of the average does not hold.
func (g *accumulator) limits(e *Evaluation) {
	var families []*family
	add := func(p Guarantee, part string, parts []Rate, by grouping, s strata, tried func(f *family) (do, option, value string)) {
		families = append(families, &family{p, part, parts, s.misses(by, p.alpha()), tried})
	}
	p := g.at[g.main]
	apart := func(*family) (do, option, value string) { return "fit and calibrate each group on its own", "", "" }
	if f := e.Flags; f != nil {
		of := Guarantee{Kind: hypothesis.FalseAlarmRate, Rate: Rate{Nominal: e.Alpha}}
		s := strata{n: []int{len(g.bundle.Calibration.OOD)}}
		if p.Options().FlagByClass {
			s.of, s.n = g.predicted, nil
			for k := range slices.Max(g.predicted) + 1 {
				s.n = append(s.n, len(p.Conformal(k).Scores))
			}
		}
		add(of, byClass, f.ByClass, g.byLabel(), s, g.flagsByClass)
		add(of, byGroup, f.ByGroup, g.byGroup(), s, apart)
	}
	if c := e.Classifier; c != nil && c.Sets != nil {
		of, s := Guarantee{Kind: hypothesis.SetCoverage, Rate: Rate{Nominal: e.Level}}, strata{}
		var by grouping
		by, s.n = g.setParts(g.main)
		s.of = by.index
		if c.SetsBy != byClass {
			add(of, byClass, c.Sets[g.main].ByClass, g.byLabel(), s, g.setsByClass)
		}
		add(of, byGroup, c.Sets[g.main].ByGroup, g.byGroup(), s, apart)
	}
	s := g.intervalStrata(e.IntervalScore)
	groups := func(*family) (do, option, value string) {
		return "calibrate intervals group by group", "groups", ""
	}
	joint := p.Options().Joint
	for t, one := range e.Targets {
		if one.Coverage == nil || joint {
			continue
		}
		of, at := Guarantee{Kind: hypothesis.IntervalCoverage, Target: t, Rate: Rate{Nominal: e.Level}}, &one.Coverage[g.main]
		add(of, byDecile, at.ByDecile, g.targets[t].deciles(), s, g.otherScores)
		if s.of == nil {
			add(of, byGroup, at.ByGroup, g.byGroup(), s, groups)
		}
	}
	if e.Joint != nil && s.of == nil {
		add(Guarantee{Kind: hypothesis.JointCoverage, Rate: Rate{Nominal: e.Level}}, byGroup, e.Joint[g.main].ByGroup, g.byGroup(), s, groups)
	}
	e.compareParts(families)
}

// intervalStrata are the groups that intervals by this score are calibrated by.
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
	s := strata{of: by.index}
	for _, name := range by.names {
		s.n = append(s.n, calibrating(counts[name]))
	}
	return s
}

// otherwise is a predictor with one choice changed, for rows that are at hand; nil where
// the bundle does not have it.
func (g *accumulator) otherwise(change func(o *attach.PredictOptions)) *attach.Predictor {
	o := g.at[g.main].Options()
	o.Levels, o.Samples, o.MaxError, o.VennAbers, o.ClassPValues = nil, 0, 0, false, false
	change(&o)
	at, err := g.bundle.Predictor(o)
	if err != nil {
		return nil
	}
	return at
}

// retried is the family as another choice makes it of the rows that are kept, and how
// many of its parts miss too often.
func (f *family) retried(by grouping, c coverings, law []hypothesis.Misses) (as *family, off int) {
	as = &family{guarantee: f.guarantee, part: f.part, law: law}
	as.parts = by.rates(func(i int) bool { return c.covered[i] }, c.width)
	for _, p := range hypothesis.Holm(as.pValues()) {
		if p <= hypothesis.Unlikely {
			off++
		}
	}
	return as, off
}

// worst is the least share of the parts, or the largest of alarms.
func (f *family) worst() float64 {
	shares := make([]float64, len(f.parts))
	for k, r := range f.parts {
		shares[k] = r.Fraction
	}
	if f.guarantee.covers() {
		return slices.Min(shares)
	}
	return slices.Max(shares)
}

// among are the parts of some rows.
func (p grouping) among(some []int) grouping {
	of := make([]int, len(some))
	for k, i := range some {
		of[k] = p.index[i]
	}
	return grouping{names: p.names, index: of}
}

// remedy is what a choice would make of the parts of these rows.
type remedy struct {
	value string
	worst float64 // the least share of the parts
	off   int     // how many parts miss too often
	width float64 // of intervals, on average
}

// better reports whether a remedy is to be advised in place of another: fewer parts miss
// too often. Of remedies that leave no such part the narrowest is best, and else the one
// whose worst part is covered most.
func (r remedy) better(other remedy) bool {
	switch {
	case r.off != other.off:
		return r.off < other.off
	case r.off == 0:
		return r.width < other.width
	}
	return r.worst > other.worst
}

// bestOf returns the best of what is there and of remedies that cover its worst part more
// often.
func bestOf(own remedy, others []remedy) remedy {
	best := own
	for _, r := range others {
		if r.worst > own.worst && r.better(best) {
			best = r
		}
	}
	return best
}

// otherScores is the score of intervals that covers the deciles of these rows most
// evenly, if one does better.
func (g *accumulator) otherScores(f *family) (do, option, value string) {
	o := g.at[g.main].Options()
	if o.Side != "" {
		return "", "", ""
	}
	by := g.targets[f.guarantee.Target].deciles().among(g.answers.rows)
	// All scores are measured by one law. By its own, which half of the calibration rows
	// make, rcp would seem better because it is harder to tell that it is not.
	law := g.intervalStrata(cmp.Or(o.IntervalScore, conformal.CQR)).among(g.answers.rows).misses(by, f.guarantee.alpha())
	measure := func(score string, c coverings) remedy {
		as, off := f.retried(by, c, law)
		return remedy{score, as.worst(), off, meanWidth(c)}
	}
	own := measure("", g.kept(g.targets[f.guarantee.Target].levels[g.main]))
	var others []remedy
	for _, score := range []string{conformal.CQRR, conformal.RCP} {
		at := g.otherwise(func(o *attach.PredictOptions) { o.IntervalScore = score })
		if at == nil || score == o.IntervalScore || !slices.Equal(at.Bundle().Calibration.Quantiles[0].Levels, quantile.Levels()) {
			continue
		}
		others = append(others, measure(score, g.intervalsBy(at, f.guarantee.Target)))
	}
	best := bestOf(own, others)
	if best.value == "" {
		return "no other score of intervals covers these deciles more evenly: look for inputs that tell where errors are large", "", ""
	}
	do = fmt.Sprintf("calibrate intervals by %s: of these rows the worst decile is then covered %s", best.value, display.Percent(best.worst))
	if ratio := best.width / own.width; !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
		than := "wider"
		if ratio < 1 {
			than = "narrower"
		}
		do += fmt.Sprintf(", and intervals are %s %s on average", display.Percent(math.Abs(ratio-1)), than)
	}
	return do, "interval_score", best.value
}

// meanWidth is over those that end.
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

// kept are those of the rows whose answers are.
func (g *accumulator) kept(c coverings) coverings {
	var out coverings
	for _, i := range g.answers.rows {
		out.add(c.covered[i], c.width[i])
	}
	return out
}

// intervalsBy are those of one target that another predictor makes of the quantiles kept.
func (g *accumulator) intervalsBy(at *attach.Predictor, target int) coverings {
	var out coverings
	n, levels := len(g.targets), len(at.Bundle().Calibration.Quantiles[0].Levels)
	lower, upper, bands := make([]float64, n), make([]float64, n), make([][]float32, n)
	for k, i := range g.answers.rows {
		group := ""
		if g.bundle.Calibration.Groups != nil {
			group = g.groups[i]
		}
		c := at.Intervals(group)
		for t := range bands {
			from := k*g.answers.cols + t*levels
			bands[t] = g.answers.x[from : from+levels]
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

// setsByClass is what sets of these rows are by class.
func (g *accumulator) setsByClass(f *family) (do, option, value string) {
	at := g.otherwise(func(o *attach.PredictOptions) { o.ByClass, o.ByCluster = true, false })
	if at == nil {
		return "", "", ""
	}
	n := len(g.answers.rows)
	logits := blas32.General{Rows: n, Cols: g.answers.cols, Stride: g.answers.cols, Data: g.answers.x}
	own, c := g.kept(g.classes.sets[g.main]), coverings{}
	labels := g.byLabel().among(g.answers.rows)
	for k, set := range at.Sets().Predict(logits, 0) {
		if len(set) == 0 && !at.Options().Smoothed {
			set = []int{g.predicted[g.answers.rows[k]]}
		}
		c.add(slices.Contains(set, labels.index[k]), float64(len(set)))
	}
	s := strata{of: labels.index}
	for k := range labels.names {
		_, n := at.Sets().Part(k)
		s.n = append(s.n, n)
	}
	if few := f.fewRows(s, labels.index); few != "" {
		return few, "", ""
	}
	as, _ := f.retried(labels, c, s.misses(labels, f.guarantee.alpha()))
	if as.worst() <= f.worst() {
		return "", "", ""
	}
	return fmt.Sprintf("calibrate sets by class: of these rows the worst class is then covered %s, and sets are of %s classes on average in place of %s",
		display.Percent(as.worst()), display.Number(meanWidth(c), 3), display.Number(meanWidth(own), 3)), "sets_by_class", ""
}

// fewRows says what to do first if a class of the rows, which have the strata of, has too
// few calibration rows of its own: flags would then be impossible, and sets would hold
// every such class.
func (f *family) fewRows(s strata, of []int) string {
	least := hypothesis.LeastRows(hypothesis.Forgive(f.guarantee.alpha()))
	for _, k := range of {
		if k >= 0 && k < len(s.n) && s.n[k] < least {
			return fmt.Sprintf("calibrate with more rows: at least %d of each class, so that each can be calibrated on its own", least)
		}
	}
	return ""
}

// flagsByClass is what is flagged of these rows among those of their predicted class.
func (g *accumulator) flagsByClass(f *family) (do, option, value string) {
	at := g.otherwise(func(o *attach.PredictOptions) { o.FlagByClass = true })
	if at == nil || g.at[g.main].Options().FlagByClass {
		return "", "", ""
	}
	var c coverings
	for i, score := range g.scores {
		c.add(at.Conformal(g.predicted[i]).PValue(score) <= f.guarantee.Nominal, math.Inf(1))
	}
	labels := g.byLabel()
	s := strata{of: g.predicted}
	for k := range slices.Max(g.predicted) + 1 {
		s.n = append(s.n, len(at.Conformal(k).Scores))
	}
	if few := f.fewRows(s, g.predicted); few != "" {
		return few, "", ""
	}
	as, _ := f.retried(labels, c, s.misses(labels, f.guarantee.alpha()))
	if as.worst() >= f.worst() {
		return "", "", ""
	}
	return fmt.Sprintf("rank scores by predicted class: of these rows %s of the worst class are then flagged", display.Percent(as.worst())), "flag_by_class", ""
}

// answer is what a row's interval or set is made of: the quantiles of all targets, or
// its logits.
func answer(of attach.Prediction, logits blas32.General, i int) []float32 {
	if of.Targets == nil && logits.Cols > 0 {
		return rows.Row(logits, i)
	}
	var all []float32
	for _, one := range of.Targets {
		all = append(all, dense.Single(one.Quantiles)...)
	}
	return all
}
