package evaluate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/ood"
)

// seriesOf returns rows of a regressor whose noise becomes three times as large after row
// change, and times that increase.
func seriesOf(n, change int) (ood.Batch, blas32.General, []string) {
	in := regressor(5, n, 1)
	times := make([]string, n)
	for i := range n {
		times[i] = fmt.Sprint(i - 20)
		if x := in.Batch.Features.Data[4*i]; i >= change {
			in.Targets.Data[i] = x + 3*(in.Targets.Data[i]-x)
		}
	}
	return in.Batch, in.Targets, times
}

func seriesBundle(t *testing.T) *attach.Bundle {
	in, cal := regressor(1, 300, 1), regressor(2, 500, 1)
	in.Cal, in.CalTargets = cal.Batch, cal.Targets
	return mustFit(t, in)
}

func mustEvaluateSeries(t *testing.T, b *attach.Bundle, x ood.Batch, y blas32.General, p attach.PredictOptions, o evaluate.SeriesOptions) *evaluate.Evaluation {
	t.Helper()
	return mustEvaluate(t, b, blocksOf(x, y, nil), p, evaluate.Options{Series: &o})
}

// TestSeries compares the results of each method with those of a loop over all rows, as in the
// guide. It checks that they do not depend on the order of the rows.
func TestSeries(t *testing.T) {
	const n, change, window, level = 1200, 700, 100, .9
	b := seriesBundle(t)
	x, y, times := seriesOf(n, change)
	o := evaluate.SeriesOptions{Times: times, Window: window}
	e := mustEvaluateSeries(t, b, x, y, attach.PredictOptions{Level: level}, o)
	s := e.Series[0]
	if s.Rows != n || s.First != "-20" || s.Last != "1179" || s.Waiting != 1 || s.Window != window || len(e.Series) != 1 {
		t.Errorf("%+v", s)
	}
	if got, want := s.Methods[0].Coverage, e.Targets[0].Coverage[0]; got != want.Fraction || math.Abs(*s.Methods[0].MeanWidth-*want.MeanWidth) > 1e-9 || math.Abs(*s.Methods[0].MedianWidth-*want.MedianWidth) > 1e-9 {
		t.Errorf("fixed intervals cover %v with the width %v, not %v and %v", got, *s.Methods[0].MeanWidth, want.Fraction, *want.MeanWidth)
	}
	predictor, err := b.Predictor(attach.PredictOptions{Level: level, Levels: b.Calibration.Quantiles[0].Levels, NoScore: true})
	if err != nil {
		t.Fatal(err)
	}
	predictions, err := predictor.Predict(context.Background(), attach.Rows{Batch: x})
	if err != nil {
		t.Fatal(err)
	}
	intervals := predictor.Intervals("")
	for k, options := range []calibrate.AdaptiveOptions{
		{Method: "aci", Steps: []float64{.005}, Window: window}, {Method: "dtaci", Window: window}, {Method: "pid"},
	} {
		options.Alpha = 1 - level
		adaptive, err := calibrate.NewAdaptive(intervals.CalibrationScores()[0], options)
		if err != nil {
			t.Fatal(err)
		}
		var covered []bool
		var widths, winkler []float64
		infinite, empty := 0, 0
		for i, p := range predictions {
			quantiles, truth := [][]float32{dense.Single(p.Targets[0].Quantiles)}, y.Data[i]
			_, threshold, err := adaptive.Next("row")
			if err != nil {
				t.Fatal(err)
			}
			lower, upper := make([]float64, 1), make([]float64, 1)
			intervals.PredictMargins(lower, upper, quantiles, []float64{threshold})
			covered = append(covered, lower[0] <= float64(truth) && float64(truth) <= upper[0])
			if math.IsInf(threshold, 1) {
				infinite++
			} else {
				if lower[0] > upper[0] {
					lower[0], upper[0] = p.Targets[0].Median, p.Targets[0].Median
					empty++
				}
				miss := max(0, lower[0]-float64(truth), float64(truth)-upper[0])
				widths, winkler = append(widths, upper[0]-lower[0]), append(winkler, upper[0]-lower[0]+20*miss)
			}
			if _, err := adaptive.Feedback("row", intervals.Scores(quantiles, []float32{truth})[0]); err != nil {
				t.Fatal(err)
			}
		}
		m := s.Methods[k+2]
		if m.Name != options.Method || m.Infinite != infinite || m.Empty != empty {
			t.Errorf("%s has %d infinite and %d empty intervals, not %d and %d", m.Name, m.Infinite, m.Empty, infinite, empty)
		}
		for _, pair := range [][2]float64{{*m.MeanWidth, mean(widths)}, {*m.Winkler, mean(winkler)}, {m.Coverage, fractionOf(covered)}} {
			if math.Abs(pair[0]-pair[1]) > 1e-6 {
				t.Errorf("%s: %v instead of %v", m.Name, pair[0], pair[1])
			}
		}
		worst, first := 2., 0
		for i := range n - window + 1 {
			if c := fractionOf(covered[i : i+window]); c < worst {
				worst, first = c, i
			}
		}
		if math.Abs(m.Worst.Coverage-worst) > 1e-9 || m.Worst.First != times[first] || m.Worst.Last != times[first+window-1] {
			t.Errorf("the worst window of %s is %+v, not %v from %s", m.Name, *m.Worst, worst, times[first])
		}
		for j, end := range s.Ends {
			if want := fractionOf(covered[end+1-window : end+1]); math.Abs(m.Local[j]-want) > 1e-9 {
				t.Errorf("%s covers %v of the window that ends at %d, not %v", m.Name, m.Local[j], end, want)
			}
		}
		if m.Bound != nil && math.Abs(m.Coverage-level) > *m.Bound || (m.Bound == nil) != (m.Name == "dtaci") {
			t.Errorf("%s covers %v, and its bound is %v", m.Name, m.Coverage, m.Bound)
		}
	}
	// These are (0.9 + 0.005)/(1200·0.005) and π/2·0.5/log(1200) + 2/1200.
	if aci, pid := *s.Methods[2].Bound, *s.Methods[4].Bound; math.Abs(aci-.1508333333) > 1e-9 || math.Abs(pid-.1124409) > 1e-6 {
		t.Errorf("the bounds are %v and %v", aci, pid)
	}
	if fixed, rolling := s.Methods[0], s.Methods[1]; fixed.Worst.Coverage > .75 || rolling.Coverage < .86 || rolling.Step != 0 || rolling.Bound != nil {
		t.Errorf("fixed: %+v, rolling: %+v", fixed, rolling)
	}
	if i := slices.IndexFunc(e.Notes, func(n evaluate.Note) bool { return n.Part == "window" }); i < 0 || !strings.Contains(e.Notes[i].Message, "the coverage changes along time: ") || !strings.Contains(e.Notes[i].Advice, "in the worst window") {
		t.Errorf("no note says that the coverage changes: %+v", e.Notes)
	}
	alarm, _ := strconv.Atoi(s.Monitors[0].Alarm)
	if m := s.Monitors; len(m) != 2 || m[0].Kind != "errors" || m[1].Kind != "inputs" || alarm <= change-20 || alarm > change+80 || m[0].Evidence < 100 || m[1].Alarm != "" {
		t.Errorf("errors change at %d, and the monitors report %+v", change-20, s.Monitors)
	}
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	o.Times = make([]string, n)
	for i, j := range order {
		o.Times[i] = times[j]
	}
	shuffled := mustEvaluateSeries(t, b, x.Select(order), rows.Select(y, order), attach.PredictOptions{Level: level}, o)
	for k := range s.Methods { // sums in another order differ in their last digits
		shuffled.Series[0].Methods[k].MeanWidth, shuffled.Series[0].Methods[k].Winkler = s.Methods[k].MeanWidth, s.Methods[k].Winkler
	}
	if !reflect.DeepEqual(shuffled.Series[0], s) {
		t.Error("the results depend on the order of the rows in the file")
	}
	x, y, o.Times = seriesOf(n, n)
	e = mustEvaluateSeries(t, b, x, y, attach.PredictOptions{Level: level}, o)
	if slices.ContainsFunc(e.Notes, func(n evaluate.Note) bool { return n.Part == "window" }) {
		t.Errorf("a note says that a constant coverage changes: %+v", e.Notes)
	}
}

func mean(x []float64) float64 {
	sum := 0.
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func fractionOf(covered []bool) float64 {
	n := 0
	for _, c := range covered {
		if c {
			n++
		}
	}
	return float64(n) / float64(len(covered))
}

// TestSeriesWaiting checks when targets become known, for rows with equal times and for late
// targets, and that steps of "aci" are small enough for waiting rows.
func TestSeriesWaiting(t *testing.T) {
	b := seriesBundle(t)
	x, y, times := seriesOf(200, 200)
	hours := make([]string, 200)
	for i := range hours {
		hours[i] = fmt.Sprintf("2024-03-01 %02d:00", i/10)
	}
	for _, c := range []struct {
		times   []string
		delay   int
		waiting int
		step    float64
	}{{times, 0, 1, .005}, {times, 23, 24, .1 / 48}, {hours, 0, 10, .005}, {hours, 3, 10, .005}, {hours, 12, 13, .1 / 26}} {
		s := mustEvaluateSeries(t, b, x, y, attach.PredictOptions{Level: .9}, evaluate.SeriesOptions{Times: c.times, Delay: c.delay}).Series[0]
		if s.Waiting != c.waiting || math.Abs(s.Methods[2].Step-c.step) > 1e-9 || s.Window != 50 {
			t.Errorf("with a delay of %d, %d rows wait, the step is %v and the window has %d rows: want %d, %v and 50", c.delay, s.Waiting, s.Methods[2].Step, s.Window, c.waiting, c.step)
		}
	}
}

// TestSeriesParts checks series with joint boxes, with one end, with groups, and with rows about
// which nothing is known.
func TestSeriesParts(t *testing.T) {
	b := seriesBundle(t)
	x, y, times := seriesOf(400, 400)
	x.Features.Data[4*7] = 1e30
	o := evaluate.SeriesOptions{Times: times}
	if s := mustEvaluateSeries(t, b, x, y, attach.PredictOptions{}, o).Series[0]; s.Rows != 399 || s.LeftOut != 1 {
		t.Errorf("%d rows are evaluated and %d are left out", s.Rows, s.LeftOut)
	}
	if m := mustEvaluateSeries(t, b, x, y, attach.PredictOptions{Side: "upper"}, o).Series[0].Methods[2]; m.Coverage < .85 || m.Infinite > 0 || m.MeanWidth != nil || m.Winkler != nil {
		t.Errorf("with one end: %+v", m)
	}
	in, cal, test := regressor(1, 300, 2), regressor(2, 500, 2), regressor(3, 400, 2)
	in.Cal, in.CalTargets = cal.Batch, cal.Targets
	two := mustFit(t, in)
	if e := mustEvaluateSeries(t, two, test.Batch, test.Targets, attach.PredictOptions{}, o); len(e.Series) != 2 || e.Series[1].Target != 1 {
		t.Errorf("%d series", len(e.Series))
	}
	e := mustEvaluateSeries(t, two, test.Batch, test.Targets, attach.PredictOptions{Joint: true}, o)
	if m := e.Series[0].Methods; len(e.Series) != 1 || m[0].Coverage != e.Joint[0].Fraction || math.Abs(m[2].Coverage-.9) > .05 || m[2].MeanWidth != nil {
		t.Errorf("joint boxes: %+v", m[2])
	}
	in = regressor(1, 300, 1)
	cal = regressor(2, 500, 1)
	in.Cal, in.CalTargets, in.CalGroups = cal.Batch, cal.Targets, make([]string, 500)
	groups := make([]string, 400)
	for i := range in.CalGroups {
		in.CalGroups[i] = "ab"[i%2 : i%2+1]
	}
	for i := range groups {
		groups[i] = "abc"[i%3 : i%3+1] // c has no calibration rows
	}
	grouped := mustEvaluate(t, mustFit(t, in), blocksOf(x, y, groups), attach.PredictOptions{Level: .9}, evaluate.Options{Series: &o})
	for _, m := range grouped.Series[0].Methods {
		if m.Infinite < 133 || m.Coverage < .85 || m.Problem != "" {
			t.Errorf("with a group without calibration rows: %+v", m)
		}
	}
	if _, err := json.Marshal(grouped); err != nil {
		t.Error(err)
	}
}

// TestSeriesErrors checks the errors for times and options that cannot be used.
func TestSeriesErrors(t *testing.T) {
	b := seriesBundle(t)
	x, y, times := seriesOf(100, 100)
	predictor, err := b.Predictor(attach.PredictOptions{Level: .9})
	if err != nil {
		t.Fatal(err)
	}
	with := func(i int, time string) []string {
		changed := slices.Clone(times)
		changed[i] = time
		return changed
	}
	for _, c := range []struct {
		evaluate.SeriesOptions
		want string
	}{
		{evaluate.SeriesOptions{}, "needs the times of its rows"},
		{evaluate.SeriesOptions{Times: times[1:]}, "99 times for 100 rows"},
		{evaluate.SeriesOptions{Times: with(3, "")}, `time of row 3 (counted from 0): "" is neither a number nor a date`},
		{evaluate.SeriesOptions{Times: with(3, "NaN")}, `"NaN" is neither`},
		{evaluate.SeriesOptions{Times: with(3, "05/04/2024")}, `"05/04/2024" is neither`},
		{evaluate.SeriesOptions{Times: with(3, "2024-02-30")}, `"2024-02-30" is neither`},
		{evaluate.SeriesOptions{Times: with(3, "2024-05-04")}, `is a date without a time zone, but the first row has a number, "-20"`},
		{evaluate.SeriesOptions{Times: slices.Repeat([]string{"7"}, 100)}, "no target of the 100 rows is known before the last of them"},
		{evaluate.SeriesOptions{Times: times, Delay: 99}, "the delay of 99 rows is too long"},
		{evaluate.SeriesOptions{Times: times, Delay: -1}, "neither may be negative"},
		{evaluate.SeriesOptions{Times: times, Window: 8}, "choose at least 9"},
	} {
		if _, err := evaluate.Rows(context.Background(), predictor, blocksOf(x, y, nil), evaluate.Options{Series: &c.SeriesOptions}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v instead of %q", err, c.want)
		}
	}
	classes, err := mustFit(t, classifier(100)).Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evaluate.Rows(context.Background(), classes, blocksOf(x, y, nil), evaluate.Options{Series: &evaluate.SeriesOptions{Times: times}}); err == nil || !strings.Contains(err.Error(), "needs prediction intervals") {
		t.Error(err)
	}
}

// TestSeriesTimes checks that dates of all notations are ordered as points in time.
func TestSeriesTimes(t *testing.T) {
	b := seriesBundle(t)
	x, y, _ := seriesOf(3, 3)
	for _, times := range [][]string{
		{"2024-10-02", "2024-10-01", "2024-09-30"}, {"2024/10/02 00:00", "2024/10/01 09:05", "2024/10/01 09:04:59.5"}, {"2024-10", "2024-02", "2023-12"},
		{"2024-10-01T10:00:00Z", "2024-10-01T11:30:00+02:00", "2024-10-01T09:00:00.000Z"}, {"2024-10-01 10:00:00+00:00", "2024-10-01 11:30:00+0200", "2024-10-01 09:00 UTC"},
		{"10", "9.5", "-1e3"},
	} {
		s := mustEvaluateSeries(t, b, x, y, attach.PredictOptions{}, evaluate.SeriesOptions{Times: times}).Series[0]
		if s.First != times[2] || s.Last != times[0] {
			t.Errorf("%q: the first is %q and the last is %q", times, s.First, s.Last)
		}
	}
}

// TestWorstByChance compares the bound of the worst window with that of random orders of the
// misses.
func TestWorstByChance(t *testing.T) {
	const n, window = 1000, 100
	b := seriesBundle(t)
	x, y, times := seriesOf(n, n)
	s := mustEvaluateSeries(t, b, x, y, attach.PredictOptions{Level: .9}, evaluate.SeriesOptions{Times: times, Window: window}).Series[0]
	covered := make([]bool, n)
	for i := range int(math.Round(s.Methods[0].Coverage * n)) {
		covered[i] = true
	}
	rng := rand.New(rand.NewPCG(3, 3))
	worst := make([]float64, 1000)
	for d := range worst {
		rng.Shuffle(n, func(i, j int) { covered[i], covered[j] = covered[j], covered[i] })
		worst[d] = 1
		for i := range n - window + 1 {
			worst[d] = min(worst[d], fractionOf(covered[i:i+window]))
		}
	}
	slices.Sort(worst)
	if got := *s.WorstByChance; got < worst[2]-1e-9 || got > worst[30]+1e-9 {
		t.Errorf("the worst window is below %v with a probability of 1 %%, but 0.3 %% and 3 %% of random orders are below %v and %v", got, worst[2], worst[30])
	}
}
