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
	// significance is the significance level of the test of a guarantee: the largest
	// probability that a guarantee that holds is reported as violated.
	significance = .01
	// power is the probability with which a test must detect twice the guaranteed rate of
	// misses, or the rate halfway between the guaranteed one and 1 if that is smaller. A test
	// with less power reports too few rows.
	power = .8
)

// Guarantee holds the test of one guarantee of a .attach file. If the guarantee holds, the
// number of misses has a beta-binomial distribution over random evaluated rows and calibration
// rows. The number of wrong accepted rows has a binomial distribution instead.
//
// References: Vovk (2012), Conditional validity of inductive conformal predictors; Angelopoulos
// & Bates (2021), A Gentle Introduction to Conformal Prediction.
type Guarantee struct {
	// Kind is false_alarm_rate, interval_coverage, joint_coverage, set_coverage or
	// selective_error.
	Kind   string `json:"kind"`
	Target int    `json:"target,omitempty"` // index of the target, counted from 0
	// Rate is the rate of rows that are flagged, covered or wrong, as Kind says. Nominal is
	// the guaranteed rate: a lower bound for coverage, an upper bound otherwise. For cross-fitted
	// intervals it is the expected coverage, and Message gives the guaranteed one. Name is the
	// group, class or cluster that the guarantee is for, or empty for all rows. Part is the
	// kind of Name: group, class, cluster or predicted class.
	Rate
	Part string `json:"part,omitempty"`
	// PValue is the probability of at least as many misses if the guarantee holds.
	PValue float64 `json:"p_value"`
	// Verdict is "violated" if PValue is below 0.01, divided by the number of groups or
	// classes that have a guarantee of their own. It is "too_few_rows" if there are too few
	// calibration rows for the guarantee, or if the test would detect twice the guaranteed
	// rate of misses with a probability below 80 %. It is also "too_few_rows" instead of "met"
	// if at least half of the rows were used to fit or calibrate. Otherwise it is "met".
	Verdict string `json:"verdict"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do
	// ExplainedByNote reports whether a note names the cause of a violation. Advice is then to
	// remove this cause first.
	ExplainedByNote bool `json:"explained_by_note,omitempty"`

	region      string   // kind of the regions whose coverage is guaranteed
	accuracy    float64  // accuracy of the model; sets that are never empty cover at least as often
	scoresAbove int      // for a false-alarm rate, the number of calibration scores above the threshold
	least       *float64 // proven coverage of cross-fitted intervals, whose Nominal is only expected
}

// isCoverage reports whether the guarantee is a lower bound of a coverage. Otherwise it is an
// upper bound of an error rate.
func (p Guarantee) isCoverage() bool {
	return p.Kind != hypothesis.FalseAlarmRate && p.Kind != hypothesis.SelectiveError
}

// alpha returns the largest rate of misses that the guarantee allows.
func (p Guarantee) alpha() float64 {
	if p.isCoverage() {
		return 1 - p.Nominal
	}
	return p.Nominal
}

// misses returns the number of misses in r. For a coverage these are the rows that are not
// covered. Otherwise they are the rows that are flagged or wrong.
func (p Guarantee) misses(r Rate) int {
	if p.isCoverage() {
		return r.Rows - r.Count
	}
	return r.Count
}

// judge tests a guarantee that n calibration rows give, and adds it to the evaluation.
// tests is the number of guarantees that are tested together, for example one for each
// group. If intervals use the score rcp, or for ellipsoids, only half of the calibration rows
// calibrate them.
func (e *Evaluation) judge(p Guarantee, n, tests int) {
	alpha, misses := p.alpha(), p.misses(p.Rate)
	weighted := e.EffectiveSampleSize > 0 && !(e.weightByClass && p.Part == "class")
	if weighted {
		n = e.effective(n)
	}
	totalRows := func(n int) int { return n }
	parts, suffix := 1, ""
	if weighted {
		suffix = " with equal weights"
	}
	if p.region == conformal.Ellipsoid {
		n, totalRows, parts, suffix = hypothesis.Halved(n), hypothesis.Whole, 2, suffix+" (half of them give the shape)"
	}
	if e.IntervalScore == conformal.RCP && (p.Kind == hypothesis.IntervalCoverage || p.Kind == hypothesis.JointCoverage) {
		n, totalRows, parts, suffix = hypothesis.Halved(n), hypothesis.Whole, 2, suffix+" (half of them fit the scores)"
	}
	m := hypothesis.Misses{Allowed: int(math.Round((1 - hypothesis.ExpectedCoverage(n, alpha)) * float64(n+1))), Calibration: n}
	rateToDetect, limit := min(2*alpha, (1+alpha)/2), significance/float64(tests)
	p.PValue, p.Verdict, p.Message = m.AtLeast(misses, p.Rows), hypothesis.Met, p.observedText()
	switch {
	case m.Allowed == 0:
		p.Verdict = hypothesis.TooFewRows
		verb := " are"
		if n == 1 {
			verb = " is"
		}
		p.Message += "; " + rows.Count(n, "calibration row") + verb + " too few for this guarantee"
		p.Advice = "calibrate with at least " + rows.Count(totalRows(hypothesis.LeastRows(hypothesis.Forgive(alpha))), "row") + p.partSuffix()
		if need := m.Needed(alpha, power, limit, rateToDetect); need.Calibration > 0 {
			p.Advice += fmt.Sprintf(", and with %s to tell whether the guarantee is met", display.Count(parts*need.Calibration))
		}
		p.Advice += suffix
	case p.PValue < limit:
		p.Verdict = hypothesis.Violated
		p.Message += p.excessText(float64(misses) / float64(p.Rows) / alpha)
		p.Advice = e.violationAdvice()
	case m.Power(p.Rows, limit, rateToDetect) < power:
		p.Verdict = hypothesis.TooFewRows
		need := m.Needed(alpha, power, limit, rateToDetect)
		p.Advice = p.rowAdvice(need, n, e.Rows, parts, suffix)
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
		if p.isCoverage() {
			p.Message += "; more than necessary"
		} else {
			p.Message += "; far fewer than allowed"
		}
		p.Advice = "if these rows were used to fit or calibrate, evaluate on held-out rows; if not, calibrate with rows from the same source as these"
	}
	e.Guarantees = append(e.Guarantees, p)
}

// effective returns how many rows with equal weights n calibration rows are worth. It returns
// n without weights.
func (e *Evaluation) effective(n int) int {
	if e.EffectiveSampleSize == 0 {
		return n
	}
	return int(float64(n) * e.EffectiveSampleSize / float64(e.CalibrationRows))
}

// tooFewToTell is the end of the message of a test with too little power.
const tooFewToTell = "; too few rows to tell: twice the rate could pass unnoticed"

// maxAdviceFactor limits the number of rows that advice asks for, as a multiple of the rows
// that there are.
const maxAdviceFactor = 10

// partSuffix returns text that names the group or class of the guarantee, or "" if it is for
// all rows.
func (p Guarantee) partSuffix() string {
	if p.Name == "" {
		return ""
	}
	return " of " + p.Part + " " + p.Name
}

// rowAdvice returns advice on how many rows a verdict needs. There are n calibration rows for
// the guarantee. If parts is 2, only half of the rows calibrate, so the advice asks for twice
// as many. evaluated is the number of all evaluated rows, and suffix is text that follows each
// number of calibration rows.
func (p Guarantee) rowAdvice(need hypothesis.Need, n, evaluated, parts int, suffix string) string {
	part := p.partSuffix()
	calibration, test := rows.Count(parts*need.Calibration, "row")+part+suffix, rows.Count(need.Rows, "row")+part
	switch {
	case need.Rows == 0:
		return ""
	case need.Calibration > maxAdviceFactor*n:
		return fmt.Sprintf("a verdict takes about %s to calibrate with, and %s to evaluate on", calibration, test)
	case need.Calibration > 0 && need.Rows > p.Rows:
		return fmt.Sprintf("calibrate with %s or more, and evaluate on %s", calibration, test)
	case need.Calibration > 0:
		return fmt.Sprintf("calibrate with %s or more", calibration)
	case need.Rows <= maxAdviceFactor*p.Rows || p.Kind == hypothesis.SelectiveError && need.Rows <= maxAdviceFactor*evaluated:
		return fmt.Sprintf("evaluate on %s or more", test)
	case p.Name != "":
		return fmt.Sprintf("a verdict takes about %s; these are %s of the rows", test, display.Percent(float64(p.Rows)/float64(evaluated)))
	}
	return fmt.Sprintf("a verdict takes about %s", test)
}

// judgeSelectiveError tests the error rate of accepted rows, which calibration bounds with 95
// % confidence. The errors of accepted rows are independent, so their number is binomial.
func (e *Evaluation) judgeSelectiveError(r Rate) {
	rateToDetect := min(2*r.Nominal, (1+r.Nominal)/2)
	p := Guarantee{Kind: hypothesis.SelectiveError, Rate: r, PValue: hypothesis.Binomial(r.Count, r.Rows, r.Nominal), Verdict: hypothesis.Met}
	p.Message = p.observedText()
	critical := sort.Search(r.Rows+1, func(k int) bool { return hypothesis.Binomial(k, r.Rows, r.Nominal) < significance })
	switch {
	case p.PValue < significance:
		p.Verdict, p.Advice = hypothesis.Violated, e.violationAdvice()
		p.Message += p.excessText(r.Fraction / r.Nominal)
	case hypothesis.Binomial(critical, r.Rows, rateToDetect) < power:
		p.Verdict = hypothesis.TooFewRows
		p.Advice = p.rowAdvice(hypothesis.Need{Rows: hypothesis.Independent(r.Nominal, float64(r.Rows)/float64(e.Rows), power, significance, rateToDetect)}, 0, e.Rows, 1, "")
		p.Message += tooFewToTell
	}
	e.Guarantees = append(e.Guarantees, p)
}

// observedText returns text with the observed rate, its 95 % interval and the guaranteed rate.
func (p Guarantee) observedText() string {
	bound := "at most"
	if p.isCoverage() {
		bound = "at least"
	}
	guarantee := fmt.Sprintf("guarantee: %s %s", bound, display.GivenPercent(p.Nominal))
	if p.least != nil {
		guarantee = fmt.Sprintf("expected: about %s; guarantee: at least %s", display.GivenPercent(p.Nominal), display.Percent(*p.least))
	}
	return fmt.Sprintf("%s of %s %s (95 %% interval %s to %s; %s)", display.Percent(p.Fraction), display.Count(p.Rows), p.clause(p.Rows), display.Percent(p.Low), display.Percent(p.High), guarantee)
}

// clause returns the noun and verb for n rows that the guarantee counts, for example "rows are
// flagged".
func (p Guarantee) clause(n int) string {
	forms := map[string][2]string{
		hypothesis.IntervalCoverage: {"target is within its interval", "targets are within their intervals"},
		hypothesis.JointCoverage:    {"row is within its box", "rows are within their boxes"},
		hypothesis.SetCoverage:      {"label is in its set", "labels are in their sets"},
		hypothesis.SelectiveError:   {"accepted row is wrong", "accepted rows are wrong"},
		hypothesis.FalseAlarmRate:   {"row is flagged", "rows are flagged"},
	}[p.Kind]
	if p.region == conformal.Ellipsoid {
		forms = [2]string{"row is within its ellipsoid", "rows are within their ellipsoids"}
	}
	if n == 1 {
		return forms[0]
	}
	return forms[1]
}

// excessText returns text for an observed rate of misses that is ratio times the guaranteed
// rate.
func (p Guarantee) excessText(ratio float64) string {
	misses := map[string]string{hypothesis.FalseAlarmRate: "false alarms", hypothesis.SelectiveError: "errors"}[p.Kind]
	if misses == "" {
		misses = "misses"
	}
	allowed := "guaranteed"
	if p.least != nil {
		allowed = "expected"
	}
	return fmt.Sprintf("; %s times as many %s as %s", display.Number(ratio, 2), misses, allowed)
}

// violationAdvice returns the advice for a violated guarantee.
func (e *Evaluation) violationAdvice() string {
	if e.HeldOut == rows.SplitOff {
		return "calibrate with rows that the model was not trained on: the calibration rows were split off the rows fitted on"
	}
	return "check what changed since calibration (first, how inputs are prepared) and whether the model was trained on the calibration rows, or calibrate with rows from the same source as these"
}
