package serve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// Adaptation adapts the prediction intervals of a served regressor to the true targets of
// earlier rows, or the prediction sets of a classifier to their labels: see Options.Adapt. It
// remembers the rows of each request that has an id until their targets come, in any order. Each
// target of a regressor adapts on its own. An Adaptation is safe for concurrent use.
//
// Intervals have the nonconformity score of the file (attach.Calibration.IntervalScore). Intervals
// and sets have the threshold that calibrate.Adaptive returns when the model has run.
// All rows of a request have the same threshold. A request without an id gets it too, but its
// rows do not wait for targets. A row also does not count if nothing is known about its target,
// so that its interval is infinite in any case.
//
// The score of a class is its negative p-value, as PredictOptions.ClassPValues defines it for the
// score "lac". The predicted class is added to a set that would be empty. This can only increase
// coverage, and the threshold still counts as missed.
type Adaptation struct {
	options     calibrate.AdaptiveOptions
	model       string              // SHA-256 of the ONNX model
	calibration string              // SHA-256 of the calibration scores
	classes     int                 // number of classes, or 0 for a regressor
	levels      []float64           // quantile levels that intervals are made from
	intervals   calibrate.Intervals // made from quantiles at the levels
	width       int                 // number of values that a row must remember for each target
	maxRows     int
	timeout     time.Duration // 0 for none
	log         *slog.Logger
	lag         prometheus.Observer

	mu       sync.Mutex
	adaptive []*calibrate.Adaptive // one for each target
	monitors []*calibrate.Monitor  // compares scores with those of the calibration rows; one for each target
	pending  map[string]*pendingRequest
	queue    []*pendingRequest // in the order of their rows; also requests whose targets have all come
	nextRow  uint64            // number of the next row that waits
	waiting  int               // number of rows that wait
	dropped  int               // number of rows whose targets came too late or never
	rows     []int             // rows with feedback, for each target
	missed   []int             // rows with feedback that their intervals missed, for each target
	warned   bool              // whether the log says that the step is too large
}

// pendingRequest is a request whose rows wait for their targets.
type pendingRequest struct {
	id      string
	first   uint64 // number of its first row
	since   time.Time
	rows    int
	waiting int    // number of rows that wait
	done    []bool // for each row, whether it waits no longer; nil if all rows wait
	// values holds the quantiles of each row and target at Adaptation.levels, which are NaN if
	// nothing is known. For classifiers, it holds the predicted class and the p-values of all
	// classes for each row.
	values []float32
}

// maxIDBytes limits the length of the id of a request that waits for targets.
const maxIDBytes = 256

// windowScores is the default number of scores of the window that are expected to exceed the
// threshold. Fewer make thresholds depend on chance, and more make them slow.
const windowScores = 20

// newAdaptation returns the Adaptation of a .attach file, or nil if Options.Adapt is nil.
func (s *Server) newAdaptation(e *entry, b *attach.Bundle) (*Adaptation, error) {
	if s.opts.Adapt == nil {
		return nil, nil
	}
	c, o := b.Calibration, *s.opts.Adapt
	switch {
	case len(c.Quantiles) == 0 && (len(c.TrueClasses.Labels) == 0 || b.Base.Sigmoid):
		return nil, errors.New("only intervals of a regressor and prediction sets of a softmax classifier can adapt, and the file has neither: serve it by a server that does not adapt them")
	case c.Groups != nil:
		return nil, errors.New("the intervals are calibrated by group, and adaptive intervals cannot be: fit without groups")
	case c.Weights != nil:
		return nil, errors.New("the calibration rows have weights, and adaptive intervals cannot use them: fit without target rows")
	case c.IntervalScore == conformal.Ridge:
		return nil, errors.New("intervals with the score ridge cannot adapt: fit with the interval score cqr-r")
	case o.Alpha != 0:
		return nil, fmt.Errorf("AdaptiveOptions.Alpha is %v, but the level of the file determines it: leave it 0", o.Alpha)
	}
	o.Alpha = 1 - c.Level
	if o.Window == 0 && o.Method != "pid" {
		o.Window = int(math.Ceil(windowScores/o.Alpha - 1e-9))
	}
	if o.Window > 0 && o.Alpha*float64(o.Window+1) < 1-1e-9 {
		return nil, fmt.Errorf("with the level %v, intervals from a window of %d scores are infinite: it needs at least %d", c.Level, o.Window, int(math.Ceil(1/o.Alpha-1-1e-9)))
	}
	a := &Adaptation{
		options: o, model: b.Base.SHA256, maxRows: s.opts.MaxPending, timeout: s.opts.PendingTimeout,
		log: s.opts.Log.With("model", e.name, "version", e.version), lag: s.metrics.lag.WithLabelValues(e.name, e.version), pending: map[string]*pendingRequest{},
	}
	var scores [][]float64
	var err error
	if len(c.Quantiles) > 0 {
		scores, err = a.useIntervals(c.Quantiles, c.IntervalScore)
	} else {
		scores, err = a.useSets(c.TrueClasses, b.Base.Outputs)
	}
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for _, list := range scores {
		fmt.Fprintln(hash, list)
		adaptive, err := calibrate.NewAdaptive(list, o)
		if err != nil {
			return nil, fmt.Errorf("adaptive intervals or sets: %w", err)
		}
		monitor, err := calibrate.NewMonitor(list, rand.Uint64())
		if err != nil {
			return nil, err
		}
		a.adaptive, a.monitors = append(a.adaptive, adaptive), append(a.monitors, monitor)
	}
	a.rows, a.missed = make([]int, len(scores)), make([]int, len(scores))
	a.calibration = hex.EncodeToString(hash.Sum(nil))
	return a, nil
}

// useIntervals prepares intervals with a nonconformity score, and returns the scores of the
// calibration rows for each target.
func (a *Adaptation) useIntervals(quantiles []calibrate.QuantileCalibration, score string) (scores [][]float64, err error) {
	alpha := a.options.Alpha
	wanted := []float64{alpha / 2, 1 - alpha/2}
	switch score {
	case conformal.CQRM:
		wanted = append(wanted, .5)
	case conformal.CIR, conformal.RCP:
		wanted = quantiles[0].Levels
	}
	targets := make([]calibrate.QuantileCalibration, len(quantiles))
	for t, q := range quantiles {
		targets[t] = selectLevels(q, wanted...)
	}
	if a.intervals, err = calibrate.NewIntervals(targets, calibrate.IntervalOptions{Score: score}, alpha); err != nil {
		return nil, err
	}
	scores = a.intervals.CalibrationScores()
	for t := range scores {
		scores[t] = slices.DeleteFunc(scores[t], math.IsNaN) // nothing is known about these rows, which do not count
	}
	a.levels, a.width = targets[0].Levels, len(targets[0].Levels)
	return scores, nil
}

// useSets prepares prediction sets, and returns the scores of the calibration rows.
func (a *Adaptation) useSets(c calibrate.ClassCalibration, classes int) (scores [][]float64, err error) {
	lac := c.Scores(calibrate.SetOptions{})
	sorted, err := calibrate.NewConformal(lac)
	if err != nil {
		return nil, err
	}
	// A p-value counts the row itself as one of n + 1. Calibration rows count half of it, so that
	// their p-values have the same order among those of new rows as the scores.
	half := 0.5 / float64(len(lac)+1)
	for i, score := range lac {
		lac[i] = -float64(float32(sorted.PValue(score) - half))
	}
	a.classes, a.width = classes, 1+classes
	return [][]float64{lac}, nil
}

// selectLevels returns a calibration with only those levels that quantiles at the given levels are
// interpolated from. It keeps what each waiting row must remember small.
func selectLevels(q calibrate.QuantileCalibration, wanted ...float64) (selected calibrate.QuantileCalibration) {
	var columns []int
	for _, level := range wanted {
		above, _ := slices.BinarySearch(q.Levels, level)
		columns = append(columns, max(0, above-1), min(above, len(q.Levels)-1))
	}
	slices.Sort(columns)
	columns = slices.Compact(columns)
	for _, k := range columns {
		selected.Levels = append(selected.Levels, q.Levels[k])
	}
	for i := range q.Y {
		for _, k := range columns {
			selected.Grid = append(selected.Grid, q.Grid[i*len(q.Levels)+k])
		}
	}
	selected.Y = q.Y
	return selected
}

// sameAs reports whether the rows of both can be compared, so that one can continue the other.
func (a *Adaptation) sameAs(b *Adaptation) bool {
	return a.model == b.model && a.calibration == b.calibration && a.sameOptions(b.options)
}

func (a *Adaptation) sameOptions(o calibrate.AdaptiveOptions) bool {
	p := a.options
	return p.Alpha == o.Alpha && cmp.Or(p.Method, "aci") == cmp.Or(o.Method, "aci") && slices.Equal(p.Steps, o.Steps) && p.Window == o.Window &&
		p.Memory == o.Memory && p.Gain == o.Gain && p.Saturation == o.Saturation
}

// check returns an error if a request cannot get adaptive intervals, before the model runs.
func (a *Adaptation) check(r *request, rows int) error {
	if r.level != 0 && math.Abs(r.level-(1-a.options.Alpha)) > 1e-9 {
		return badRequestf("the parameter level is %v, but adaptive intervals have the level of the server, %.6g: leave it out", r.level, 1-a.options.Alpha)
	}
	if a.classes > 0 && (r.sets != "" && r.sets != conformal.LAC && r.sets != noSets || r.setsByClass || r.setsByCluster) {
		return badRequestf("adaptive prediction sets have the score %s for all classes: leave the parameters of sets out", conformal.LAC)
	}
	if r.id == "" {
		return nil
	}
	if len(r.id) > maxIDBytes {
		return badRequestf("the id has %d bytes, but only up to %d bytes are remembered until targets come", len(r.id), maxIDBytes)
	}
	if rows > a.maxRows {
		return statusErrorf(http.StatusRequestEntityTooLarge, "the request has %d rows, but at most %d rows may wait for targets: send fewer rows, or no id", rows, a.maxRows)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checkUnused(r.id)
}

// checkUnused returns an error if a request with the same id waits for targets.
func (a *Adaptation) checkUnused(id string) error {
	if _, used := a.pending[id]; used {
		return statusErrorf(http.StatusConflict, "the id %.100q already waits for targets: give each request its own id, or cancel the earlier one", id)
	}
	return nil
}

// predictOptions adds to the options of a predictor what next needs.
func (a *Adaptation) predictOptions(o attach.PredictOptions) attach.PredictOptions {
	if a.classes > 0 {
		o.Sets, o.ClassPValues = conformal.LAC, true
		return o
	}
	o.Levels = append(slices.Clone(a.levels), o.Levels...)
	return o
}

// next replaces the intervals or sets of a request's rows by adaptive ones. With an id, the rows
// then wait for their targets. It returns the level and the threshold of each target.
func (a *Adaptation) next(id string, predictions []attach.Prediction) (levels, thresholds []float64, err error) {
	if a.classes > 0 {
		return a.nextSets(id, predictions)
	}
	targets := len(a.adaptive)
	quantiles := make([]float32, 0, len(predictions)*targets*a.width)
	for i := range predictions {
		for t := range predictions[i].Targets {
			target := &predictions[i].Targets[t]
			for _, v := range target.Quantiles[:a.width] {
				if math.IsNaN(target.Median) {
					v = math.NaN()
				}
				quantiles = append(quantiles, float32(v))
			}
			target.Quantiles = target.Quantiles[a.width:]
		}
	}
	if levels, thresholds, err = a.remember(id, quantiles, len(predictions)); err != nil {
		return nil, nil, err
	}
	bands := make([][]float32, targets)
	lower, upper := make([]float64, targets), make([]float64, targets)
	for i := range predictions {
		a.intervals.PredictMargins(lower, upper, a.bands(bands, quantiles, i), thresholds)
		for t := range predictions[i].Targets {
			target := &predictions[i].Targets[t]
			if math.IsNaN(target.Median) {
				lower[t], upper[t] = math.Inf(-1), math.Inf(1)
			}
			target.Lower, target.Upper = lower[t], upper[t]
		}
	}
	return levels, thresholds, nil
}

// nextSets does for sets what next does for intervals.
func (a *Adaptation) nextSets(id string, predictions []attach.Prediction) (levels, thresholds []float64, err error) {
	values := make([]float32, 0, len(predictions)*a.width)
	for i := range predictions {
		values = append(values, float32(predictions[i].Class))
		for _, p := range predictions[i].ClassPValues {
			values = append(values, float32(p))
		}
	}
	if levels, thresholds, err = a.remember(id, values, len(predictions)); err != nil {
		return nil, nil, err
	}
	for i := range predictions {
		p := &predictions[i]
		p.Set, p.ClassPValues = p.Set[:0], nil
		for class, pValue := range values[i*a.width+1 : (i+1)*a.width] {
			if -float64(pValue) <= thresholds[0] {
				p.Set = append(p.Set, class)
			}
		}
		if len(p.Set) == 0 {
			p.Set = append(p.Set, p.Class)
		}
	}
	return levels, thresholds, nil
}

// bands sets each element to the quantiles of a row for one target.
func (a *Adaptation) bands(bands [][]float32, quantiles []float32, row int) [][]float32 {
	for t := range bands {
		begin := (row*len(bands) + t) * a.width
		bands[t] = quantiles[begin : begin+a.width]
	}
	return bands
}

// scores returns the score of each target of a row.
func (a *Adaptation) scores(p *pendingRequest, row int, targets []float32) []float64 {
	if a.classes > 0 {
		return []float64{-float64(p.values[row*a.width+1+int(targets[0])])}
	}
	return a.intervals.Scores(a.bands(make([][]float32, len(targets)), p.values, row), targets)
}

// remember returns the level and the threshold of each target. With an id, it lets rows wait for
// their targets.
func (a *Adaptation) remember(id string, values []float32, rows int) (levels, thresholds []float64, err error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(now, rows)
	if err := a.checkUnused(id); err != nil {
		return nil, nil, err
	}
	for _, adaptive := range a.adaptive {
		const key = "?" // no row has this key, because keys are numbers
		level, threshold, err := adaptive.Next(key)
		if err == nil {
			err = adaptive.Cancel(key)
		}
		if err != nil {
			return nil, nil, err
		}
		levels, thresholds = append(levels, level), append(thresholds, threshold)
	}
	if id == "" {
		return levels, thresholds, nil
	}
	p := &pendingRequest{id: strings.Clone(id), first: a.nextRow, since: now, rows: rows, waiting: rows, values: values}
	for row := range rows {
		for t, adaptive := range a.adaptive {
			if a.isKnown(p, row, t) {
				if _, _, err := adaptive.Next(p.key(row)); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	a.nextRow += uint64(rows)
	a.waiting += rows
	a.pending[p.id] = p
	a.queue = append(a.queue, p)
	a.warnOfStep()
	return levels, thresholds, nil
}

// warnOfStep logs a warning once if misses of all waiting rows would make the intervals of "aci"
// infinite.
func (a *Adaptation) warnOfStep() {
	step := 0.005 // default of NewAdaptive
	if len(a.options.Steps) > 0 {
		step = a.options.Steps[0]
	}
	if a.warned || cmp.Or(a.options.Method, "aci") != "aci" || float64(a.waiting)*step <= a.options.Alpha {
		return
	}
	a.warned = true
	a.log.Warn("the step of adaptive intervals is large for so many rows that wait for targets, so intervals can become infinite",
		"step", step, "waiting", a.waiting, "recommended_step", a.options.Alpha/float64(2*a.waiting))
}

// isKnown reports whether anything is known about a target of a row.
func (a *Adaptation) isKnown(p *pendingRequest, row, target int) bool {
	v := p.values[(row*len(a.adaptive)+target)*a.width]
	return v == v
}

// key returns the name of a row for its calibrate.Adaptive.
func (p *pendingRequest) key(row int) string { return strconv.FormatUint(p.first+uint64(row), 10) }

// drop forgets requests that have waited for too long, or that must make room for new rows.
func (a *Adaptation) drop(now time.Time, rows int) {
	for len(a.queue) > 0 {
		p := a.queue[0]
		old := a.timeout > 0 && now.Sub(p.since) > a.timeout
		if p.waiting > 0 && !old && a.nextRow+uint64(rows)-p.first <= uint64(a.maxRows) {
			return
		}
		a.dropped += p.waiting
		for _, row := range p.waitingRows() {
			a.forget(p, row)
		}
		a.queue[0], a.queue = nil, a.queue[1:]
	}
}

// forget ends the wait of a row without a target.
func (a *Adaptation) forget(p *pendingRequest, row int) {
	for t, adaptive := range a.adaptive {
		if a.isKnown(p, row, t) {
			adaptive.Cancel(p.key(row)) // the row is outstanding, so this cannot fail
		}
	}
	a.finish(p, row)
}

// finish ends the wait of a row.
func (a *Adaptation) finish(p *pendingRequest, row int) {
	p.waiting--
	a.waiting--
	if p.waiting == 0 {
		delete(a.pending, p.id)
		p.id, p.values, p.done = "", nil, nil // p can stay in the queue
		return
	}
	if p.done == nil {
		p.done = make([]bool, p.rows)
	}
	p.done[row] = true
}

// waits reports whether a row waits for its targets.
func (p *pendingRequest) waits(row int) bool { return p.waiting > 0 && (p.done == nil || !p.done[row]) }

// waitingRows returns the numbers of the rows that wait.
func (p *pendingRequest) waitingRows() (rows []int) {
	for row := range p.rows {
		if p.waits(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// Feedback takes the true targets of rows, or their classes, and reports for each of them whether
// the interval or the set that the client got covers it. id is the id of the request, and rows are
// the numbers of rows in the request, counted from 0. If rows is nil, all rows of the request are
// meant. targets has one value for each of these rows and each target, row by row. If Feedback
// returns an error, all rows still wait.
//
// It returns an error if the id or a row does not wait, for example because its targets have
// come, because it has waited for too long, or because another process gave the interval.
func (a *Adaptation) Feedback(id string, rows []int, targets []float32) (covered []bool, err error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	p, rows, err := a.find(now, id, rows)
	if err != nil {
		return nil, err
	}
	n := len(a.adaptive)
	if len(targets) != len(rows)*n {
		return nil, badRequestf("there are %d targets for %d rows, but each row has %d", len(targets), len(rows), n)
	}
	for i, y := range targets {
		if y-y != 0 {
			return nil, badRequestf("the target of row %d (counted from 0) is %v: it must be a finite number; cancel rows whose targets are not known", rows[i/n], y)
		}
		if class := int(y); a.classes > 0 && (float32(class) != y || class < 0 || class >= a.classes) {
			return nil, badRequestf("the label of row %d (counted from 0) is %v: it must be the index of one of %d classes", rows[i], y, a.classes)
		}
	}
	covered = make([]bool, len(targets))
	for i, row := range rows {
		for t, score := range a.scores(p, row, targets[i*n:(i+1)*n]) {
			if !a.isKnown(p, row, t) {
				covered[i*n+t] = true
				continue
			}
			if covered[i*n+t], err = a.adaptive[t].Feedback(p.key(row), score); err != nil {
				return nil, err
			}
			if a.classes > 0 && p.values[row*a.width] == targets[i] {
				covered[i] = true // the predicted class is in every set
			}
			a.monitors[t].Add(score)
			a.rows[t]++
			if !covered[i*n+t] {
				a.missed[t]++
			}
		}
		a.lag.Observe(now.Sub(p.since).Seconds())
		a.finish(p, row)
	}
	return covered, nil
}

// Cancel ends the wait of rows whose targets will never be known. If rows is nil, it cancels all
// rows of the request that wait.
func (a *Adaptation) Cancel(id string, rows []int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pending[id]; p != nil && rows == nil {
		rows = p.waitingRows()
	}
	p, rows, err := a.find(time.Now(), id, rows)
	if err != nil {
		return err
	}
	for _, row := range rows {
		a.forget(p, row)
	}
	return nil
}

// find returns a request that waits, and the numbers of the given rows. It returns an error if
// one of them does not wait.
func (a *Adaptation) find(now time.Time, id string, rows []int) (*pendingRequest, []int, error) {
	a.drop(now, 0)
	if id == "" {
		return nil, nil, badRequestf("the id is missing: it must be the id of the request for predictions")
	}
	p := a.pending[id]
	if p == nil {
		return nil, nil, statusErrorf(http.StatusNotFound, "no request with the id %.100q waits for targets: it is not known to this server, its targets have come, or it was dropped (%s)", id, a.limits())
	}
	if rows == nil {
		rows = make([]int, p.rows)
		for row := range rows {
			rows[row] = row
		}
	}
	seen := make(map[int]bool, len(rows))
	for _, row := range rows {
		switch {
		case row < 0 || row >= p.rows:
			return nil, nil, badRequestf("there is no row %d: the request %.100q has %d rows, counted from 0", row, id, p.rows)
		case seen[row]:
			return nil, nil, badRequestf("row %d is given twice", row)
		case !p.waits(row):
			return nil, nil, statusErrorf(http.StatusConflict, "row %d of the request %.100q no longer waits: its target has come or it was cancelled", row, id)
		}
		seen[row] = true
	}
	return p, rows, nil
}

// limits describes how long rows wait.
func (a *Adaptation) limits() string {
	text := fmt.Sprintf("only the last %d rows wait", a.maxRows)
	if a.timeout > 0 {
		text += fmt.Sprintf(", for at most %v", a.timeout)
	}
	return text
}

// adaptationStatus is the status of an Adaptation for metrics.
type adaptationStatus struct {
	waiting, dropped   int
	rows, missed       []int
	levels, thresholds []float64
	monitors           []*calibrate.Monitor
}

func (a *Adaptation) status() (s adaptationStatus) {
	s.levels, s.thresholds, _ = a.remember("", nil, 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	s.waiting, s.dropped, s.monitors = a.waiting, a.dropped, a.monitors
	s.rows, s.missed = slices.Clone(a.rows), slices.Clone(a.missed)
	return s
}

// coverageLevel returns the coverage level 1−level of a level of miscoverage. It is 1 for infinite
// intervals and 0 for empty ones. Otherwise, "pid" has no level.
func coverageLevel(level, threshold float64) (coverage float64, ok bool) {
	switch {
	case math.IsInf(threshold, 1):
		return 1, true
	case math.IsInf(threshold, -1):
		return 0, true
	}
	return math.Round((1-level)*1e12) / 1e12, !math.IsNaN(level)
}
