package evaluate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// simulation draws scores of calibration rows, in one or more strata, and of evaluated rows.
// Scores in the first decile are larger by shift.
type simulation struct {
	calibration []int // number of calibration rows of each stratum
	rows        int
	shift       float64
}

func (d simulation) evaluate(rng *rand.Rand) *Evaluation {
	const alpha = .1
	thresholds := make([]float64, len(d.calibration))
	for s, n := range d.calibration {
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = rng.NormFloat64()
		}
		slices.Sort(scores)
		thresholds[s] = scores[n-hypothesis.Allowed(n, hypothesis.Forgive(alpha))]
	}
	x, stratum, groups := make([]float64, d.rows), make([]int, d.rows), make([]int, d.rows)
	covered := make([]bool, d.rows)
	for i := range x {
		x[i] = rng.Float64()
		// Let the mix of strata differ between deciles, and the size differ between groups.
		stratum[i] = int(float64(len(d.calibration)) * max(0, min(.999, x[i]+.4*(rng.Float64()-.5))))
		groups[i] = int(4 * rng.Float64() * rng.Float64())
		score := rng.NormFloat64()
		if x[i] < .1 {
			score += d.shift
		}
		covered[i] = score < thresholds[stratum[i]]
	}
	s := strata{n: d.calibration}
	if len(d.calibration) > 1 {
		s.index = stratum
	}
	e := &Evaluation{}
	var families []*family
	for part, by := range map[string]grouping{byDecile: deciles(x), byGroup: {names: []string{"a", "b", "c", "d"}, index: groups}} {
		p := Guarantee{Kind: hypothesis.IntervalCoverage, Rate: Rate{Nominal: 1 - alpha}}
		parts := by.rates(func(i int) bool { return covered[i] }, nil)
		families = append(families, &family{guarantee: p, part: part, parts: parts, distributions: s.misses(by, alpha)})
	}
	e.compareParts(families)
	return e
}

// TestLimitsErrorRate checks that at most 5 % of evaluations report a failing part if coverage
// is the same in all parts, for any strata. A decile with lower coverage must be reported in
// at least 90 %.
func TestLimitsErrorRate(t *testing.T) {
	const draws = 500
	for _, d := range []simulation{{[]int{150}, 400, 0}, {[]int{40, 90, 150}, 400, 0}} {
		t.Run(fmt.Sprint(d.calibration), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 26))
			falseReports := 0
			for range draws {
				if len(d.evaluate(rng).Notes) > 0 {
					falseReports++
				}
			}
			if falseReports > draws/20 {
				t.Errorf("%d of %d evaluations report a part that does not fail", falseReports, draws)
			}
			t.Logf("%d of %d evaluations report a part that does not fail", falseReports, draws)
		})
	}
	rng := rand.New(rand.NewPCG(2, 26))
	found := 0
	for range 100 {
		// The shift lowers the coverage of the first decile from 90 % to 61 %.
		e := simulation{[]int{300}, 1000, 1}.evaluate(rng)
		for _, n := range e.Notes {
			if n.Part == byDecile && strings.Contains(n.Message, "where the prediction is 0.00") {
				found++
			}
		}
	}
	if found < 90 {
		t.Errorf("a decile that is covered 61 %% is found in %d of 100 evaluations", found)
	}
}

// TestMissesOfStrata checks that a part in a single stratum has the distribution of that
// stratum, whether there is one stratum or several.
func TestMissesOfStrata(t *testing.T) {
	by := grouping{names: []string{"a", "b"}, index: []int{0, 1, 0, 1}}
	for n := 5; n < 500; n++ {
		want := hypothesis.Misses{Allowed: hypothesis.Allowed(n, hypothesis.Forgive(.1)), Calibration: n}
		for _, s := range []strata{{n: []int{n}}, {index: []int{0, 0, 0, 0}, n: []int{n}}, {index: []int{1, 1, 1, 1}, n: []int{7, n}}} {
			for k, got := range s.misses(by, .1) {
				if got != want {
					t.Fatalf("part %d of %+v: %+v, want %+v", k, s, got, want)
				}
			}
		}
	}
	// If each stratum has half of the rows, the rate varies less than in a single stratum, as
	// if there were more calibration rows. The allowed number of misses is rounded up.
	misses := strata{index: []int{0, 0, 1, 1}, n: []int{99, 99}}.misses(by, .1)
	if misses[0] != (hypothesis.Misses{Allowed: 21, Calibration: 200}) {
		t.Errorf("the distribution of two strata of 99 rows is %+v", misses[0])
	}
}

// TestBestRemedy checks that an advised option covers the worst part more often than the
// current one.
func TestBestRemedy(t *testing.T) {
	current := remedy{"", .788, 3, 5, 0}
	for _, c := range []struct {
		name   string
		others []remedy
		want   string
	}{
		{"fewer parts miss, and the worst misses more", []remedy{{"cqr-r", .769, 1, 4.8, 0}}, ""},
		{"fewer parts miss", []remedy{{"cqr-r", .8, 2, 6, 0}, {"rcp", .79, 1, 7, 0}}, "rcp"},
		{"as many parts miss", []remedy{{"cqr-r", .863, 2, 5, 0}, {"rcp", .853, 2, 5.3, 0}}, "cqr-r"},
		{"no part misses", []remedy{{"cqr-r", .85, 0, 6, 0}, {"rcp", .86, 0, 5.5, 0}}, "rcp"},
		{"no part misses, and no interval ends", []remedy{{"cqr-r", 1, 0, math.NaN(), 0}}, "cqr-r"},
	} {
		if got := bestRemedy(current, c.others); got.value != c.want {
			t.Errorf("%s: %q is advised, want %q", c.name, got.value, c.want)
		}
	}
}

// TestGuaranteeOfPart checks that advice about too few calibration rows names the class that
// needs more rows.
func TestGuaranteeOfPart(t *testing.T) {
	for n, want := range map[int]string{
		5:  "calibrate with at least 9 rows of class b, and with 200 to tell whether the guarantee is met",
		43: "calibrate with 200 rows of class b or more, and evaluate on 330 rows of class b",
	} {
		e := &Evaluation{Rows: 1000}
		r := rate(95, 100)
		r.Name, r.Nominal = "b", 0.9
		e.judge(Guarantee{Kind: hypothesis.SetCoverage, Part: byClass, Rate: *r}, n, 2)
		if got := e.Guarantees[0]; got.Verdict != hypothesis.TooFewRows || got.Advice != want {
			t.Errorf("%d calibration rows: %s, %q, want %q", n, got.Verdict, got.Advice, want)
		}
	}
}
