package hypothesis_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
	. "github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// reference is the content of testdata/evidence.json, which testdata/evidence.py writes.
type reference struct {
	Shares []struct {
		Count, N  int
		Low, High float64
	}
	Misses []struct {
		Allowed, Calibration, Count, Rows int
		P                                 float64
	}
	Binomials []struct {
		Count, N int
		P, Tail  float64
	}
	Samples []struct {
		A, B        []float64
		Distance, P float64
	}
}

func readReference(t *testing.T) (r reference) {
	t.Helper()
	raw, err := os.ReadFile("testdata/evidence.json")
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil || len(r.Shares) == 0 || len(r.Misses) == 0 || len(r.Binomials) == 0 || len(r.Samples) == 0 {
		t.Fatal(err)
	}
	return r
}

func isNear(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(math.Abs(b), 1e-12)
}

func TestAgreesWithSciPy(t *testing.T) {
	r := readReference(t)
	for _, s := range r.Shares {
		if low, high := Interval(s.Count, s.N, .95); !isNear(low, s.Low, 1e-7) || !isNear(high, s.High, 1e-7) {
			t.Errorf("%d of %d: %v to %v, want %v to %v", s.Count, s.N, low, high, s.Low, s.High)
		}
	}
	for _, m := range r.Misses {
		if p := (Misses{m.Allowed, m.Calibration}).AtLeast(m.Count, m.Rows); !isNear(p, m.P, 1e-6) && math.Abs(p-m.P) > 1e-9 {
			t.Errorf("%+v: %v", m, p)
		}
	}
	for _, b := range r.Binomials {
		if p := Binomial(b.Count, b.N, b.P); !isNear(p, b.Tail, 1e-7) {
			t.Errorf("%+v: %v", b, p)
		}
	}
	for _, s := range r.Samples {
		if d, p := Kolmogorov(s.A, s.B); !isNear(d, s.Distance, 1e-12) || !isNear(p, s.P, 1e-9) {
			t.Errorf("%d and %d numbers: %v with %v, want %v with %v", len(s.A), len(s.B), d, p, s.Distance, s.P)
		}
	}
}

// TestMissesOfConformal checks that the number of misses among new rows has the distribution
// of AtLeast, over draws of calibration rows and new rows.
func TestMissesOfConformal(t *testing.T) {
	const n, rows, alpha, trials = 99, 60, .1, 20000
	rng := rand.New(rand.NewPCG(1, 2))
	var counts [rows + 1]int
	for range trials {
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = rng.Float64()
		}
		c, err := calibrate.NewConformal(scores)
		if err != nil {
			t.Fatal(err)
		}
		missed := 0
		for range rows {
			if c.PValue(rng.Float64()) <= alpha {
				missed++
			}
		}
		counts[missed]++
	}
	m := Misses{10, n}
	atLeast := 0
	for k := rows; k >= 0; k-- {
		atLeast += counts[k]
		want := m.AtLeast(k, rows)
		if got := float64(atLeast) / trials; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/trials)+1e-9 {
			t.Errorf("%d or more in %.4f, want %.4f", k, got, want)
		}
	}
}

// TestRowsFor checks that the power is reached with the returned number of rows and with more
// rows, but not with one row fewer.
func TestRowsFor(t *testing.T) {
	for _, c := range []struct {
		m    Misses
		p, q float64 // probability of a miss to detect, and probability of a false alarm
	}{{Misses{50, 999}, .1, .01}, {Misses{20, 199}, .2, .01}, {Misses{100, 1999}, .1, .001}} {
		rows := c.m.RowsFor(.8, c.q, c.p)
		if rows < 20 || c.m.Power(rows-1, c.q, c.p) >= .8 {
			t.Errorf("%+v: %d rows, and power of one less is %v", c.m, rows, c.m.Power(rows-1, c.q, c.p))
		}
		for more := range 300 {
			if power := c.m.Power(rows+more, c.q, c.p); power < .8 {
				t.Errorf("%+v: %d rows, and power of %d more is %v", c.m, rows, more, power)
			}
		}
	}
	if rows := (Misses{5, 99}).RowsFor(.8, .01, .1); rows != 0 {
		t.Errorf("with 99 calibration rows, %d rows are enough to tell .1 from .05", rows)
	}
}

// TestNeededIsSane checks that following the advice of Needed does not lead to more advice.
// It also checks that more calibration rows never need more new rows.
func TestNeededIsSane(t *testing.T) {
	const significance, power = .01, .8
	for _, alpha := range []float64{.5, .1, .05, .01} {
		missRate := min(2*alpha, (1+alpha)/2)
		var before Need
		for n := range 3000 {
			if n > 150 && n%29 > 0 {
				continue
			}
			m := Misses{Allowed(n, Forgive(alpha)), n}
			need := m.Needed(alpha, power, significance, missRate)
			switch {
			case need.Rows < 10 || need.Rows > int(200/alpha):
				t.Errorf("alpha %v, %d calibration rows: %+v", alpha, n, need)
			case need.Calibration > 0 && need.Calibration <= n:
				t.Errorf("alpha %v: with %d calibration rows it takes %d", alpha, n, need.Calibration)
			case n > 0 && before.Calibration == 0 && (need.Calibration > 0 || need.Rows > before.Rows):
				t.Errorf("alpha %v: %d calibration rows need %+v, and fewer %+v", alpha, n, need, before)
			case n > 0 && before.Calibration > 0 && need.Calibration > 0 && need != before:
				t.Errorf("alpha %v: %d calibration rows need %+v, and fewer %+v", alpha, n, need, before)
			}
			before = need
			if need.Calibration == 0 && m.Power(need.Rows, significance, missRate) < power {
				t.Errorf("alpha %v, %d calibration rows: power of %d rows is %v", alpha, n, need.Rows, m.Power(need.Rows, significance, missRate))
			}
		}
		few := Misses{0, 1}.Needed(alpha, power, significance, missRate)
		m := Misses{Allowed(few.Calibration, Forgive(alpha)), few.Calibration}
		if after := m.Needed(alpha, power, significance, missRate); after.Calibration > 0 || after.Rows > few.Rows {
			t.Errorf("alpha %v: %+v is needed and, with as many calibration rows, %+v", alpha, few, after)
		}
	}
	if need := (Misses{0, 5}).Needed(1e-9, power, significance, 2e-9); need != (Need{}) {
		t.Errorf("a rate of 1e-9 needs %+v", need)
	}
}

// TestKolmogorovIsUniform checks that p-values are uniform or larger if both samples come from
// the same distribution, with and without ties.
func TestKolmogorovIsUniform(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const trials = 2000
	for _, ties := range []float64{0, 10} {
		below := 0
		for range trials {
			draw := func(n int) []float64 {
				x := make([]float64, n)
				for i := range x {
					if x[i] = rng.Float64(); ties > 0 {
						x[i] = math.Floor(ties * x[i])
					}
				}
				slices.Sort(x)
				return x
			}
			if _, p := Kolmogorov(draw(120), draw(80)); p < .1 {
				below++
			}
		}
		if fraction := float64(below) / trials; fraction > .1+4*math.Sqrt(.09/trials) || ties == 0 && fraction < .05 {
			t.Errorf("ties %v: %v of the probabilities are below .1", ties, fraction)
		}
	}
}

// TestAgreement compares agreement with scikit-learn's cohen_kappa_score. The score is (agreed
// − chance)/(1 − chance) if both are fractions, which is 2/11 for these labels.
func TestAgreement(t *testing.T) {
	a, b := []int{0, 0, 0, 1, 1, 2}, []int{0, 0, 1, 1, 2, 0}
	agreed, chance := Agreement(a, b)
	if agreed != 3 || !isNear(chance, 14./36, 1e-12) {
		t.Errorf("%d agree, %v by chance", agreed, chance)
	}
	if agreed, chance := Agreement(nil, nil); agreed != 0 || chance != 0 {
		t.Errorf("%d of no rows agree, %v by chance", agreed, chance)
	}
}

// TestMissesOfMany compares probabilities for many rows with exact sums of rational numbers.
func TestMissesOfMany(t *testing.T) {
	for _, c := range []struct {
		m           Misses
		count, rows int
		p           float64
	}{
		{Misses{20, 5000}, 700, 100_000, .0027287483653767874},
		{Misses{1, 5000}, 60, 100_000, .05349040249316662},
		{Misses{80, 5000}, 5000, 200_000, 6.846196962587079e-06},
	} {
		if p := c.m.AtLeast(c.count, c.rows); !isNear(p, c.p, 1e-8) {
			t.Errorf("%+v: %v", c, p)
		}
		if p := c.m.AtMost(c.count-1, c.rows); !isNear(p, 1-c.p, 1e-8) {
			t.Errorf("%+v: %v at most", c, p)
		}
	}
	for count := -1; count <= 8; count++ {
		for allowed := range 6 {
			m := Misses{allowed, 5}
			if sum := m.AtLeast(count+1, 7) + m.AtMost(count, 7); math.Abs(sum-1) > 1e-12 {
				t.Errorf("%d of 7, %+v: %v", count, m, sum)
			}
		}
	}
}
