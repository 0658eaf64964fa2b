package monitor

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestMartingalesAreNonconforms: the same capital of the same p-values, and the same
// p-values of the same scores.
func TestMartingalesAreNonconforms(t *testing.T) {
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
			highest = max(highest, m.log)
			if i%10 > 0 {
				continue
			}
			for name, value := range map[string]float64{m.name: m.log, m.name + ", restarted": m.restarted} {
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
	s := newSequential(reference.Scores[:first], func() float64 { return .25 })
	for i, want := range reference.Ranks {
		if p := s.pValue(reference.Scores[first+i]); math.Abs(p-want) > 1e-12 {
			t.Errorf("score %d has the p-value %v, want %v", i, p, want)
		}
	}
}
