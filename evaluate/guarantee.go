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
	// significance is the level of the test of a guarantee: the probability that a guarantee
	// that holds is called violated.
	significance = .01
	// power is the required probability to detect twice the guaranteed rate.
	power = .8
)

// Guarantee is the test of one guarantee of a .attach file. If a guarantee of split conformal
// prediction holds, its number of misses has a beta-binomial distribution over draws of these
// rows and of the calibration rows.
//
// Reference: Vovk (2012), Conditional validity of inductive conformal predictors; Angelopoulos
// & Bates (2021), A Gentle Introduction to Conformal Prediction.
type Guarantee struct {
	// Kind is false_alarm_rate, interval_coverage, joint_coverage, set_coverage or
	// selective_error.
	Kind   string `json:"kind"`
	Target int    `json:"target,omitempty"` // number of the target, from 0
	// Rate counts the rows that are flagged, covered or wrong. Nominal is the guaranteed rate:
	// a lower bound for coverage, an upper bound otherwise. Name is the group or class that
	// the guarantee is for, or empty. Part is the kind of Name: group, class, cluster or
	// predicted class.
	Rate
	Part string `json:"part,omitempty"`
	// PValue is the probability of at least as many misses if the guarantee is met.
	PValue float64 `json:"p_value"`
	// Verdict is "violated" if PValue is below 0.01, divided by the number of groups or
	// classes with a guarantee of their own. It is "too_few_rows" if the test has less than 80
	// % power to detect twice the guaranteed rate of misses, and otherwise "met".
	Verdict string `json:"verdict"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do
	// ExplainedByNote is true if a note names the cause of a violation. Advice is then to
	// remove this cause first.
	ExplainedByNote bool `json:"explained_by_note,omitempty"`

	accuracy    float64 // of the model: sets that are never empty cover at least as often
	scoresAbove int     // for a false-alarm rate: calibration scores above the threshold
}

// covers reports whether the guarantee is a coverage rather than a rate of errors.
func (p Guarantee) covers() bool {
	return p.Kind != hypothesis.FalseAlarmRate && p.Kind != hypothesis.SelectiveError
}

// alpha returns the largest rate of misses that the guarantee allows.
func (p Guarantee) alpha() float64 {
	if p.covers() {
		return 1 - p.Nominal
	}
	return p.Nominal
}

// misses counts the rows that are not covered, or that are flagged or wrong.
func (p Guarantee) misses(r Rate) int {
	if p.covers() {
		return r.Rows - r.Count
	}
	return r.Count
}

// judge tests a guarantee that comes from n calibration rows, and adds it to the evaluation.
// together is the number of guarantees that are tested together, for example one for each
// group. Intervals by rcp are calibrated on half of the calibration rows.
func (e *Evaluation) judge(p Guarantee, n, together int) {
	alpha, misses := p.alpha(), p.misses(p.Rate)
	total := func(n int) int { return n }
	parts, learn := 1, ""
	if e.IntervalScore == conformal.RCP && (p.Kind == hypothesis.IntervalCoverage || p.Kind == hypothesis.JointCoverage) {
		n, total, parts, learn = hypothesis.Halved(n), hypothesis.Whole, 2, " (half of them fit the scores)"
	}
	m := hypothesis.Misses{Allowed: int(math.Round((1 - hypothesis.ExpectedCoverage(n, alpha)) * float64(n+1))), Calibration: n}
	twice, limit := min(2*alpha, (1+alpha)/2), significance/float64(together)
	p.PValue, p.Verdict, p.Message = m.AtLeast(misses, p.Rows), hypothesis.Met, p.observed()
	switch {
	case m.Allowed == 0:
		p.Verdict = hypothesis.TooFewRows
		are := " are"
		if n == 1 {
			are = " is"
		}
		p.Message += "; " + rows.Count(n, "calibration row") + are + " too few for this guarantee"
		p.Advice = "calibrate with at least " + rows.Count(total(hypothesis.LeastRows(hypothesis.Forgive(alpha))), "row") + p.ofPart()
		if need := m.Needed(alpha, power, limit, twice); need.Calibration > 0 {
			p.Advice += fmt.Sprintf(", and with %s to tell whether the guarantee is met", display.Count(parts*need.Calibration))
		}
		p.Advice += learn
	case p.PValue < limit:
		p.Verdict = hypothesis.Violated
		p.Message += p.excess(float64(misses) / float64(p.Rows) / alpha)
		p.Advice = e.remedyFor()
	case m.Power(p.Rows, limit, twice) < power:
		p.Verdict = hypothesis.TooFewRows
		need := m.Needed(alpha, power, limit, twice)
		p.Advice = p.needs(need, n, e.Rows, parts, learn)
		if need.Calibration > 0 {
			p.Message += fmt.Sprintf("; too few calibration rows to tell: with %s, even twice the rate may be chance", display.Count(n))
		} else {
			p.Message += tooFewToTell
		}
	case 1-m.AtLeast(misses+1, p.Rows) >= limit:
	case p.accuracy > p.Nominal:
		p.Message += fmt.Sprintf("; the model alone is right for %s, so sets tell more at a higher level", display.Percent(p.accuracy))
	case p.Kind == hypothesis.FalseAlarmRate && (hypothesis.Misses{Allowed: p.scoresAbove + 1, Calibration: n}).AtMost(misses, p.Rows) >= limit:
		p.Message += "; far fewer than allowed, because many calibration rows have equal scores"
	default:
		if p.covers() {
			p.Message += "; more than necessary"
		} else {
			p.Message += "; far fewer than allowed"
		}
		p.Advice = "if these rows were used to fit or calibrate, evaluate on held-out rows; if not, calibrate with rows from the same source as these"
	}
	e.Guarantees = append(e.Guarantees, p)
}

// tooFewToTell ends the message of a test without power.
const tooFewToTell = "; too few rows to tell: twice the rate could pass unnoticed"

// mostAdvised limits the rows that advice asks for, as a multiple of the available rows.
const mostAdvised = 10

// ofPart names the group or class that the guarantee is for, if it is not for all rows.
func (p Guarantee) ofPart() string {
	if p.Name == "" {
		return ""
	}
	return " of " + p.Part + " " + p.Name
}

// needs returns advice on how many rows a verdict needs. n calibration rows are in one of
// several parts, and all is the number of evaluated rows.
func (p Guarantee) needs(need hypothesis.Need, n, all, parts int, learn string) string {
	of := p.ofPart()
	calibration, test := rows.Count(parts*need.Calibration, "row")+of+learn, rows.Count(need.Rows, "row")+of
	switch {
	case need.Rows == 0:
		return ""
	case need.Calibration > mostAdvised*n:
		return fmt.Sprintf("a verdict takes about %s to calibrate with, and %s to evaluate on", calibration, test)
	case need.Calibration > 0 && need.Rows > p.Rows:
		return fmt.Sprintf("calibrate with %s or more, and evaluate on %s", calibration, test)
	case need.Calibration > 0:
		return fmt.Sprintf("calibrate with %s or more", calibration)
	case need.Rows <= mostAdvised*p.Rows || p.Kind == hypothesis.SelectiveError && need.Rows <= mostAdvised*all:
		return fmt.Sprintf("evaluate on %s or more", test)
	case p.Name != "":
		return fmt.Sprintf("a verdict takes about %s; these are %s of the rows", test, display.Percent(float64(p.Rows)/float64(all)))
	}
	return fmt.Sprintf("a verdict takes about %s", test)
}

// judgeSelectiveError tests the error rate of accepted rows, which calibration bounds with
// 95 % confidence. Errors among accepted rows are independent, so their number is binomial.
func (e *Evaluation) judgeSelectiveError(r Rate) {
	twice := min(2*r.Nominal, (1+r.Nominal)/2)
	p := Guarantee{Kind: hypothesis.SelectiveError, Rate: r, PValue: hypothesis.Binomial(r.Count, r.Rows, r.Nominal), Verdict: hypothesis.Met}
	p.Message = p.observed()
	critical := sort.Search(r.Rows+1, func(k int) bool { return hypothesis.Binomial(k, r.Rows, r.Nominal) < significance })
	switch {
	case p.PValue < significance:
		p.Verdict, p.Advice = hypothesis.Violated, e.remedyFor()
		p.Message += p.excess(r.Fraction / r.Nominal)
	case hypothesis.Binomial(critical, r.Rows, twice) < power:
		p.Verdict = hypothesis.TooFewRows
		p.Advice = p.needs(hypothesis.Need{Rows: hypothesis.Independent(r.Nominal, float64(r.Rows)/float64(e.Rows), power, significance, twice)}, 0, e.Rows, 1, "")
		p.Message += tooFewToTell
	}
	e.Guarantees = append(e.Guarantees, p)
}

// observed describes the observed rate, its 95 % interval and the guaranteed rate.
func (p Guarantee) observed() string {
	bound := "at most"
	if p.covers() {
		bound = "at least"
	}
	return fmt.Sprintf("%s of %s %s (95 %% interval %s to %s; guarantee: %s %s)", display.Percent(p.Fraction), display.Count(p.Rows), p.clause(p.Rows), display.Percent(p.Low), display.Percent(p.High), bound, display.GivenPercent(p.Nominal))
}

// clause returns a noun and a verb for n of the rows that a guarantee counts.
func (p Guarantee) clause(n int) string {
	forms := map[string][2]string{
		hypothesis.IntervalCoverage: {"target is within its interval", "targets are within their intervals"},
		hypothesis.JointCoverage:    {"row is within its box", "rows are within their boxes"},
		hypothesis.SetCoverage:      {"label is in its set", "labels are in their sets"},
		hypothesis.SelectiveError:   {"accepted row is wrong", "accepted rows are wrong"},
		hypothesis.FalseAlarmRate:   {"row is flagged", "rows are flagged"},
	}[p.Kind]
	if n == 1 {
		return forms[0]
	}
	return forms[1]
}

// excess compares the observed rate of misses with the guaranteed one.
func (p Guarantee) excess(times float64) string {
	what := map[string]string{hypothesis.FalseAlarmRate: "false alarms", hypothesis.SelectiveError: "errors"}[p.Kind]
	if what == "" {
		what = "misses"
	}
	return fmt.Sprintf("; %s times as many %s as guaranteed", display.Number(times, 2), what)
}

// remedyFor returns the advice for a guarantee that is violated.
func (e *Evaluation) remedyFor() string {
	if e.HeldOut == rows.SplitOff {
		return "calibrate with rows that the model was not trained on: the calibration rows were split off the rows fitted on"
	}
	return "check what changed since calibration (first, how inputs are prepared), or calibrate with rows from the same source as these"
}
