package calibrate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

func isNear(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// TestAuditAgreesWithNonconform compares discoveries, bounds and tests with the results of
// nonconform, online-fdr and SciPy for the same p-values.
func TestAuditAgreesWithNonconform(t *testing.T) {
	var reference struct {
		Sets []struct {
			Counts     calibrate.Ranks
			BH, Storey []struct {
				Q, Lambda, P float64
				Count        int
			}
			Bounds []struct {
				Delta           float64
				Conditional     []float64
				Count, Outliers int
				FDP             []float64
			}
			Shift struct{ Higher, Lower float64 }
		}
	}
	raw, err := os.ReadFile("testdata/audit.json")
	if err == nil {
		err = json.Unmarshal(raw, &reference)
	}
	if err != nil || len(reference.Sets) == 0 {
		t.Fatal(err)
	}
	storeyCases := 0
	for i, s := range reference.Sets {
		r := s.Counts
		n := len(r) - 1
		storeyCases += len(s.Storey)
		for _, want := range append(s.BH, s.Storey...) {
			d, err := r.Discoveries(calibrate.DiscoveryOptions{FDR: want.Q, Lambda: want.Lambda})
			if err != nil || d.Count != want.Count || !isNear(d.PValue, want.P) {
				t.Errorf("set %d: %+v, want %+v, %v", i, d, want, err)
			}
		}
		for _, want := range s.Bounds {
			for k, p := range calibrate.ConditionalPValues(n, want.Delta) {
				if !isNear(p, want.Conditional[k]) {
					t.Errorf("set %d: conditional p-value %d is %v, want %v", i, k, p, want.Conditional[k])
				}
			}
			if d, err := r.Discoveries(calibrate.DiscoveryOptions{FDR: .2, Delta: want.Delta}); err != nil || d.Count != want.Count {
				t.Errorf("set %d: %+v by conditional p-values, want %d, %v", i, d, want.Count, err)
			}
			b, err := r.OutlierBounds(want.Delta)
			if err != nil || b.Outliers(r) != want.Outliers {
				t.Errorf("set %d: %d outliers, want %d, %v", i, b.Outliers(r), want.Outliers, err)
			}
			for k, fdp := range want.FDP {
				if got := b.FDP(r, float64(k+1)/float64(n+1)); !isNear(got, fdp) {
					t.Errorf("set %d: FDP %d is %v, want %v", i, k, got, fdp)
				}
			}
		}
		if higher, lower := r.Shift(); !isNear(higher, s.Shift.Higher) || !isNear(lower, s.Shift.Lower) {
			t.Errorf("set %d: %v, %v, want %+v", i, higher, lower, s.Shift)
		}
	}
	if storeyCases == 0 {
		t.Error("no reference for Storey's procedure")
	}
}

// TestCalibrationRows compares the number of calibration rows with the first number for which
// Discoveries reports a number of discoveries that is small enough.
func TestCalibrationRows(t *testing.T) {
	for _, o := range []calibrate.DiscoveryOptions{{FDR: .1}, {FDR: .2}, {FDR: .05, Delta: .1}, {FDR: .5, Delta: .8}} {
		for _, rows := range []int{1, 3, 40} {
			for _, count := range []int{1, 2, 7, 40} {
				if count > rows {
					continue
				}
				want := 1
				for ; ; want++ {
					r := calibrate.NewRanks(want)
					r[want] = rows
					d, err := r.Discoveries(o)
					if err != nil {
						t.Fatal(err)
					}
					if d.Least <= count {
						break
					}
				}
				if got, err := o.CalibrationRows(count, rows); got != want || err != nil {
					t.Errorf("%+v: %d calibration rows for %d discoveries among %d rows, not %d; %v", o, got, count, rows, want, err)
				}
			}
		}
	}
	for _, count := range []int{0, 5} {
		if n, err := (calibrate.DiscoveryOptions{FDR: .1}).CalibrationRows(count, 4); err == nil {
			t.Errorf("%d discoveries among 4 rows need %d calibration rows", count, n)
		}
	}
	if _, err := (calibrate.DiscoveryOptions{}).CalibrationRows(1, 4); err == nil {
		t.Error("a false discovery rate of 0 is no error")
	}
}

// forEachOrder calls f once for each order of m inliers and n calibration rows, with the ranks
// of the inliers. All orders are equally likely. It returns the number of orders.
func forEachOrder(n, m int, f func(calibrate.Ranks)) (count int) {
	r := calibrate.NewRanks(n)
	var place func(k, remaining int)
	place = func(k, remaining int) {
		if k == n {
			r[k] = remaining
			f(r)
			count++
			return
		}
		for r[k] = 0; r[k] <= remaining; r[k]++ {
			place(k+1, remaining-r[k])
		}
	}
	place(0, m)
	return count
}

// TestAuditUnderExactDistribution checks guarantees exactly, by going through all orders of a
// few calibration rows and inliers. Outliers get the ranks that are most likely to violate a
// guarantee.
func TestAuditUnderExactDistribution(t *testing.T) {
	var largestRatio float64
	for _, size := range [][2]int{{1, 4}, {4, 5}, {7, 5}, {9, 4}, {3, 9}} {
		n, m := size[0], size[1]
		for _, delta := range []float64{.1, .3, .5} {
			for _, outliers := range []int{0, 3, 20} {
				for _, outlierRank := range []int{0, n / 2, n} {
					if outliers == 0 && outlierRank > 0 {
						continue // without outliers, their rank does not matter
					}
					missed, low, high := 0, 0, 0
					lambdas := [...]float64{0, .5}
					var fdp [len(lambdas)]float64
					orders := forEachOrder(n, m, func(inliers calibrate.Ranks) {
						r := slices.Clone(inliers)
						r[outlierRank] += outliers
						b, err := r.OutlierBounds(delta)
						if err != nil {
							t.Fatal(err)
						}
						// Bounds must hold for all rows, and for the group of all inliers,
						// which contains no outlier. They must also hold for the rows of
						// either with the smallest p-values.
						wrong := b.Outliers(inliers) > 0 || b.Outliers(r) > outliers
						rows, inlierRows := 0, 0
						for k := range r {
							rows += r[k]
							inlierRows += inliers[k]
							p := float64(k+1) / float64(n+1)
							wrong = wrong || inlierRows > 0 && b.FDP(inliers, p) < 1
							wrong = wrong || rows > 0 && b.FDP(r, p) < float64(inlierRows)/float64(rows)-1e-12
						}
						if wrong {
							missed++
						}
						if higher, lower := inliers.Shift(); higher <= delta {
							high++
						} else if lower <= delta {
							low++
						}
						for l, lambda := range lambdas {
							d, err := r.Discoveries(calibrate.DiscoveryOptions{FDR: delta, Lambda: lambda})
							if err != nil {
								t.Fatal(err)
							}
							rows, inlierRows = 0, 0
							for k := range int(math.Round(d.PValue * float64(n+1))) {
								rows += r[k]
								inlierRows += inliers[k]
							}
							if rows != d.Count || rows > 0 && rows < d.Least {
								t.Fatalf("%+v of %v", d, r)
							}
							fdp[l] += float64(inlierRows) / float64(max(rows, 1))
						}
					})
					total := float64(orders)
					name := fmt.Sprintf("n %d, m %d, delta %v, %d outliers at %d", n, m, delta, outliers, outlierRank)
					if float64(missed)/total > delta || float64(high)/total > delta || float64(low)/total > delta {
						t.Errorf("%s: bounds are violated in %d, shifts up are found in %d, down in %d of %d orders", name, missed, high, low, orders)
					}
					for l, lambda := range lambdas {
						largestRatio = max(largestRatio, fdp[l]/total/delta)
						if fdp[l]/total > delta+1e-12 {
							t.Errorf("%s, lambda %v: false discovery rate %v", name, lambda, fdp[l]/total)
						}
					}
				}
			}
		}
	}
	if largestRatio < .8 {
		t.Errorf("the false discovery rate is at most %v of its limit: the test shows nothing", largestRatio)
	}
}

// TestAuditBoundsBySimulation checks OutlierBounds with more rows than
// TestAuditUnderExactDistribution can enumerate. The probability that the bounds are
// violated must be at most delta, but not far below it. The bounds must find most of the
// outliers.
func TestAuditBoundsBySimulation(t *testing.T) {
	const n, m, delta, trials = 200, 600, .2, 600
	for _, outliers := range []int{0, 60} {
		rng := rand.New(rand.NewPCG(3, uint64(outliers)))
		missed, found := 0, 0
		for range trials {
			scores := make([]float64, n)
			for i := range scores {
				scores[i] = rng.NormFloat64()
			}
			c, err := calibrate.NewConformal(scores)
			if err != nil {
				t.Fatal(err)
			}
			all, inliers := calibrate.NewRanks(n), calibrate.NewRanks(n)
			for i := range m {
				s := rng.NormFloat64()
				if i < outliers {
					s += 4
				}
				p := c.PValue(s)
				if err := all.Add(p); err != nil {
					t.Fatal(err)
				}
				if i >= outliers {
					inliers.Add(p)
				}
			}
			b, err := all.OutlierBounds(delta)
			if err != nil {
				t.Fatal(err)
			}
			if b.Outliers(inliers) > 0 {
				missed++
			}
			found += b.Outliers(all)
		}
		if fraction := float64(missed) / trials; fraction > delta || fraction < delta/4 {
			t.Errorf("with %d outliers bounds are violated in %v of draws, %v asked", outliers, fraction, delta)
		}
		if mean := float64(found) / trials; outliers > 0 && mean < .7*float64(outliers) {
			t.Errorf("%v of %d outliers are found", mean, outliers)
		}
	}
}

func TestRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c, err := calibrate.NewConformal([]float64{1, 2, 2, 3, 5})
	if err != nil {
		t.Fatal(err)
	}
	whole, parts := calibrate.NewRanks(5), []calibrate.Ranks{calibrate.NewRanks(5), calibrate.NewRanks(5), calibrate.NewRanks(5)}
	for i := range 100 {
		p := c.PValue(float64(rng.IntN(7)))
		if err := whole.Add(p); err != nil {
			t.Fatal(err)
		}
		if err := parts[i%3].Add(p); err != nil {
			t.Fatal(err)
		}
	}
	merged := calibrate.NewRanks(5)
	for _, part := range parts {
		if err := merged.Merge(part); err != nil {
			t.Fatal(err)
		}
	}
	if whole.Rows() != 100 || !reflect.DeepEqual(merged, whole) {
		t.Errorf("parts come to %v, the whole to %v", merged, whole)
	}
	for _, p := range []float64{0, .1, .18, 1.2, -.5, math.NaN(), math.Inf(1)} {
		if whole.Add(p) == nil {
			t.Errorf("p-value %v of 5 calibration rows is counted", p)
		}
	}
	if whole.Merge(calibrate.NewRanks(6)) == nil {
		t.Error("ranks of another calibration set are added")
	}
	// With many calibration rows, rounding must not count a p-value in a wrong entry.
	for _, n := range []int{1, 48, 4999, 999999} {
		large := calibrate.NewRanks(n)
		for k := range n + 1 {
			if err := large.Add(float64(1+k) / float64(n+1)); err != nil || large[k] != 1 {
				t.Fatalf("rank %d of %d: %v", k, n, err)
			}
		}
	}
}

// TestDiscoveriesFloor checks that Least rows with the smallest possible p-value are
// discoveries, and that one row fewer gives none.
func TestDiscoveriesFloor(t *testing.T) {
	for _, o := range []calibrate.DiscoveryOptions{{FDR: .1}, {FDR: .05, Delta: .1}, {FDR: .3}} {
		r := calibrate.NewRanks(9999)
		r[9999] = 1_000_000
		d, err := r.Discoveries(o)
		if err != nil || d.Count != 0 || d.PValue != 0 {
			t.Fatal(d, err)
		}
		if o.Delta == 0 && d.Least != int(math.Ceil(100/o.FDR*(1-1e-9))) {
			t.Errorf("%+v: at least %d discoveries", o, d.Least)
		}
		for _, more := range []int{-1, 0} {
			r[0], r[9999] = d.Least+more, 1_000_000-d.Least-more
			if got, err := r.Discoveries(o); err != nil || got.Count != (more+1)*d.Least {
				t.Errorf("%+v: %+v with %d rows at the smallest p-value, %v", o, got, r[0], err)
			}
		}
	}
	for _, o := range []calibrate.DiscoveryOptions{{}, {FDR: 1}, {FDR: math.NaN()}, {FDR: .1, Lambda: 1}, {FDR: .1, Lambda: -1}, {FDR: .1, Delta: 1}} {
		if _, err := calibrate.NewRanks(3).Discoveries(o); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

// TestConditionalPValues checks the false-alarm rate given the calibration rows. For all but a
// fraction delta of calibration sets, it must be at most α at all levels α at once.
func TestConditionalPValues(t *testing.T) {
	const n, delta, trials = 200, .2, 4000
	p := calibrate.ConditionalPValues(n, delta)
	rng := rand.New(rand.NewPCG(5, 5))
	missed := 0
	uniform := make([]float64, n)
	for range trials {
		for i := range uniform {
			uniform[i] = rng.Float64()
		}
		slices.Sort(uniform)
		// Given the calibration rows, an inlier has a rank of at most k with probability
		// uniform[k−1].
		for k, u := range uniform {
			if u > p[k] {
				missed++
				break
			}
		}
	}
	if fraction := float64(missed) / trials; fraction > delta || fraction < delta/4 {
		t.Errorf("missed in %v of calibration sets, %v asked", fraction, delta)
	}
	for _, n := range []int{0, 1, 2, 3} {
		p := calibrate.ConditionalPValues(n, delta)
		if len(p) != n+1 || p[n] != 1 || !slices.IsSorted(p) || math.IsNaN(p[0]) {
			t.Errorf("of %d rows: %v", n, p)
		}
	}
}

// TestShiftFindsOutliers checks that the p-value of Shift is below delta exactly if
// OutlierBounds(delta) finds an outlier.
func TestShiftFindsOutliers(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	cases := [2]int{}
	for range 300 {
		n := 1 + rng.IntN(300)
		r := calibrate.NewRanks(n)
		fraction := rng.Float64() * .2
		for range 1 + rng.IntN(500) {
			p := rng.Float64()
			if rng.Float64() < fraction {
				p *= .01
			}
			r[int(p*float64(n+1))]++
		}
		higher, _ := r.Shift()
		for _, delta := range []float64{.01, .05, .5} {
			b, err := r.OutlierBounds(delta)
			if err != nil {
				t.Fatal(err)
			}
			found := b.Outliers(r) > 0
			if found != (higher < delta) {
				t.Errorf("%v: outliers found %v at %v, but Higher %v", r, found, delta, higher)
			}
			if found {
				cases[1]++
			} else {
				cases[0]++
			}
		}
	}
	if cases[0] < 50 || cases[1] < 50 {
		t.Errorf("%v cases without and with outliers", cases)
	}
	if _, err := calibrate.NewRanks(3).OutlierBounds(0); err == nil {
		t.Error("delta 0 is no error")
	}
}

// TestOutlierBoundsErrors checks that the methods of OutlierBounds panic for rows that were not
// audited and on the zero value. ConditionalPValues must panic for an invalid delta.
func TestOutlierBoundsErrors(t *testing.T) {
	all := calibrate.Ranks{5, 1, 1, 1}
	b, err := all.OutlierBounds(.1)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(){
		"other calibration rows": func() { b.Outliers(calibrate.Ranks{5, 0, 0}) },
		"more rows":              func() { b.FDP(calibrate.Ranks{9, 0, 0, 0}, .5) },
		"no bounds":              func() { new(calibrate.OutlierBounds).Outliers(all) },
		"delta 3":                func() { calibrate.ConditionalPValues(5, 3) },
		"delta NaN":              func() { calibrate.ConditionalPValues(5, math.NaN()) },
	} {
		if !panics(call) {
			t.Errorf("%s: no panic", name)
		}
	}
}

func TestAuditWithoutOutliers(t *testing.T) {
	for _, r := range []calibrate.Ranks{calibrate.NewRanks(0), calibrate.NewRanks(10), {7}, {0, 3}} {
		b, err := r.OutlierBounds(.1)
		if err != nil || b.Outliers(r) != 0 || b.FDP(r, 1) < 0 {
			t.Errorf("%v: %d outliers, %v", r, b.Outliers(r), err)
		}
		if higher, lower := r.Shift(); higher != 1 || !(lower > 0 && lower <= 1) {
			t.Errorf("%v: %v, %v", r, higher, lower)
		}
		if d, err := r.Discoveries(calibrate.DiscoveryOptions{FDR: .1, Lambda: .5}); err != nil || d.Count != 0 {
			t.Errorf("%v: %+v, %v", r, d, err)
		}
	}
}

func ExampleRanks() {
	c, _ := calibrate.NewConformal([]float64{.1, .4, .2, .9, .3, .5, .7, .6, .8})
	ranks := calibrate.NewRanks(len(c.Scores))
	for _, score := range []float64{2, .35, 3, 2.5, .1, 4, 5, 6, 3, 2} {
		ranks.Add(c.PValue(score))
	}
	d, _ := ranks.Discoveries(calibrate.DiscoveryOptions{FDR: .2})
	b, _ := ranks.OutlierBounds(.1)
	fmt.Println(d.Count, "discoveries with p-values up to", d.PValue)
	fmt.Printf("at most %.2f of them are false, and at least %d rows are outliers\n", b.FDP(ranks, d.PValue), b.Outliers(ranks))
	// Output:
	// 8 discoveries with p-values up to 0.1
	// at most 0.38 of them are false, and at least 5 rows are outliers
}

func ExampleRanks_Shift() {
	ranks := calibrate.NewRanks(99)
	for i := range 1000 {
		ranks.Add(float64(1+i%100) / 100)
	}
	fmt.Println(ranks.Shift())
	ranks[0] += 100
	higher, _ := ranks.Shift()
	fmt.Printf("%.1e\n", higher)
	// Output:
	// 1 1
	// 3.3e-04
}

func ExampleConditionalPValues() {
	p := calibrate.ConditionalPValues(1000, .1)
	fmt.Printf("%.4f in place of %.4f, %.3f in place of %.3f\n", p[0], 1./1001, p[49], 50./1001)
	// Output: 0.0046 in place of 0.0010, 0.072 in place of 0.050
}
