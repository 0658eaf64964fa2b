package monitor

import (
	"math"
	"slices"
)

// martingale is one of nonconform's martingales. Its bets are fair if each p-value is
// uniform given all earlier p-values.
type martingale struct {
	name string
	// bet returns the logarithm of the factor that multiplies the capital.
	bet func(p float64) float64

	step, logActive float64
	// logCapital is the logarithm of the capital. logRestarted is the logarithm of
	// nonconform's mixture over all start times. highest and highestRestarted are the
	// maxima of logCapital and logRestarted so far.
	logCapital, logRestarted, highest, highestRestarted float64
}

func (m *martingale) add(p float64) {
	m.step++
	bet := m.bet(p)
	m.logCapital += bet
	m.logActive = bet + logSum(m.logActive, -math.Log(m.step)-math.Log(m.step+1))
	m.logRestarted = logSum(m.logActive, -math.Log(m.step+1))
	m.highest = max(m.highest, m.logCapital)
	m.highestRestarted = max(m.highestRestarted, m.logRestarted)
}

func (m *martingale) alarm(delta float64) bool { return m.highest >= -math.Log(delta) }

func (m *martingale) alarmRestarted(delta float64) bool {
	return m.highestRestarted >= -math.Log(delta)
}

func logSum(values ...float64) float64 {
	maximum := slices.Max(values)
	if math.IsInf(maximum, 0) {
		return maximum
	}
	var sum float64
	for _, v := range values {
		sum += math.Exp(v - maximum)
	}
	return maximum + math.Log(sum)
}

// martingales returns nonconform's martingales with their default parameters.
func martingales() []*martingale {
	list := []*martingale{{name: "power", bet: power}, {name: "mixture", bet: mixture()}, {name: "jumper", bet: jumper()}}
	for _, m := range list {
		m.logActive = math.Inf(-1)
	}
	return list
}

func power(p float64) float64 { return math.Log(.5) - .5*math.Log(p) }

// mixture returns the bets of a mixture of 100 power martingales.
func mixture() func(p float64) float64 {
	logCapitals, logWeights := make([]float64, 100), make([]float64, 100)
	for i := range logWeights {
		logWeights[i] = math.Log(.01 + .01*float64(i))
	}
	var previous float64
	return func(p float64) float64 {
		logP := math.Log(p)
		for i := range logCapitals {
			logCapitals[i] += logWeights[i] + (.01+.01*float64(i)-1)*logP
		}
		current := logSum(logCapitals...) - math.Log(float64(len(logCapitals)))
		bet := current - previous
		previous = current
		return bet
	}
}

// jumper returns the bets of the Simple Jumper of Vovk et al. (2021), Retrain or Not
// Retrain.
func jumper() func(p float64) float64 {
	const jumpRate = .01
	capital := [3]float64{1. / 3, 1. / 3, 1. / 3} // distribution over three betting strategies
	return func(p float64) float64 {
		var sum float64
		for i := range capital {
			capital[i] = ((1-jumpRate)*capital[i] + jumpRate/3) * (1 + float64(i-1)*(p-.5))
			sum += capital[i]
		}
		for i := range capital {
			capital[i] /= sum
		}
		return math.Log(sum)
	}
}

// sequentialRanks ranks each score among the calibration scores and all earlier scores. The
// p-values of exchangeable scores are then independent. nonconform calls this
// SequentialRankConformalizer.
type sequentialRanks struct {
	sorted  []float64
	uniform func() float64
}

func newSequentialRanks(calibration []float64, uniform func() float64) *sequentialRanks {
	s := &sequentialRanks{slices.Clone(calibration), uniform}
	slices.Sort(s.sorted)
	return s
}

func (s *sequentialRanks) pValue(score float64) float64 {
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
