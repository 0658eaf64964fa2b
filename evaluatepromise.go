package attach

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/attach-uncertainty/attach/internal/conformal"
	"github.com/attach-uncertainty/attach/internal/evidence"
	"github.com/attach-uncertainty/attach/internal/rows"
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
}

// covers says that a promise is of rows that are held, and not of those missed.
func (p Promise) covers() bool {
	return p.Kind != evidence.FalseAlarms && p.Kind != evidence.SelectiveError
}

// promise judges one that n calibration rows make, of misses with probability
// alpha, and keeps it; it is one of so many that are made at once. Of intervals by rcp
// half of the calibration rows make it.
func (e *Evaluation) promise(p Promise, n int, alpha float64, together int) {
	misses := p.Count
	if p.covers() {
		misses = p.Rows - p.Count
	}
	more := func(format string, n int) string { return fmt.Sprintf("calibrate with "+format, n) }
	if e.IntervalScore == conformal.RCP && (p.Kind == evidence.Coverage || p.Kind == evidence.JointCoverage) {
		n = evidence.Halved(n)
		more = func(format string, n int) string {
			return fmt.Sprintf("calibrate with "+format+", of which half learn the scores", evidence.Whole(n))
		}
	}
	m := evidence.Misses{Allowed: int(math.Round((1 - evidence.ExpectedCoverage(n, alpha)) * float64(n+1))), Calibration: n}
	twice, limit := min(2*alpha, (1+alpha)/2), doubt/float64(together)
	p.Probability, p.Verdict, p.Says = m.AtLeast(misses, p.Rows), evidence.Kept, p.seen()
	switch {
	case m.Allowed == 0:
		p.Verdict = evidence.TooFewRows
		p.Says += fmt.Sprintf(", and %s too few to promise anything", singular(n, "calibration rows are"))
		p.Do = more("at least %d rows", evidence.LeastRows(evidence.Forgive(alpha)))
	case p.Probability < limit:
		p.Verdict = evidence.Broken
		p.Says += p.times(float64(misses) / float64(p.Rows) / alpha)
		p.Do = e.mend()
	case !m.Telling(limit, twice):
		p.Verdict = evidence.TooFewRows
		p.Says += fmt.Sprintf(", too few to tell: with %s even twice as many may be chance", rows.Count(n, "calibration row"))
		if rows := evidence.CalibrationFor(alpha, limit, twice); rows > 0 {
			p.Do = more("%d rows or more", rows)
		}
	case m.Power(p.Rows, limit, twice) < power:
		p.Verdict = evidence.TooFewRows
		p.Says += ", too few to tell: twice as many could pass unnoticed"
		if rows := m.RowsFor(power, limit, twice); rows > 0 {
			p.Do = fmt.Sprintf("evaluate on %d rows or more", rows)
			if p.Name != "" {
				p.Do += " of " + p.Name
			}
			if rows > 5*n {
				p.Do += ", or " + more("many more than %d", n)
			}
		}
	case 1-m.AtLeast(misses+1, p.Rows) >= limit:
	case p.right > p.Asked:
		p.Says += fmt.Sprintf(", as the network alone is right of %s: sets say more at a level above that", percent(p.right))
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

// judgeError judges the promise of selective prediction, which is one of the
// calibration rows' with 95 % confidence: of errors among accepted rows that are
// independent.
func (e *Evaluation) judgeError(r Rate) {
	p := Promise{Kind: evidence.SelectiveError, Rate: r, Probability: evidence.Binomial(r.Count, r.Rows, r.Asked), Verdict: evidence.Kept}
	p.Says = p.seen()
	critical := sort.Search(r.Rows+1, func(k int) bool { return evidence.Binomial(k, r.Rows, r.Asked) < doubt })
	switch {
	case p.Probability < doubt:
		p.Verdict, p.Do = evidence.Broken, e.mend()
		p.Says += p.times(r.Share / r.Asked)
	case evidence.Binomial(critical, r.Rows, min(2*r.Asked, (1+r.Asked)/2)) < power:
		p.Verdict, p.Do = evidence.TooFewRows, "evaluate on more rows"
		p.Says += ", too few to tell: twice as many could pass unnoticed"
	}
	e.Promises = append(e.Promises, p)
}

// seen is what was observed.
func (p Promise) seen() string {
	what, asked := "rows are flagged", "asked for at most"
	switch p.Kind {
	case evidence.Coverage:
		what, asked = "targets are within their intervals", "asked for"
	case evidence.JointCoverage:
		what, asked = "rows are within their boxes", "asked for"
	case evidence.Sets:
		what, asked = "labels are in their sets", "asked for"
	case evidence.SelectiveError:
		what = "rows accepted are wrong"
	}
	return fmt.Sprintf("%s of %s (%s to %s), %s %s", percent(p.Share), singular(p.Rows, what), percent(p.Low), percent(p.High), asked, fmt.Sprintf("%.6g %%", 100*p.Asked))
}

// singular is so many of what a clause says of several.
func singular(n int, clause string) string {
	if n == 1 {
		clause = strings.NewReplacer("rows", "row", "targets", "target", "labels", "label", " are", " is", "their", "its", "intervals", "interval", "boxes", "box", "sets", "set").Replace(clause)
	}
	return fmt.Sprintf("%d %s", n, clause)
}

// times says how often there are misses, as a multiple of what was asked for.
func (p Promise) times(x float64) string {
	what := map[string]string{evidence.FalseAlarms: "false alarms", evidence.SelectiveError: "errors"}[p.Kind]
	if what == "" {
		what = "misses"
	}
	ratio := fmt.Sprintf("%.2g", x)
	if x >= 99.5 { // which is 1e+02 above
		ratio = fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf(": %s times as many %s as promised", ratio, what)
}

func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }

// mend says what to do about a broken promise.
func (e *Evaluation) mend() string {
	if e.HeldOut == rows.SplitOff {
		return "calibrate with rows that the network has not seen: those calibrated with were split off the rows fitted on"
	}
	return "look what has changed since calibration, first how inputs are prepared, or calibrate with rows like these"
}
