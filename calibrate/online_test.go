package calibrate_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

// TestOnlineAgreesWithOnlineFDR compares discoveries and levels with the package online-fdr.
func TestOnlineAgreesWithOnlineFDR(t *testing.T) {
	type decisions struct {
		Discoveries []int
		Levels      []float64
	}
	var reference struct {
		Streams []struct {
			P, E                    []float64
			FDR                     float64
			LOND, ELOND, LORD, Rich decisions
		}
	}
	raw, err := os.ReadFile("testdata/online.json")
	if err == nil {
		err = json.Unmarshal(raw, &reference)
	}
	if err != nil || len(reference.Streams) == 0 {
		t.Fatal(err)
	}
	found := 0
	for i, s := range reference.Streams {
		for _, test := range []struct {
			name string
			calibrate.Online
			want decisions
		}{
			{"LOND", calibrate.Online{FDR: s.FDR}, s.LOND},
			{"e-LOND", calibrate.Online{FDR: s.FDR}, s.ELOND},
			{"LORD++", calibrate.Online{FDR: s.FDR, LORD: true}, s.LORD},
			{"LORD++ with more wealth", calibrate.Online{FDR: s.FDR, LORD: true, Wealth: .9 * s.FDR}, s.Rich},
		} {
			for k, p := range s.P {
				if k%20 == 0 && !isNear(test.Level(), test.want.Levels[k/20]) {
					t.Fatalf("stream %d, %s: level %d is %v, want %v", i, test.name, k, test.Level(), test.want.Levels[k/20])
				}
				if test.name == "e-LOND" {
					p = 1 / s.E[k]
				}
				if before := len(test.Discoveries); test.Test(p) != (len(test.Discoveries) > before) {
					t.Errorf("stream %d, %s: row %d is a discovery, or is counted as one", i, test.name, k)
				}
			}
			found += len(test.Discoveries)
			if !slices.Equal(test.Discoveries, test.want.Discoveries) {
				t.Errorf("stream %d, %s: %v, want %v", i, test.name, test.Discoveries, test.want.Discoveries)
			}
		}
	}
	if found < 300 {
		t.Errorf("only %d discoveries to compare", found)
	}
}

// TestOnlineFalseDiscoveries checks that the average fraction of false discoveries is at most
// FDR. Streams contain outliers. All p-values of a stream come from the same calibration set.
func TestOnlineFalseDiscoveries(t *testing.T) {
	const trials, n, rows, fdr = 100, 20000, 100, .2
	rng := rand.New(rand.NewPCG(5, 5))
	var fractions, power [4]float64
	for range trials {
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = rng.NormFloat64()
		}
		c, err := calibrate.NewConformal(scores)
		if err != nil {
			t.Fatal(err)
		}
		conditional := calibrate.ConditionalPValues(n, .1)
		lond, elond := calibrate.Online{FDR: fdr, Horizon: rows}, calibrate.Online{FDR: fdr, Horizon: rows}
		londUnlimited, lord := calibrate.Online{FDR: fdr}, calibrate.Online{FDR: fdr, LORD: true}
		var discoveries, falseDiscoveries [4]float64
		var outliers float64
		for range rows {
			outlier := rng.Float64() < .3
			score := rng.NormFloat64()
			if outlier {
				score += 5
				outliers++
			}
			p := c.PValue(score)
			e := 0.
			if p <= 20./(n+1) {
				e = (n + 1) / 20.
			}
			q := conditional[int(math.Round(p*float64(len(conditional))))-1]
			for i, discovery := range [...]bool{lond.Test(p), elond.Test(1 / e), londUnlimited.Test(p), lord.Test(q)} {
				if discovery {
					discoveries[i]++
					if !outlier {
						falseDiscoveries[i]++
					}
				}
			}
		}
		for i := range discoveries {
			fractions[i] += falseDiscoveries[i] / max(1, discoveries[i]) / trials
			power[i] += (discoveries[i] - falseDiscoveries[i]) / max(1, outliers) / trials
		}
	}
	t.Logf("LOND with a horizon, e-LOND with it, LOND, LORD++: false discoveries %.3f, outliers discovered %.3f", fractions, power)
	for i, fraction := range fractions {
		if fraction > fdr {
			t.Errorf("procedure %d: %v of the discoveries are false", i, fraction)
		}
	}
	if slices.Min(power[:]) < .5 {
		t.Errorf("outliers are not discovered: %v", power)
	}
}

// TestOnlineErrors checks that Level and Test panic for options that are out of range or have
// no effect.
func TestOnlineErrors(t *testing.T) {
	for _, o := range []calibrate.Online{
		{}, {FDR: 2}, {FDR: -.1}, {FDR: math.NaN()}, {FDR: .1, Horizon: -5}, {FDR: .1, LORD: true, Horizon: 5},
		{FDR: .1, Wealth: .05}, {FDR: .1, LORD: true, Wealth: .1}, {FDR: .1, LORD: true, Wealth: -.1}, {FDR: .1, LORD: true, Wealth: math.NaN()},
	} {
		for name, call := range map[string]func(){"Level": func() { o.Level() }, "Test": func() { o.Test(.5) }} {
			if !panics(call) {
				t.Errorf("%s of %+v does not panic", name, o)
			}
		}
	}
}

func panics(call func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call()
	return false
}

// TestOnlineUnusualInput checks that unusual saved states and unusual p-values never make a
// discovery.
func TestOnlineUnusualInput(t *testing.T) {
	for _, l := range []calibrate.Online{
		{FDR: .1, Horizon: 3, Rows: 3, Discoveries: []int{1, 2, 3}},
		{FDR: .1, Rows: -5},
		{FDR: .1, Rows: math.MaxInt},
		{FDR: .1, LORD: true, Rows: math.MaxInt},
	} {
		if before := l; l.Test(1e-300) || l.Test(0) {
			t.Errorf("%+v makes a discovery", before)
		}
	}
	l, m := calibrate.Online{FDR: .1}, calibrate.Online{FDR: .1, LORD: true, Rows: 4, Discoveries: []int{9, -1}}
	if l.Test(math.NaN()) || l.Test(-1) || l.Test(1/math.Copysign(0, -1)) || m.Test(math.NaN()) || !(m.Level() < .1) {
		t.Error("no p-value is a discovery")
	}
}
