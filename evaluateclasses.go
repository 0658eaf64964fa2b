package attach

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/softmax"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/measure"
)

const (
	// reliabilityBins is how many bins the expected calibration error has.
	reliabilityBins = 15
	// riskPoints is how many points a risk–coverage curve has at most.
	riskPoints = 200
)

// classes is what is kept of a classifier's answers.
type classes struct {
	top           []int      // the class that is predicted
	before, after []float64  // its probability, without a temperature and with the bundle's
	nll           [2]float64 // sums, without and with the temperature
	sets          []covers   // by level
	accept        []bool
}

// addClasses keeps answers of a block, by level, whose rows may have no labels
// or no logits.
func (g *gathering) addClasses(predictions [][]Prediction, b ood.Batch) {
	if b.Labels == nil || b.Logits.Cols == 0 {
		return
	}
	c, base, temperature := &g.classes, g.bundle.Base, g.bundle.Calibration.Temperature
	for i, one := range predictions[g.main] {
		z := b.Logits.Data[i*b.Logits.Stride : i*b.Logits.Stride+b.Logits.Cols]
		before, label := one.Confidence, z[b.Labels[i]]
		if !base.Sigmoid {
			s := softmax.New(z, 1)
			before = s.Largest()
			c.nll[0] += s.LogSum() - float64(label)
		}
		if temperature != 0 {
			c.nll[1] += softmax.New(z, temperature).LogSum() - float64(label)/temperature
		}
		c.top, c.before, c.after = append(c.top, one.Class), append(c.before, before), append(c.after, one.Confidence)
	}
}

// classEvaluation is nil without labels or logits.
func (g *gathering) classEvaluation(e *Evaluation) *ClassEvaluation {
	c, n := g.classes, len(g.classes.top)
	if n == 0 {
		return nil
	}
	right := func(i int) bool { return c.top[i] == g.labels[i] }
	count := func(among func(i int) bool) *Rate {
		hits, of := 0, 0
		for i := range n {
			if among(i) {
				of++
				if right(i) {
					hits++
				}
			}
		}
		return rate(hits, of)
	}
	out := &ClassEvaluation{
		Accuracy: count(func(int) bool { return true }),
		ByClass:  g.byLabel().rates(right, nil), ByGroup: g.byGroup().rates(right, nil),
		Before: reliability(c.before, right), Temperature: g.bundle.Calibration.Temperature,
	}
	wrong, unsure := make([]bool, n), make([]float64, n)
	for i := range n {
		wrong[i], unsure[i] = !right(i), 1-c.after[i]
	}
	if !g.bundle.Base.Sigmoid {
		out.Before.NLL = pointer(c.nll[0] / float64(n))
	}
	if out.Temperature != 0 {
		after := reliability(c.after, right)
		after.NLL, out.After = pointer(c.nll[1]/float64(n)), &after
	}
	// Neither is NaN: logits and scores are checked where rows are predicted for.
	out.AURC, _ = measure.AURC(unsure, wrong)
	points, _ := measure.RiskCoverage(unsure, wrong, riskPoints)
	for _, p := range points {
		out.RiskCoverage = append(out.RiskCoverage, RiskPoint{p.Coverage, p.Risk, 1 - p.Threshold})
	}
	if e.Flags != nil {
		alarm := func(i int) bool { return g.pValues[i] <= e.Alpha }
		out.Flagged, out.Unflagged = count(alarm), count(func(i int) bool { return !alarm(i) })
		area, _ := measure.AURC(g.scores, wrong)
		out.AURCScore = &area
	}
	return out
}

// reliability compares confidence with how often it is right.
//
// Reference: Guo, Pleiss, Sun & Weinberger (2017), On Calibration of Modern
// Neural Networks, section 2.
func reliability(confidence []float64, right func(i int) bool) Reliability {
	var sums [reliabilityBins]float64
	var hits, of [reliabilityBins]int
	for i, p := range confidence {
		k := bin(p, reliabilityBins)
		sums[k] += p
		of[k]++
		if right(i) {
			hits[k]++
		}
	}
	var r Reliability
	for k, n := range of {
		if n == 0 {
			continue
		}
		one := rate(hits[k], n)
		one.Asked = sums[k] / float64(n)
		r.Bins = append(r.Bins, *one)
		r.ECE += math.Abs(one.Share-one.Asked) * float64(n) / float64(len(confidence))
	}
	return r
}
