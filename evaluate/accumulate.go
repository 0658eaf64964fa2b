package evaluate

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// accumulator collects the numbers that the evaluation needs of every row.
type accumulator struct {
	bundle     *attach.Bundle
	o          Options
	predictors []*attach.Predictor // one for each level, with the options of the user except Levels and Samples; only predictors[mainLevel] uses the detector and MaxError
	mainLevel  int

	n       int
	present [len(optionalParts)]bool // present[k] reports whether all rows have optionalParts[k]
	scores  []float64
	pValues []float64
	groups  []string
	labels  []int
	// predicted is the predicted class of each row, or −1 if there is none.
	predicted []int
	classes   classes
	targets   []target
	// unlabelled, vennAbers and levelWeights serve estimates on rows without labels. vennAbers
	// returns bounds of the probability that a row is right, and is nil if the .attach file has
	// none.
	unlabelled   unlabelled
	vennAbers    func(top float64) (p0, p1 float64)
	levelWeights []float64   // of the quantile levels of predictors[mainLevel]
	joint        []outcomes  // one for each level
	series       *seriesRows // nil unless Options.Series is set
	regions      regionCounts
	features     reservoir
	outputs      reservoir     // logits or quantiles of the rows in features
	columns      *inputColumns // of the same rows
	// outcomesByScore holds the outcomes of the same rows for each target, by the interval scores
	// that advice has tried.
	outcomesByScore map[string][]outcomes
	gaps            *attach.GapCounter
	// used counts the evaluated rows that are also fit rows (used[0]) or calibration rows
	// (used[1]). Both counts stay 0 if the .attach file has no hashes of its rows.
	used [2]rowhash.Matches
}

// optionalParts names the parts of a batch that rows may lack. All rows must have the same
// parts.
var optionalParts = [...]string{"groups", "labels", "logits", "targets"}

// outcomes holds, for each row, whether its interval or set contains the truth, and the width
// of the interval or the size of the set. The width of an unbounded interval is +Inf. Joint
// boxes have no width.
type outcomes struct {
	covered []bool
	width   []float64
}

func (c *outcomes) add(covered bool, width float64) {
	c.covered, c.width = append(c.covered, covered), append(c.width, width)
}

func newAccumulator(p *attach.Predictor, o Options) (*accumulator, error) {
	if o.OOD != nil && p.Bundle().Detector == nil {
		return nil, errors.New("out-of-distribution rows need a detector, and the .attach file has none")
	}
	g := &accumulator{bundle: p.Bundle(), o: o, features: newReservoir(p.Options().Seed), outputs: newReservoir(p.Options().Seed), gaps: p.Bundle().GapCounter(), columns: newInputColumns(p.Bundle().Profile, p.Options().Seed)}
	for k, level := range o.Levels {
		options := p.Options()
		options.Level, options.Levels, options.Samples = level, nil, 0
		if level != p.Options().Level {
			options.NoScore, options.MaxError = true, 0
		} else if g.mainLevel = k; p.Bundle().IntervalModel != nil {
			options.Levels = quantile.Levels()
		}
		predictor, err := p.Bundle().Predictor(options)
		if err != nil {
			return nil, err
		}
		g.predictors = append(g.predictors, predictor)
	}
	if o.Series != nil {
		var err error
		if g.series, err = newSeries(p, *o.Series); err != nil {
			return nil, err
		}
	}
	g.levelWeights = levelWeights(g.predictors[g.mainLevel].Options().Levels)
	if c := p.Bundle().Calibration.TrueClasses; len(c.Labels) > 0 {
		g.vennAbers = c.VennAbers()
	}
	return g, g.regions.start(p)
}

// add predicts a block of rows and collects the results.
func (g *accumulator) add(ctx context.Context, r attach.Rows) error {
	groups := r.Groups
	if g.bundle.Calibration.Groups == nil {
		r.Groups = nil
	}
	r.First = g.n
	logits := r.Logits
	if g.bundle.Base.Task == attach.Classification {
		logits = binarylogit.Batch(r.Batch).Logits
	}
	if err := g.check(r, groups, logits.Cols); err != nil {
		return err
	}
	predictions := make([][]attach.Prediction, len(g.predictors))
	for k, p := range g.predictors {
		var err error
		if predictions[k], err = p.Predict(ctx, r); err != nil {
			return err
		}
	}
	main := predictions[g.mainLevel]
	if len(main) == 0 {
		return nil
	}
	for _, prediction := range main {
		g.scores, g.pValues, g.predicted = append(g.scores, prediction.Score), append(g.pValues, prediction.PValue), append(g.predicted, prediction.Class)
	}
	g.groups = append(g.groups, groups...)
	if g.bundle.Base.Task == attach.Classification {
		g.labels = append(g.labels, r.Labels...)
		g.addClasses(predictions, r.Labels, logits)
	} else if err := g.addTargets(predictions, r); err != nil {
		return err
	} else if g.series != nil {
		if err := g.series.add(ctx, r); err != nil {
			return err
		}
	}
	if err := g.regions.add(ctx, main, r); err != nil {
		return err
	}
	g.gaps.Add(r)
	c := &g.bundle.Calibration
	for _, h := range rowhash.Of(r.Batch, c.Hashed) {
		g.used[0].Add(rowhash.NewSample(c.FitHashes, c.FitTies), h.Number())
		g.used[1].Add(rowhash.NewSample(c.CalHashes, c.CalTies), h.Number())
	}
	var scaling rows.Scaling
	scaling.Mean, scaling.Deviation = g.bundle.Scaling()
	x := scaling.Apply(r.Features)
	g.addUnlabelled(main, logits, x)
	for i := range main {
		g.features.add(rows.Row(x, i))
		g.outputs.add(outputsOf(main[i], logits, i))
	}
	g.columns.add(r.Inputs)
	g.n += len(main)
	return nil
}

// check returns an error if labels, targets or groups do not fit the rows r. The model has c
// logits.
func (g *accumulator) check(r attach.Rows, groups []string, c int) error {
	n := r.Len()
	present := [...]bool{groups != nil, r.Labels != nil, c > 0, r.Targets.Cols > 0}
	for k, name := range optionalParts {
		if g.n > 0 && present[k] != g.present[k] {
			return fmt.Errorf("some rows have %s and others have none", name)
		}
	}
	g.present = present
	switch {
	case groups != nil && len(groups) != n:
		return fmt.Errorf("%s for %s", rows.Count(len(groups), "group"), rows.Count(n, "row"))
	case r.Labels != nil && len(r.Labels) != n:
		return fmt.Errorf("%s for %s", rows.Count(len(r.Labels), "label"), rows.Count(n, "row"))
	case r.Targets.Cols > 0 && r.Targets.Rows != n:
		return fmt.Errorf("%s of targets for %s", rows.Count(r.Targets.Rows, "row"), rows.Count(n, "row"))
	}
	if err := rows.CheckFinite("targets", r.Targets); err != nil {
		return err
	}
	if g.bundle.Base.Task != attach.Classification || c == 0 {
		return nil
	}
	return checkLabels(r.Labels, c, g.n)
}

// checkLabels returns an error if a label is not one of c classes. The number of the first row
// is first.
func checkLabels(labels []int, c, first int) error {
	for i, label := range labels {
		if label < 0 || label >= c {
			return fmt.Errorf("row %d: label %d is out of range: the model has %d classes, numbered from 0", first+i, label, c)
		}
	}
	return nil
}

// weighted reports whether the calibration rows have weights.
func (g *accumulator) weighted() bool { return g.bundle.Calibration.Weights != nil }

// evaluation computes the evaluation of all rows that were added.
func (g *accumulator) evaluation(ctx context.Context) (*Evaluation, error) {
	b := g.bundle
	e := &Evaluation{
		Task: b.Base.Task, Rows: g.n, CalibrationRows: b.Calibration.NCal, HeldOut: b.Calibration.HeldOut,
		Alpha: g.predictors[g.mainLevel].Options().Alpha, Level: g.predictors[g.mainLevel].Options().Level, Guarantees: []Guarantee{},
	}
	e.IntervalCalibrationRows = b.Calibration.NInterval
	e.EffectiveSampleSize, e.weightByClass = calibrate.EffectiveSampleSize(b.Calibration.Weights), b.Calibration.LabelShift != nil
	if len(b.Calibration.OOD) > 0 {
		e.Flags = g.evaluateFlags(e)
		if g.o.OOD != nil {
			var err error
			if e.OOD, err = g.evaluateOOD(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	if b.Base.Task == attach.Classification {
		e.Classifier = g.classEvaluation(ctx, e)
	} else {
		e.Targets = g.targetEvaluations(ctx, e)
	}
	e.ErrorEstimate = g.estimateErrors(e)
	if g.series != nil {
		var err error
		if e.Series, err = g.series.evaluations(ctx, g); err != nil {
			return nil, err
		}
	}
	g.addNotes(e)
	e.noteSeries()
	if g.o.Labelled != nil {
		var err error
		if e.FewLabels, err = g.evaluateFewLabels(ctx, e); err != nil {
			return nil, err
		}
	}
	if !g.weighted() { // because tests of parts know only rows with equal weights
		g.findFailingParts(ctx, e)
	}
	return e, ctx.Err()
}
