package calibrate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

func newAdaptive(t *testing.T, scores []float64, o calibrate.AdaptiveOptions) *calibrate.Adaptive {
	t.Helper()
	a, err := calibrate.NewAdaptive(scores, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// next and feedback fail the test on errors.
func next(t *testing.T, a *calibrate.Adaptive, row int) (level, threshold float64) {
	t.Helper()
	level, threshold, err := a.Next(strconv.Itoa(row))
	if err != nil {
		t.Fatal(err)
	}
	return level, threshold
}

func feedback(t *testing.T, a *calibrate.Adaptive, row int, score float64) (covered bool) {
	t.Helper()
	return feedbackOf(t, a, strconv.Itoa(row), score)
}

func feedbackOf(t *testing.T, a *calibrate.Adaptive, id string, score float64) (covered bool) {
	t.Helper()
	covered, err := a.Feedback(id, score)
	if err != nil {
		t.Fatal(err)
	}
	return covered
}

type adaptiveReference struct {
	MAPIE []struct {
		Alpha, Gamma float64
		Levels       []float64
		Covered      []bool
	}
	Runs []struct {
		Method                                         string
		Alpha, Gain, Saturation                        float64
		Steps, Calibration, Scores, Levels, Thresholds []float64
		Window, Memory                                 int
		Order                                          []int
		Covered                                        []bool
	}
}

func readAdaptiveReference(t *testing.T) (reference adaptiveReference) {
	t.Helper()
	raw, err := os.ReadFile("testdata/adaptive.json")
	if err == nil {
		err = json.Unmarshal(raw, &reference)
	}
	if err != nil || len(reference.MAPIE) == 0 || len(reference.Runs) == 0 {
		t.Fatal(err)
	}
	return reference
}

// TestAdaptiveAgreesWithPapers compares levels and thresholds with NumPy code that follows the
// papers, with fixed and rolling calibration scores and with late feedback.
func TestAdaptiveAgreesWithPapers(t *testing.T) {
	for i, r := range readAdaptiveReference(t).Runs {
		a := newAdaptive(t, r.Calibration, calibrate.AdaptiveOptions{
			Method: r.Method, Alpha: r.Alpha, Steps: r.Steps, Window: r.Window, Memory: r.Memory, Gain: r.Gain, Saturation: r.Saturation,
		})
		proposed, fed := 0, 0
		for _, event := range r.Order {
			if event < 0 {
				row := -1 - event
				if covered := feedback(t, a, row, r.Scores[row]); covered != r.Covered[fed] {
					t.Fatalf("run %d, %s: row %d is covered: %v", i, r.Method, row, covered)
				}
				fed++
				continue
			}
			level, threshold := next(t, a, event)
			threshold = max(-1e308, min(threshold, 1e308))
			if r.Method != "pid" && math.Abs(level-r.Levels[proposed]) > 1e-9 || !isNear(threshold, r.Thresholds[proposed]) {
				t.Fatalf("run %d, %s, row %d: level %v and threshold %v, want %v and %v", i, r.Method, event, level, threshold, r.Levels[proposed], r.Thresholds[proposed])
			}
			proposed++
		}
		if proposed != len(r.Scores) || fed != len(r.Scores) {
			t.Errorf("run %d compares %d of %d rows", i, proposed, len(r.Scores))
		}
	}
}

// TestAdaptiveAgreesWithMAPIE compares the levels of ACI with those of MAPIE for the same
// covered and missed rows.
func TestAdaptiveAgreesWithMAPIE(t *testing.T) {
	for i, r := range readAdaptiveReference(t).MAPIE {
		a := newAdaptive(t, nil, calibrate.AdaptiveOptions{Alpha: r.Alpha, Steps: []float64{r.Gamma}})
		for row, covered := range r.Covered {
			if level, _ := next(t, a, row); math.Abs(level-r.Levels[row]) > 1e-9 {
				t.Fatalf("series %d, row %d: level %v, want %v", i, row, level, r.Levels[row])
			}
			if err := a.FeedbackCovered(strconv.Itoa(row), covered); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// jumpingScores returns the absolute errors of one-step forecasts of an autoregressive series.
// The standard deviation of its noise jumps every 500 rows. During the first 500 rows it is 1.
func jumpingScores(rng *rand.Rand, n int) []float64 { return scoresWithJumps(rng, n, 500) }

// scoresWithJumps is jumpingScores with jumps after another number of rows.
func scoresWithJumps(rng *rand.Rand, n, every int) []float64 {
	deviations := []float64{1, 3, 0.5, 2, 4}
	scores := make([]float64, n)
	before := 0.
	for i := range scores {
		y := 0.8*before + deviations[i/every%len(deviations)]*rng.NormFloat64()
		scores[i] = math.Abs(y - 0.7*before) // the forecast has a wrong coefficient, so errors depend on each other
		before = y
	}
	return scores
}

// BenchmarkAdaptiveLate reports coverage if many rows wait for their targets, for the table in
// docs/guides/late-targets.md: over all rows, over the worst block of 500 rows, and the
// fraction of infinite and empty intervals.
func BenchmarkAdaptiveLate(b *testing.B) {
	const n, calibration, block = 20000, 500, 500
	scores := scoresWithJumps(rand.New(rand.NewPCG(1, 1)), calibration+n, 2500)
	for _, c := range []struct {
		waiting int
		step    float64
	}{{1, .005}, {30, .005}, {30, .001}, {300, .005}, {300, .0002}} {
		b.Run(fmt.Sprintf("waiting=%d/step=%v", c.waiting, c.step), func(b *testing.B) {
			for b.Loop() {
				a, err := calibrate.NewAdaptive(scores[:calibration], calibrate.AdaptiveOptions{Alpha: .1, Steps: []float64{c.step}, Window: 200})
				if err != nil {
					b.Fatal(err)
				}
				covered, useless := make([]float64, n/block), 0.
				for i, score := range scores[calibration:] {
					_, threshold, err := a.Next(strconv.Itoa(i))
					if err != nil {
						b.Fatal(err)
					}
					if score <= threshold {
						covered[i/block] += 1. / block
					}
					if math.IsInf(threshold, 0) || threshold < 0 {
						useless += 1. / n
					}
					if due := i - c.waiting + 1; due >= 0 {
						if _, err := a.Feedback(strconv.Itoa(due), scores[calibration+due]); err != nil {
							b.Fatal(err)
						}
					}
				}
				mean := 0.
				for _, v := range covered {
					mean += v * block / n
				}
				b.ReportMetric(mean, "coverage")
				b.ReportMetric(slices.Min(covered), "worst")
				b.ReportMetric(useless, "useless")
			}
		})
	}
}

// missBound returns the proven bound on the difference of the fraction of misses from α, for n
// rows with feedback and at most m outstanding rows.
func missBound(o calibrate.AdaptiveOptions, n, m int) float64 {
	if o.Method == "pid" {
		return math.Pi/2*o.Saturation/math.Log(float64(n)) + float64(m+1)/float64(n)
	}
	return (max(o.Alpha, 1-o.Alpha) + float64(m)*o.Steps[0]) / (o.Steps[0] * float64(n))
}

// TestAdaptiveLongRunCoverage checks that the fraction of misses of a series with breaks is
// within the proven bound of α after each row, and near α at the end. Split conformal
// prediction with the same calibration rows is not. If feedback is late, "aci" must have hardly
// any infinite or empty intervals with a window and a step of at most half of α/m.
func TestAdaptiveLongRunCoverage(t *testing.T) {
	const alpha, calibration, n = .1, 500, 10000
	scores := jumpingScores(rand.New(rand.NewPCG(7, 7)), calibration+n)
	split, err := calibrate.NewConformal(scores[:calibration])
	if err != nil {
		t.Fatal(err)
	}
	missed := 0
	for _, s := range scores[calibration:] {
		if s > split.Threshold(alpha) {
			missed++
		}
	}
	if rate := float64(missed) / n; rate < 2*alpha {
		t.Fatalf("split conformal prediction misses %v, so the series has no breaks", rate)
	}
	for _, o := range []calibrate.AdaptiveOptions{
		{Method: "aci", Steps: []float64{.005}},
		{Method: "aci", Steps: []float64{.05}, Window: 200},
		{Method: "aci", Steps: []float64{.0015}, Window: 200},
		{Method: "dtaci", Window: 200},
		{Method: "pid", Steps: []float64{.1}, Saturation: .5},
		{Method: "pid", Steps: []float64{.05}, Window: 200, Saturation: .2},
	} {
		for _, late := range []int{0, 30} {
			o.Alpha = alpha
			a := newAdaptive(t, scores[:calibration], o)
			misses, infinite := 0, 0
			for i, s := range scores[calibration:] {
				if _, threshold := next(t, a, i); math.IsInf(threshold, 0) {
					infinite++
				}
				if i < late {
					continue
				}
				if s = scores[calibration+i-late]; !feedback(t, a, i-late, s) {
					misses++
				}
				fed := i - late + 1
				if off := math.Abs(float64(misses)/float64(fed) - alpha); o.Method != "dtaci" && fed >= 4 && off > missBound(o, fed, late+1) {
					t.Fatalf("%+v, feedback %d rows late: after %d rows the fraction of misses is off by %v, the bound is %v", o, late, fed, off, missBound(o, fed, late+1))
				}
			}
			rate := float64(misses) / float64(n-late)
			t.Logf("%s, window %d, feedback %d rows late: misses %.4f, infinite or empty %.4f (split conformal: misses %.4f)", o.Method, o.Window, late, rate, float64(infinite)/n, float64(missed)/n)
			if o.Method == "aci" && o.Window > 0 && late > 0 && o.Steps[0] <= alpha/2/float64(late+1) && infinite > n/100 {
				t.Errorf("%+v, feedback %d rows late: %d intervals are infinite or empty", o, late, infinite)
			}
			if math.Abs(rate-alpha) > .02 {
				t.Errorf("%+v, feedback %d rows late: misses %v of the rows", o, late, rate)
			}
		}
	}
}

// TestAdaptiveAdversary checks the bound for scores that somebody chooses to make coverage
// wrong, with feedback in a random order. The adversary misses or is covered for long periods. It
// starts with either. For "pid" with a small saturation, the first rows matter most, because the
// integral does not act before two rows have feedback.
func TestAdaptiveAdversary(t *testing.T) {
	const n, m = 3000, 12
	var scores []float64
	for i := range 100 {
		scores = append(scores, float64(i))
	}
	for seed := range uint64(40) {
		for _, o := range []calibrate.AdaptiveOptions{
			{Method: "aci", Alpha: .1, Steps: []float64{.05}, Window: 20},
			{Method: "aci", Alpha: .7, Steps: []float64{.3}},
			{Method: "pid", Alpha: .2, Steps: []float64{.1}, Window: 20, Saturation: .2},
			{Method: "pid", Alpha: .1, Saturation: .1},
			{Method: "pid", Alpha: .01, Saturation: .01},
			{Method: "pid", Alpha: .99, Saturation: .01},
		} {
			rng := rand.New(rand.NewPCG(seed, 3))
			a := newAdaptive(t, scores, o)
			thresholds := map[int]float64{}
			misses, fed, limit := 0, 0, 1+rng.IntN(m)
			wantMiss := seed%2 == 0
			for i := range n {
				_, thresholds[i] = next(t, a, i)
				if rng.IntN(200) == 0 {
					wantMiss = !wantMiss
				}
				for len(thresholds) >= limit {
					row := i
					for r := range thresholds { // the order of maps is random
						row = r
						break
					}
					score := -1e6
					if wantMiss {
						score = 1e6
					}
					delete(thresholds, row)
					if !feedback(t, a, row, score) {
						misses++
					}
					fed++
					if off := math.Abs(float64(misses)/float64(fed) - o.Alpha); fed >= 4 && off > missBound(o, fed, limit) {
						t.Fatalf("seed %d, %+v, %d outstanding: after %d rows off by %v, more than %v", seed, o, limit, fed, off, missBound(o, fed, limit))
					}
				}
			}
		}
	}
}

// TestAdaptiveContinuesFromState checks that a reopened Adaptive continues like the saved one,
// with rows outstanding and infinite scores, and that its encoding is the same.
func TestAdaptiveContinuesFromState(t *testing.T) {
	for _, o := range []calibrate.AdaptiveOptions{
		{}, {Window: 30}, {Method: "dtaci"}, {Method: "dtaci", Window: 30}, {Method: "pid"}, {Method: "pid", Window: 30, Saturation: .1},
	} {
		o.Alpha = .2
		rng := rand.New(rand.NewPCG(5, 5))
		scores := jumpingScores(rng, 800)
		if o.Method != "pid" {
			scores[300], scores[310] = math.Inf(1), math.Inf(-1)
		}
		a := newAdaptive(t, scores[:40], o)
		outstanding := []int{}
		for i := 40; i < len(scores); i++ {
			if i%7 == 0 {
				state, err := json.Marshal(a)
				if err != nil {
					t.Fatal(err)
				}
				reopened := &calibrate.Adaptive{}
				if err := json.Unmarshal(state, reopened); err != nil {
					t.Fatalf("%v: %s", err, state)
				}
				again, err := json.Marshal(reopened)
				if err != nil || string(again) != string(state) {
					t.Fatalf("%s is encoded again as %s, %v", state, again, err)
				}
				clone := a.Clone()
				// Both take the same feedback in the same order, and then give the next threshold.
				b := a
				a = reopened
				for _, row := range outstanding[:len(outstanding)/2] {
					if feedback(t, a, row, scores[row]) != feedback(t, b, row, scores[row]) {
						t.Fatalf("%+v: the reopened Adaptive covers other rows", o)
					}
				}
				if again, err := json.Marshal(clone); err != nil || string(again) != string(state) {
					t.Fatalf("%+v: feedback changes the clone, %v", o, err)
				}
				outstanding = outstanding[len(outstanding)/2:]
				levelA, thresholdA := next(t, a, -1)
				levelB, thresholdB := next(t, b, -1)
				if thresholdA != thresholdB || levelA != levelB && o.Method != "pid" {
					t.Fatalf("%+v: the reopened Adaptive has the threshold %v instead of %v", o, thresholdA, thresholdB)
				}
				if err := a.Cancel("-1"); err != nil {
					t.Fatal(err)
				}
			}
			next(t, a, i)
			outstanding = append(outstanding, i)
			rng.Shuffle(len(outstanding), func(i, j int) { outstanding[i], outstanding[j] = outstanding[j], outstanding[i] })
			for len(outstanding) > 20 {
				feedback(t, a, outstanding[0], scores[outstanding[0]])
				outstanding = outstanding[1:]
			}
		}
	}
}

// TestAdaptiveStateStaysSmall checks that neither feedback nor cancelled rows let the state grow,
// also if one row never gets feedback.
func TestAdaptiveStateStaysSmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, o := range []calibrate.AdaptiveOptions{{Method: "dtaci"}, {Method: "dtaci", Window: 50}, {Method: "aci", Window: 50}, {Method: "pid", Window: 50}} {
		o.Alpha = .1
		a := newAdaptive(t, normal(rng, 50, 0), o)
		if o.Method != "dtaci" { // "dtaci" compares the score of a row with the scores when it got its threshold
			next(t, a, -1)
		}
		for i := range 3000 {
			next(t, a, i)
			if i%10 == 0 {
				if err := a.Cancel(strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			feedback(t, a, i, rng.NormFloat64())
		}
		if state, err := json.Marshal(a); err != nil || len(state) > 2000 {
			t.Errorf("%+v: the state takes %d bytes, %v", o, len(state), err)
		}
	}
}

// TestAdaptiveExtremeLevels checks that "dtaci" has a level after very many late misses, when the
// losses of all steps are huge.
func TestAdaptiveExtremeLevels(t *testing.T) {
	const n = 4000
	a := newAdaptive(t, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, calibrate.AdaptiveOptions{Alpha: .1, Method: "dtaci", Steps: []float64{.9, 1}})
	for i := range n {
		next(t, a, i)
	}
	for i := range n {
		feedback(t, a, i, 20)
	}
	for i := range 10 {
		if level, threshold := next(t, a, i); !(level < -1000) || !math.IsInf(threshold, 1) {
			t.Fatalf("level %v and threshold %v", level, threshold)
		}
		feedback(t, a, i, 20)
	}
}

func TestAdaptiveErrors(t *testing.T) {
	scores := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for want, o := range map[string]calibrate.AdaptiveOptions{
		"α 0 is not":                      {},
		"α NaN is not":                    {Alpha: math.NaN()},
		"unknown method":                  {Alpha: .1, Method: "pi"},
		"has one step":                    {Alpha: .1, Steps: []float64{.1, .2}},
		"step -1":                         {Alpha: .1, Steps: []float64{-1}},
		"step 1.5":                        {Alpha: .1, Steps: []float64{1.5}},
		"window of -1":                    {Alpha: .1, Window: -1},
		"memory of 5":                     {Alpha: .1, Memory: 5},
		"memory of -5":                    {Alpha: .1, Method: "dtaci", Memory: -5},
		"neither gain nor":                {Alpha: .1, Gain: 1},
		"saturation -1":                   {Alpha: .1, Method: "pid", Saturation: -1},
		"too few calibration scores (10)": {Alpha: .01, Method: "pid"},
	} {
		if _, err := calibrate.NewAdaptive(scores, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	for want, o := range map[string]calibrate.AdaptiveOptions{"score 1 (counted from 0)": {Alpha: .1}, "needs scores of": {Alpha: .1, Method: "pid"}} {
		list := []float64{math.Inf(1), math.NaN()}
		if _, err := calibrate.NewAdaptive(list, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", list, err, want)
		}
	}
	if _, err := calibrate.NewAdaptive(nil, calibrate.AdaptiveOptions{Alpha: .1, Method: "dtaci"}); err == nil {
		t.Error("dtaci without scores")
	}

	a := newAdaptive(t, scores, calibrate.AdaptiveOptions{Alpha: .2, Steps: []float64{.9}})
	d := newAdaptive(t, scores, calibrate.AdaptiveOptions{Alpha: .2, Method: "pid"})
	next(t, a, 1)
	next(t, d, 1)
	fails := func(want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	feed := func(a *calibrate.Adaptive, id string, score float64) error {
		_, err := a.Feedback(id, score)
		return err
	}
	_, _, err := a.Next("1")
	fails("already has a threshold", err)
	_, _, err = a.Next("caf\xe9") // Latin-1
	fails(`"caf\xe9" is not UTF-8`, err)
	fails("not waiting", feed(a, "2", 1))
	fails("not waiting", a.Cancel("2"))
	fails("score is NaN", feed(a, "1", math.NaN()))
	fails("needs scores of at most", feed(d, "1", math.Inf(1)))
	fails("needs scores", d.FeedbackCovered("1", true))
	feedback(t, a, 1, 100)
	fails("not waiting", feed(a, "1", 100))
	if level, threshold := next(t, a, 2); level > 0 || !math.IsInf(threshold, 1) {
		t.Errorf("after a miss, the level is %v and the threshold %v", level, threshold)
	}
	fails("must be infinite", a.FeedbackCovered("2", false))
	high := newAdaptive(t, scores, calibrate.AdaptiveOptions{Alpha: .9, Steps: []float64{.9}})
	next(t, high, 1)
	feedback(t, high, 1, 0)
	if level, threshold := next(t, high, 2); level < 1 || !math.IsInf(threshold, -1) {
		t.Errorf("after a covered row, the level is %v and the threshold %v", level, threshold)
	}
	fails("must be empty", high.FeedbackCovered("2", true))
	if feedback(t, high, 2, math.Inf(-1)) {
		t.Error("an empty interval covers a row")
	}
	var zero calibrate.Adaptive
	_, _, err = zero.Next("1")
	fails("make it with NewAdaptive", err)
	fails("make it with NewAdaptive", feed(&zero, "1", 1))
	_, err = json.Marshal(&zero)
	fails("make it with NewAdaptive", err)
}

// TestAdaptiveRefusesDamagedStates changes one part of a valid state at a time.
func TestAdaptiveRefusesDamagedStates(t *testing.T) {
	states := map[string]string{}
	for method, window := range map[string]int{"aci": 0, "dtaci": 3, "pid": 0} {
		a := newAdaptive(t, []float64{1, 2, 3, 4, 5}, calibrate.AdaptiveOptions{Alpha: .2, Method: method, Window: 3 * window})
		for i := range 12 {
			next(t, a, i)
			if i < 10 {
				feedback(t, a, i, float64(i))
			}
		}
		state, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		states[method] = string(state)
	}
	for _, damage := range []struct{ method, old, new string }{
		{"aci", `"version":1`, `"version":2`},
		{"aci", `"version":1`, `"version":1,"other":1`},
		{"aci", `"method":"aci"`, `"method":"dtaci"`},
		{"aci", `"method":"aci"`, `"method":""`},
		{"aci", `"alpha":0.2`, `"alpha":2`},
		{"aci", `"rows":10`, `"rows":-1`},
		{"aci", `"misses":`, `"misses":9`},
		{"aci", `"levels":[`, `"levels":[1,`},
		{"aci", `"levels":[`, `"levels":[9`},
		{"aci", `"scores":[`, `"scores":["NaN",`},
		{"aci", `"scores":[`, `"scores":[null,`},
		{"aci", `"id":"11"`, `"id":"10"`},
		{"aci", `"id":"10",`, `"id":"10","since":3,`},
		{"dtaci", `"weights":[0`, `"weights":[1`},
		{"dtaci", `"scores":[`, `"scores":[9,9,9,9,`},
		{"dtaci", `"id":"10",`, `"id":"10","since":300,`},
		{"dtaci", `"id":"10",`, `"id":"10","since":10,`},
		{"dtaci", `"id":"10",`, `"id":"10","since":-1,`},
		{"pid", `"scores":[1,2,3,4,5]`, `"scores":[]`},
		{"pid", `"scores":[1,`, `"scores":["+Inf",`},
		{"pid", `"gain":4,`, ``},
		{"pid", `"scores":[1,`, `"quantile":1e306,"scores":[1,`}, // the last of two equal keys counts
	} {
		damaged := strings.Replace(states[damage.method], damage.old, damage.new, 1)
		if damaged == states[damage.method] {
			t.Errorf("%s is not in %s", damage.old, damaged)
		}
		a := newAdaptive(t, nil, calibrate.AdaptiveOptions{Alpha: .3})
		err := json.Unmarshal([]byte(damaged), a)
		if level, _ := next(t, a, 10); err == nil || level != .3 {
			t.Errorf("%s becomes %s: %v, and the level is %v", damage.old, damage.new, err, level)
		}
	}
	later := strings.Replace(states["aci"], `"version":1`, `"version":2,"other":1`, 1)
	if err := json.Unmarshal([]byte(later), new(calibrate.Adaptive)); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a state with a field of a later version: %v", err)
	}
}

// FuzzAdaptiveState checks that an Adaptive with an accepted state continues and can be saved.
func FuzzAdaptiveState(f *testing.F) {
	for _, o := range []calibrate.AdaptiveOptions{{}, {Window: 5}, {Method: "dtaci", Window: 5}, {Method: "pid", Window: 5}} {
		o.Alpha = .2
		a, err := calibrate.NewAdaptive([]float64{1, 2, 3, 4, 5}, o)
		for i := range 8 {
			if err == nil {
				_, _, err = a.Next(strconv.Itoa(i))
			}
			if err == nil && i < 6 {
				_, err = a.Feedback(strconv.Itoa(i), float64(i))
			}
		}
		state, stateErr := json.Marshal(a)
		if err := errors.Join(err, stateErr); err != nil {
			f.Fatal(err)
		}
		f.Add(state)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &calibrate.Adaptive{}
		if json.Unmarshal(data, a) != nil {
			return
		}
		_, _ = a.Feedback("6", 3) // the row may be missing
		for i := range 20 {
			if _, _, err := a.Next("new"); err != nil {
				return // the row is outstanding
			}
			feedbackOf(t, a, "new", float64(i))
		}
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%v: %s", err, data)
		}
	})
}

// TestMarginsAgreeWithScores checks that an interval at a margin contains exactly the targets
// whose score is at most the margin, and that the calibrated margin gives the calibrated
// interval.
func TestMarginsAgreeWithScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	levels := []float64{.05, .25, .5, .75, .95}
	row := func() []float32 {
		q := make([]float32, len(levels))
		for i := range q {
			q[i] = float32(rng.NormFloat64())
		}
		slices.Sort(q)
		return q
	}
	var targets []calibrate.QuantileCalibration
	const n = 59
	for range 2 {
		q := calibrate.QuantileCalibration{Levels: levels}
		for range n {
			q.Grid, q.Y = append(q.Grid, row()...), append(q.Y, float32(2*rng.NormFloat64()))
		}
		targets = append(targets, q)
	}
	for _, o := range []calibrate.IntervalOptions{
		{}, {Score: "cqr-r"}, {Score: "cqr-m"}, {Score: "cir"}, {Score: "rcp"}, {Joint: true}, {Joint: true, Score: "cqr-m"}, {Side: "lower"}, {Side: "upper"},
	} {
		name := fmt.Sprintf("%+v", o)
		v, err := calibrate.NewIntervals(targets, o, .2)
		if err != nil {
			t.Fatal(err)
		}
		lower, upper, wantLower, wantUpper := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2)
		inside := 0
		for range 300 {
			quantiles, y := [][]float32{row(), row()}, []float32{float32(2 * rng.NormFloat64()), float32(2 * rng.NormFloat64())}
			scores := v.Scores(quantiles, y)
			for _, change := range []float64{0, -1e-9, -.5, .5, math.Inf(1), math.Inf(-1)} {
				margins := slices.Clone(scores)
				for i := range margins {
					margins[i] += change
				}
				v.PredictMargins(lower, upper, quantiles, margins)
				if math.IsInf(change, -1) && (lower[0] <= upper[0] || lower[1] <= upper[1]) {
					t.Fatalf("%s: at the margin −Inf, intervals are %v to %v", name, lower, upper)
				}
				for b := range scores {
					covered := true
					for target := range y {
						if target*len(scores)/len(y) == b {
							covered = covered && lower[target] <= float64(y[target]) && float64(y[target]) <= upper[target]
						}
					}
					if want := scores[b] <= margins[b] && !math.IsInf(margins[b], -1); covered != want {
						t.Fatalf("%s: score %v and margin %v, but covered is %v by %v to %v", name, scores[b], margins[b], covered, lower, upper)
					}
					if covered {
						inside++
					}
				}
			}
		}
		if inside == 0 {
			t.Errorf("%s: no target is covered", name)
		}
		scores := v.CalibrationScores()
		found := 0 // "rcp" leaves rows out, but keeps their order
		for i := range n {
			quantiles := [][]float32{targets[0].Grid[i*5 : i*5+5], targets[1].Grid[i*5 : i*5+5]}
			if s := v.Scores(quantiles, []float32{targets[0].Y[i], targets[1].Y[i]}); found < len(scores[0]) && s[0] == scores[0][found] {
				found++
			}
		}
		if found < n/2 || found != len(scores[0]) {
			t.Errorf("%s: %d of %d calibration scores are those of rows in their order", name, found, len(scores[0]))
		}
		margins := make([]float64, len(scores))
		for b := range scores {
			c, err := calibrate.NewConformal(scores[b])
			if err != nil {
				t.Fatal(err)
			}
			margins[b] = c.Threshold(.2)
		}
		quantiles := [][]float32{row(), row()}
		v.PredictMargins(lower, upper, quantiles, margins)
		v.Predict(wantLower, wantUpper, quantiles, 0)
		if !slices.Equal(lower, wantLower) || !slices.Equal(upper, wantUpper) {
			t.Errorf("%s: %v to %v at the calibrated margin, want %v to %v", name, lower, upper, wantLower, wantUpper)
		}
	}
}

// TestMarginsOfUnknownRows checks rows with a quantile that is not finite: no margin but −Inf may
// miss their target, and Feedback must refuse their score.
func TestMarginsOfUnknownRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	q := calibrate.QuantileCalibration{Levels: []float64{.1, .5, .9}}
	for range 99 {
		q.Grid, q.Y = append(q.Grid, -1, 0, 1), append(q.Y, float32(rng.NormFloat64()))
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	known := []float32{-1, 0, 1}
	for _, o := range []calibrate.IntervalOptions{
		{}, {Score: "cqr-r"}, {Score: "cqr-m"}, {Score: "cir"}, {Score: "rcp"}, {Joint: true}, {Joint: true, Score: "cqr-m"}, {Side: "lower"}, {Side: "upper"},
	} {
		v, err := calibrate.NewIntervals([]calibrate.QuantileCalibration{q, q}, o, .2)
		if err != nil {
			t.Fatal(err)
		}
		margins := make([]float64, len(v.CalibrationScores()))
		predict := func(row []float32, margin float64) (lower, upper []float64) {
			lower, upper = make([]float64, 2), make([]float64, 2)
			for i := range margins {
				margins[i] = margin
			}
			v.PredictMargins(lower, upper, [][]float32{row, known}, margins)
			return lower, upper
		}
		for _, row := range [][]float32{{nan, nan, nan}, {-inf, nan, inf}, {-inf, -inf, -inf}, {inf, inf, inf}} {
			for _, margin := range []float64{-2, 0, .5, math.Inf(1)} {
				lower, upper := predict(row, margin)
				if !math.IsInf(lower[0], -1) || !math.IsInf(upper[0], 1) {
					t.Errorf("%+v, quantiles %v, margin %v: %v to %v", o, row, margin, lower[0], upper[0])
				}
				wantLower, wantUpper := predict(known, margin)
				if lower[1] != wantLower[1] || upper[1] != wantUpper[1] {
					t.Errorf("%+v, quantiles %v, margin %v: the other target has %v to %v", o, row, margin, lower[1], upper[1])
				}
			}
			if lower, upper := predict(row, math.Inf(-1)); lower[0] <= upper[0] {
				t.Errorf("%+v, quantiles %v, margin −Inf: %v to %v", o, row, lower[0], upper[0])
			}
			scores := v.Scores([][]float32{row, known}, []float32{.5, .5})
			if !math.IsNaN(scores[0]) || len(scores) == 2 && math.IsNaN(scores[1]) {
				t.Errorf("%+v, quantiles %v: scores %v", o, row, scores)
			}
		}
	}
}
