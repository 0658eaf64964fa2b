package calibrate_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

func normal(rng *rand.Rand, n int, mean float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = mean + rng.NormFloat64()
	}
	return x
}

func monitor(t *testing.T, calibration []float64, seed uint64) *calibrate.Monitor {
	t.Helper()
	m, err := calibrate.NewMonitor(calibration, seed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMonitorMeetsItsGuarantee checks that a Monitor of an exchangeable stream alarms at δ in
// at most a fraction δ of trials, with and without ties. Each trial draws new calibration
// rows.
func TestMonitorMeetsItsGuarantee(t *testing.T) {
	const trials, rows = 200, 2000
	for _, step := range []float64{0, .5, 4} {
		rng := rand.New(rand.NewPCG(1, uint64(step*2)))
		round := func(x []float64) []float64 {
			for i := range x {
				if step > 0 {
					x[i] = step * math.Round(x[i]/step)
				}
			}
			return x
		}
		var alarms [2]int
		deltas := [...]float64{.2, .05}
		for trial := range uint64(trials) {
			m := monitor(t, round(normal(rng, 100, 0)), trial)
			for _, score := range round(normal(rng, rows, 0)) {
				m.Add(score)
			}
			for i, delta := range deltas {
				if m.Alarm(delta) {
					alarms[i]++
				}
			}
		}
		for i, delta := range deltas {
			if limit := trials*delta + 3*math.Sqrt(trials*delta); float64(alarms[i]) > limit {
				t.Errorf("scores in steps of %v: %d of %d streams alarm at %v", step, alarms[i], trials, delta)
			}
		}
		t.Logf("steps of %v: %v of %d alarm at %v", step, alarms, trials, deltas)
	}
}

// TestMonitorDetectsDrift checks that a Monitor detects a few OOD rows and small shifts of all
// rows. Drift starts at the beginning of a stream or after a long time.
func TestMonitorDetectsDrift(t *testing.T) {
	for _, drift := range []struct {
		fraction, mean float64
		maxRows        int
	}{{.2, 4, 100}, {.05, 4, 500}, {1, .5, 1000}, {1, 2, 50}} {
		for _, before := range []int{0, 50000} {
			rng := rand.New(rand.NewPCG(2, 2))
			m := monitor(t, normal(rng, 5000, 0), 0)
			for _, score := range normal(rng, before, 0) {
				m.Add(score)
			}
			if m.Alarm(.01) {
				t.Fatal("false alarm")
			}
			for !m.Alarm(.01) && m.Rows() < before+10000 {
				score := rng.NormFloat64()
				if rng.Float64() < drift.fraction {
					score += drift.mean
				}
				m.Add(score)
			}
			if rowsToAlarm := m.Rows() - before; rowsToAlarm > drift.maxRows {
				t.Errorf("%+v after %d rows is detected after %d rows", drift, before, rowsToAlarm)
			}
		}
	}
}

func TestMonitorContinuesFromState(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	calibration := normal(rng, 300, 0)
	for i := range calibration { // scores tie, so keys influence the evidence
		calibration[i] = math.Round(calibration[i])
	}
	m, other := monitor(t, calibration, 7), monitor(t, calibration, 8)
	for range 500 {
		m.Add(math.Round(1 + rng.NormFloat64()))
	}
	state, err := m.MarshalBinary()
	if err != nil || len(state) > 1000 {
		t.Fatal(len(state), err)
	}
	if err := other.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		score := math.Round(1 + rng.NormFloat64())
		m.Add(score)
		other.Add(score)
		if m.Evidence() != other.Evidence() || m.Rows() != other.Rows() || m.Alarm(.01) != other.Alarm(.01) {
			t.Fatal(m.Evidence(), other.Evidence())
		}
	}
}

func TestMonitorErrors(t *testing.T) {
	if _, err := calibrate.NewMonitor(nil, 0); err == nil {
		t.Error("no calibration rows")
	}
	if _, err := calibrate.NewMonitor([]float64{1, math.NaN()}, 0); err == nil {
		t.Error("NaN")
	}
	m := monitor(t, []float64{1, 2, 3, 4}, 0)
	if err := m.Merge(monitor(t, []float64{1, 2, 3.5, 4}, 1)); err == nil {
		t.Error("a part of other calibration rows")
	}
	if err := m.Merge(monitor(t, []float64{1, 2, 3, 4}, 0)); err == nil || !strings.Contains(err.Error(), "equal seeds") {
		t.Errorf("a part of the same seed: %v", err)
	}
	if err := m.Merge(m); err == nil {
		t.Error("itself")
	}
	m.Add(5)
	state, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := monitor(t, []float64{1, 2, 3.5, 4}, 0).UnmarshalBinary(state); err == nil || !strings.Contains(err.Error(), "other calibration scores") {
		t.Errorf("the state of other calibration rows: %v", err)
	}
	if err := new(calibrate.Monitor).UnmarshalBinary(state); err == nil {
		t.Error("without calibration rows")
	}
	evidence, rows := m.Evidence(), m.Rows()
	for i := range 8 * len(state) {
		flipped := bytes.Clone(state)
		flipped[i/8] ^= 1 << (i % 8)
		if err := m.UnmarshalBinary(flipped); err == nil {
			t.Errorf("bit %d is another: no error", i)
		}
	}
	state = state[:len(state)-crc32.Size]
	last := len(state) - 8
	for name, damage := range map[string]func([]byte) []byte{
		"empty":      func(b []byte) []byte { return nil },
		"cut short":  func(b []byte) []byte { return b[:len(b)-1] },
		"long":       func(b []byte) []byte { return append(b, 0) },
		"version":    func(b []byte) []byte { b[0]++; return b },
		"counts":     func(b []byte) []byte { b[18] = 9; return b },
		"not number": func(b []byte) []byte { binary.LittleEndian.PutUint64(b[last:], math.Float64bits(math.NaN())); return b },
		"negative":   func(b []byte) []byte { binary.LittleEndian.PutUint64(b[last:], math.Float64bits(-1)); return b },
		"rich":       func(b []byte) []byte { binary.LittleEndian.PutUint64(b[last:], math.Float64bits(1e9)); return b },
	} {
		if err := m.UnmarshalBinary(checksummed(damage(bytes.Clone(state)))); err == nil {
			t.Errorf("%s: no error", name)
		}
		if m.Evidence() != evidence || m.Rows() != rows {
			t.Errorf("%s: the monitor has changed", name)
		}
	}
}

// checksummed returns a state with its checksum appended.
func checksummed(state []byte) []byte {
	return binary.LittleEndian.AppendUint32(state, crc32.ChecksumIEEE(state))
}

func TestMonitorIsSharedWithoutAllocation(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	calibration := normal(rng, 1000, 0)
	m, total := monitor(t, calibration, 1), monitor(t, calibration, 2)
	if n := testing.AllocsPerRun(100, func() { m.Add(calibration[0]); m.Add(math.NaN()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	before := m.Rows()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				m.Add(1)
				_, _ = m.Evidence(), m.Alarm(.01)
				if err := total.Merge(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if m.Rows() != before+400 {
		t.Errorf("%d rows", m.Rows())
	}
}

func BenchmarkMonitor(b *testing.B) {
	rng := rand.New(rand.NewPCG(4, 4))
	m, err := calibrate.NewMonitor(normal(rng, 10000, 0), 1)
	if err != nil {
		b.Fatal(err)
	}
	scores := normal(rng, 1<<12, 0)
	b.ReportAllocs()
	for i := range b.N {
		m.Add(scores[i%len(scores)])
	}
}

func FuzzMonitorState(f *testing.F) {
	calibration := []float64{1, 2, 2, 3, 4, 5}
	m, err := calibrate.NewMonitor(calibration, 1)
	if err != nil {
		f.Fatal(err)
	}
	for range 20 {
		m.Add(2)
		m.Add(6)
	}
	state, err := m.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state[:len(state)-crc32.Size])
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := calibrate.NewMonitor(calibration, 1)
		if err != nil {
			t.Fatal(err)
		}
		data = checksummed(bytes.Clone(data))
		if m.UnmarshalBinary(data) != nil {
			return
		}
		again, err := m.MarshalBinary()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x is read and written as %x, %v", data, again, err)
		}
		m.Add(7)
		if !(m.Evidence() >= 0) {
			t.Fatal(m.Evidence())
		}
	})
}

// TestZeroMonitor checks that the methods of a zero Monitor do not panic. They must return an
// error or, without an error result, 0, NaN or false.
func TestZeroMonitor(t *testing.T) {
	monitor, err := calibrate.NewMonitor([]float64{1, 2, 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var zero calibrate.Monitor
	_, marshalErr := zero.MarshalBinary()
	for name, err := range map[string]error{
		"Add": zero.Add(1), "Merge": zero.Merge(monitor), "Merge of it": monitor.Merge(&zero), "MarshalBinary": marshalErr, "UnmarshalBinary": zero.UnmarshalBinary(nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "NewMonitor") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if zero.Rows() != 0 || !math.IsNaN(zero.Evidence()) || zero.Alarm(.01) {
		t.Errorf("%d rows, evidence %v, alarm %v", zero.Rows(), zero.Evidence(), zero.Alarm(.01))
	}
}

// TestAlarmDelta checks that Alarm panics if delta is not a probability between 0 and 1.
func TestAlarmDelta(t *testing.T) {
	m, err := calibrate.NewMonitor([]float64{1, 2, 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, delta := range []float64{0, -1, 1, 2, math.NaN()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Alarm(%v) does not panic", delta)
				}
			}()
			m.Alarm(delta)
		}()
	}
}
