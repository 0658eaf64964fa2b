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
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// PredictOptions selects what to predict. The zero value predicts what the bundle supports at
// its default levels, without quantiles, sets and samples.
type PredictOptions struct {
	// Levels are the requested quantile levels, each in (0,1). They are only for regression.
	Levels []float64
	// Level is the coverage of intervals and sets. 0 means the default of the bundle.
	Level float64
	// NoScore skips the detector to save time: Score is NaN, PValue is 1 and Flag is false. If
	// there is a detector, NoScore cannot be combined with MaxError, because only rows that are
	// not flagged are accepted.
	NoScore bool
	// Alpha is the false-alarm rate of flags. 0 means the default of the bundle. With n
	// calibration rows, no p-value is below 1/(n+1), so a smaller Alpha flags no row.
	Alpha float64
	// FlagByClass compares a row only with the calibration rows of the same predicted class.
	// The false-alarm rate is then guaranteed separately for the rows of each predicted class.
	// If n calibration rows have that class, no p-value is below 1/(n+1).
	FlagByClass bool
	// Side, if not empty, requests intervals with one finite end, "lower" or "upper". A target
	// is beyond that end with probability at most 1−Level.
	Side string
	// Joint requests intervals that cover all targets of a row at once with probability Level.
	// Without it, each target is covered with probability Level.
	Joint bool
	// Region, if not empty, is the kind of the region that contains all targets of a row at
	// once with probability Level. "box" means the same as Joint. "ellipsoid" requests
	// Prediction.Ellipsoid, which has a smaller volume if the errors of targets are correlated.
	// It needs two targets or more, and cannot be combined with Side, IntervalScore or
	// Smoothed. Half of the calibration rows, drawn by Seed, give its shape.
	Region string
	// IntervalScore is the nonconformity score of two-sided intervals: see
	// calibrate.IntervalOptions.Score. An empty string stands for Calibration.IntervalScore.
	IntervalScore string
	// Sets, if not empty, requests prediction sets that contain the true class with
	// probability Level. It names a score, "lac", "aps", "raps", "saps" or "ordinal": see
	// calibrate.SetOptions.Score. SetsByClass guarantees the coverage for the rows of each
	// class. SetsByCluster guarantees it for the rows of each cluster of classes; Seed
	// determines the clusters. Prediction sets need a softmax classifier that was calibrated
	// with labels: see Calibration.TrueClasses.
	Sets                       string
	SetsByClass, SetsByCluster bool
	// ClassPValues requests Prediction.ClassPValues, with the score in Sets.
	ClassPValues bool
	// VennAbers requests Prediction.ConfidenceBounds. Like Sets, it needs a softmax classifier
	// that was calibrated with labels.
	VennAbers bool
	// MaxError, if not 0, is the largest allowed fraction of wrong predictions among all
	// accepted rows: see Prediction.Accept. In contrast, VennAbers gives a probability for
	// each row. Like Sets, MaxError needs a softmax classifier that was calibrated with
	// labels.
	MaxError float64
	// Smoothed breaks ties at random, so that intervals and sets have exactly the
	// guaranteed coverage, and not more: see calibrate.IntervalOptions and
	// calibrate.SetOptions. The random numbers depend only on Seed and the number of the
	// row.
	Smoothed bool
	// Samples is the number of draws from the conformal predictive distribution of each row
	// and target. Draws depend only on Seed and the number of the row, and are independent
	// across targets. All draws for a block of rows are in memory at once.
	Samples int
	Seed    uint64
	// Explain requests Prediction.Reasons. The bundle needs a profile, and rows need Inputs of
	// type ood.InputBlock, which featurize.Options.KeepInputs adds.
	Explain bool
}

// Prediction holds the results for one row. Its numbers may be infinite or NaN.
type Prediction struct {
	// Class is the index of the largest logit of a classifier. It is −1 without logits, and
	// for other models. Name is its name if the bundle has one. Confidence is its
	// probability: the softmax of the logits divided by the temperature, or the sigmoid
	// with Base.Sigmoid. With Calibration.LabelShift, it is the probability among rows with
	// the estimated shares of classes, and another class may then be more probable. A classifier with one logit is a logistic regression, which
	// predicts class 1 if the logit is positive.
	Class      int
	Name       string
	Confidence float64
	// ConfidenceBounds holds two probabilities that Class is right, the smaller one first: see
	// calibrate.ClassCalibration.VennAbers. Unlike Confidence, they are computed from logits
	// without a temperature. They are 0 if not requested, and NaN if the row has no logits.
	ConfidenceBounds [2]float64
	// Set holds the classes of the prediction set, in increasing order. If the LAC score
	// selects no class, Set holds Class, because this can only increase coverage. With
	// Smoothed, Set may be empty. Set is nil if not requested or if the row has no logits.
	Set []int
	// ClassPValues holds the conformal p-value of each class: see calibrate.Sets.PValues. It
	// is nil if not requested or if the row has no logits.
	ClassPValues []float64

	Targets []Target // one for each target of a regressor
	// Ellipsoid contains all targets of the row at once with probability Level, on the condition
	// that Bundle.Guarantee states. It is unbounded in the same cases as the intervals of
	// Targets. It is nil unless PredictOptions.Region is "ellipsoid".
	Ellipsoid *calibrate.Ellipsoid

	// Score is the OOD score: the higher, the more likely the row is OOD. It is NaN without a
	// detector or with NoScore. PValue is the conformal p-value of Score, or 1 without a score.
	// For every p, at most a fraction p of in-distribution rows has a PValue of p or less.
	// Flag reports whether PValue is at most Alpha.
	Score, PValue float64
	Flag          bool
	// Accept reports whether the row meets two conditions. First, Score is below the largest
	// calibration score that is not flagged, so the row is not flagged either. Second, the
	// largest softmax probability of the row, without a temperature, is above the Confidence
	// of Predictor.Selective. Without a detector, only the second condition applies. Accept is
	// false if PredictOptions.MaxError is 0. Otherwise at most a fraction MaxError of the
	// accepted rows is wrong, with 95 % confidence, on the condition that Bundle.Guarantee
	// states.
	Accept bool
	// Reasons lists the unusual values of the row's inputs, in the order of the columns. It is
	// nil if there are none, or if not requested. A row can be flagged without a reason, because
	// each of its values is usual, and a row with a reason need not be flagged.
	Reasons []schema.Reason
}

// MarshalJSON returns an object whose keys are the columns that "attach predict" writes,
// with three exceptions. There are no keys set_names and inside; and class p-values, quantiles and samples
// are lists, with quantiles in the order of PredictOptions.Levels.
//
// Infinities and NaN become null. The object has only results that exist: without a score, it
// has no p_value and no flag. It has accept only if Accept is true. With several targets, the
// keys of each target end in its number: _0, _1 and so on.
func (p Prediction) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	add := func(key string, value any) {
		text, _ := json.Marshal(value) // no value passed to add can fail to marshal
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
	for t, target := range p.Targets {
		suffix := ""
		if len(p.Targets) > 1 {
			suffix = "_" + strconv.Itoa(t)
		}
		if !math.IsNaN(target.Value) {
			add("prediction"+suffix, finite(target.Value))
		}
		if !math.IsNaN(target.Lower) {
			add("median"+suffix, finite(target.Median))
			add("lower"+suffix, finite(target.Lower))
			add("upper"+suffix, finite(target.Upper))
		}
		if target.Quantiles != nil {
			add("quantiles"+suffix, finites(target.Quantiles))
		}
		if target.Samples != nil {
			add("samples"+suffix, finites(target.Samples))
		}
	}
	if p.Ellipsoid != nil {
		factor := p.Ellipsoid.Factor()
		list := make([][]*float64, len(factor))
		for t, row := range factor {
			list[t] = finites(row)
		}
		add("factor", list)
		add("log_volume", finite(p.Ellipsoid.LogVolume()))
	}
	if !math.IsNaN(p.Score) {
		add("ood_score", finite(p.Score))
		add("p_value", finite(p.PValue))
		add("flag", p.Flag)
	}
	if p.Accept {
		add("accept", true)
	}
	if p.Reasons != nil {
		reasons := make([]string, len(p.Reasons))
		for i, r := range p.Reasons {
			reasons[i] = r.String()
		}
		add("reasons", reasons)
	}
	return append(out, '}'), nil
}

// finite returns a pointer to x, or nil (null in JSON) if x is NaN or infinite, which JSON
// cannot express.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// finites applies finite to every number.
func finites(x []float64) []*float64 {
	out := make([]*float64, len(x))
	for i, v := range x {
		out[i] = finite(v)
	}
	return out
}

// Target holds the results for one target of a row. A number is NaN if the bundle or the row
// cannot provide it.
type Target struct {
	Value  float64 // the prediction of the model itself
	Median float64 // the median of the interval model
	// Lower and Upper are the ends of the prediction interval. With probability Level,
	// Lower ≤ target ≤ Upper, on the condition that Bundle.Guarantee states. With Joint,
	// this holds for all targets of a row at once. They bound Prediction.Ellipsoid if it was
	// requested. With Side, the other end is infinite.
	// Both ends are infinite if there are too few calibration rows for Level, or too few in
	// the group of the row. With Smoothed, ends are float32 numbers, like targets, and
	// Lower > Upper means that the interval is empty.
	//
	// For very large features, the quantiles of a row may overflow, or lie so far beyond
	// those of the calibration rows that they give no information about the target. In that
	// case, the interval is infinite, Median and the quantile at 0.5 are NaN, other
	// quantiles and Samples are ±Inf, and the Score of the row is +Inf.
	Lower, Upper float64
	// Quantiles are the interval model's own quantiles at PredictOptions.Levels. Unlike the
	// interval, they are not calibrated. They increase with the level.
	Quantiles []float64
	// Samples are draws from calibrate.Distribution.Sample. They are ±Inf if the row's group
	// has no calibration rows.
	Samples []float64
}

// Rows is a block of rows to predict.
type Rows struct {
	// Batch must have the matrices that the fit used. Features are always required. Classes,
	// predicted values and some methods need logits. Layers are required if Base.Layers is not
	// empty, and Inputs and Network if Bundle.RunsNetwork. Only evaluate.Rows uses Labels.
	ood.Batch
	// Groups holds the group of each row. It is required if intervals are calibrated by
	// group, and must be nil otherwise: see Calibration.Groups.
	Groups []string
	// Targets holds the true targets of n rows, n×t for t targets. Only evaluate.Rows uses it.
	Targets blas32.General
	// First is the number of the first row of the block, counted from 0. Random numbers for
	// Smoothed and Samples depend on the number of a row. A caller that predicts block by
	// block must therefore set First, or rows of different blocks get equal random numbers.
	// Stream and evaluate.Rows set it.
	First int
}

// RunsNetwork reports whether the detector runs the base model, so that rows need Inputs and a
// Network.
func (b *Bundle) RunsNetwork() bool {
	return b.Detector != nil && (b.Detector.scorer.Method().Needs.Network || b.Detector.scorer.Method().Needs.Dropout)
}

// Predictor predicts blocks of rows with fixed options. [Bundle.Predictor] returns a
// Predictor. It is safe for concurrent use.
type Predictor struct {
	bundle         *Bundle
	o              PredictOptions                     // Level and Alpha are never 0
	intervalLevels []float64                          // quantile levels that intervals are computed from
	calibrated     map[string]*groupCalibration       // by group; the key is "" without groups; nil without an interval model
	unseenGroup    *groupCalibration                  // for groups without calibration rows
	ood            []calibrate.Conformal              // one entry for all rows or, with FlagByClass, one for each predicted class
	weighted       []calibrate.WeightedConformal      // the same scores with their weights; nil without weights
	sets           *calibrate.Sets                    // nil unless prediction sets are requested
	selective      *calibrate.Selective               // nil without MaxError
	vennAbers      func(top float64) (p0, p1 float64) // computes confidence bounds; nil unless they are requested
	scorer         *fitting.Scorer                    // the detector, or nil
	widths         batchparts.Widths                  // number of columns of each matrix of the fit rows
	matcher        *schema.Matcher                    // finds reasons; nil unless they are requested
}

// Predictor checks the options and calibrates at their levels once, for all blocks of rows.
func (b *Bundle) Predictor(o PredictOptions) (*Predictor, error) {
	if err := b.checkFitted(); err != nil {
		return nil, err
	}
	if err := cmp.Or(b.checkIntervals(o), b.checkSets(o), b.checkWeighted(o)); err != nil {
		return nil, err
	}
	switch {
	case o.Region != "":
		o.Joint = true
	case o.Joint:
		o.Region = conformal.Box
	}
	o.Level, o.Alpha = cmp.Or(o.Level, b.Calibration.Level), cmp.Or(o.Alpha, b.Calibration.Alpha)
	if o.Side == "" && o.Region != conformal.Ellipsoid {
		o.IntervalScore = cmp.Or(o.IntervalScore, b.Calibration.IntervalScore)
	}
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
	if o.Explain {
		if b.Profile == nil {
			return nil, errors.New("there is no profile of the inputs, which reasons need; fit again, with FitOptions.Profile")
		}
		p.matcher = b.Profile.Matcher()
	}
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
// order. A single block r of rows that are all in memory can be passed, here and to
// evaluate.Rows, as
//
//	func(yield func(attach.Rows, error) bool) { yield(r, nil) }
//
// The first error, from a block or from a prediction, ends the sequence. Random numbers do not
// depend on how rows are divided into blocks.
func (p *Predictor) Stream(ctx context.Context, blocks iter.Seq2[Rows, error]) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		done := 0
		for r, err := range blocks {
			var predictions []Prediction
			if err == nil {
				r.First = done
				predictions, err = p.Predict(ctx, r)
			}
			if err != nil {
				yield(Prediction{}, err)
				return
			}
			for _, prediction := range predictions {
				if !yield(prediction, nil) {
					return
				}
			}
			done += len(predictions)
		}
	}
}

// Predict returns one prediction for each row. If a number of the rows is NaN or infinite,
// [NotFinite] returns its position from the error. If the rows lack data that the detector
// needs, the error is an *ood.NeedError.
func (p *Predictor) Predict(ctx context.Context, r Rows) ([]Prediction, error) {
	if err := cmp.Or(p.check(), ctx.Err()); err != nil {
		return nil, err
	}
	r.Labels = nil // predictions do not depend on them
	given := r.Batch
	r.Batch = p.bundle.Base.pairLogits(given)
	if err := p.checkRows(given, r); err != nil {
		return nil, err
	}
	unseen := p.bundle.cells.unseen(given) // before scaling replaces empty cells by the mean
	r.Features = p.bundle.scaling.Apply(r.Features)
	out := make([]Prediction, r.Len())
	for i := range out {
		out[i] = Prediction{Class: -1, Score: math.NaN(), PValue: 1}
	}
	var unknown []bool
	var topProbabilities []float64
	var err error
	switch p.bundle.Base.Task {
	case Classification:
		if p.o.FlagByClass && r.Logits.Cols == 0 {
			return nil, errors.New("p-values by class need the rows' logits, which predict the class")
		}
		p.bundle.classify(out, r.Logits)
		p.setPredictionSets(out, r)
		topProbabilities = p.topProbabilities(r.Logits)
		p.setConfidenceBounds(out, topProbabilities)
	case Regression:
		if unknown, err = p.predictTargets(out, r); err != nil {
			return nil, err
		}
	}
	if err := p.detect(ctx, out, r, unknown, unseen); err != nil {
		return nil, err
	}
	p.setAccept(out, topProbabilities)
	return out, p.setReasons(out, r)
}

// setReasons sets the reasons of the rows if they are requested.
func (p *Predictor) setReasons(out []Prediction, r Rows) error {
	if !p.o.Explain {
		return nil
	}
	block, ok := r.Inputs.(ood.InputBlock)
	if !ok {
		return errors.New("PredictOptions.Explain needs rows with Inputs of type ood.InputBlock; set featurize.Options.KeepInputs")
	}
	if block.Len() != r.Len() {
		return fmt.Errorf("%d rows have %d rows of inputs", r.Len(), block.Len())
	}
	for i, list := range p.matcher.Reasons(p.matcher.Values(block)) {
		out[i].Reasons = list
	}
	return nil
}

// check returns an error if the predictor was not created by Bundle.Predictor.
func (p *Predictor) check() error {
	if p == nil || p.bundle == nil {
		return errors.New("the predictor is empty; create one with Bundle.Predictor")
	}
	return nil
}

// widths returns the number of columns of each matrix of the fit rows.
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

// checkRows returns an error for rows that the predictor cannot predict, for example
// because their widths differ from those of the fit rows. The argument given is the batch
// before pairLogits, so a binary classifier may still have a single logit.
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
		given.Layers = nil // the detector does not read them
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

// calibrateFlags prepares the calibration scores from which p-values are computed.
func (p *Predictor) calibrateFlags() error {
	c := p.bundle.Calibration
	parts, weights := [][]float64{c.OOD}, [][]float64{c.Weights}
	if p.o.FlagByClass {
		switch {
		case len(c.OOD) == 0:
			return errors.New("p-values by class need a detector, and there is none")
		case len(c.Predicted) == 0:
			return errors.New("p-values by class need a classifier and calibration rows with logits")
		}
		parts = make([][]float64, slices.Max(c.Predicted)+1)
		weights = make([][]float64, len(parts))
		for i, class := range c.Predicted {
			parts[class] = append(parts[class], c.OOD[i])
			if c.Weights != nil {
				weights[class] = append(weights[class], c.Weights[i])
			}
		}
	}
	for k, scores := range parts {
		sorted, err := calibrate.NewConformal(scores)
		if err != nil {
			return err
		}
		p.ood = append(p.ood, sorted)
		if c.Weights == nil || len(c.OOD) == 0 {
			continue
		}
		weighted, err := calibrate.NewWeightedConformal(scores, weights[k])
		if err != nil {
			return err
		}
		p.weighted = append(p.weighted, weighted)
	}
	return nil
}

// Bundle returns the bundle of the predictor, or nil for the zero Predictor.
func (p *Predictor) Bundle() *Bundle { return p.bundle }

// Options returns the options of the predictor. Level and Alpha are the defaults of the bundle
// if the caller gave none, and Joint and Region agree.
func (p *Predictor) Options() PredictOptions { return p.o }

// Conformal returns the calibration scores that a row with this predicted class is compared
// with. These are the scores of all calibration rows or, with FlagByClass, of the calibration
// rows with the same predicted class. The result is empty without a detector. It has no
// weights, so p-values differ from Prediction.PValue if there are Calibration.Weights.
func (p *Predictor) Conformal(class int) calibrate.Conformal {
	switch {
	case !p.o.FlagByClass:
		return p.ood[0]
	case class < len(p.ood):
		return p.ood[class]
	}
	return calibrate.Conformal{} // no calibration row has this predicted class
}

// detect sets Score, PValue and Flag of each prediction. The score is infinite if the interval
// model has no information about a target (unknown), or if the row has emptier cells than the
// fit rows (unseen).
func (p *Predictor) detect(ctx context.Context, out []Prediction, r Rows, unknown, unseen []bool) error {
	if p.scorer == nil {
		return nil
	}
	scores, err := p.scorer.Score(ctx, nil, r.Batch)
	if err != nil {
		return fmt.Errorf("detector %s: %w", p.bundle.Detector.Method, err)
	}
	for i, v := range scores {
		// A score is NaN only if it overflows, because the rows are finite. Such a row is
		// farther out than all rows with a finite score.
		if math.IsNaN(v) || unknown != nil && unknown[i] || unseen != nil && unseen[i] {
			scores[i] = math.Inf(1)
		}
		out[i].Score = scores[i]
	}
	if len(p.bundle.Calibration.OOD) == 0 {
		return nil
	}
	weights := p.weights(r)
	for i, s := range scores {
		v := p.pValue(out[i].Class, s, i, weights)
		out[i].PValue, out[i].Flag = v, v <= p.o.Alpha
	}
	return nil
}
