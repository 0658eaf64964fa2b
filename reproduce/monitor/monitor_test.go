package monitor

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestMartingalesMatchNonconform compares capitals and p-values with recorded results of
// nonconform.
func TestMartingalesMatchNonconform(t *testing.T) {
	var reference struct {
		P, Scores, Ranks []float64
		Logs             map[string][]float64
	}
	raw, err := os.ReadFile("testdata/martingales.json")
	if err == nil {
		err = json.Unmarshal(raw, &reference)
	}
	if err != nil || len(reference.P) == 0 || len(reference.Ranks) == 0 {
		t.Fatal(err)
	}
	for _, m := range martingales() {
		highest := 0.
		for i, p := range reference.P {
			m.add(p)
			highest = max(highest, m.logCapital)
			if i%10 > 0 {
				continue
			}
			for name, value := range map[string]float64{m.name: m.logCapital, m.name + ", restarted": m.logRestarted} {
				if want := reference.Logs[name][i/10]; math.Abs(value-want) > 1e-9 {
					t.Errorf("%s: step %d is %v, want %v", name, i, value, want)
				}
			}
		}
		if !m.alarm(math.Exp(-highest)*1.001) || m.alarm(math.Exp(-highest)*.999) {
			t.Errorf("%s: alarms do not stand on its highest value %v", m.name, highest)
		}
	}
	const first = 20
	s := newSequentialRanks(reference.Scores[:first], func() float64 { return .25 })
	for i, want := range reference.Ranks {
		if p := s.pValue(reference.Scores[first+i]); math.Abs(p-want) > 1e-12 {
			t.Errorf("score %d has the p-value %v, want %v", i, p, want)
		}
	}
}

// TestDrift checks which alarms count as detection, before and after the change.
func TestDrift(t *testing.T) {
	calibration := make([]float64, 999)
	for i := range calibration {
		calibration[i] = float64(i)
	}
	high := func(start, end int) func(int) (float64, bool) {
		return func(t int) (float64, bool) {
			if t >= start {
				return 1e6, t < end
			}
			return float64(t * 7919 % 999), true
		}
	}
	d := &drift{rowsBefore: 50, rows: 100}
	for _, stream := range []func(int) (float64, bool){high(50, 1000), high(50, 1000), high(50, 1000), high(20, 1000), high(50, 51)} {
		if err := d.measure(calibration, 1, stream); err != nil {
			t.Fatal(err)
		}
	}
	const name = "calibrate.Monitor"
	if d.streams != 5 || d.earlyAlarms[name] != 1 || len(d.delays[name]) != 3 || len(d.order) != 7 {
		t.Errorf("%+v", d)
	}
	if m := d.median(name); !(m >= 2 && m < 30) {
		t.Errorf("noticed after %v rows", m)
	}
	if m := (&drift{streams: 3, delays: map[string][]float64{name: {5}}}).median(name); !math.IsInf(m, 1) {
		t.Errorf("median %v, though most never alarm", m)
	}
}

// TestUnchangedStream checks the outcomes of streams without drift. Only every tenth stream
// also runs the martingales of nonconform.
func TestUnchangedStream(t *testing.T) {
	found, err := unchangedStream(t.Context(), 200, 1000, 10)
	if err != nil || len(found) != 4 {
		t.Fatal(found, err)
	}
	for _, o := range found {
		if want := map[bool]int{true: 1000, false: 100}[o.Monitor == "calibrate.Monitor"]; o.Rows != want || o.N != 200 || o.Seed != 10 {
			t.Errorf("%+v", o)
		}
	}
	if found, err = unchangedStream(t.Context(), 200, 1000, 11); err != nil || len(found) != 1 {
		t.Errorf("%v, %v: the others get a tenth of the streams", found, err)
	}
}
