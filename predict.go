package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// PredictOptions selects what to predict. The zero value uses the defaults of the bundle,
// without quantiles.
type PredictOptions struct {
	// Levels are the requested quantile levels, each in (0,1); regression only.
	Levels []float64
	// Level is the coverage of intervals and sets; 0 means that of the bundle.
	Level float64
	// NoScore skips the detector to save time: Score is NaN, PValue 1 and Flag false. It
	// cannot be combined with MaxError, because flagged rows are not accepted.
	NoScore bool
	// Alpha is the false-alarm rate of flags; 0 means that of the bundle. Below 1/(n+1), the
	// smallest p-value with n calibration rows, nothing is flagged.
	Alpha float64
	// FlagByClass compares a row only with the calibration rows of the same predicted class.
	// P-values and flags then have their guarantee for the rows of each predicted class. If n
	// calibration rows have that class, no p-value is below 1/(n+1).
	FlagByClass bool
	// Side, if not empty, requests intervals with one end, "lower" or "upper", which miss on
	// that side with probability at most 1−Level.
	Side string
	// Joint requests intervals that cover all targets of a row at once with probability Level,
	// instead of each separately.
	Joint bool
	// IntervalScore, if not empty, is the nonconformity score of intervals with two ends: see
	// calibrate.IntervalOptions.Score.
	IntervalScore string
	// Sets, if not empty, requests prediction sets that contain the true class with
	// probability Level, by the score "lac", "aps", "raps", "saps" or "ordinal": see
	// calibrate.SetOptions.Score. SetsByClass guarantees this for the rows of each class, and
	// SetsByCluster for the rows of each cluster of classes, found by Seed. Prediction sets
	// need a classifier with a softmax that was calibrated with labels: see
	// Calibration.TrueClasses.
	Sets                       string
	SetsByClass, SetsByCluster bool
	// ClassPValues requests Prediction.ClassPValues, by the score of Sets.
	ClassPValues bool
	// VennAbers requests Prediction.ConfidenceBounds. It has the same requirements as Sets.
	VennAbers bool
	// MaxError, if not 0, is the largest allowed fraction of errors among all accepted rows:
	// see Prediction.Accept. VennAbers, in contrast, gives a probability for each row. It has
	// the same requirements as Sets.
	MaxError float64
	// Smoothed randomises ties, so that intervals, boxes and sets cover no more often than
	// their level: see calibrate.IntervalOptions and calibrate.SetOptions. Seed and the number
	// of the row determine the random numbers.
	Smoothed bool
	// Samples is the number of draws from the conformal predictive distribution of each row
	// and target. They are in memory for a whole block of rows. Seed and the number of the row
	// determine them. Draws of different targets are independent.
	Samples int
	Seed    uint64
}

// Prediction is the result for one row. Its numbers may be infinite or NaN.
type Prediction struct {
	// Class is the index of the largest logit of a classifier, Name its name if the bundle has
	// one, and Confidence its probability: the softmax of logits over temperature (or their
	// sigmoid, if Base.Sigmoid). A classifier with one output is a logistic one: class 1 if
	// the logit is positive. Class is -1 if there are no classes or no logits.
	Class      int
	Name       string
	Confidence float64
	// ConfidenceBounds are two probabilities that Class is right, the smaller one first, for
	// this row: see calibrate.ClassCalibration.VennAbers. They are computed from the logits
	// without a temperature, unlike Confidence. They are 0 if not requested, and NaN if the
	// row has no logits.
	ConfidenceBounds [2]float64
	// Set holds the classes of the prediction set, in increasing order. If LAC finds none it
	// holds Class, which can only increase coverage; only with Smoothed may it be empty. It is
	// nil if not requested or if the row has no logits.
	Set []int
	// ClassPValues holds the conformal p-values of all classes: see calibrate.Sets.PValues. It
	// is nil if not requested or if the row has no logits.
	ClassPValues []float64

	Targets []Target // for a regressor

	// Score is higher if the row is more likely OOD, and NaN without a detector or with
	// NoScore. PValue is its conformal p-value, or 1: among in-distribution rows, at most a
	// fraction p has a p-value of p or less. Flag tells that it is at most Alpha.
	Score, PValue float64
	Flag          bool
	// Accept tells that the row is not flagged and that its largest softmax probability,
	// without a temperature, is above the threshold of Predictor.Selective. With 95 %
	// confidence, the fraction of errors among accepted rows is at most
	// PredictOptions.MaxError, under the condition that Bundle.Guarantee states.
	Accept bool
}

// MarshalJSON writes an object whose keys are the columns of attach predict, with two
// differences: it has no set_names, and quantiles and samples are one list each, quantiles in
// the order of PredictOptions.Levels. Infinite and unknown numbers are null. The object has
// only what the bundle predicts: without a score it lacks p_value and flag too. It has accept
// only if that is true. If there are several targets, their keys end in _0, _1 and so on.
func (p Prediction) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	add := func(key string, value any) {
		text, _ := json.Marshal(value) // these values cannot fail
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, key), ':'), text...)
	}
	if p.Class >= 0 {
		add("class", p.Class)
		if p.Name != "" {
			add("class_name", p.Name)
		}
		add("confidence", finite(p.Confidence))
	}
	if p.ConfidenceBounds != [2]float64{} {
		add("confidence_low", finite(p.ConfidenceBounds[0]))
		add("confidence_high", finite(p.ConfidenceBounds[1]))
	}
	if p.Set != nil {
		add("set", p.Set)
		add("set_size", len(p.Set))
	}
	if p.ClassPValues != nil {
		add("class_p_value", finites(p.ClassPValues))
	}
	for t, one := range p.Targets {
		end := ""
		if len(p.Targets) > 1 {
			end = "_" + strconv.Itoa(t)
		}
		if !math.IsNaN(one.Value) {
			add("prediction"+end, finite(one.Value))
		}
		if !math.IsNaN(one.Lower) {
			add("median"+end, finite(one.Median))
			add("lower"+end, finite(one.Lower))
			add("upper"+end, finite(one.Upper))
		}
		if one.Quantiles != nil {
			add("quantiles"+end, finites(one.Quantiles))
		}
		if one.Samples != nil {
			add("samples"+end, finites(one.Samples))
		}
	}
	if !math.IsNaN(p.Score) {
		add("ood_score", finite(p.Score))
		add("p_value", finite(p.PValue))
		add("flag", p.Flag)
	}
	if p.Accept {
		add("accept", true)
	}
	return append(out, '}'), nil
}

// finite returns nil, null in JSON, for numbers that JSON cannot express.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func finites(x []float64) []*float64 {
	out := make([]*float64, len(x))
	for i, v := range x {
		out[i] = finite(v)
	}
	return out
}

// Target is the prediction for one target of a row. A number is NaN if the bundle or the row
// cannot provide it.
type Target struct {
	Value  float64 // the prediction of the model itself
	Median float64 // the median of the interval model
	// Lower and Upper are the ends of the prediction interval. Each target separately, or with
	// Joint all targets of a row together, is covered with probability Level, under the
	// condition that Bundle.Guarantee states. A target is covered if Lower ≤ target ≤ Upper.
	// The ends are ±Inf if there are too few calibration rows, or too few of the row's group,
	// for Level. With a Side, the other end is infinite. Smoothed ends are float32 numbers, as
	// targets are, and Lower > Upper means that an interval is empty.
	//
	// If features are so large that quantiles overflow, or round to one number, nothing is
	// known about the target: the interval is infinite, Median and the quantile at 0.5 are
	// NaN, other quantiles and Samples are ±Inf, and the row's Score is +Inf.
	Lower, Upper float64
	// Quantiles are the interval model's own quantiles at PredictOptions.Levels. They are not
	// conformalized, unlike the interval. They never cross.
	Quantiles []float64
	// Samples are draws from calibrate.Distribution.Sample; they are ±Inf for a row of a group
	// without calibration rows.
	Samples []float64
}

// Rows is a block of rows to predict.
type Rows struct {
	// Batch needs the parts that Fit got: always features; logits for classes, values and
	// methods that use them; Base.Layers if there are any; and Inputs and the Network if
	// Bundle.RunsNetwork. Labels are only for evaluate.Rows; Predict ignores them.
	ood.Batch
	// Groups holds the group of each row, for intervals that are calibrated by group. See
	// Calibration.Groups.
	Groups []string
	// Targets are the true targets, n×t, for evaluate.Rows, which also uses Batch.Labels.
	Targets blas32.General
	// First is the number of the first row, which determines random numbers. With Smoothed or
	// Samples, a caller that predicts block by block must count on, because rows with equal
	// numbers draw equally. Stream and evaluate.Rows count themselves.
	First int
}

// RunsNetwork reports whether the detector runs the base network, so that prediction needs
// rows with a Network and Inputs.
func (b *Bundle) RunsNetwork() bool {
	return b.Detector != nil && (b.Detector.scorer.Method().Needs.Network || b.Detector.scorer.Method().Needs.Dropout)
}

// Predictor predicts block after block with one choice of options. [Bundle.Predictor] returns
// one. It is safe for concurrent use.
type Predictor struct {
	bundle     *Bundle
	o          PredictOptions                     // with the bundle's Level and Alpha in place of 0
	banded     []float64                          // levels between which intervals interpolate
	calibrated map[string]*calibrated             // by group, "" without groups; nil without a calibration
	unseen     *calibrated                        // for groups without calibration rows
	ood        []calibrate.Conformal              // for all rows or, with FlagByClass, by predicted class
	sets       *calibrate.Sets                    // nil if not requested
	selective  *calibrate.Selective               // nil without MaxError
	right      func(top float64) (p0, p1 float64) // nil without VennAbers
	scorer     *fitting.Scorer                    // the detector, or nil
	widths     batchparts.Widths                  // of the fit rows
}

// Predictor prepares prediction: it checks and calibrates levels once.
func (b *Bundle) Predictor(o PredictOptions) (*Predictor, error) {
	if err := b.checkFitted(); err != nil {
		return nil, err
	}
	if err := cmp.Or(b.checkIntervals(o), b.checkSets(o)); err != nil {
		return nil, err
	}
	o.Level, o.Alpha = cmp.Or(o.Level, b.Calibration.Level), cmp.Or(o.Alpha, b.Calibration.Alpha)
	if err := checkLevels(o.Level, o.Alpha); err != nil {
		return nil, err
	}
	for _, l := range o.Levels {
		if !(l > 0 && l < 1) {
			return nil, fmt.Errorf("quantile level %v is not between 0 and 1", l)
		}
	}
	if len(o.Levels) > 0 && b.IntervalModel == nil {
		return nil, errors.New("there is no interval model; quantiles need one, fitted for regression")
	}
	if o.NoScore && o.MaxError != 0 && b.Detector != nil {
		return nil, errors.New("MaxError needs flags, because it accepts only rows that are not flagged, and NoScore skips them; choose one of the two")
	}
	p := &Predictor{bundle: b, o: o, widths: b.widths()}
	if b.Detector != nil && !o.NoScore {
		p.scorer = b.Detector.scorer
	}
	if err := p.calibrateFlags(); err != nil {
		return nil, err
	}
	if err := p.calibrateClasses(); err != nil {
		return nil, err
	}
	return p, p.calibrate()
}

func checkLevels(level, alpha float64) error {
	switch {
	case !(level > 0 && level < 1):
		return fmt.Errorf("level %v is not between 0 and 1", level)
	case !(alpha > 0 && alpha < 1):
		return fmt.Errorf("false-alarm rate %v is not between 0 and 1", alpha)
	}
	return nil
}

// Stream predicts one block of rows after another, and yields one prediction for each row, in
// order. Rows r that are all in memory, also for evaluate.Rows, are one block:
//
//	func(yield func(attach.Rows, error) bool) { yield(r, nil) }
//
// The first error, of the rows or of a prediction, ends it. Random numbers do not depend on
// how rows are divided into blocks.
func (p *Predictor) Stream(ctx context.Context, blocks iter.Seq2[Rows, error]) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		done := 0
		for r, err := range blocks {
			var all []Prediction
			if err == nil {
				r.First = done
				all, err = p.Predict(ctx, r)
			}
			if err != nil {
				yield(Prediction{}, err)
				return
			}
			for _, one := range all {
				if !yield(one, nil) {
					return
				}
			}
			done += len(all)
		}
	}
}

// Predict predicts each of the rows. If the error is about NaN or infinity, [NotFinite]
// returns the row. An *ood.NeedError names what the rows lack for the detector.
func (p *Predictor) Predict(ctx context.Context, r Rows) ([]Prediction, error) {
	if err := cmp.Or(p.check(), ctx.Err()); err != nil {
		return nil, err
	}
	r.Labels = nil // not used
	given := r.Batch
	r.Batch = p.bundle.Base.pairLogits(given)
	if err := p.checkRows(given, r); err != nil {
		return nil, err
	}
	unseen := p.bundle.cells.unseen(given) // before empty cells in features become the mean
	r.Features = p.bundle.scaling.Apply(r.Features)
	out := make([]Prediction, r.Len())
	for i := range out {
		out[i] = Prediction{Class: -1, Score: math.NaN(), PValue: 1}
	}
	var unknown []bool
	var sure []float64
	var err error
	switch p.bundle.Base.Task {
	case Classification:
		if p.o.FlagByClass && r.Logits.Cols == 0 {
			return nil, errors.New("p-values by class need the rows' logits, which predict the class")
		}
		p.bundle.classify(out, r.Logits)
		p.set(out, r)
		sure = p.confidences(r.Logits)
		p.bound(out, sure)
	case Regression:
		if unknown, err = p.regress(out, r); err != nil {
			return nil, err
		}
	}
	if err := p.detect(ctx, out, r, unknown, unseen); err != nil {
		return nil, err
	}
	p.accept(out, sure)
	return out, nil
}

// check returns an error for a predictor that no bundle created.
func (p *Predictor) check() error {
	if p == nil || p.bundle == nil {
		return errors.New("the predictor is empty; create one with Bundle.Predictor")
	}
	return nil
}

// widths returns the widths of the fit rows.
func (b *Bundle) widths() batchparts.Widths {
	w := b.Base.widths()
	if !b.cells.Features {
		w["gaps"] = len(b.cells.Empty)
	}
	if b.Detector == nil {
		return w
	}
	for name, n := range b.Detector.scorer.Widths() {
		w[name] = cmp.Or(w[name], n)
	}
	return w
}

// checkRows returns an error for rows whose widths differ from those of the fit rows. Widths
// refer to the batch as given, before a single logit becomes two.
func (p *Predictor) checkRows(given ood.Batch, r Rows) error {
	if err := batchparts.Validate(r.Batch); err != nil {
		return err
	}
	if r.First < 0 {
		return fmt.Errorf("Rows.First is %d, but rows are counted from 0", r.First)
	}
	if given.Features.Cols == 0 {
		if p.scorer != nil {
			if err := fitting.CheckBatch(p.scorer.Method(), given, "the rows to predict"); err != nil {
				return err
			}
		}
		return fmt.Errorf("the rows have no features, but the fit used %d", p.bundle.Base.Width)
	}
	if p.scorer == nil || !p.scorer.Method().Needs.Layers {
		given.Layers = nil // not used
	}
	if err := batchparts.Of(&given).Widths().Check(p.widths, "the rows", "the fit used"); err != nil {
		return err
	}
	switch grouped := p.bundle.Calibration.Groups != nil; {
	case grouped && len(r.Groups) != r.Len():
		return fmt.Errorf("intervals are calibrated by group, but there are %d groups for %s", len(r.Groups), rows.Count(r.Len(), "row"))
	case !grouped && r.Groups != nil:
		return errors.New("the rows have groups, but the intervals are not calibrated by group")
	}
	return p.bundle.Base.checkFinite(given, "")
}

// calibrateFlags prepares the calibration scores for p-values.
func (p *Predictor) calibrateFlags() error {
	c := p.bundle.Calibration
	parts := [][]float64{c.OOD}
	if p.o.FlagByClass {
		switch {
		case len(c.OOD) == 0:
			return errors.New("p-values by class need a detector, and there is none")
		case len(c.Predicted) == 0:
			return errors.New("p-values by class need a classifier and calibration rows with logits")
		}
		parts = make([][]float64, slices.Max(c.Predicted)+1)
		for i, class := range c.Predicted {
			parts[class] = append(parts[class], c.OOD[i])
		}
	}
	for _, scores := range parts {
		one, err := calibrate.NewConformal(scores)
		if err != nil {
			return err
		}
		p.ood = append(p.ood, one)
	}
	return nil
}

// Bundle returns the bundle that predicts, or nil for the zero Predictor.
func (p *Predictor) Bundle() *Bundle { return p.bundle }

// Options returns the options of the predictions. Level and Alpha are the bundle's if none
// were given.
func (p *Predictor) Options() PredictOptions { return p.o }

// Conformal returns the calibration scores with which a row of a predicted class is compared:
// those of all calibration rows or, with FlagByClass, those of the calibration rows with that
// predicted class. Without a detector it is empty.
func (p *Predictor) Conformal(class int) calibrate.Conformal {
	switch {
	case !p.o.FlagByClass:
		return p.ood[0]
	case class < len(p.ood):
		return p.ood[class]
	}
	return calibrate.Conformal{} // no calibration row has this predicted class
}

// detect scores the rows. The score is infinite for rows for which the interval model knows
// nothing, and for rows with emptier cells than the fit rows.
func (p *Predictor) detect(ctx context.Context, out []Prediction, r Rows, unknown, unseen []bool) error {
	if p.scorer == nil {
		return nil
	}
	scores, err := p.scorer.Score(ctx, nil, r.Batch)
	if err != nil {
		return fmt.Errorf("detector %s: %w", p.bundle.Detector.Method, err)
	}
	for i, v := range scores {
		// The rows are finite. A row whose score overflows is farther out than all rows whose
		// score does not.
		if math.IsNaN(v) || unknown != nil && unknown[i] || unseen != nil && unseen[i] {
			scores[i] = math.Inf(1)
		}
		out[i].Score = scores[i]
	}
	if len(p.bundle.Calibration.OOD) == 0 {
		return nil
	}
	for i, s := range scores {
		v := p.Conformal(out[i].Class).PValue(s)
		out[i].PValue, out[i].Flag = v, v <= p.o.Alpha
	}
	return nil
}
