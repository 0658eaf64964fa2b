package table3

import (
	"cmp"
	"math"
	"slices"
)

// decision is the score of a method for a pair.
type decision struct {
	pair
	score, p, seconds float64
}

// correctFraction returns the fraction of the pair's weight that counts as right. A score
// of 0 counts as half right.
func (d decision) correctFraction() float64 {
	switch {
	case d.score == 0:
		return .5
	case d.score > 0 == d.forward:
		return 1
	}
	return 0
}

// summary holds the results of one method on one set.
type summary struct {
	accuracy, stderr float64 // weighted by the pairs' weights
	area             float64 // area under the curve of accuracy against the fraction of pairs decided, most confident first
	seconds          float64
	// The next fields describe the pairs whose p-value is at most the level.
	decided, decidedAccuracy float64 // fraction of the weight, and accuracy
	decidedPairs             int
}

func summarise(decisions []decision, level float64) summary {
	var s summary
	total := 0.
	for _, d := range decisions {
		total += d.weight
	}
	for _, d := range decisions {
		s.accuracy += d.weight / total * d.correctFraction()
		s.seconds += d.seconds
		if d.p > 0 && d.p <= level {
			s.decided += d.weight / total
			s.decidedAccuracy += d.weight / total * d.correctFraction()
			s.decidedPairs++
		}
	}
	s.decidedAccuracy /= s.decided
	fractions, accuracies := accuracyCurve(decisions)
	before := 0.
	for i, fraction := range fractions {
		s.area += (fraction - before) * accuracies[i]
		before = fraction
	}
	var variance float64
	for _, d := range decisions {
		variance += math.Pow(d.weight/total*(d.correctFraction()-s.accuracy), 2)
	}
	s.stderr = math.Sqrt(variance)
	return s
}

// accuracyCurve returns the accuracy by the fraction of the weight decided, most confident
// first. Pairs with equal confidence form one point.
func accuracyCurve(decisions []decision) (fractions, accuracies []float64) {
	byConfidence := slices.Clone(decisions)
	slices.SortStableFunc(byConfidence, func(a, b decision) int { return cmp.Compare(math.Abs(b.score), math.Abs(a.score)) })
	weight, correct, total := 0., 0., 0.
	for _, d := range byConfidence {
		total += d.weight
	}
	for i, d := range byConfidence {
		weight, correct = weight+d.weight, correct+d.weight*d.correctFraction()
		if weight > 0 && (i == len(byConfidence)-1 || math.Abs(byConfidence[i+1].score) < math.Abs(d.score)) {
			fractions, accuracies = append(fractions, weight/total), append(accuracies, correct/weight)
		}
	}
	return fractions, accuracies
}
