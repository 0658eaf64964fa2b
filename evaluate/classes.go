package evaluate

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

const (
	// reliabilityBins is the number of bins of confidence for the expected calibration error.
	reliabilityBins = 15
	// maxRiskPoints is the largest number of points of a risk–coverage curve.
	maxRiskPoints = 200
)

// classes collects the results of a classifier, one for each row.
type classes struct {
	top           []int        // predicted class
	before, after []float64    // probability of the predicted class, before and after temperature scaling
	nll           [2][]float64 // negative log-likelihood of the label, before and after temperature scaling
	sets          []outcomes   // one for each level
	accept        []bool
}

// addClasses collects the results for a block of rows, from one slice of predictions for each
// level. It does nothing if the rows lack labels or logits.
func (g *accumulator) addClasses(predictions [][]attach.Prediction, labels []int, logits blas32.General) {
	if labels == nil || logits.Cols == 0 {
		return
	}
	if g.classes.sets == nil {
		g.classes.sets = make([]outcomes, len(g.predictors))
	}
	c, base, temperature := &g.classes, g.bundle.Base, g.bundle.Calibration.Temperature
	for i, prediction := range predictions[g.mainLevel] {
		z := rows.Row(logits, i)
		before, label := prediction.Confidence, z[labels[i]]
		if !base.Sigmoid {
			s := softmax.New(z, 1)
			before = s.Largest()
			c.nll[0] = append(c.nll[0], s.LogSum()-float64(label))
		}
		if temperature != 0 {
			t := temperature
			if shift := g.bundle.Calibration.LabelShift; shift != nil {
				z, t = shift.Logits(z, t), 1
				label = z[labels[i]]
			}
			c.nll[1] = append(c.nll[1], softmax.New(z, t).LogSum()-float64(label)/t)
		}
		c.top, c.before, c.after = append(c.top, prediction.Class), append(c.before, before), append(c.after, prediction.Confidence)
		c.accept = append(c.accept, prediction.Accept)
		for k := range predictions {
			if set := predictions[k][i].Set; set != nil {
				c.sets[k].add(slices.Contains(set, labels[i]), float64(len(set)))
			}
		}
	}
}

// classEvaluation returns the results of a classifier, or nil without labels or logits.
func (g *accumulator) classEvaluation(ctx context.Context, e *Evaluation) *Classifier {
	c, n := g.classes, len(g.classes.top)
	if n == 0 {
		return nil
	}
	right := func(i int) bool { return c.top[i] == g.labels[i] }
	out := &Classifier{
		Accuracy: rateWhere(n, right, nil),
		ByClass:  g.byLabel().rates(right, nil), ByGroup: g.byGroup().rates(right, nil),
		Uncalibrated: reliability(c.before, right), Temperature: g.bundle.Calibration.Temperature,
	}
	wrong, uncertainty := make([]bool, n), make([]float64, n)
	for i := range n {
		wrong[i], uncertainty[i] = !right(i), 1-c.after[i]
	}
	if !g.bundle.Base.Sigmoid {
		out.Uncalibrated.NLL = new(stat.Mean(c.nll[0], nil))
	}
	if out.Temperature != 0 {
		after := reliability(c.after, right)
		after.NLL, out.Calibrated = new(stat.Mean(c.nll[1], nil)), &after
	}
	// measure.AURC returns an error only for NaN, but Predict has checked logits and scores.
	out.AURC, _ = measure.AURC(uncertainty, wrong)
	points, _ := measure.RiskCoverage(uncertainty, wrong, maxRiskPoints)
	for _, p := range points {
		out.RiskCoverage = append(out.RiskCoverage, RiskPoint{Coverage: p.Coverage, Risk: p.Risk, Confidence: 1 - p.Threshold})
	}
	if e.Flags != nil {
		isFlagged := func(i int) bool { return g.pValues[i] <= e.Alpha }
		out.AccuracyFlagged, out.AccuracyUnflagged = rateWhere(n, right, isFlagged), rateWhere(n, right, func(i int) bool { return !isFlagged(i) })
		area, _ := measure.AURC(g.scores, wrong)
		out.AURCOODScore = &area
	}
	if ranks := g.bundle.Calibration.TrueClasses.Ranks; ranks != nil {
		out.CalibrationAccuracy = rateWhere(len(ranks), func(i int) bool { return ranks[i] == 0 }, nil)
	}
	g.evaluateSets(ctx, e, out)
	if p := g.predictors[g.mainLevel]; p.Selective() != nil {
		accepted := func(i int) bool { return c.accept[i] }
		out.Accepted, out.SelectiveError = rateWhere(n, accepted, nil), rateWhere(n, func(i int) bool { return wrong[i] }, accepted)
		if out.SelectiveError != nil {
			out.SelectiveError.Nominal = p.Options().MaxError
			e.judgeSelectiveError(*out.SelectiveError)
		}
	}
	return out
}

// evaluateSets evaluates prediction sets at every level, and tests their guarantees.
func (g *accumulator) evaluateSets(ctx context.Context, e *Evaluation, out *Classifier) {
	p := g.predictors[g.mainLevel]
	if p.Sets() == nil {
		return
	}
	labels := g.byLabel()
	var all []*Coverage
	out.Sets, out.SetScore = make([]Coverage, len(g.predictors)), p.Options().Sets
	switch {
	case p.Options().SetsByClass:
		out.SetsBy = "class"
	case p.Options().SetsByCluster:
		out.SetsBy = "cluster"
	}
	for k, sets := range g.classes.sets {
		c := &out.Sets[k]
		*c = g.coverage(k, sets, nil)
		all = append(all, c)
		for _, size := range sets.width {
			for len(c.SizeCounts) <= int(size) {
				c.SizeCounts = append(c.SizeCounts, 0)
			}
			c.SizeCounts[int(size)]++
		}
		covered := func(i int) bool { return sets.covered[i] }
		c.ByClass = labels.rates(covered, sets.width)
		c.ByPredictedClass = g.byPredicted().rates(covered, sets.width)
		if !p.Options().Smoothed { // the size of a smoothed set depends on random numbers, which also decide whether it contains the label
			c.BySize = setSizes(sets.width).rates(covered, sets.width)
		}
		parts, counts := g.setParts(k)
		accuracy := parts.rates(func(i int) bool { return g.classes.top[i] == g.labels[i] }, nil)
		rates := parts.rates(covered, sets.width)
		for i, r := range rates {
			r.Nominal = c.Nominal
			guarantee := Guarantee{Kind: hypothesis.SetCoverage, Rate: r, accuracy: accuracy[i].Fraction}
			if r.Name != "" {
				guarantee.Part = out.SetsBy
			}
			if p.Options().Smoothed {
				guarantee.accuracy = 0 // smoothed sets may be empty, so they can cover less often than the model is right
			}
			e.judge(guarantee, counts[r.part], len(rates))
		}
	}
	g.worstSlabs(ctx, all, g.classes.sets)
}

// setParts groups rows by the classes or clusters for which the coverage of sets is guaranteed
// separately. It also returns the number of calibration rows of each part.
func (g *accumulator) setParts(level int) (p grouping, counts []int) {
	sets, names := g.predictors[level].Sets(), map[int][]string{}
	for class := range g.byLabel().names {
		part, n := sets.Part(class)
		for len(counts) <= part {
			counts = append(counts, 0)
		}
		counts[part] = n
		names[part] = append(names[part], g.className(class))
	}
	for part := range counts {
		p.names = append(p.names, display.List(names[part], maxNamedClasses))
	}
	if len(names) == 1 && !g.predictors[level].Options().SetsByClass {
		p.names[len(counts)-1] = "" // the only part is all rows
	}
	for _, label := range g.labels {
		part, _ := sets.Part(label)
		p.index = append(p.index, part)
	}
	return p, counts
}

// reliability compares confidence with accuracy in bins of confidence.
//
// Reference: Guo, Pleiss, Sun & Weinberger (2017), On Calibration of Modern Neural Networks,
// section 2.
func reliability(confidence []float64, right func(i int) bool) Reliability {
	p := grouping{names: make([]string, reliabilityBins)}
	for _, c := range confidence {
		p.index = append(p.index, hypothesis.Bin(c, reliabilityBins))
	}
	r := Reliability{Bins: p.rates(right, confidence)}
	for i := range r.Bins {
		b := &r.Bins[i]
		b.Nominal, b.MeanWidth = *b.MeanWidth, nil
		r.ECE += math.Abs(b.Fraction-b.Nominal) * float64(b.Rows) / float64(len(confidence))
	}
	return r
}
