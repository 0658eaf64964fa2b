package calibrate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"unicode/utf8"
)

// AdaptiveOptions selects how an Adaptive adapts. Zero values stand for defaults.
type AdaptiveOptions struct {
	// Alpha is the fraction of rows that intervals may miss in the long run, in (0,1).
	Alpha float64
	// Method is "aci", "dtaci" or "pid". Empty stands for "aci".
	Method string
	// Steps holds the step sizes γ. "aci" and "pid" have one, and "dtaci" has several
	// candidates. A larger step adapts faster, but levels vary more. The step of "pid" is a
	// fraction of the range of the calibration scores. Defaults are 0.005 for "aci", 0.001,
	// 0.002, 0.004 and so on up to 0.128 for "dtaci", and 0.1 for "pid".
	Steps []float64
	// Window is the number of most recent scores that are calibration scores. The score of
	// each row with feedback enters the window, and the oldest score leaves it. If Window is
	// 0, the calibration scores of NewAdaptive stay.
	Window int
	// Memory is the number of rows within which "dtaci" finds the best step. The default is
	// 500.
	Memory int
	// Gain and Saturation are K and C of "pid". Gain has the unit of the scores, and its
	// default is the range of the scores that NewAdaptive gets. The default of Saturation is
	// 0.5.
	Gain, Saturation float64
}

// Names of the methods of Adaptive.
const (
	aci   = "aci"
	dtaci = "dtaci"
	pid   = "pid"
)

// Adaptive keeps the coverage of a series near 1−α although the series changes. After each
// target it adapts the threshold of nonconformity scores: in general, a miss raises the thresholds
// of later rows, and a covered target lowers them. Scores that enter the window can do the
// opposite. Rows that already have a threshold keep it. Other intervals of this package assume
// exchangeable rows, and rows that are ordered in time seldom are.
//
// Next returns the threshold of a row. The prediction interval or prediction set of the row
// contains all answers with at most this score. Feedback takes the score of the true answer
// when it is known. Targets may come late and in any order, and any number of rows may be
// outstanding. The methods CalibrationScores, Scores and PredictMargins of Intervals give scores
// and intervals. Any other score is possible too, for example |y − prediction|.
//
// A threshold of +Inf stands for the infinite interval or the set of all classes, and −Inf for
// the empty interval or set. The guarantees need both.
//
// # Methods
//
// Let err be 1 if the target of a row is missed and 0 if it is covered. The sums below are over
// the n rows with feedback.
//
// "aci" (adaptive conformal inference) adapts a level, which starts at α:
//
//	level ← level + γ(α − err)
//
// The threshold is Conformal.Threshold(level) of the calibration scores. It is +Inf if level ≤ 0
// and −Inf if level ≥ 1.
//
// "dtaci" (dynamically-tuned ACI) runs ACI with each of the Steps and averages their levels. The
// weight of a step is lower if the pinball loss of its levels is higher:
//
//	weight ← (1−σ) weight·exp(−η·loss) + σ·(mean of weight·exp(−η·loss))
//
// The p-value of the row determines the loss. The authors recommend η and σ for Memory.
//
// "pid" (conformal PID control) adapts the threshold itself, so thresholds can exceed all scores
// so far without being infinite. It adds quantile tracking and error integration:
//
//	quantile ← quantile + γ·range·(err − α)
//	threshold = quantile + K tan(Σ(err − α)·log(n) / (C·n))
//
// The range is that of the calibration scores. The tangent is ±Inf if its argument is beyond
// ±π/2. The third part of the paper's method, a model that forecasts scores (scorecaster), is
// left out.
//
// # Guarantees
//
// The guarantees hold for every sequence of scores, without assumptions about their
// distribution. They are about the long-run coverage. They say nothing about a single row, or
// about rows with certain inputs. Let m be the largest number of rows that were outstanding at
// once, including the row with feedback. m is 1 if each target comes before the next row.
//
//   - "aci": |Σerr/n − α| ≤ (max(α, 1−α) + mγ)/(nγ). For m = 1 this is proposition 4.1 of Gibbs
//     & Candès (2021). Reason: Σ(err − α) is (α − level)/γ, and a level ≤ 0 makes all new
//     rows covered. Only the m outstanding rows can still move the level away from [0,1].
//   - "pid": |Σerr/n − α| ≤ (π/2)·C/log(n) + (m+1)/n for n ≥ 4. For m = 1 this is the theorem
//     of Angelopoulos, Candès & Tibshirani (2023) about error integration, up to a term 1/n.
//     Reason: if |Σ(err − α)| is at least (π/2)·C·n/log(n), new thresholds are infinite, and
//     only the m−1 other outstanding rows can move the sum farther away. log(1) = 0, so no
//     threshold can be infinite before two rows have feedback. The second of them adds 1/n.
//   - "dtaci" has no useful bound on Σerr/n. Its guarantee is about the pinball loss: over any
//     Memory rows, the mean loss is near that of the best step for these rows. The proof of
//     long-run coverage needs η and σ that tend to 0, and here they are constant.
//
// A larger step gives a tighter bound but levels that vary more. Infinite and empty intervals
// can then become frequent, and they cover exactly often enough without being useful. Look at
// widths too. Late feedback makes this worse, because m misses in a row lower a level by mγ(1−α)
// before a new threshold can help. For "aci" with late feedback, choose a window and a step of at
// most half of α/m.
//
// An Adaptive is not safe for concurrent use.
//
// References: Gibbs & Candès (2021), Adaptive Conformal Inference Under Distribution Shift;
// Gibbs & Candès (2024), Conformal Inference for Online Prediction with Arbitrary Distribution
// Shifts; Angelopoulos, Candès & Tibshirani (2023), Conformal PID Control for Time Series
// Prediction.
type Adaptive struct {
	options AdaptiveOptions
	rows    int // rows with feedback
	misses  int // rows with feedback that were missed

	levels   []float64 // level of each step, for "aci" and "dtaci"
	weights  []float64 // weight of each step, for "dtaci"
	quantile float64   // for "pid"

	// scores holds the calibration scores in their order. Older scores come first if they
	// were in the window of an outstanding row. sorted holds the calibration scores alone.
	scores      []float64
	sorted      []float64
	added       int // scores that entered the window so far
	checked     int // value of added when forgetScores last looked at all outstanding rows
	outstanding map[string]outstandingRow
}

// outstandingRow is the state when a row got its threshold.
type outstandingRow struct {
	level, threshold float64
	levels           []float64 // level of each step, for "dtaci"
	added            int
}

// NewAdaptive returns an Adaptive with the scores of calibration rows, in the order of their
// time. With a window, only its most recent scores count. "aci" also works without scores, for
// intervals that are made at the levels of Next. "pid" needs finite scores, and enough of them
// for α. "dtaci" needs at least one.
func NewAdaptive(scores []float64, o AdaptiveOptions) (*Adaptive, error) {
	if o.Method == "" {
		o.Method = aci
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, s := range scores {
		if err := checkScore(o.Method, s); err != nil {
			return nil, fmt.Errorf("calibration score %d (counted from 0): %w", i, err)
		}
		low, high = min(low, s), max(high, s)
	}
	if len(o.Steps) == 0 {
		o.Steps = defaultSteps(o.Method)
	}
	if o.Memory == 0 && o.Method == dtaci {
		o.Memory = 500
	}
	if o.Method == pid {
		if o.Gain == 0 {
			o.Gain = high - low
		}
		if o.Saturation == 0 {
			o.Saturation = .5
		}
	}
	o.Steps = slices.Clone(o.Steps)
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Adaptive{options: o, scores: slices.Clone(scores), outstanding: map[string]outstandingRow{}}
	if o.Window > 0 {
		a.scores = a.scores[max(0, len(a.scores)-o.Window):]
	}
	a.sorted = slices.Sorted(slices.Values(a.scores))
	switch {
	case o.Method == pid:
		a.quantile = Conformal{a.sorted}.Threshold(o.Alpha)
		if math.IsInf(a.quantile, 0) {
			return nil, fmt.Errorf("there are too few calibration scores (%d) for α = %v: \"pid\" starts from their quantile 1−α", len(a.sorted), o.Alpha)
		}
	case o.Method == dtaci && len(scores) == 0:
		return nil, errors.New("\"dtaci\" needs calibration scores, and there are none")
	default:
		for range o.Steps {
			a.levels = append(a.levels, o.Alpha)
		}
	}
	if o.Method == dtaci {
		for range o.Steps {
			a.weights = append(a.weights, 1/float64(len(o.Steps)))
		}
	}
	return a, nil
}

// defaultSteps returns the steps that the authors of the method use.
func defaultSteps(method string) []float64 {
	switch method {
	case dtaci:
		return []float64{.001, .002, .004, .008, .016, .032, .064, .128}
	case pid:
		return []float64{.1}
	}
	return []float64{.005}
}

// check returns an error if an option is out of its range or has no effect. Defaults must be
// filled in.
func (o AdaptiveOptions) check() error {
	if err := checkLevel("α", o.Alpha); err != nil {
		return err
	}
	for _, step := range o.Steps {
		if !(step > 0 && step <= 1) {
			return fmt.Errorf("the step %v is not above 0 and at most 1", step)
		}
	}
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
	switch {
	case o.Method != aci && o.Method != dtaci && o.Method != pid:
		return fmt.Errorf("unknown method %q: choose one of aci, dtaci, pid", o.Method)
	case len(o.Steps) != 1 && o.Method != dtaci || len(o.Steps) == 0:
		return fmt.Errorf("%q has one step, and there are %d", o.Method, len(o.Steps))
	case o.Window < 0:
		return fmt.Errorf("the window of %d scores is negative", o.Window)
	case o.Memory < 0 || (o.Memory > 0) != (o.Method == dtaci):
		return fmt.Errorf("the memory of %d rows must be positive for \"dtaci\", and other methods have none", o.Memory)
	case o.Method == pid && !(positive(o.Gain) && positive(o.Saturation)):
		return fmt.Errorf("gain %v and saturation %v must be positive (the gain is 0 if all calibration scores are equal)", o.Gain, o.Saturation)
	case o.Method != pid && (o.Gain != 0 || o.Saturation != 0):
		return fmt.Errorf("%q has neither gain nor saturation", o.Method)
	}
	return nil
}

// maxPIDScore is the largest score of "pid", so that its quantile cannot overflow.
const maxPIDScore = 1e300

// checkScore returns an error for a score that the method cannot use.
func checkScore(method string, score float64) error {
	switch {
	case math.IsNaN(score):
		return errors.New("the score is NaN: leave the row out, or correct the model")
	case method == pid && math.Abs(score) > maxPIDScore:
		return fmt.Errorf("the score is %v, and \"pid\" needs scores of at most %v: choose \"aci\" or another score", score, maxPIDScore)
	}
	return nil
}

// Next returns the miscoverage level and the threshold of a new row. id names the row until its
// feedback, and must be UTF-8. The level is NaN for "pid", which has none.
//
// To adapt intervals or sets that have no threshold, make them at the level instead. They must
// be infinite if level ≤ 0 and empty if level ≥ 1.
func (a *Adaptive) Next(id string) (level, threshold float64, err error) {
	if err := a.initialized(); err != nil {
		return 0, 0, err
	}
	if !utf8.ValidString(id) {
		return 0, 0, fmt.Errorf("the row id %+q is not UTF-8, so a saved state could not keep it: convert it to UTF-8 first", id)
	}
	if _, ok := a.outstanding[id]; ok {
		return 0, 0, fmt.Errorf("row %q already has a threshold and is waiting for feedback: give each row its own id", id)
	}
	row := outstandingRow{added: a.added}
	if a.options.Method == pid {
		row.level, row.threshold = math.NaN(), a.quantile+a.integral()
	} else {
		row.level = a.level()
		row.threshold = Conformal{a.sorted}.Threshold(row.level)
	}
	if a.options.Method == dtaci {
		row.levels = slices.Clone(a.levels)
	}
	a.outstanding[id] = row
	return row.level, row.threshold, nil
}

// Feedback takes the score of a row's true answer and reports whether the row's threshold
// covers it. If it returns an error, the row is still outstanding.
func (a *Adaptive) Feedback(id string, score float64) (covered bool, err error) {
	row, err := a.row(id)
	if err != nil {
		return false, err
	}
	if err := checkScore(a.options.Method, score); err != nil {
		return false, fmt.Errorf("row %q: %w", id, err)
	}
	covered = score <= row.threshold && !math.IsInf(row.threshold, -1)
	a.adapt(row, covered, score)
	delete(a.outstanding, id)
	if a.options.Window > 0 {
		a.addScore(score)
	}
	a.forgetScores()
	return covered, nil
}

// FeedbackCovered is Feedback for intervals or sets that were made at the level of Next. covered
// says whether they contain the true answer. Only "aci" takes this feedback, and it does not
// change the calibration scores.
func (a *Adaptive) FeedbackCovered(id string, covered bool) error {
	row, err := a.row(id)
	switch {
	case err != nil:
		return err
	case a.options.Method != aci:
		return fmt.Errorf("%q needs scores: use Feedback", a.options.Method)
	case row.level <= 0 && !covered:
		return fmt.Errorf("row %q has the level %v, so its interval must be infinite and cannot miss", id, row.level)
	case row.level >= 1 && covered:
		return fmt.Errorf("row %q has the level %v, so its interval must be empty and cannot cover", id, row.level)
	}
	a.adapt(row, covered, math.NaN())
	delete(a.outstanding, id)
	a.forgetScores()
	return nil
}

// Cancel forgets a row whose target will never be known. The guarantees do not count it. They
// hold for the other rows, but a choice of rows by their targets makes them meaningless.
func (a *Adaptive) Cancel(id string) error {
	if _, err := a.row(id); err != nil {
		return err
	}
	delete(a.outstanding, id)
	a.forgetScores()
	return nil
}

// Clone returns a copy that shares nothing with the Adaptive. A program can save the copy while the
// Adaptive goes on.
func (a *Adaptive) Clone() *Adaptive {
	b := *a
	b.options.Steps, b.levels, b.weights = slices.Clone(a.options.Steps), slices.Clone(a.levels), slices.Clone(a.weights)
	b.scores, b.sorted = slices.Clone(a.scores), slices.Clone(a.sorted)
	b.outstanding = maps.Clone(a.outstanding) // rows do not change
	return &b
}

// row returns an outstanding row.
func (a *Adaptive) row(id string) (outstandingRow, error) {
	if err := a.initialized(); err != nil {
		return outstandingRow{}, err
	}
	row, ok := a.outstanding[id]
	if !ok {
		return row, fmt.Errorf("row %q is not waiting for feedback: Next has not been called for it, or it already had feedback", id)
	}
	return row, nil
}

// initialized returns an error for the zero value.
func (a *Adaptive) initialized() error {
	if a.outstanding == nil {
		return errors.New("the Adaptive has no options: make it with NewAdaptive or UnmarshalJSON")
	}
	return nil
}

// adapt updates the state after the feedback of a row.
func (a *Adaptive) adapt(row outstandingRow, covered bool, score float64) {
	o := a.options
	a.rows++
	miss := 0.
	if !covered {
		miss = 1
		a.misses++
	}
	switch o.Method {
	case aci:
		a.levels[0] += o.Steps[0] * (o.Alpha - miss)
	case dtaci:
		p := a.pValue(row, score)
		a.reweight(row.levels, p)
		for i, level := range row.levels {
			miss := 0.
			if p <= level || level >= 1 {
				miss = 1
			}
			a.levels[i] += o.Steps[i] * (o.Alpha - miss)
		}
	case pid:
		if n := len(a.sorted); n > 0 {
			a.quantile += o.Steps[0] * (a.sorted[n-1] - a.sorted[0]) * (miss - o.Alpha)
		}
	}
}

// level returns the level of the next row, the weighted mean of the steps' levels.
func (a *Adaptive) level() float64 {
	if a.weights == nil {
		return a.levels[0]
	}
	level := 0.
	for i, w := range a.weights {
		level += w * a.levels[i]
	}
	return level
}

// integral returns the error integration of "pid".
func (a *Adaptive) integral() float64 {
	if a.rows == 0 {
		return 0
	}
	n := float64(a.rows)
	x := (float64(a.misses) - n*a.options.Alpha) * math.Log(n) / (n * a.options.Saturation)
	if math.Abs(x) >= math.Pi/2 {
		return math.Copysign(math.Inf(1), x)
	}
	return a.options.Gain * math.Tan(x)
}

// reweight updates the weights of "dtaci" by the pinball losses of levels for the p-value p. The
// weights sum to 1, which keeps them from underflowing.
func (a *Adaptive) reweight(levels []float64, p float64) {
	alpha, k, memory := a.options.Alpha, float64(len(levels)), float64(a.options.Memory)
	sigma := 1 / (2 * memory)
	// The denominator is three times the mean squared loss of the level α for uniform p-values.
	eta := math.Sqrt(3 / memory * (math.Log(k*memory) + 2) / (math.Pow(1-alpha, 2)*math.Pow(alpha, 3) + math.Pow(alpha, 2)*math.Pow(1-alpha, 3)))
	losses := make([]float64, len(levels))
	for i, level := range levels {
		losses[i] = alpha*(p-level) - min(0, p-level)
	}
	total, smallest := 0., slices.Min(losses)
	for i, loss := range losses {
		a.weights[i] *= math.Exp(-eta * (loss - smallest)) // at least one factor is 1
		total += a.weights[i]
	}
	for i := range a.weights {
		a.weights[i] = (1-sigma)*a.weights[i]/total + sigma/k
	}
}

// pValue returns the p-value of a score among the calibration scores that the row had.
func (a *Adaptive) pValue(row outstandingRow, score float64) float64 {
	end := len(a.scores) - (a.added - row.added)
	start := 0
	if a.options.Window > 0 {
		start = max(0, end-a.options.Window)
	}
	atLeast := 0
	for _, s := range a.scores[start:end] {
		if s >= score {
			atLeast++
		}
	}
	return float64(1+atLeast) / float64(end-start+1)
}

// addScore moves the window by one score.
func (a *Adaptive) addScore(score float64) {
	if n := len(a.sorted); n == a.options.Window {
		oldest := sort.SearchFloat64s(a.sorted, a.scores[len(a.scores)-n])
		a.sorted = slices.Delete(a.sorted, oldest, oldest+1)
	}
	a.sorted = slices.Insert(a.sorted, sort.SearchFloat64s(a.sorted, score), score)
	a.scores = append(a.scores, score)
	a.added++
}

// forgetScores removes scores that no outstanding row needs. It looks at all outstanding rows
// only after as many new scores, so that its mean cost does not grow with their number.
func (a *Adaptive) forgetScores() {
	keep := len(a.sorted)
	if a.options.Method == dtaci {
		if a.added-a.checked < len(a.outstanding) {
			return
		}
		keep, a.checked = a.needed(), a.added
	}
	if surplus := len(a.scores) - keep; surplus > 0 {
		a.scores = slices.Delete(a.scores, 0, surplus)
	}
}

// needed returns the number of most recent scores that the window and the outstanding rows need.
// The method "dtaci" alone compares the score of a row with scores older than the window.
func (a *Adaptive) needed() int {
	keep := len(a.sorted)
	if a.options.Method == dtaci {
		for _, row := range a.outstanding {
			keep = max(keep, len(a.sorted)+a.added-row.added)
		}
	}
	return keep
}
