package table3

import (
	"cmp"
	"math"
	"slices"
)

// decision is an answer to a pair.
type decision struct {
	pair
	score, p, seconds float64
}

// share of the pair's weight that is right: half where there is no answer.
func (d decision) right() float64 {
	switch {
	case d.score == 0:
		return .5
	case d.score > 0 == d.forward:
		return 1
	}
	return 0
}

// summary is a method on a set.
type summary struct {
	accuracy, stderr float64 // by weight
	area             float64 // under accuracy by the share of pairs decided, the surest first
	seconds          float64
	// Of the pairs whose p-value is at most the level:
	decided, decidedAccuracy float64 // share of the weight, and accuracy
	decidedPairs             int
}

func summarise(decisions []decision, level float64) summary {
	var s summary
	total := 0.
	for _, d := range decisions {
		total += d.weight
	}
	for _, d := range decisions {
		s.accuracy += d.weight / total * d.right()
		s.seconds += d.seconds
		if d.p > 0 && d.p <= level {
			s.decided += d.weight / total
			s.decidedAccuracy += d.weight / total * d.right()
			s.decidedPairs++
		}
	}
	s.decidedAccuracy /= s.decided
	shares, accuracies := rates(decisions)
	before := 0.
	for i, share := range shares {
		s.area += (share - before) * accuracies[i]
		before = share
	}
	var variance float64
	for _, d := range decisions {
		variance += math.Pow(d.weight/total*(d.right()-s.accuracy), 2)
	}
	s.stderr = math.Sqrt(variance)
	return s
}

// rates are accuracies by the share of the weight decided, the surest first and
// those that are equally sure together.
func rates(decisions []decision) (shares, accuracies []float64) {
	surest := slices.Clone(decisions)
	slices.SortStableFunc(surest, func(a, b decision) int { return cmp.Compare(math.Abs(b.score), math.Abs(a.score)) })
	weight, right, total := 0., 0., 0.
	for _, d := range surest {
		total += d.weight
	}
	for i, d := range surest {
		weight, right = weight+d.weight, right+d.weight*d.right()
		if weight > 0 && (i == len(surest)-1 || math.Abs(surest[i+1].score) < math.Abs(d.score)) {
			shares, accuracies = append(shares, weight/total), append(accuracies, right/weight)
		}
	}
	return shares, accuracies
}
