package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// SeriesOptions selects how rows with an order in time are evaluated.
type SeriesOptions struct {
	// Times holds the time of each row, in the order in which the rows are read. A time is a
	// number, or a date such as 2024-05-01 or 2024-05-01T13:30:00+02:00. Rows may come in any
	// order. Rows with equal times keep their order, and none of their targets is known before
	// all of them have intervals.
	Times []string
	// Delay is the number of later rows that get intervals before the target of a row is known.
	// 0 means that it is known at the next later time.
	Delay int
	// Window is the number of rows in a window, see Series.Window. 0 means the default.
	Window int
}

// Series holds the coverage of intervals along time: as they were calibrated, and adapted to
// earlier targets. Adaptive methods start with the calibration scores of the .attach file,
// without weights, and each group of calibration rows adapts on its own.
type Series struct {
	Target  int     `json:"target,omitempty"` // index of the target, counted from 0
	Rows    int     `json:"rows"`
	LeftOut int     `json:"left_out,omitempty"` // number of other rows, about which the interval model knows nothing
	Level   float64 `json:"level"`
	First   string  `json:"first"` // time of the first row
	Last    string  `json:"last"`
	// Window is the number of successive rows whose coverage is measured, and the number of
	// recent scores that calibrate "rolling", "aci" and "dtaci". In the default window, 20
	// targets are missed on average, so its coverage varies by chance by a fifth of 1−Level.
	// With few rows, the default is a quarter of the rows, but at least two misses.
	Window  int `json:"window"`
	Delay   int `json:"delay,omitempty"`
	Waiting int `json:"waiting"` // largest number of rows that wait for their targets at once
	// Methods holds the results of "fixed" (intervals as they were calibrated), "rolling"
	// (calibrated by the most recent scores), "aci", "dtaci" and "pid".
	Methods []SeriesMethod `json:"methods"`
	// Ends holds the numbers of rows in time, counted from 0, with which the windows of
	// SeriesMethod.Local end.
	Ends []int `json:"window_ends,omitempty"`
	// WorstByChance is a lower bound of the coverage of the worst window of "fixed": if the same
	// misses were at random times, the window would be below it with a probability of 1 %. A
	// coverage below it shows that misses cluster in time.
	WorstByChance *float64 `json:"worst_by_chance,omitempty"`
	// Monitors holds what drift monitors see on the same rows.
	Monitors []SeriesMonitor `json:"monitors,omitempty"`
}

// SeriesMonitor holds the result of a calibrate.Monitor on a series. Rows of a series often
// depend on each other, and a monitor then alarms more often than it guarantees.
type SeriesMonitor struct {
	// Kind is "errors" for the nonconformity scores of intervals, or "inputs" for OOD scores. With
	// groups or weights there is no monitor of errors, and without a detector none of inputs.
	Kind     string  `json:"kind"`
	Evidence float64 `json:"evidence"`        // the largest evidence
	Alarm    string  `json:"alarm,omitempty"` // time of the row at which the evidence reached 100, or empty
}

// SeriesMethod holds the results of one way to calibrate the intervals of a series.
type SeriesMethod struct {
	Name    string  `json:"name"`
	Problem string  `json:"problem,omitempty"` // why the method has no results, or empty
	Step    float64 `json:"step,omitempty"`    // step size of "aci"
	// Coverage is the fraction of rows that are covered. For every series, it differs from the
	// level by at most Bound, which is nil if there is no such guarantee. See calibrate.Adaptive.
	Coverage float64       `json:"coverage"`
	Bound    *float64      `json:"bound,omitempty"`
	Worst    *SeriesWindow `json:"worst_window,omitempty"`   // nil if there are fewer rows than Series.Window
	Local    []float64     `json:"local_coverage,omitempty"` // coverage of windows
	// Infinite and Empty are numbers of intervals. They cover as often as needed without being
	// useful.
	Infinite int `json:"infinite,omitempty"`
	Empty    int `json:"empty,omitempty"`
	// MeanWidth, MedianWidth and Winkler are about the finite intervals. Winkler is the mean
	// Winkler score: the width plus 2/(1−level) times the distance to a missed target. Lower is
	// better. An empty interval counts as one at the median. They are nil for joint boxes and
	// for intervals with one end.
	MeanWidth   *float64 `json:"mean_width,omitempty"`
	MedianWidth *float64 `json:"median_width,omitempty"`
	Winkler     *float64 `json:"winkler_score,omitempty"`
}

// SeriesWindow is a window of successive rows.
type SeriesWindow struct {
	Coverage float64 `json:"coverage"`
	First    string  `json:"first"` // time of its first row
	Last     string  `json:"last"`
}

const (
	// missesPerWindow is the expected number of misses in a window of the default length.
	missesPerWindow = 20
	// maxSeriesPoints is the largest number of points of SeriesMethod.Local.
	maxSeriesPoints = 200
	// randomOrders is the number of random orders that the worst window is compared with.
	randomOrders = 199
)

// seriesRows collects the rows of a series.
type seriesRows struct {
	options   SeriesOptions
	predictor *attach.Predictor // predicts the quantiles that intervals are made from
	times     []float64
	groups    []string
	scores    [][]float64    // for each target or joint box, the score of each row, or NaN if nothing is known
	ends      [][]seriesEnds // for each target
}

// seriesEnds holds the ends of an interval with margin 0, and how far a margin of 1 moves them.
type seriesEnds struct{ lower, upper, lowerUnit, upperUnit float64 }

// at returns the interval with a margin.
func (e seriesEnds) at(margin float64) (lower, upper float64) {
	if math.IsInf(margin, 0) {
		return -margin, margin
	}
	return e.lower - margin*e.lowerUnit, e.upper + margin*e.upperUnit
}

func newSeries(p *attach.Predictor, o SeriesOptions) (*seriesRows, error) {
	b := p.Bundle()
	switch {
	case len(b.Calibration.Quantiles) == 0:
		return nil, errors.New("a series needs prediction intervals, and the .attach file has none; they are fitted for a regressor with targets")
	case p.Options().Region == conformal.Ellipsoid:
		return nil, errors.New("ellipsoids do not adapt along time; choose boxes")
	case p.Options().IntervalScore == conformal.Ridge:
		return nil, errors.New("intervals with the score ridge do not adapt along time; choose the interval score cqr-r")
	case o.Window < 0 || o.Delay < 0:
		return nil, fmt.Errorf("a series has a window of %d rows and a delay of %d rows, and neither may be negative", o.Window, o.Delay)
	}
	if least := hypothesis.LeastRows(hypothesis.Forgive(1 - p.Options().Level)); o.Window > 0 && o.Window < least {
		return nil, fmt.Errorf("with a window of %s, every interval is infinite at level %v: choose at least %d", rows.Count(o.Window, "row"), p.Options().Level, least)
	}
	s := &seriesRows{options: o}
	var err error
	if s.times, err = parseTimes(o.Times); err != nil {
		return nil, err
	}
	options := p.Options()
	options.Levels, options.NoScore, options.MaxError, options.Samples, options.Explain = b.Calibration.Quantiles[0].Levels, true, 0, 0, false
	s.predictor, err = b.Predictor(options)
	return s, err
}

// add collects the scores and the ends of a block of rows.
func (s *seriesRows) add(ctx context.Context, r attach.Rows) error {
	n := r.Targets.Cols
	predictions, err := s.predictor.Predict(ctx, r)
	if err != nil || n == 0 {
		return err
	}
	if s.ends == nil {
		s.ends = make([][]seriesEnds, n)
	}
	quantiles, zeros, ones := make([][]float32, n), make([]float64, n), slices.Repeat([]float64{1}, n)
	lower, upper, lowerAt1, upperAt1 := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, p := range predictions {
		group := ""
		if r.Groups != nil {
			group = r.Groups[i]
		}
		s.groups = append(s.groups, group)
		for t, target := range p.Targets {
			quantiles[t] = dense.Single(target.Quantiles)
		}
		intervals := s.predictor.Intervals(group)
		scores := intervals.Scores(quantiles, rows.Row(r.Targets, i))
		for t, target := range p.Targets {
			if math.IsNaN(target.Median) { // the quantiles say nothing about the target
				scores[t*len(scores)/n] = math.NaN()
			}
		}
		if s.scores == nil {
			s.scores = make([][]float64, len(scores))
		}
		for b, score := range scores {
			s.scores[b] = append(s.scores[b], score)
		}
		intervals.PredictMargins(lower, upper, quantiles, zeros)
		intervals.PredictMargins(lowerAt1, upperAt1, quantiles, ones)
		for t := range n {
			s.ends[t] = append(s.ends[t], seriesEnds{lower[t], upper[t], lower[t] - lowerAt1[t], upperAt1[t] - upper[t]})
		}
	}
	return nil
}

// evaluations returns the results for each target, or for the joint box.
func (s *seriesRows) evaluations(ctx context.Context, g *accumulator) ([]Series, error) {
	if len(s.groups) != len(s.times) {
		return nil, fmt.Errorf("a series has %s for %s with targets", rows.Count(len(s.times), "time"), rows.Count(len(s.groups), "row"))
	}
	list := make([]Series, len(s.scores))
	for b := range list {
		var err error
		if list[b], err = s.evaluation(ctx, g, b); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// noteSeries adds a note for each target whose misses cluster in time.
func (e *Evaluation) noteSeries() {
	for _, s := range e.Series {
		fixed := s.Methods[0]
		if s.WorstByChance == nil || fixed.Worst.Coverage >= *s.WorstByChance {
			continue
		}
		subject := "the coverage"
		if len(e.Series) > 1 {
			subject += " of " + cmp.Or(e.Targets[s.Target].Name, fmt.Sprintf("target %d", s.Target))
		}
		message := fmt.Sprintf("%s changes along time: %s of %s are covered from %s to %s, but %s or more if the misses were at random times",
			subject, display.Percent(fixed.Worst.Coverage), rows.Count(s.Window, "row"), fixed.Worst.First, fixed.Worst.Last, display.Percent(*s.WorstByChance))
		adapted := s.Methods[1:]
		best := slices.MaxFunc(adapted, func(a, b SeriesMethod) int { return cmp.Compare(a.worst(), b.worst()) })
		advice := "fit and calibrate with recent rows"
		if best.worst() > fixed.worst() {
			advice += fmt.Sprintf(", or adapt intervals to earlier targets (%s: %s in the worst window)", best.Name, display.Percent(best.worst()))
		}
		e.Notes = append(e.Notes, Note{Message: message, Advice: advice, Part: "window"})
		e.explain(func(p Guarantee) bool {
			return p.Kind == hypothesis.JointCoverage || p.Kind == hypothesis.IntervalCoverage && p.Target == s.Target
		})
	}
}

// worst returns the coverage of the worst window, or −1 if there is none.
func (m SeriesMethod) worst() float64 {
	if m.Worst == nil {
		return -1
	}
	return m.Worst.Coverage
}

// evaluation returns the results for target or joint box b.
func (s *seriesRows) evaluation(ctx context.Context, g *accumulator, b int) (Series, error) {
	o := g.predictors[g.mainLevel].Options()
	alpha := hypothesis.Forgive(1 - o.Level)
	e := Series{Target: b, Level: o.Level, Delay: s.options.Delay, Window: s.options.Window}
	var order []int // numbers of the rows with a score, in the order of time
	for i, score := range s.scores[b] {
		if !math.IsNaN(score) {
			order = append(order, i)
		}
	}
	e.Rows, e.LeftOut = len(order), len(s.times)-len(order)
	if e.Rows == 0 {
		return e, errors.New("the interval model knows nothing about any row of the series")
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(s.times[i], s.times[j]) })
	times := rows.Pick(s.options.Times, order)
	e.First, e.Last = times[0], times[len(times)-1]
	if e.Window == 0 {
		e.Window = max(int(math.Ceil(2/alpha-1e-9)), min(int(math.Round(missesPerWindow/alpha)), e.Rows/4))
	}
	if points := e.Rows - e.Window + 1; points > 0 {
		for k := range min(points, maxSeriesPoints) {
			e.Ends = append(e.Ends, e.Rows-1-k*points/min(points, maxSeriesPoints))
		}
		slices.Reverse(e.Ends)
	}
	known := s.knownRows(order)
	if known[len(known)-1] == 0 {
		return e, fmt.Errorf("no target of the %s is known before the last of them: the times are equal, or the delay of %s is too long", rows.Count(e.Rows, "row"), rows.Count(e.Delay, "row"))
	}
	for k := range order {
		e.Waiting = max(e.Waiting, k+1-known[k])
	}
	fixed := seriesPath{alpha: alpha}
	for _, i := range order {
		t := &g.targets[b]
		if o.Joint {
			fixed.addBox(g.joint[g.mainLevel].covered[i], t.upper[i])
			continue
		}
		fixed.add(t.levels[g.mainLevel].covered[i], t.lower[i], t.upper[i], t.median[i], t.truth[i])
	}
	e.Methods = []SeriesMethod{fixed.method("fixed", &e, times, o)}
	if err := ctx.Err(); err != nil {
		return e, err
	}
	e.WorstByChance = fixed.worstByChance(e.Window, o.Seed)
	bundle := g.bundle
	if bundle.Calibration.Groups == nil && !g.weighted() {
		e.addMonitor("errors", s.predictor.Intervals("").CalibrationScores()[b], s.scores[b], order, times, o.Seed)
	}
	if bundle.Detector != nil {
		e.addMonitor("inputs", bundle.Calibration.OOD, g.scores, order, times, o.Seed)
	}
	// Waiting rows need a small step: see the last paragraph of calibrate.Adaptive.
	step := min(.005, alpha/float64(2*e.Waiting))
	const saturation = .5
	for _, m := range []struct {
		name string
		calibrate.AdaptiveOptions
		// bound returns the largest possible |misses − αn| of n rows, of which at most m wait.
		bound func(n, m float64) float64
	}{
		// A step this small never moves the level, so only the window adapts.
		{"rolling", calibrate.AdaptiveOptions{Steps: []float64{math.SmallestNonzeroFloat64}, Window: e.Window}, nil},
		{"aci", calibrate.AdaptiveOptions{Steps: []float64{step}, Window: e.Window}, func(n, m float64) float64 {
			return (max(alpha, 1-alpha) + m*step) / step
		}},
		{"dtaci", calibrate.AdaptiveOptions{Method: "dtaci", Window: e.Window}, nil},
		{"pid", calibrate.AdaptiveOptions{Method: "pid", Saturation: saturation}, func(n, m float64) float64 {
			if n < 4 {
				return n
			}
			return math.Pi/2*saturation*n/math.Log(n) + m + 1
		}},
	} {
		m.Alpha = alpha
		margins, groups, err := s.replay(ctx, b, order, known, m.AdaptiveOptions)
		if ctx.Err() != nil {
			return e, ctx.Err()
		}
		if err != nil {
			e.Methods = append(e.Methods, SeriesMethod{Name: m.name, Problem: err.Error()})
			continue
		}
		path := seriesPath{alpha: alpha}
		for k, i := range order {
			covered := s.scores[b][i] <= margins[k] && !math.IsInf(margins[k], -1)
			if o.Joint {
				path.addBox(covered, margins[k])
				continue
			}
			lower, upper := s.ends[b][i].at(margins[k])
			path.add(covered, lower, upper, g.targets[b].median[i], g.targets[b].truth[i])
		}
		method := path.method(m.name, &e, times, o)
		if m.name == "aci" {
			method.Step = step
		}
		if m.bound != nil {
			sum := 0.
			for _, group := range groups {
				if n := float64(group.rows); group.Adaptive == nil {
					sum += alpha * n
				} else {
					sum += min(n, m.bound(n, float64(group.maxWaiting)))
				}
			}
			method.Bound = new(sum / float64(e.Rows))
		}
		e.Methods = append(e.Methods, method)
	}
	return e, nil
}

// addMonitor adds the result of a monitor of the scores of rows in order. It does nothing if
// calibration scores are missing or NaN.
func (e *Series) addMonitor(kind string, calibration, scores []float64, order []int, times []string, seed uint64) {
	const delta = .01 // an alarm needs evidence of 1/delta
	monitor, err := calibrate.NewMonitor(calibration, seed)
	if err != nil {
		return
	}
	result := SeriesMonitor{Kind: kind}
	for k, i := range order {
		if monitor.Add(scores[i]) != nil {
			return
		}
		result.Evidence = max(result.Evidence, monitor.Evidence())
		if result.Alarm == "" && monitor.Alarm(delta) {
			result.Alarm = times[k]
		}
	}
	e.Monitors = append(e.Monitors, result)
}

// knownRows returns, for each row in order, the number of rows before it whose target is known
// when the row gets its interval.
func (s *seriesRows) knownRows(order []int) []int {
	counts, known := make([]int, len(order)), 0
	for k, i := range order {
		for known < k-s.options.Delay && s.times[order[known]] < s.times[i] {
			known++
		}
		counts[k] = known
	}
	return counts
}

// seriesGroup adapts the intervals of one group of rows.
type seriesGroup struct {
	*calibrate.Adaptive // nil for a group without calibration rows, whose intervals are infinite
	rows                int
	waiting, maxWaiting int // rows that wait for their targets
}

// replay gives each row in order its margin, and takes the score of each row as feedback when
// its target is known.
func (s *seriesRows) replay(ctx context.Context, b int, order, known []int, o calibrate.AdaptiveOptions) (margins []float64, groups map[string]*seriesGroup, err error) {
	groups = map[string]*seriesGroup{}
	done := 0 // rows that had feedback
	learn := func(known int) error {
		for ; done < known; done++ {
			i := order[done]
			g := groups[s.groups[i]]
			g.waiting--
			if g.Adaptive == nil {
				continue
			}
			if _, err := g.Feedback(strconv.Itoa(i), s.scores[b][i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	for k, i := range order {
		if err := learn(known[k]); err != nil {
			return nil, nil, err
		}
		g := groups[s.groups[i]]
		if g == nil {
			g = &seriesGroup{}
			groups[s.groups[i]] = g
			if scores := s.predictor.Intervals(s.groups[i]).CalibrationScores()[b]; len(scores) > 0 {
				if g.Adaptive, err = calibrate.NewAdaptive(scores, o); err != nil {
					return nil, nil, err
				}
			}
		}
		g.rows++
		g.waiting++
		g.maxWaiting = max(g.maxWaiting, g.waiting)
		margin := math.Inf(1)
		if g.Adaptive != nil {
			if _, margin, err = g.Next(strconv.Itoa(i)); err != nil {
				return nil, nil, err
			}
		}
		margins = append(margins, margin)
	}
	return margins, groups, learn(len(order))
}

// seriesPath holds the intervals of one method in the order of time.
type seriesPath struct {
	alpha           float64
	covered         []bool
	widths          []float64 // widths of the finite intervals
	winkler         float64   // sum of their Winkler scores
	infinite, empty int
}

// add adds an interval.
func (p *seriesPath) add(covered bool, lower, upper, median, truth float64) {
	p.covered = append(p.covered, covered)
	switch {
	case lower > upper:
		p.empty++
		lower, upper = median, median
	case math.IsInf(lower, -1) && math.IsInf(upper, 1):
		p.infinite++
		return
	}
	p.widths = append(p.widths, upper-lower)
	p.winkler += upper - lower + 2/p.alpha*max(lower-truth, truth-upper, 0)
}

// addBox adds a joint box, which is infinite or empty if margin is infinite.
func (p *seriesPath) addBox(covered bool, margin float64) {
	p.covered = append(p.covered, covered)
	if math.IsInf(margin, 1) {
		p.infinite++
	} else if math.IsInf(margin, -1) {
		p.empty++
	}
}

// method returns the results of the method with this path.
func (p *seriesPath) method(name string, e *Series, times []string, o attach.PredictOptions) SeriesMethod {
	m := SeriesMethod{Name: name, Infinite: p.infinite, Empty: p.empty}
	prefix := make([]int, len(p.covered)+1) // prefix[k] is the number of the first k rows that are covered
	for k, covered := range p.covered {
		prefix[k+1] = prefix[k]
		if covered {
			prefix[k+1]++
		}
	}
	n, w := len(p.covered), e.Window
	m.Coverage = float64(prefix[n]) / float64(n)
	worst := -1
	for k := w; k <= n; k++ {
		if worst < 0 || prefix[k]-prefix[k-w] < prefix[worst]-prefix[worst-w] {
			worst = k
		}
	}
	if worst >= 0 {
		m.Worst = &SeriesWindow{float64(prefix[worst]-prefix[worst-w]) / float64(w), times[worst-w], times[worst-1]}
	}
	for _, k := range e.Ends {
		m.Local = append(m.Local, float64(prefix[k+1]-prefix[k+1-w])/float64(w))
	}
	if k := len(p.widths); k > 0 && o.Side == "" {
		slices.Sort(p.widths)
		sum := 0.
		for _, width := range p.widths {
			sum += width
		}
		m.MeanWidth, m.MedianWidth, m.Winkler = new(sum/float64(k)), new((p.widths[(k-1)/2]+p.widths[k/2])/2), new(p.winkler/float64(k))
	}
	return m
}

// worstByChance puts the misses at random times, and returns the 1 % quantile of the coverage
// of the worst window. It returns nil if there are too few rows or no misses.
func (p *seriesPath) worstByChance(window int, seed uint64) *float64 {
	n, misses := len(p.covered), 0
	for _, covered := range p.covered {
		if !covered {
			misses++
		}
	}
	if n < window || misses == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x5e71e5))
	most := make([]int, randomOrders) // the largest number of misses in a window, for each order
	places := make([]int, 0, misses)
	for d := range most {
		places = places[:0]
		first := 0 // index of the first place in the window
		for k := 0; len(places) < misses; k++ {
			if rng.IntN(n-k) >= misses-len(places) {
				continue
			}
			places = append(places, k)
			for k-places[first] >= window {
				first++
			}
			most[d] = max(most[d], len(places)-first)
		}
	}
	slices.Sort(most)
	// Of 200 equally likely orders, the observed one and 199 others, two are at least as bad.
	return new(1 - float64(most[randomOrders-2])/float64(window))
}
