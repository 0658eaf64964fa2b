// Package evaluate tests the guarantees of a .attach file on rows whose labels or targets are
// known. The guarantees are false-alarm rates, the coverage of intervals and prediction sets,
// and the error rate of accepted rows. [Rows] predicts the rows and returns an [Evaluation].
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/schema"
)

// Options selects what Rows evaluates. The zero value uses default false-alarm rates and only
// the level of the predictor.
//
// The options of the predictor also apply. Flags by class and by group are evaluated only
// at its Alpha, and Rate.AdjustedPValue is set only at its Level and Alpha. Its Seed
// determines the random rows of Points and of the search for the worst slab.
type Options struct {
	// OOD yields out-of-distribution rows, which should be flagged. They need no labels. Nil
	// means that there are none.
	OOD iter.Seq2[attach.Rows, error]
	// Labelled yields a few rows with labels or targets, drawn at random from the same source as
	// the evaluated rows, which then need none. They are for Evaluation.FewLabels. Nil means
	// that there are none.
	Labelled iter.Seq2[attach.Rows, error]
	// Levels are additional levels of intervals and sets. Alphas are additional false-alarm
	// rates; nil means 0.01, 0.05 and 0.1.
	Levels, Alphas []float64
	// Schema compares the inputs of the rows with those of the fit rows. It must observe the
	// inputs while the rows are read. Nil leaves out Evaluation.Schema.
	Schema *schema.Checker
	// Series evaluates intervals along time. Nil leaves out Evaluation.Series.
	Series *SeriesOptions
}

// Evaluation holds the results of a .attach file on labelled rows, and whether its guarantees
// are met. Every Rate has a Clopper–Pearson interval of 95 %. A field is nil if the rows or
// the file lack the data for it. The JSON form is stable.
type Evaluation struct {
	Task            attach.Task `json:"task"`
	Rows            int         `json:"rows"`
	CalibrationRows int         `json:"calibration_rows"`
	// IntervalCalibrationRows is the number of calibration rows that calibrate intervals, or 0
	// if all do.
	IntervalCalibrationRows int `json:"interval_calibration_rows,omitempty"`
	// EffectiveSampleSize is the number of rows with equal weights that weighted calibration
	// rows are worth, and 0 without weights. Tests of guarantees use it as the number of
	// calibration rows. They are then approximate: in simulations, they wrongly reported 1 %
	// to 7 % of guarantees as violated, instead of 1 %.
	EffectiveSampleSize float64 `json:"effective_sample_size,omitempty"`
	weightByClass       bool    // whether all calibration rows of a class have the same weight
	HeldOut             string  `json:"held_out,omitempty"` // origin of the calibration rows: "given", or "split" off the fit rows
	Alpha               float64 `json:"alpha"`
	Level               float64 `json:"level"`
	// Guarantees holds the tests of the guarantees: first for flags, then for intervals or
	// prediction sets, and last for the error rate of accepted rows.
	Guarantees []Guarantee `json:"guarantees"`
	// Conditional holds the tests whether coverage holds in parts of the rows. It lacks
	// guarantees that are violated, and is nil if calibration rows have weights.
	Conditional []ConditionalTest `json:"conditional_coverage,omitempty"`
	// Notes holds findings, for example mistakes in the rows and data that are missing.
	Notes      []Note      `json:"notes,omitempty"`
	Flags      *Flags      `json:"flags,omitempty"`
	Classifier *Classifier `json:"classifier,omitempty"`
	Targets    []Target    `json:"targets,omitempty"` // results for each target of a regressor, in the order of its outputs
	// IntervalScore is the nonconformity score by which intervals are calibrated. It is empty for
	// ellipsoids, which have a score of their own.
	IntervalScore string `json:"interval_score,omitempty"`
	// Joint is the coverage of the regions that contain all targets of a row at once, for each
	// level. It is nil unless attach.PredictOptions.Joint or Region is set. Region is their kind,
	// "box" or "ellipsoid". With ellipsoids, the intervals of Targets are their bounds.
	Joint  []Coverage `json:"joint,omitempty"`
	Region string     `json:"region,omitempty"`
	// Regions compares boxes and ellipsoids at Level. It is nil without Joint, or if there is
	// only one target.
	Regions *Regions `json:"regions,omitempty"`
	// Series holds the coverage along time, for each target or for the boxes of all targets. It
	// is nil without Options.Series.
	Series []Series `json:"series,omitempty"`
	OOD    *OOD     `json:"ood,omitempty"`
	// ErrorEstimate estimates the error rate of a classifier if the rows have no labels.
	// FewLabels estimates errors from Options.Labelled.
	ErrorEstimate *ErrorEstimate `json:"error_estimate,omitempty"`
	FewLabels     *FewLabels     `json:"few_labels,omitempty"`
	// Schema describes the input columns that differ from the fit rows. It is nil without
	// Options.Schema.
	Schema *schema.Summary `json:"schema,omitempty"`
}

// Rate is the fraction of rows with some property, for example of flagged rows.
type Rate struct {
	Name     string  `json:"name,omitempty"`    // the class, group or decile of the rows
	Nominal  float64 `json:"nominal,omitempty"` // guaranteed or predicted rate
	Count    int     `json:"count"`
	Rows     int     `json:"rows"`
	Fraction float64 `json:"fraction"` // Count / Rows
	Low      float64 `json:"ci_low"`   // lower end of the 95 % interval of Fraction
	High     float64 `json:"ci_high"`  // upper end of that interval
	// MeanWidth is the mean width of the finite intervals, or the mean size of the sets.
	MeanWidth *float64 `json:"mean_width,omitempty"`
	// AdjustedPValue is the p-value of the test whether these rows have more misses than the
	// guarantee allows on average. It is adjusted for the number of all classes, groups and
	// deciles that are tested (Holm). It is nil if they are not tested.
	AdjustedPValue *float64 `json:"adjusted_p_value,omitempty"`

	part int // index of the class, group or decile
}

// rate returns the rate of count among rows, with its interval, or nil if there are no rows.
func rate(count, rows int) *Rate {
	if rows == 0 {
		return nil
	}
	low, high := hypothesis.Interval(count, rows, .95)
	return &Rate{Count: count, Rows: rows, Fraction: float64(count) / float64(rows), Low: low, High: high}
}

// rateWhere returns the rate of rows for which has is true, among the rows for which where is
// true. A nil where selects all n rows.
func rateWhere(n int, has, where func(i int) bool) *Rate {
	count, selected := 0, 0
	for i := range n {
		if where == nil || where(i) {
			selected++
			if has(i) {
				count++
			}
		}
	}
	return rate(count, selected)
}

// Note is a finding about the rows or the .attach file, with advice if there is any.
type Note struct {
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Part is set if a guarantee holds on average but fails in some parts of the rows. It
	// names the kind of part, as in ConditionalTest.Part, or "window" (of time). Option then
	// names an option that improves the worst part, if there is one: "interval_score" or "sets"
	// (whose new value is Value), "sets_by_class", "flag_by_class", or "groups" of a fit.
	Part   string `json:"part,omitempty"`
	Option string `json:"option,omitempty"`
	Value  string `json:"value,omitempty"`
}

// Histogram counts numbers from 0 to 1 in bins of equal width. Each bin includes its upper
// end, and the first bin also its lower end.
type Histogram struct {
	Counts   []int     `json:"counts"`
	Expected []float64 `json:"expected"` // expected counts if the guarantees are met
	// KSStatistic and KSPValue are the results of a two-sample Kolmogorov–Smirnov test that
	// compares these rows with the calibration rows. They are set only for Flags.PValues,
	// unless p-values are ranked by predicted class, and for PITCalibrated, unless intervals
	// are calibrated by group.
	KSStatistic *float64 `json:"ks_statistic,omitempty"`
	KSPValue    *float64 `json:"ks_p_value,omitempty"`
}

// Flags holds the results of a detector on in-distribution rows.
type Flags struct {
	ByAlpha []Rate    `json:"by_alpha"` // rate of flagged rows, for each alpha
	PValues Histogram `json:"p_values"`
	// ByClass and ByGroup are the rates of rows that are flagged at the alpha of the
	// predictor, for each label and for each group in attach.Rows.Groups.
	ByClass []Rate `json:"by_class,omitempty"`
	ByGroup []Rate `json:"by_group,omitempty"`
}

// OOD holds the results of a detector on out-of-distribution rows.
type OOD struct {
	Rows    int       `json:"rows"`
	ByAlpha []Rate    `json:"by_alpha"` // rate of flagged rows (the detection rate), for each alpha
	PValues Histogram `json:"p_values"`
	// AUROC measures how well scores separate OOD rows from in-distribution rows: 1 is
	// perfect, 0.5 is chance. FPR95 is the fraction of in-distribution rows that are flagged
	// at the threshold that flags 95 % of the OOD rows.
	AUROC float64 `json:"auroc"`
	FPR95 float64 `json:"fpr95"`
}

// Classifier holds the results of a classifier on labelled rows.
type Classifier struct {
	Accuracy            *Rate  `json:"accuracy"`
	CalibrationAccuracy *Rate  `json:"calibration_accuracy,omitempty"` // accuracy on the calibration rows; nil if the .attach file lacks their labels
	AccuracyFlagged     *Rate  `json:"accuracy_flagged,omitempty"`     // accuracy among rows that are flagged at the alpha of the predictor
	AccuracyUnflagged   *Rate  `json:"accuracy_unflagged,omitempty"`
	ByClass             []Rate `json:"by_class"` // accuracy for each label
	ByGroup             []Rate `json:"by_group,omitempty"`
	// Uncalibrated is the reliability of the plain softmax or, for a model with sigmoids, of
	// the sigmoid. Calibrated is the reliability of the softmax of the logits divided by
	// Temperature. It is nil if no temperature was fitted.
	Uncalibrated Reliability  `json:"uncalibrated"`
	Calibrated   *Reliability `json:"calibrated,omitempty"`
	Temperature  float64      `json:"temperature,omitempty"`
	// RiskCoverage is a curve of at most 200 points: the error rate of the most confident
	// predictions, for increasing fractions of them. AURC is the area under this curve.
	// AURCOODScore is the area if predictions are ranked by OOD score instead of confidence.
	RiskCoverage []RiskPoint `json:"risk_coverage"`
	AURC         float64     `json:"aurc"`
	AURCOODScore *float64    `json:"aurc_ood_score,omitempty"`
	Sets         []Coverage  `json:"sets,omitempty"` // coverage of prediction sets, for each level
	// SetScore is the nonconformity score of prediction sets. SetsBy is "class" or "cluster"
	// if coverage is guaranteed separately for each class or cluster. Otherwise it is empty.
	SetScore string `json:"set_score,omitempty"`
	SetsBy   string `json:"sets_by,omitempty"`
	// Accepted is the rate of rows that are accepted with attach.PredictOptions.MaxError.
	// SelectiveError is the rate of wrong predictions among the accepted rows.
	Accepted       *Rate `json:"accepted,omitempty"`
	SelectiveError *Rate `json:"selective_error,omitempty"`
}

// RiskPoint is the error rate of all predictions with at least a given confidence.
type RiskPoint struct {
	Coverage   float64 `json:"coverage"`   // fraction of all predictions that have at least Confidence
	Risk       float64 `json:"risk"`       // error rate of these predictions
	Confidence float64 `json:"confidence"` // the lowest confidence of these predictions
}

// Reliability compares the confidence of predictions with their accuracy.
type Reliability struct {
	NLL *float64 `json:"nll,omitempty"` // mean negative log-likelihood of the labels; nil without a softmax
	ECE float64  `json:"ece"`           // expected calibration error, in 15 bins of equal width
	// Bins holds the bins of confidence that contain predictions. Nominal is the mean
	// confidence in a bin, and Fraction the accuracy.
	Bins []Rate `json:"bins"`
}

// Coverage is the rate of rows whose interval or set at one level contains the truth.
type Coverage struct {
	Rate                 // Nominal is the level
	MedianWidth *float64 `json:"median_width,omitempty"`
	Infinite    int      `json:"infinite,omitempty"`    // number of unbounded intervals
	SizeCounts  []int    `json:"size_counts,omitempty"` // SizeCounts[k] is the number of sets with k classes
	ByClass     []Rate   `json:"by_class,omitempty"`
	ByGroup     []Rate   `json:"by_group,omitempty"`
	ByDecile    []Rate   `json:"by_decile,omitempty"` // coverage by decile of the prediction
	// ByWidth is the coverage by fifth of the width of the interval. BySize is the coverage by
	// the size of the prediction set, unless sets are smoothed, and ByPredictedClass by the
	// predicted class.
	ByWidth          []Rate `json:"by_width,omitempty"`
	BySize           []Rate `json:"by_size,omitempty"`
	ByPredictedClass []Rate `json:"by_predicted_class,omitempty"`
	// WorstSlab is the coverage of the worst slab. A slab is the set of rows between two
	// parallel hyperplanes of the feature space. A random sample of at most 10,000 rows is
	// used. The slab with the lowest coverage is found on half of the sample, among slabs
	// with at least a tenth of that half. Its coverage is then measured on the other half.
	//
	// Reference: Cauchois, Gupta & Duchi (2021), Knowing what You Know: valid and
	// validated confidence sets in multiclass and multilabel prediction.
	WorstSlab *Rate `json:"worst_slab,omitempty"`
}

// Target holds the results for one target of a regressor.
type Target struct {
	Name string `json:"name,omitempty"` // column of the target, if the .attach file was fitted on a table
	// RMSE, MAE and R2 describe the errors of the predictions of the model itself.
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"`
	R2   *float64 `json:"r2,omitempty"`
	// Coverage is the coverage of the intervals, for each level.
	Coverage []Coverage `json:"coverage,omitempty"`
	// CRPS is the continuous ranked probability score of the predicted quantiles. PinballLoss
	// is their mean pinball loss at each of PinballLevels. PIT (probability integral
	// transform) counts the levels of the targets in the predicted distribution, and
	// PITCalibrated their levels in the conformal predictive distribution.
	CRPS          *float64   `json:"crps,omitempty"`
	PinballLevels []float64  `json:"pinball_levels,omitempty"`
	PinballLoss   []float64  `json:"pinball_loss,omitempty"`
	PIT           *Histogram `json:"pit,omitempty"`
	PITCalibrated *Histogram `json:"pit_calibrated,omitempty"`
	// Points holds targets and their intervals at the level of the predictor, for a random
	// sample of at most 2,000 rows with finite intervals.
	Points []TargetPoint `json:"points,omitempty"`
}

// TargetPoint holds the true target of a row and its predicted median and interval.
type TargetPoint struct {
	Target float64 `json:"target"`
	Median float64 `json:"median"`
	Lower  float64 `json:"lower"`
	Upper  float64 `json:"upper"`
}

// Rows predicts blocks of rows and compares the predictions with the Labels or Targets of the
// rows. The example shows how to pass a single block. Without labels or targets, only flags
// are evaluated. A block may have Groups even if the .attach file is not calibrated by
// group. The function Rows keeps a few numbers for each row in memory. For at most 10,000
// rows, it also keeps the features, the logits or predicted quantiles, and the input columns.
// Input columns are known if the .attach file has a profile and the rows have Inputs of type
// ood.InputBlock, which featurize.Options.KeepInputs adds.
func Rows(ctx context.Context, p *attach.Predictor, blocks iter.Seq2[attach.Rows, error], o Options) (*Evaluation, error) {
	if p == nil || p.Bundle() == nil {
		return nil, errors.New("the predictor is empty: make one with Bundle.Predictor")
	}
	if p.Options().NoScore && p.Bundle().Detector != nil {
		return nil, errors.New("the predictor leaves out the scores that flags need: make one without NoScore")
	}
	if o.Alphas == nil {
		o.Alphas = []float64{.01, .05, .1}
	}
	o.Alphas = sortedUnique(p.Options().Alpha, o.Alphas)
	o.Levels = sortedUnique(p.Options().Level, o.Levels)
	for _, a := range o.Alphas {
		if !(a > 0 && a < 1) {
			return nil, fmt.Errorf("false-alarm rate %v is not between 0 and 1", a)
		}
	}
	g, err := newAccumulator(p, o)
	if err != nil {
		return nil, err
	}
	for r, err := range blocks {
		if err == nil {
			err = g.add(ctx, r)
		}
		if err != nil {
			return nil, err
		}
	}
	if g.n == 0 {
		return nil, errors.New("there are no rows to evaluate on")
	}
	return g.evaluation(ctx)
}

// sortedUnique returns the distinct numbers among first and the elements of more, in increasing
// order.
func sortedUnique(first float64, more []float64) []float64 {
	all := append([]float64{first}, more...)
	slices.Sort(all)
	return slices.Compact(all)
}
