package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// tiedRow is a row with few possible values for its quantiles and its two targets, so scores
// tie. The values are multiples of a decimal step, so sums and differences round.
type tiedRow struct{ lo, hi, y [2]float64 }

func drawTied(rng *rand.Rand, step float64, values int) (r tiedRow) {
	for t := range 2 {
		a, b := rng.IntN(values), rng.IntN(values)
		r.lo[t], r.hi[t] = step*float64(min(a, b)), step*float64(max(a, b))
		r.y[t] = step * float64(rng.IntN(values+4)-2)
	}
	return r
}

func columns(rows []tiedRow, t int) (lo, hi, y []float64) {
	for _, r := range rows {
		lo, hi, y = append(lo, r.lo[t]), append(hi, r.hi[t]), append(y, r.y[t])
	}
	return lo, hi, y
}

// coverFuncs has a function for each kind of interval. The function calibrates on rows and
// reports whether the interval of another row covers its target. The interval is smoothed with
// tau or, if tau < 0, plain.
var coverFuncs = map[string]func(t *testing.T, rows []tiedRow, row tiedRow, alpha, tau float64) bool{
	"interval": func(t *testing.T, rows []tiedRow, row tiedRow, alpha, tau float64) bool {
		lo, hi, y := columns(rows, 0)
		c, err := newJointBox(symmetricIntervals(lo, hi), y, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		lower, upper := calibratedInterval(c, row.lo[0], row.hi[0], alpha, 0)
		if tau >= 0 {
			lower, upper = calibratedInterval(c, row.lo[0], row.hi[0], alpha, tau)
		}
		return lower <= row.y[0] && row.y[0] <= upper
	},
	"lower": func(t *testing.T, rows []tiedRow, row tiedRow, alpha, tau float64) bool {
		return sideCovers(t, "lower", rows, row, alpha, tau)
	},
	"upper": func(t *testing.T, rows []tiedRow, row tiedRow, alpha, tau float64) bool {
		return sideCovers(t, "upper", rows, row, alpha, tau)
	},
	"box": boxCovers,
	"uneven": func(t *testing.T, rows []tiedRow, row tiedRow, alpha, tau float64) bool {
		uneven := func(r tiedRow) []baseInterval { return []baseInterval{{r.lo[0], r.hi[0], r.hi[0] - r.lo[0], .3}} }
		var all []baseInterval
		_, _, y := columns(rows, 0)
		for _, r := range rows {
			all = append(all, uneven(r)...)
		}
		j, err := newJointBox(all, y, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := boxEnds(j, uneven(row), alpha, max(tau, 0))
		return a[0] <= row.y[0] && row.y[0] <= b[0]
	},
}

func sideCovers(t *testing.T, side string, rows []tiedRow, row tiedRow, alpha, tau float64) bool {
	lo, _, y := columns(rows, 0)
	o, err := newOneSided(side, lo, y, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound := o.bound(row.lo[0], alpha, 0, 0)
	if tau >= 0 {
		bound = o.bound(row.lo[0], alpha, tau, 0)
	}
	if side == "lower" {
		return bound <= row.y[0]
	}
	return row.y[0] <= bound
}

func boxCovers(t *testing.T, rows []tiedRow, row tiedRow, alpha, tau float64) bool {
	var lo, hi, y []float64
	for _, r := range rows {
		lo, hi, y = append(lo, r.lo[:]...), append(hi, r.hi[:]...), append(y, r.y[:]...)
	}
	j, err := newJointBox(intervalsByWidth(lo, hi), y, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := boxEnds(j, intervalsByWidth(row.lo[:], row.hi[:]), alpha, 0)
	if tau >= 0 {
		a, b = boxEnds(j, intervalsByWidth(row.lo[:], row.hi[:]), alpha, tau)
	}
	return a[0] <= row.y[0] && row.y[0] <= b[0] && a[1] <= row.y[1] && row.y[1] <= b[1]
}

// TestSmoothedCoverageIsExact checks that smoothed intervals cover exactly as often as
// guaranteed for any ties, and plain intervals at least as often. Each of n+1 rows is the new
// row once. τ takes the middle of each of 60 cells, because an interval is constant within a
// cell.
func TestSmoothedCoverageIsExact(t *testing.T) {
	const n, cells = 5, 60 // the least common multiple of 1, …, n+1
	for name, covers := range coverFuncs {
		rng := rand.New(rand.NewPCG(31, 1))
		excess := 0
		for trial := range 24 {
			rows := make([]tiedRow, n+1)
			for i := range rows {
				rows[i] = drawTied(rng, []float64{1, .1, .3}[trial%3], 1+trial%4)
			}
			for _, alpha := range []float64{.1, 1. / 6, .3, .5, .9} {
				smoothed, plain := 0, 0
				for i, row := range rows {
					rest := slices.Delete(slices.Clone(rows), i, i+1)
					for cell := range cells {
						if covers(t, rest, row, alpha, (float64(cell)+.5)/cells) {
							smoothed++
						}
					}
					if covers(t, rest, row, alpha, -1) {
						plain += cells
					}
				}
				want := int(math.Round(hypothesis.ExpectedCoverage(n, alpha) * (n + 1) * cells))
				if smoothed != want || plain < want {
					t.Fatalf("%s, α=%v: of %d, %d are covered smoothed and %d plainly, want %d, by rows %v", name, alpha, (n+1)*cells, smoothed, plain, want, rows)
				}
				excess += plain - want
			}
		}
		if excess == 0 {
			t.Errorf("%s: nothing tied", name)
		}
	}
}

// TestSmoothedWithoutTies checks that τ does not change the coverage without ties.
func TestSmoothedWithoutTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 1))
	draw := func() (r tiedRow) {
		for t := range 2 {
			r.lo[t] = rng.NormFloat64()
			r.hi[t], r.y[t] = r.lo[t]+rng.Float64(), rng.NormFloat64()
		}
		return r
	}
	for range 100 {
		rows := make([]tiedRow, 30)
		for i := range rows {
			rows[i] = draw()
		}
		row := draw()
		for name, covers := range coverFuncs {
			for _, alpha := range []float64{.01, .1, .4} {
				plain := covers(t, rows, row, alpha, -1)
				for _, tau := range []float64{0, rng.Float64(), 1} {
					if covers(t, rows, row, alpha, tau) != plain {
						t.Errorf("%s, α=%v, τ=%v: covered %v, plainly %v", name, alpha, tau, !plain, plain)
					}
				}
			}
		}
	}
}

// TestSmoothedEnds checks that closed intervals contain the integers at their ends and open
// ones do not.
func TestSmoothedEnds(t *testing.T) {
	// At α = 1/3, the threshold is the fourth of the scores 0, 1, 1, 1, 2, which is the third
	// of the tied scores. A new row with the score 1 has four possible places among them.
	// Three places come before the fourth score, so the new row is covered in three of four
	// cases.
	c, err := newJointBox(symmetricIntervals([]float64{5, 5, 5, 5, 5}, []float64{7, 7, 7, 7, 7}), []float64{5, 4, 8, 4, 9}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	const alpha = 1. / 3
	below, above := math.Nextafter(19, 0), math.Nextafter(9, 20)
	for _, tt := range []struct{ tau, lower, upper float64 }{
		{0, 9, 19}, {.74, 9, 19}, {.76, above, below}, {1, above, below},
	} {
		if a, b := calibratedInterval(c, 10, 18, alpha, tt.tau); a != tt.lower || b != tt.upper {
			t.Errorf("τ=%v: from %v to %v, want from %v to %v", tt.tau, a, b, tt.lower, tt.upper)
		}
	}
	if a, b := calibratedInterval(c, 10, 18, alpha, 0); a != 9 || b != 19 {
		t.Errorf("plain interval from %v to %v, want from 9 to 19", a, b)
	}
	if a, b := calibratedInterval(c, 3, 4, .01, 1); !math.IsInf(a, -1) || !math.IsInf(b, 1) {
		t.Errorf("from %v to %v, want the whole line: rows are too few", a, b)
	}
	pointBox, err := newJointBox(symmetricIntervals([]float64{1, 1, 1}, []float64{1, 1, 1}), []float64{1, 1, 1}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := calibratedInterval(pointBox, 4, 4, .5, 0); a != 4 || b != 4 {
		t.Errorf("closed: from %v to %v, want 4 alone", a, b)
	}
	if a, b := calibratedInterval(pointBox, 4, 4, .5, 1); !(a > b) {
		t.Errorf("open: from %v to %v, want nothing", a, b)
	}
	for _, tau := range []float64{-.1, 1.1, math.NaN()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("τ=%v was accepted", tau)
				}
			}()
			calibratedInterval(c, 10, 18, alpha, tau)
		}()
	}
}

// TestEndsAreExact checks that each end is the outermost floating-point number whose score is
// covered.
func TestEndsAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 1))
	magnitude := func() float64 { return math.Ldexp(rng.NormFloat64(), rng.IntN(80)-40) }
	sumMissed := 0
	for range 20000 {
		q, y, scale := magnitude(), magnitude(), math.Abs(magnitude())
		score := func(y float64) float64 { return divideUp(subtractUp(y, q), scale) }
		for _, open := range []bool{false, true} {
			limit := threshold{score: score(y), open: open}
			covered := func(y float64) bool { return limit.covers(score(y)) }
			end := limit.upperEnd(q, scale)
			if !covered(end) || covered(math.Nextafter(end, math.Inf(1))) {
				t.Fatalf("score %v, open %v, quantile %v, scale %v: the end is %v", limit.score, open, q, scale, end)
			}
			if low := limit.lowerEnd(-q, scale); low != -end {
				t.Fatalf("the lower end is %v, want %v", low, -end)
			}
			if !open && y > end {
				t.Fatalf("%v is beyond the end %v and made the threshold", y, end)
			}
			if !open && y > q+(y-q)/scale*scale {
				sumMissed++
			}
		}
	}
	if sumMissed == 0 {
		t.Error("the rounded sum never missed the target: the test shows nothing")
	}
	for _, tt := range []struct {
		limit              threshold
		quantile, scale, y float64
	}{
		{threshold{score: math.Inf(1)}, 3, 1, math.Inf(1)},
		{threshold{score: math.Inf(1)}, 3, 0, math.Inf(1)},
		{threshold{math.Inf(1), true}, 3, 1, math.Inf(1)},
		{threshold{math.Inf(1), true}, 3, 0, 3},
		{threshold{score: math.Inf(-1)}, 3, 1, math.Inf(-1)},
		{threshold{score: 2}, math.Inf(-1), 1, math.Inf(-1)},
		{threshold{score: 2}, math.Inf(1), 1, math.Inf(1)},
		{threshold{score: 2}, 3, 0, 3},
		{threshold{score: 0}, 0, 1, 0},
		{threshold{score: -1}, 3, 0, math.Nextafter(3, 0)},
		{threshold{0, true}, 3, 0, math.Nextafter(3, 0)},
		{threshold{0, true}, 3, .5, math.Nextafter(3, 0)},
		{threshold{0, true}, 0, 1, -math.SmallestNonzeroFloat64},
		{threshold{score: -1}, 1, 1, 0},
		{threshold{-1, true}, 1, 1, -math.Nextafter(1, 2) + 1},
	} {
		if got := tt.limit.upperEnd(tt.quantile, tt.scale); got != tt.y {
			t.Errorf("%+v, quantile %v, scale %v: the end is %v, want %v", tt.limit, tt.quantile, tt.scale, got, tt.y)
		}
	}
	if end := (threshold{score: 0}).lowerEnd(0, 1); end != 0 || math.Signbit(end) {
		t.Errorf("the lower end is %v, want 0", end)
	}
	if end := (threshold{score: 1}).upperEnd(math.NaN(), 1); !math.IsNaN(end) {
		t.Errorf("the end of no quantile is %v", end)
	}
}

// TestTau checks that τ is uniform over rows and over seeds, and that samples use other random
// numbers.
func TestTau(t *testing.T) {
	const n = 20000
	for name, draw := range map[string]func(i uint64) float64{
		"rows":  func(i uint64) float64 { return uniform(5, i, tauStream) },
		"seeds": func(i uint64) float64 { return uniform(i, 5, tauStream) },
	} {
		var all []float64
		for i := range uint64(n) {
			all = append(all, draw(i))
		}
		slices.Sort(all)
		var distance float64 // Kolmogorov–Smirnov statistic
		for i, v := range all {
			distance = max(distance, math.Abs(v-float64(i)/n), math.Abs(v-float64(i+1)/n))
		}
		if limit := 1.95 / math.Sqrt(n); distance > limit || all[n-1] >= 1 { // p = 0.001
			t.Errorf("%s: the distance from uniform is %v, more than %v", name, distance, limit)
		}
	}
	if uniform(5, 7, tauStream) != uniform(5, 7, tauStream) || uniform(5, 7, tauStream) == uniform(5, 7, sampleStream) {
		t.Errorf("τ is %v, then %v; samples begin with %v", uniform(5, 7, tauStream), uniform(5, 7, tauStream), uniform(5, 7, sampleStream))
	}
}
