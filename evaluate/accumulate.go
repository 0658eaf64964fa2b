package evaluate

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
)

// accumulator collects a few numbers of every row that is evaluated on.
type accumulator struct {
	bundle *attach.Bundle
	o      Options
	at     []*attach.Predictor // one for each level; the one at main has the detector and all other options
	main   int

	n       int
	has     [len(optionalParts)]bool // which of optionalParts all rows have
	scores  []float64
	pValues []float64
	groups  []string
	labels  []int
	// predicted is the predicted class of each row, or −1.
	predicted []int
	classes   classes
	targets   []target
	joint     []coverings // by level
	features  reservoir
	outputs   reservoir // logits or quantiles of the same rows
	gaps      *attach.GapCounter
	// known counts evaluated rows that were fitted on, and those that were calibrated on. It
	// stays 0 if the .attach file has no hashes to compare with.
	known [2]rowhash.Matches
}

// optionalParts are parts of a batch that either all rows have or no row has.
var optionalParts = [...]string{"groups", "labels", "logits", "targets"}

// coverings tells for each row whether an interval or set contains the truth, and its width or
// size. The width of an unbounded interval is +Inf. Boxes have no width.
type coverings struct {
	covered []bool
	width   []float64
}

func (c *coverings) add(covered bool, width float64) {
	c.covered, c.width = append(c.covered, covered), append(c.width, width)
}

func newAccumulator(p *attach.Predictor, o Options) (*accumulator, error) {
	if o.OOD != nil && p.Bundle().Detector == nil {
		return nil, errors.New("out-of-distribution rows need a detector, and the .attach file has none")
	}
	g := &accumulator{bundle: p.Bundle(), o: o, features: newReservoir(p.Options().Seed), outputs: newReservoir(p.Options().Seed), gaps: p.Bundle().GapCounter()}
	for k, level := range o.Levels {
		each := p.Options()
		each.Level, each.Levels, each.Samples = level, nil, 0
		if level != p.Options().Level {
			each.NoScore, each.MaxError = true, 0
		} else if g.main = k; p.Bundle().IntervalModel != nil {
			each.Levels = quantile.Levels()
		}
		at, err := p.Bundle().Predictor(each)
		if err != nil {
			return nil, err
		}
		g.at = append(g.at, at)
	}
	return g, nil
}

// add predicts for a block of rows and collects the results.
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
	predictions := make([][]attach.Prediction, len(g.at))
	for k, p := range g.at {
		var err error
		if predictions[k], err = p.Predict(ctx, r); err != nil {
			return err
		}
	}
	main := predictions[g.main]
	if len(main) == 0 {
		return nil
	}
	for _, one := range main {
		g.scores, g.pValues, g.predicted = append(g.scores, one.Score), append(g.pValues, one.PValue), append(g.predicted, one.Class)
	}
	g.groups = append(g.groups, groups...)
	if g.bundle.Base.Task == attach.Classification {
		g.labels = append(g.labels, r.Labels...)
		g.addClasses(predictions, r.Labels, logits)
	} else if err := g.addTargets(predictions, r); err != nil {
		return err
	}
	g.gaps.Add(r)
	c := &g.bundle.Calibration
	for _, h := range rowhash.Of(r.Batch, c.Hashed) {
		g.known[0].Add(rowhash.NewSample(c.FitHashes, c.FitTies), h.Number())
		g.known[1].Add(rowhash.NewSample(c.CalHashes, c.CalTies), h.Number())
	}
	var scaling rows.Scaling
	scaling.Mean, scaling.Deviation = g.bundle.Scaling()
	x := scaling.Apply(r.Features)
	for i := range main {
		g.features.add(rows.Row(x, i))
		g.outputs.add(outputsOf(main[i], logits, i))
	}
	g.n += len(main)
	return nil
}

// check returns an error if labels, targets or groups do not fit the rows, which have c
// logits.
func (g *accumulator) check(r attach.Rows, groups []string, c int) error {
	n := r.Len()
	has := [...]bool{groups != nil, r.Labels != nil, c > 0, r.Targets.Cols > 0}
	for k, what := range optionalParts {
		if g.n > 0 && has[k] != g.has[k] {
			return fmt.Errorf("some rows have %s and others have none", what)
		}
	}
	g.has = has
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
	for i, label := range r.Labels {
		if label < 0 || label >= c {
			return fmt.Errorf("row %d: label %d is out of range: the model has %d classes, numbered from 0", g.n+i, label, c)
		}
	}
	return nil
}

// evaluation computes all figures.
func (g *accumulator) evaluation(ctx context.Context) (*Evaluation, error) {
	b := g.bundle
	e := &Evaluation{
		Task: b.Base.Task, Rows: g.n, CalibrationRows: b.Calibration.NCal, HeldOut: b.Calibration.HeldOut,
		Alpha: g.at[g.main].Options().Alpha, Level: g.at[g.main].Options().Level, Guarantees: []Guarantee{},
	}
	if len(b.Calibration.OOD) > 0 {
		e.Flags = g.flags(e)
		if g.o.OOD != nil {
			var err error
			if e.OOD, err = g.ood(ctx); err != nil {
				return nil, err
			}
		}
	}
	if b.Base.Task == attach.Classification {
		e.Classifier = g.classEvaluation(ctx, e)
	} else {
		e.Targets = g.targetEvaluations(ctx, e)
	}
	g.addNotes(e)
	g.limits(e)
	return e, ctx.Err()
}
