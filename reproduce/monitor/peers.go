package monitor

import (
	"math"
	"slices"
)

// martingale is one of nonconform's: it bets on p-values as if each were uniform,
// whatever those before.
type martingale struct {
	name string
	// bet is the logarithm of what the capital is multiplied by.
	bet func(p float64) float64

	step, active float64
	// log is that of the capital, and restarted of nonconform's mixture over all
	// times to begin at, and the highest are those that they ever were.
	log, restarted, highest, highestRestarted float64
}

func (m *martingale) add(p float64) {
	m.step++
	bet := m.bet(p)
	m.log += bet
	m.active = bet + logSum(m.active, -math.Log(m.step)-math.Log(m.step+1))
	m.restarted = logSum(m.active, -math.Log(m.step+1))
	m.highest = max(m.highest, m.log)
	m.highestRestarted = max(m.highestRestarted, m.restarted)
}

func (m *martingale) alarm(delta float64) bool { return m.highest >= -math.Log(delta) }

func (m *martingale) alarmRestarted(delta float64) bool {
	return m.highestRestarted >= -math.Log(delta)
}

func logSum(values ...float64) float64 {
	most := slices.Max(values)
	if math.IsInf(most, 0) {
		return most
	}
	var sum float64
	for _, v := range values {
		sum += math.Exp(v - most)
	}
	return most + math.Log(sum)
}

// martingales are nonconform's with its defaults.
func martingales() []*martingale {
	all := []*martingale{{name: "power", bet: power}, {name: "mixture", bet: mixture()}, {name: "jumper", bet: jumper()}}
	for _, m := range all {
		m.active = math.Inf(-1)
	}
	return all
}

func power(p float64) float64 { return math.Log(.5) - .5*math.Log(p) }

// mixture is of a hundred power martingales.
func mixture() func(p float64) float64 {
	logs, of := make([]float64, 100), make([]float64, 100)
	for i := range of {
		of[i] = math.Log(.01 + .01*float64(i))
	}
	var before float64
	return func(p float64) float64 {
		log := math.Log(p)
		for i := range logs {
			logs[i] += of[i] + (.01+.01*float64(i)-1)*log
		}
		now := logSum(logs...) - math.Log(float64(len(logs)))
		bet := now - before
		before = now
		return bet
	}
}

// jumper is the Simple Jumper of Vovk et al. (2021), Retrain or not Retrain.
func jumper() func(p float64) float64 {
	const jump = .01
	parts := [3]float64{1. / 3, 1. / 3, 1. / 3} // of the capital
	return func(p float64) float64 {
		var sum float64
		for i := range parts {
			parts[i] = ((1-jump)*parts[i] + jump/3) * (1 + float64(i-1)*(p-.5))
			sum += parts[i]
		}
		for i := range parts {
			parts[i] /= sum
		}
		return math.Log(sum)
	}
}

// sequential ranks each score among the calibration scores and all before it, so that
// p-values of exchangeable scores are independent: nonconform's
// SequentialRankConformalizer.
type sequential struct {
	sorted  []float64
	uniform func() float64
}

func newSequential(calibration []float64, uniform func() float64) *sequential {
	s := &sequential{slices.Clone(calibration), uniform}
	slices.Sort(s.sorted)
	return s
}

func (s *sequential) pValue(score float64) float64 {
	low, _ := slices.BinarySearch(s.sorted, score)
	high := low
	for high < len(s.sorted) && s.sorted[high] == score {
		high++
	}
	n := len(s.sorted)
	p := (float64(n-high) + s.uniform()*float64(high-low+1)) / float64(n+1)
	s.sorted = slices.Insert(s.sorted, low, score)
	return p
}
