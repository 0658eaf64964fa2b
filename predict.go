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

// PredictOptions chooses what is predicted. The zero value takes the bundle's
// defaults and no quantiles.
type PredictOptions struct {
	// Levels are the quantile levels wanted, each in (0,1); regression only.
	Levels []float64
	// Level is the probability that intervals, or sets, cover; 0 is the bundle's.
	Level float64
	// NoScore leaves out the detector, which saves its time: Score is NaN, PValue 1 and Flag
	// false. MaxError cannot be combined with it, because flagged rows are not accepted.
	NoScore bool
	// Alpha is the false-alarm rate of flags; 0 is the bundle's. Below 1/(n+1), the least
	// p-value that n calibration rows allow, nothing is flagged.
	Alpha float64
	// FlagByClass has a row's score ranked among those of the calibration rows that the
	// network predicts the same class of, in place of all: p-values and flags then
	// promise as much of the rows of each predicted class alone. Of a class that n of
	// these are predicted to be of, no p-value is below 1/(n+1).
	// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random
	// World, section 4.5.
	FlagByClass bool
	// Side, if not empty, asks for intervals with one end, "lower" or "upper", which
	// miss on that side with probability at most 1−Level.
	Side string
	// Joint asks for intervals that cover all targets of a row at once with
	// probability Level, in place of each on its own.
	Joint bool
	// IntervalScore, if not empty, is what intervals with two ends are calibrated by:
	// see calibrate.IntervalOptions.Score.
	IntervalScore string
	// Sets, if not empty, asks for the set of classes that holds the true one with
	// probability Level, ranked by this score, "lac", "aps", "raps", "saps" or "ordinal"
	// as calibrate.SetOptions.Score says; ByClass, that it does so for rows of each
	// class; ByCluster, for rows of each cluster of classes, by Seed. A classifier whose
	// outputs are a softmax, calibrated with labels, has them: see
	// Calibration.TrueClasses.
	Sets                       string
	SetsByClass, SetsByCluster bool
	// ClassPValues asks for Prediction.ClassPValues, by the score of Sets and what it is
	// calibrated by.
	ClassPValues bool
	// VennAbers asks for Prediction.Right, which needs what Sets does.
	VennAbers bool
	// MaxError, if not 0, is the share of errors that there may be among all rows that are
	// accepted, where VennAbers asks for a probability of each row: see
	// Prediction.Accept. It needs what Sets does.
	MaxError float64
	// Smoothed asks for intervals, with one end or two, or boxes, that cover no
	// more often than is promised where scores tie, as
	// calibrate.IntervalOptions says, or for such sets, as
	// calibrate.SetOptions does. Seed, with the row's number, chooses what is drawn.
	Smoothed bool
	// Samples is the number of draws from the conformal predictive
	// distribution of each row and target, for which a block of rows takes memory; Seed, with the
	// row's number, chooses them. Draws of different targets are independent of each other.
	Samples int
	Seed    uint64
}

// Prediction is what a bundle says of one row. Its numbers may be infinite or NaN.
type Prediction struct {
	// Class is the index of the largest logit of a classifier, Name its name if
	// the bundle has one, and Confidence its probability under the softmax of
	// logits over temperature (or their sigmoid, where Base.Sigmoid says so). A
	// classifier with one output is read as a logistic one: class 1 where the
	// logit is positive. Class is -1 where there are no classes or no logits.
	Class      int
	Name       string
	Confidence float64
	// ConfidenceBounds are two probabilities that Class is right, of this row alone, where
	// PredictOptions.MaxError is a share of many, the lower one first: see
	// calibrate.ClassCalibration.VennAbers. They are of the logits without a
	// temperature, which Confidence has. They are 0 where they are not asked for, and
	// NaN where the row has no logits.
	ConfidenceBounds [2]float64
	// Set are the classes that PredictOptions.Sets asks for, in increasing order, or
	// Class alone where that has none, which can only add coverage. Only where
	// Smoothed it may be empty. It is nil where none is asked for or the row has no
	// logits.
	Set []int
	// ClassPValues are the conformal p-values of all classes: see calibrate.Sets.PValues.
	// They are nil where they are not asked for or the row has no logits.
	ClassPValues []float64

	Targets []Target // of a regressor

	// Score is higher where the row is more likely out-of-domain, and NaN without
	// a detector or with NoScore. PValue is its conformal p-value, or 1: among rows like the
	// calibration rows, at most a share p has a p-value of p or less. Flag says
	// that it is at most Alpha.
	Score, PValue float64
	Flag          bool
	// Accept says that the row is not flagged and its largest probability under the
	// softmax of logits, without a temperature, is above Predictor.Selective's: with
	// 95 % confidence the share of errors among such rows is at most
	// PredictOptions.MaxError, under the condition that Bundle.Promise states.
	Accept bool
}

// MarshalJSON writes an object whose keys are the columns that attach predict writes,
// except that it has no set_names and that quantiles and samples are one list each. Quantiles
// are in the order of PredictOptions.Levels. Numbers that are infinite or unknown are null.
// The object lacks what the bundle does not predict. Without a score it lacks p_value and
// flag too. It has accept only if that is true. If there are several targets, their keys
// end in _0, _1 and so on.
func (p Prediction) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	add := func(key string, value any) {
		text, _ := json.Marshal(value) // of nothing that can fail
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

// finite is nil, null in JSON, of what JSON has no number for.
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

// Target is what a bundle says of one target of a row; NaN is what the bundle or
// the row cannot give.
type Target struct {
	Value  float64 // what the network itself predicts
	Median float64 // the head's median
	// Lower and Upper are the head's central interval, conformalized, so that each
	// target on its own, or with Joint all targets of a row, is covered with
	// probability Level under the condition that Bundle.Promise states. They
	// are ±Inf where calibration rows, or those of the row's group, are too few for
	// Level; with a Side the other end is.
	// Where features are so large that the head's quantiles overflow, or round
	// to one, nothing is known of the target: the interval is infinite, Median and
	// the quantile at 0.5 are NaN, other quantiles and Samples are ±Inf, and the row's
	// Score is +Inf.
	// A target is covered if Lower ≤ target ≤ Upper. Smoothed ends are float32
	// numbers, as targets are, and Lower > Upper says that an interval is empty.
	Lower, Upper float64
	// Quantiles are the head's own at PredictOptions.Levels, without
	// conformalization, which applies to the central interval only. They never
	// cross.
	Quantiles []float64
	// Samples are drawn as calibrate.Distribution.Sample says; ±Inf for a row of
	// a group without calibration rows.
	Samples []float64
}

// Rows are rows to predict.
type Rows struct {
	// Batch needs the parts that Fit was given: features always, logits for
	// classes, values and methods that use them, Base.Layers where it names any,
	// and Inputs and the Network where Bundle.RunsNetwork says so. Labels are for evaluate.Rows
	// alone, and Predict does not look at them.
	ood.Batch
	// Groups names the group of each row, for a bundle whose intervals are
	// calibrated by group. See Calibration.Groups.
	Groups []string
	// Targets are what came true, n×t, for evaluate.Rows, which takes Batch.Labels too.
	Targets blas32.General
	// First is the number of the first row, which what is drawn depends on. Who
	// predicts one block at a time, with Smoothed or Samples, counts on: equal
	// numbers draw alike. Stream and evaluate.Rows count themselves.
	First int
}

// RunsNetwork says that the detector scores by running the base network, so
// that prediction needs rows with a Network and Inputs.
func (b *Bundle) RunsNetwork() bool {
	return b.Detector != nil && (b.Detector.scorer.Method().Needs.Network || b.Detector.scorer.Method().Needs.Dropout)
}

// Predictor predicts block after block with one choice of levels. It is made by
// [Bundle.Predictor], and safe for concurrent use.
type Predictor struct {
	bundle     *Bundle
	o          PredictOptions                     // with the bundle's Level and Alpha in place of 0
	banded     []float64                          // levels that intervals are interpolated between
	calibrated map[string]*calibrated             // by group, "" where there are none; nil without a calibration
	unseen     *calibrated                        // of a group without calibration rows
	ood        []calibrate.Conformal              // of all rows or, with FlagByClass, by predicted class
	sets       *calibrate.Sets                    // nil where none are asked for
	selective  *calibrate.Selective               // nil where nothing is to be accepted
	right      func(top float64) (p0, p1 float64) // nil where it is not asked for
	scorer     *fitting.Scorer                    // of the detector, or nil
	widths     batchparts.Widths                  // of the rows that the bundle was fitted on
}

// Predictor prepares prediction: levels are checked and calibrated once.
func (b *Bundle) Predictor(o PredictOptions) (*Predictor, error) {
	if err := b.made(); err != nil {
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
		return nil, errors.New("the bundle has no quantile head: quantiles need one that was fitted for regression")
	}
	if o.NoScore && o.MaxError != 0 && b.Detector != nil {
		return nil, errors.New("a share of errors is promised of rows that are not flagged, and NoScore leaves out the flags: choose one of them")
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

// Stream predicts for one block of rows after another, and yields a prediction a
// row, in order. Rows r that are all at hand, for evaluate.Rows too, are one block:
//
//	func(yield func(attach.Rows, error) bool) { yield(r, nil) }
//
// The first error, of the rows or of a prediction, ends it. What
// is drawn for a row does not depend on how rows are cut to blocks.
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

// Predict predicts for each of the rows. Of an error for NaN or infinity, [NotFinite]
// tells the row. An *ood.NeedError says what the detector needs and the rows lack.
func (p *Predictor) Predict(ctx context.Context, r Rows) ([]Prediction, error) {
	if err := cmp.Or(p.made(), ctx.Err()); err != nil {
		return nil, err
	}
	r.Labels = nil // which nothing reads
	given := r.Batch
	r.Batch = p.bundle.Base.pairLogits(given)
	if err := p.checkRows(given, r); err != nil {
		return nil, err
	}
	unseen := p.bundle.cells.unseen(given) // before gaps in features become the mean
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
			return nil, errors.New("p-values by class: the rows have no logits, which predict the class")
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

// made refuses a predictor that no bundle made.
func (p *Predictor) made() error {
	if p == nil || p.bundle == nil {
		return errors.New("the predictor is empty: a bundle's Predictor makes one")
	}
	return nil
}

// widths are those of the rows that the bundle was fitted on.
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

// checkRows refuses rows of other widths than the bundle was fitted on, which
// are those of the batch as given, without its single logit paired.
func (p *Predictor) checkRows(given ood.Batch, r Rows) error {
	if err := batchparts.Validate(r.Batch); err != nil {
		return err
	}
	if r.First < 0 {
		return fmt.Errorf("the first row is said to be %d, and they are counted from 0", r.First)
	}
	if given.Features.Cols == 0 {
		if p.scorer != nil {
			if err := fitting.CheckBatch(p.scorer.Method(), given, "the rows to predict"); err != nil {
				return err
			}
		}
		return fmt.Errorf("the rows carry no features, and the bundle was fitted on %d", p.bundle.Base.Width)
	}
	if p.scorer == nil || !p.scorer.Method().Needs.Layers {
		given.Layers = nil // which nothing reads
	}
	if err := batchparts.Of(&given).Widths().Check(p.widths, "the rows", "the bundle was fitted on"); err != nil {
		return err
	}
	switch grouped := p.bundle.Calibration.Groups != nil; {
	case grouped && len(r.Groups) != r.Len():
		return fmt.Errorf("the bundle's intervals are calibrated by group, and there are %d groups for %s", len(r.Groups), rows.Count(r.Len(), "row"))
	case !grouped && r.Groups != nil:
		return errors.New("the rows have groups, and the bundle's intervals are not calibrated by group")
	}
	return p.bundle.Base.checkFinite(given, "")
}

// calibrateFlags prepares what p-values are ranks among.
func (p *Predictor) calibrateFlags() error {
	c := p.bundle.Calibration
	parts := [][]float64{c.OOD}
	if p.o.FlagByClass {
		switch {
		case len(c.OOD) == 0:
			return errors.New("p-values by class: the bundle has no detector")
		case len(c.Predicted) == 0:
			return errors.New("p-values by class: the network answers no classes, or the calibration rows had no logits")
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

// Bundle is what predicts; nil for the zero Predictor.
func (p *Predictor) Bundle() *Bundle { return p.bundle }

// Options are the choices that predictions are made with. Level and Alpha are the
// bundle's if none were chosen.
func (p *Predictor) Options() PredictOptions { return p.o }

// Conformal holds the calibration scores that a row of a predicted class is ranked among.
// They are those of all calibration rows. With FlagByClass they are those of the
// calibration rows with the same predicted class. Without a detector it is empty.
func (p *Predictor) Conformal(class int) calibrate.Conformal {
	switch {
	case !p.o.FlagByClass:
		return p.ood[0]
	case class < len(p.ood):
		return p.ood[class]
	}
	return calibrate.Conformal{} // of a class that no calibration row is predicted to be of
}

// detect scores the rows. The score is infinite for rows of which the quantile head
// knows nothing, and for rows with emptier cells than the rows fitted on.
func (p *Predictor) detect(ctx context.Context, out []Prediction, r Rows, unknown, unseen []bool) error {
	if p.scorer == nil {
		return nil
	}
	scores, err := p.scorer.Score(ctx, nil, r.Batch)
	if err != nil {
		return fmt.Errorf("detector %s: %w", p.bundle.Detector.Method, err)
	}
	for i, v := range scores {
		// The rows are finite: what overflows is further out than all that does not.
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
