package evaluate

import (
	"fmt"
	"math"
	"sort"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

const (
	// doubt is the probability at which a kept promise is called broken.
	significance = .01
	// power is the probability with which one broken by a factor of two is to be
	// noticed.
	power = .8
)

// Promise is a promise of a bundle and what rows show of it. The number of misses
// among them has, where it is kept, the beta-binomial distribution of split
// conformal prediction: over draws of these rows and of the calibration rows.
type Guarantee struct {
	// Kind is false_alarms, coverage, joint_coverage, sets or selective_error.
	Kind   string `json:"kind"`
	Target int    `json:"target,omitempty"` // number of the target, from 0
	// Rate is of the rows that are flagged, covered or wrong; Asked is the share at
	// most or, of coverage and sets, at least; Name is the group or class that alone is
	// promised, and Part what that is: group, class, cluster or predicted class.
	Rate
	Part string `json:"part,omitempty"`
	// Probability is that of so many misses or more, were the promise kept.
	PValue float64 `json:"p_value"`
	// Verdict is "kept" where nothing speaks against it, and rows were enough to notice
	// if it were broken by a factor of two; "broken" where a kept promise would be
	// missed as far less than once in a hundred times; and "too few rows" where, had it
	// been broken by a factor of two, that would have passed unnoticed more than one time
	// in five.
	Verdict string `json:"verdict"`
	Message string `json:"message"`          // in one sentence
	Advice  string `json:"advice,omitempty"` // what to do about it
	// Explained says that a note knows why the promise is broken: what to do about
	// that comes before all else.
	ExplainedByNote bool `json:"explained_by_note,omitempty"`

	accuracy    float64 // what sets that are never empty cover at any level: how often the network is right
	scoresAbove int     // of false alarms, how many calibration rows score above the threshold
}

// covers says that a promise is of rows that are held, and not of those missed.
func (p Guarantee) covers() bool {
	return p.Kind != hypothesis.FalseAlarmRate && p.Kind != hypothesis.SelectiveError
}

// alpha is the share of misses that is promised at most.
func (p Guarantee) alpha() float64 {
	if p.covers() {
		return 1 - p.Nominal
	}
	return p.Nominal
}

// missed is how many of the rows counted are not as is promised.
func (p Guarantee) missed(r Rate) int {
	if p.covers() {
		return r.Rows - r.Count
	}
	return r.Count
}

// promise judges one that n calibration rows make, and keeps it; it is one of so many
// that are made at once. Of intervals by rcp half of the calibration rows make it.
func (e *Evaluation) judge(p Guarantee, n, together int) {
	alpha, misses := p.alpha(), p.missed(p.Rate)
	whole := func(n int) int { return n }
	parts, learn := 1, ""
	if e.IntervalScore == conformal.RCP && (p.Kind == hypothesis.IntervalCoverage || p.Kind == hypothesis.JointCoverage) {
		n, whole, parts, learn = hypothesis.Halved(n), hypothesis.Whole, 2, ", of which half learn the scores"
	}
	m := hypothesis.Misses{Allowed: int(math.Round((1 - hypothesis.ExpectedCoverage(n, alpha)) * float64(n+1))), Calibration: n}
	twice, limit := min(2*alpha, (1+alpha)/2), significance/float64(together)
	p.PValue, p.Verdict, p.Message = m.AtLeast(misses, p.Rows), hypothesis.Met, p.seen()
	switch {
	case m.Allowed == 0:
		p.Verdict = hypothesis.TooFewRows
		are := " are"
		if n == 1 {
			are = " is"
		}
		p.Message += ", and " + rows.Count(n, "calibration row") + are + " too few to promise anything"
		p.Advice = "calibrate with at least " + rows.Count(whole(hypothesis.LeastRows(hypothesis.Forgive(alpha))), "row") + p.ofPart()
		if need := m.Needed(alpha, power, limit, twice); need.Calibration > 0 {
			p.Advice += fmt.Sprintf(", and with %s to tell whether the guarantee is met", display.Count(parts*need.Calibration))
		}
		p.Advice += learn
	case p.PValue < limit:
		p.Verdict = hypothesis.Violated
		p.Message += p.times(float64(misses) / float64(p.Rows) / alpha)
		p.Advice = e.remedyFor()
	case m.Power(p.Rows, limit, twice) < power:
		p.Verdict = hypothesis.TooFewRows
		need := m.Needed(alpha, power, limit, twice)
		p.Advice = p.needs(need, n, e.Rows, parts, learn)
		if need.Calibration > 0 {
			p.Message += fmt.Sprintf(", too few to tell: with %s even twice as many may be chance", rows.Count(n, "calibration row"))
		} else {
			p.Message += ", too few to tell: twice as many could pass unnoticed"
		}
	case 1-m.AtLeast(misses+1, p.Rows) >= limit:
	case p.accuracy > p.Nominal:
		p.Message += fmt.Sprintf(", as the network alone is right of %s: sets say more at a level above that", display.Percent(p.accuracy))
	case p.Kind == hypothesis.FalseAlarmRate && (hypothesis.Misses{Allowed: p.scoresAbove + 1, Calibration: n}).AtMost(misses, p.Rows) >= limit:
		p.Message += ", far fewer than asked because many calibration rows have equal scores"
	default:
		if p.covers() {
			p.Message += ", more often than need be"
		} else {
			p.Message += ", far fewer than asked"
		}
		p.Advice = "if these rows were fitted or calibrated on, evaluate on others; else calibrate with rows like these"
	}
	e.Guarantees = append(e.Guarantees, p)
}

// wildly is how many times as many rows as there are no advice asks for.
const wildly = 10

// ofPart says which rows are counted, if the promise is not of all.
func (p Guarantee) ofPart() string {
	if p.Name == "" {
		return ""
	}
	return " of " + p.Part + " " + p.Name
}

// needs says how many rows it takes to tell. There are n calibration rows, which are one
// of so many parts, and all rows that are evaluated on.
func (p Guarantee) needs(need hypothesis.Need, n, all, parts int, learn string) string {
	of := p.ofPart()
	calibration, fresh := rows.Count(parts*need.Calibration, "row")+of+learn, rows.Count(need.Rows, "row")+of
	switch {
	case need.Rows == 0:
		return ""
	case need.Calibration > wildly*n:
		return fmt.Sprintf("telling takes about %s to calibrate with, and %s to evaluate on", calibration, fresh)
	case need.Calibration > 0 && need.Rows > p.Rows:
		return fmt.Sprintf("calibrate with %s or more, and evaluate on %s", calibration, fresh)
	case need.Calibration > 0:
		return fmt.Sprintf("calibrate with %s or more", calibration)
	case need.Rows <= wildly*p.Rows || p.Kind == hypothesis.SelectiveError && need.Rows <= wildly*all:
		return fmt.Sprintf("evaluate on %s or more", fresh)
	case p.Name != "":
		return fmt.Sprintf("telling takes about %s, and %s of these rows are", fresh, display.Percent(float64(p.Rows)/float64(all)))
	}
	return fmt.Sprintf("telling takes about %s", fresh)
}

// judgeError judges the promise of selective prediction, which is one of the
// calibration rows' with 95 % confidence: of errors among accepted rows that are
// independent.
func (e *Evaluation) judgeSelectiveError(r Rate) {
	twice := min(2*r.Nominal, (1+r.Nominal)/2)
	p := Guarantee{Kind: hypothesis.SelectiveError, Rate: r, PValue: hypothesis.Binomial(r.Count, r.Rows, r.Nominal), Verdict: hypothesis.Met}
	p.Message = p.seen()
	critical := sort.Search(r.Rows+1, func(k int) bool { return hypothesis.Binomial(k, r.Rows, r.Nominal) < significance })
	switch {
	case p.PValue < significance:
		p.Verdict, p.Advice = hypothesis.Violated, e.remedyFor()
		p.Message += p.times(r.Fraction / r.Nominal)
	case hypothesis.Binomial(critical, r.Rows, twice) < power:
		p.Verdict = hypothesis.TooFewRows
		p.Advice = p.needs(hypothesis.Need{Rows: hypothesis.Independent(r.Nominal, float64(r.Rows)/float64(e.Rows), power, significance, twice)}, 0, e.Rows, 1, "")
		p.Message += ", too few to tell: twice as many could pass unnoticed"
	}
	e.Guarantees = append(e.Guarantees, p)
}

// seen is what was observed.
func (p Guarantee) seen() string {
	asked := "asked for at most"
	if p.covers() {
		asked = "asked for"
	}
	return fmt.Sprintf("%s of %s %s (%s to %s), %s %s", display.Percent(p.Fraction), display.Count(p.Rows), p.clause(p.Rows), display.Percent(p.Low), display.Percent(p.High), asked, display.Asked(p.Nominal))
}

// clause says what n rows counted are.
func (p Guarantee) clause(n int) string {
	forms := map[string][2]string{
		hypothesis.IntervalCoverage: {"target is within its interval", "targets are within their intervals"},
		hypothesis.JointCoverage:    {"row is within its box", "rows are within their boxes"},
		hypothesis.SetCoverage:      {"label is in its set", "labels are in their sets"},
		hypothesis.SelectiveError:   {"row accepted is wrong", "rows accepted are wrong"},
		hypothesis.FalseAlarmRate:   {"row is flagged", "rows are flagged"},
	}[p.Kind]
	if n == 1 {
		return forms[0]
	}
	return forms[1]
}

// times says how often there are misses, as a multiple of what was asked for.
func (p Guarantee) times(x float64) string {
	what := map[string]string{hypothesis.FalseAlarmRate: "false alarms", hypothesis.SelectiveError: "errors"}[p.Kind]
	if what == "" {
		what = "misses"
	}
	return fmt.Sprintf(": %s times as many %s as promised", display.Number(x, 2), what)
}

// mend says what to do about a broken promise.
func (e *Evaluation) remedyFor() string {
	if e.HeldOut == rows.SplitOff {
		return "calibrate with rows that the network has not seen: those calibrated with were split off the rows fitted on"
	}
	return "look what has changed since calibration, first how inputs are prepared, or calibrate with rows like these"
}
