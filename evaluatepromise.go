package attach

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/evidence"
)

// Verdict says whether a promise is kept.
type Verdict string

const (
	// Kept: nothing speaks against it, and rows were enough to notice if it were
	// broken by a factor of two.
	Kept Verdict = "kept"
	// Broken: a kept promise would be missed as far less than once in a hundred
	// times.
	Broken Verdict = "broken"
	// TooFewRows: had the promise been broken by a factor of two, it would have
	// passed unnoticed more than one time in five.
	TooFewRows Verdict = "too few rows"
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
	// promised.
	Rate
	// Probability is that of so many misses or more, were the promise kept.
	Probability float64 `json:"probability"`
	Verdict     Verdict `json:"verdict"`
	Says        string  `json:"says"`         // in one sentence
	Do          string  `json:"do,omitempty"` // what to do about it
}

// covers says that a promise is of rows that are held, and not of those missed.
func (p Promise) covers() bool { return p.Kind != "false_alarms" && p.Kind != "selective_error" }

// promise judges one that n calibration rows make, of misses with probability
// alpha, and keeps it; it is one of so many that are made at once.
func (e *Evaluation) promise(p Promise, n int, alpha float64, together int) {
	misses := p.Count
	if p.covers() {
		misses = p.Rows - p.Count
	}
	m := evidence.Misses{Allowed: int(math.Round((1 - calibrate.ExpectedCoverage(n, alpha)) * float64(n+1))), Calibration: n}
	twice := min(2*alpha, (1+alpha)/2)
	limit := doubt / float64(together)
	p.Probability = m.AtLeast(misses, p.Rows)
	switch {
	case m.Allowed == 0:
		p.Verdict = TooFewRows
		p.Says = fmt.Sprintf("%d calibration rows are too few to promise %s", n, p.wanted())
		p.Do = fmt.Sprintf("calibrate with %d rows or more", calibrate.LeastRows(alpha))
	case p.Probability < limit:
		p.Verdict = Broken
		p.Says = fmt.Sprintf("%s, %.2g times as %s as asked", p.seen(), float64(misses)/float64(p.Rows)/alpha, map[bool]string{true: "many misses", false: "many"}[p.covers()])
		p.Do = e.mend()
	case m.Power(p.Rows, limit, twice) < power:
		p.Verdict = TooFewRows
		p.Says = p.seen() + ", too few rows to tell: twice as many could pass unnoticed"
		if rows, ok := m.RowsFor(power, limit, twice); ok {
			p.Do = fmt.Sprintf("evaluate on %d rows", rows)
		} else {
			p.Do = fmt.Sprintf("calibrate with more rows than %d: with so few even that many misses may be chance", n)
		}
	default:
		p.Verdict = Kept
		p.Says = p.seen()
		if 1-m.AtLeast(misses+1, p.Rows) < limit {
			p.Says += ", far fewer than asked"
			if p.covers() {
				p.Says = p.seen() + ", wider than need be"
			}
			p.Do = "look whether these rows were fitted or calibrated on, which then tell nothing; else calibrate with rows like these to have what was asked"
		}
	}
	e.Promises = append(e.Promises, p)
}

// wanted is what was asked for.
func (p Promise) wanted() string {
	switch p.Kind {
	case "false_alarms":
		return fmt.Sprintf("anything at alpha %g", p.Asked)
	}
	return fmt.Sprintf("a level of %g", p.Asked)
}

// seen is what was observed.
func (p Promise) seen() string {
	what := map[string]string{
		"false_alarms": "are flagged", "coverage": "are covered", "joint_coverage": "are covered in all targets",
		"sets": "are in their sets", "selective_error": "of those accepted are wrong",
	}[p.Kind]
	return fmt.Sprintf("%s of %d rows %s (%s to %s), asked for %s", percent(p.Share), p.Rows, what, percent(p.Low), percent(p.High), percent(p.Asked))
}

func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }

// mend says what to do about a broken promise.
func (e *Evaluation) mend() string {
	if e.HeldOut == SplitOff {
		return "calibrate with rows that the network has not seen: those calibrated with were split off the rows fitted on"
	}
	return "calibrate with rows like these, which are unlike the calibration rows, and look what has changed"
}
