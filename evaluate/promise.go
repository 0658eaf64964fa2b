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
	doubt = .01
	// power is the probability with which one broken by a factor of two is to be
	// noticed.
	power = .8
)

// Promise is a promise of a bundle and what rows show of it. The number of misses
// among them has, where it is kept, the beta-binomial distribution of split
// conformal prediction: over draws of these rows and of the calibration rows.
type Promise struct {
	// Kind is false_alarms, coverage, joint_coverage, sets or selective_error.
	Kind   string `json:"kind"`
	Target int    `json:"target,omitempty"` // number of the target, from 0
	// Rate is of the rows that are flagged, covered or wrong; Asked is the share at
	// most or, of coverage and sets, at least; Name is the group or class that alone is
	// promised, and Part what that is: group, class, cluster or predicted class.
	Rate
	Part string `json:"part,omitempty"`
	// Probability is that of so many misses or more, were the promise kept.
	Probability float64 `json:"probability"`
	// Verdict is "kept" where nothing speaks against it, and rows were enough to notice
	// if it were broken by a factor of two; "broken" where a kept promise would be
	// missed as far less than once in a hundred times; and "too few rows" where, had it
	// been broken by a factor of two, that would have passed unnoticed more than one time
	// in five.
	Verdict string `json:"verdict"`
	Says    string `json:"says"`         // in one sentence
	Do      string `json:"do,omitempty"` // what to do about it
	// Explained says that a note knows why the promise is broken: what to do about
	// that comes before all else.
	Explained bool `json:"explained,omitempty"`

	right float64 // what sets that are never empty cover at any level: how often the network is right
	above int     // of false alarms, how many calibration rows score above the threshold
}

// covers says that a promise is of rows that are held, and not of those missed.
func (p Promise) covers() bool {
	return p.Kind != hypothesis.FalseAlarms && p.Kind != hypothesis.SelectiveError
}

// alpha is the share of misses that is promised at most.
func (p Promise) alpha() float64 {
	if p.covers() {
		return 1 - p.Asked
	}
	return p.Asked
}

// missed is how many of the rows counted are not as is promised.
func (p Promise) missed(r Rate) int {
	if p.covers() {
		return r.Rows - r.Count
	}
	return r.Count
}

// promise judges one that n calibration rows make, and keeps it; it is one of so many
// that are made at once. Of intervals by rcp half of the calibration rows make it.
func (e *Evaluation) promise(p Promise, n, together int) {
	alpha, misses := p.alpha(), p.missed(p.Rate)
	whole := func(n int) int { return n }
	parts, learn := 1, ""
	if e.IntervalScore == conformal.RCP && (p.Kind == hypothesis.Coverage || p.Kind == hypothesis.JointCoverage) {
		n, whole, parts, learn = hypothesis.Halved(n), hypothesis.Whole, 2, ", of which half learn the scores"
	}
	m := hypothesis.Misses{Allowed: int(math.Round((1 - hypothesis.ExpectedCoverage(n, alpha)) * float64(n+1))), Calibration: n}
	twice, limit := min(2*alpha, (1+alpha)/2), doubt/float64(together)
	p.Probability, p.Verdict, p.Says = m.AtLeast(misses, p.Rows), hypothesis.Kept, p.seen()
	switch {
	case m.Allowed == 0:
		p.Verdict = hypothesis.TooFewRows
		are := " are"
		if n == 1 {
			are = " is"
		}
		p.Says += ", and " + rows.Count(n, "calibration row") + are + " too few to promise anything"
		p.Do = "calibrate with at least " + rows.Count(whole(hypothesis.LeastRows(hypothesis.Forgive(alpha))), "row") + p.ofPart()
		if need := m.Needed(alpha, power, limit, twice); need.Calibration > 0 {
			p.Do += fmt.Sprintf(", and with %s to tell whether the guarantee is met", display.Count(parts*need.Calibration))
		}
		p.Do += learn
	case p.Probability < limit:
		p.Verdict = hypothesis.Broken
		p.Says += p.times(float64(misses) / float64(p.Rows) / alpha)
		p.Do = e.mend()
	case m.Power(p.Rows, limit, twice) < power:
		p.Verdict = hypothesis.TooFewRows
		need := m.Needed(alpha, power, limit, twice)
		p.Do = p.needs(need, n, e.Rows, parts, learn)
		if need.Calibration > 0 {
			p.Says += fmt.Sprintf(", too few to tell: with %s even twice as many may be chance", rows.Count(n, "calibration row"))
		} else {
			p.Says += ", too few to tell: twice as many could pass unnoticed"
		}
	case 1-m.AtLeast(misses+1, p.Rows) >= limit:
	case p.right > p.Asked:
		p.Says += fmt.Sprintf(", as the network alone is right of %s: sets say more at a level above that", display.Percent(p.right))
	case p.Kind == hypothesis.FalseAlarms && (hypothesis.Misses{Allowed: p.above + 1, Calibration: n}).AtMost(misses, p.Rows) >= limit:
		p.Says += ", far fewer than asked because many calibration rows have equal scores"
	default:
		if p.covers() {
			p.Says += ", more often than need be"
		} else {
			p.Says += ", far fewer than asked"
		}
		p.Do = "if these rows were fitted or calibrated on, evaluate on others; else calibrate with rows like these"
	}
	e.Promises = append(e.Promises, p)
}

// wildly is how many times as many rows as there are no advice asks for.
const wildly = 10

// ofPart says which rows are counted, if the promise is not of all.
func (p Promise) ofPart() string {
	if p.Name == "" {
		return ""
	}
	return " of " + p.Part + " " + p.Name
}

// needs says how many rows it takes to tell. There are n calibration rows, which are one
// of so many parts, and all rows that are evaluated on.
func (p Promise) needs(need hypothesis.Need, n, all, parts int, learn string) string {
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
func (e *Evaluation) judgeError(r Rate) {
	twice := min(2*r.Asked, (1+r.Asked)/2)
	p := Promise{Kind: hypothesis.SelectiveError, Rate: r, Probability: hypothesis.Binomial(r.Count, r.Rows, r.Asked), Verdict: hypothesis.Kept}
	p.Says = p.seen()
	critical := sort.Search(r.Rows+1, func(k int) bool { return hypothesis.Binomial(k, r.Rows, r.Asked) < doubt })
	switch {
	case p.Probability < doubt:
		p.Verdict, p.Do = hypothesis.Broken, e.mend()
		p.Says += p.times(r.Share / r.Asked)
	case hypothesis.Binomial(critical, r.Rows, twice) < power:
		p.Verdict = hypothesis.TooFewRows
		p.Do = p.needs(hypothesis.Need{Rows: hypothesis.Independent(r.Asked, float64(r.Rows)/float64(e.Rows), power, doubt, twice)}, 0, e.Rows, 1, "")
		p.Says += ", too few to tell: twice as many could pass unnoticed"
	}
	e.Promises = append(e.Promises, p)
}

// seen is what was observed.
func (p Promise) seen() string {
	asked := "asked for at most"
	if p.covers() {
		asked = "asked for"
	}
	return fmt.Sprintf("%s of %s %s (%s to %s), %s %s", display.Percent(p.Share), display.Count(p.Rows), p.clause(p.Rows), display.Percent(p.Low), display.Percent(p.High), asked, display.Asked(p.Asked))
}

// clause says what n rows counted are.
func (p Promise) clause(n int) string {
	forms := map[string][2]string{
		hypothesis.Coverage:       {"target is within its interval", "targets are within their intervals"},
		hypothesis.JointCoverage:  {"row is within its box", "rows are within their boxes"},
		hypothesis.Sets:           {"label is in its set", "labels are in their sets"},
		hypothesis.SelectiveError: {"row accepted is wrong", "rows accepted are wrong"},
		hypothesis.FalseAlarms:    {"row is flagged", "rows are flagged"},
	}[p.Kind]
	if n == 1 {
		return forms[0]
	}
	return forms[1]
}

// times says how often there are misses, as a multiple of what was asked for.
func (p Promise) times(x float64) string {
	what := map[string]string{hypothesis.FalseAlarms: "false alarms", hypothesis.SelectiveError: "errors"}[p.Kind]
	if what == "" {
		what = "misses"
	}
	return fmt.Sprintf(": %s times as many %s as promised", display.Number(x, 2), what)
}

// mend says what to do about a broken promise.
func (e *Evaluation) mend() string {
	if e.HeldOut == rows.SplitOff {
		return "calibrate with rows that the network has not seen: those calibrated with were split off the rows fitted on"
	}
	return "look what has changed since calibration, first how inputs are prepared, or calibrate with rows like these"
}
