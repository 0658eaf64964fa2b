// Package evaluate tests the guarantees of a .attach file on rows whose labels or targets are
// known: false-alarm rates, the coverage of intervals and prediction sets, and the error rate
// of accepted rows. [Rows] predicts for them and returns an [Evaluation].
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Options chooses what Rows evaluates. The options of the predictor apply too: figures by
// class, group and decile are those at its Level and Alpha, and its Seed draws the rows of
// Points and of the search for the worst slab. The zero value is a good choice.
type Options struct {
	// OOD are out-of-distribution rows, which should be flagged. They need no labels.
	OOD iter.Seq2[attach.Rows, error]
	// Levels are further levels of intervals and sets, and Alphas further false-alarm
	// rates. Nil Alphas stand for 0.01, 0.05 and 0.1.
	Levels, Alphas []float64
}

// Evaluation holds the figures of a .attach file on labelled rows, and whether its guarantees
// are met. Rates have Clopper–Pearson intervals of 95 %. A part is nil if the rows or the file
// lack what it needs. The JSON form is stable.
type Evaluation struct {
	Task            attach.Task `json:"task"`
	Rows            int         `json:"rows"`
	CalibrationRows int         `json:"calibration_rows"`
	HeldOut         string      `json:"held_out,omitempty"` // origin of the calibration rows: given, or split off the fit rows
	Alpha           float64     `json:"alpha"`
	Level           float64     `json:"level"`
	// Guarantees are those of flags, then those of intervals or prediction sets.
	Guarantees []Guarantee `json:"guarantees"`
	// Notes report what looks wrong, and what is missing.
	Notes      []Note      `json:"notes,omitempty"`
	Flags      *Flags      `json:"flags,omitempty"`
	Classifier *Classifier `json:"classifier,omitempty"`
	Targets    []Target    `json:"targets,omitempty"` // of a regressor, in the order of its outputs
	// IntervalScore is the nonconformity score that intervals are calibrated with.
	IntervalScore string `json:"interval_score,omitempty"`
	// Joint is the coverage of all targets of a row at once, by level, if
	// attach.PredictOptions.Joint is set.
	Joint []Coverage `json:"joint,omitempty"`
	OOD   *OOD       `json:"ood,omitempty"`
}

// Rate counts the rows with some property.
type Rate struct {
	Name     string  `json:"name,omitempty"`    // of the class, group or decile that the rows belong to
	Nominal  float64 `json:"nominal,omitempty"` // guaranteed or predicted rate
	Count    int     `json:"count"`
	Rows     int     `json:"rows"`
	Fraction float64 `json:"fraction"` // Count / Rows
	Low      float64 `json:"ci_low"`   // ends of its 95 % interval
	High     float64 `json:"ci_high"`
	// MeanWidth is the mean width of the finite intervals, or the mean size of the sets.
	MeanWidth *float64 `json:"mean_width,omitempty"`
	// AdjustedPValue is the probability of at least as many misses in this part of the rows
	// if all parts are alike, adjusted for the number of all parts of the evaluation
	// (Holm). It is nil if parts are not compared.
	AdjustedPValue *float64 `json:"adjusted_p_value,omitempty"`

	part int // number of the class or part
}

// rate returns nil if there are no rows.
func rate(count, rows int) *Rate {
	if rows == 0 {
		return nil
	}
	low, high := hypothesis.Interval(count, rows, .95)
	return &Rate{Count: count, Rows: rows, Fraction: float64(count) / float64(rows), Low: low, High: high}
}

// rateWhere returns the rate of rows with a property among those that where selects. A nil
// where selects all n rows.
func rateWhere(n int, has, where func(i int) bool) *Rate {
	hits, all := 0, 0
	for i := range n {
		if where == nil || where(i) {
			all++
			if has(i) {
				hits++
			}
		}
	}
	return rate(hits, all)
}

// Note is a finding about an evaluation, with advice if there is any.
type Note struct {
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Part is set if a guarantee holds on average but not in each part of the rows:
	// "decile" (of the prediction), "class" or "group". Option and Value are then the
	// option that mends it, if there is one: "interval_score" and a score, "sets_by_class",
	// "flag_by_class", or "groups" of a fit.
	Part   string `json:"part,omitempty"`
	Option string `json:"option,omitempty"`
	Value  string `json:"value,omitempty"`
}

// Histogram counts numbers from 0 to 1 in bins of equal width. A bin includes its upper end;
// the first bin includes both.
type Histogram struct {
	Counts   []int     `json:"counts"`
	Expected []float64 `json:"expected"` // counts if the guarantees are met
	// KSStatistic and KSPValue are those of the two-sample Kolmogorov–Smirnov test of these
	// rows against the calibration rows. Both are nil if the calibration rows have no such
	// numbers, and for p-values by predicted class.
	KSStatistic *float64 `json:"ks_statistic,omitempty"`
	KSPValue    *float64 `json:"ks_p_value,omitempty"`
}

// Flags holds the figures of a detector on in-distribution rows.
type Flags struct {
	ByAlpha []Rate    `json:"by_alpha"` // flagged rows, by alpha
	PValues Histogram `json:"p_values"`
	// ByClass and ByGroup are the rows flagged at the predictor's alpha, by label and by
	// attach.Rows.Groups.
	ByClass []Rate `json:"by_class,omitempty"`
	ByGroup []Rate `json:"by_group,omitempty"`
}

// OOD holds the figures of a detector on out-of-distribution rows.
type OOD struct {
	Rows    int       `json:"rows"`
	ByAlpha []Rate    `json:"by_alpha"` // flagged rows (the detection rate), by alpha
	PValues Histogram `json:"p_values"`
	// AUROC measures how well scores separate these rows from the in-distribution rows.
	// FPR95 is the fraction of in-distribution rows flagged when 95 % of these rows are.
	AUROC float64 `json:"auroc"`
	FPR95 float64 `json:"fpr95"`
}

// Classifier holds the figures of a classifier on labelled rows.
type Classifier struct {
	Accuracy            *Rate  `json:"accuracy"`
	CalibrationAccuracy *Rate  `json:"calibration_accuracy,omitempty"` // on the calibration rows, if the .attach file has it
	AccuracyFlagged     *Rate  `json:"accuracy_flagged,omitempty"`     // among rows flagged at the predictor's alpha
	AccuracyUnflagged   *Rate  `json:"accuracy_unflagged,omitempty"`
	ByClass             []Rate `json:"by_class"` // accuracy, by label
	ByGroup             []Rate `json:"by_group,omitempty"`
	// Uncalibrated is the reliability of the softmax of the logits, and Calibrated that of
	// the softmax of the logits divided by Temperature. Calibrated is nil if no temperature
	// was fitted.
	Uncalibrated Reliability  `json:"uncalibrated"`
	Calibrated   *Reliability `json:"calibrated,omitempty"`
	Temperature  float64      `json:"temperature,omitempty"`
	// RiskCoverage is the error rate of the most confident predictions, in at most 200 points.
	// AURC is the area under this curve. AURCOODScore is the area if predictions are ranked by
	// OOD score instead of confidence.
	RiskCoverage []RiskPoint `json:"risk_coverage"`
	AURC         float64     `json:"aurc"`
	AURCOODScore *float64    `json:"aurc_ood_score,omitempty"`
	Sets         []Coverage  `json:"sets,omitempty"` // by level
	// SetScore is the nonconformity score of prediction sets. SetsBy is "class" or "cluster"
	// if their coverage is guaranteed for each of these separately, and else empty.
	SetScore string `json:"set_score,omitempty"`
	SetsBy   string `json:"sets_by,omitempty"`
	// Accepted are the rows that attach.PredictOptions.MaxError accepts, and SelectiveError
	// the wrong ones among them.
	Accepted       *Rate `json:"accepted,omitempty"`
	SelectiveError *Rate `json:"selective_error,omitempty"`
}

// RiskPoint is the error rate of the predictions with at least some confidence.
type RiskPoint struct {
	Coverage   float64 `json:"coverage"`   // fraction of all predictions
	Risk       float64 `json:"risk"`       // error rate of these predictions
	Confidence float64 `json:"confidence"` // the lowest confidence among them
}

// Reliability compares confidence with accuracy.
type Reliability struct {
	NLL *float64 `json:"nll,omitempty"` // mean negative log-likelihood of the labels, of a softmax
	ECE float64  `json:"ece"`           // expected calibration error, in 15 bins of equal width
	// Bins are the bins with rows: Nominal is their mean confidence, Fraction their
	// accuracy.
	Bins []Rate `json:"bins"`
}

// Coverage is how often the intervals or sets of one level contain the truth.
type Coverage struct {
	Rate                 // Nominal is the level
	MedianWidth *float64 `json:"median_width,omitempty"`
	Infinite    int      `json:"infinite,omitempty"`    // number of unbounded intervals
	SizeCounts  []int    `json:"size_counts,omitempty"` // number of sets with 0, 1, … classes
	ByClass     []Rate   `json:"by_class,omitempty"`
	ByGroup     []Rate   `json:"by_group,omitempty"`
	ByDecile    []Rate   `json:"by_decile,omitempty"` // of the prediction
	// WorstSlab is the coverage of the worst slab: the rows between two parallel
	// hyperplanes of the feature space that are covered least, among slabs with at least a
	// tenth of the rows. It is searched on one half of at most 10,000 rows and measured on
	// the other half.
	//
	// Reference: Cauchois, Gupta & Duchi (2021), Knowing what You Know: valid and
	// validated confidence sets in multiclass and multilabel prediction.
	WorstSlab *Rate `json:"worst_slab,omitempty"`
}

// Target holds the figures of one target of a regressor.
type Target struct {
	Name string `json:"name,omitempty"` // of its column, if the .attach file was fitted on a table
	// RMSE, MAE and R2 are those of the predictions of the model.
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"`
	R2   *float64 `json:"r2,omitempty"`
	// Coverage is the coverage of the intervals, by level.
	Coverage []Coverage `json:"coverage,omitempty"`
	// CRPS is the continuous ranked probability score of the predicted quantiles, and
	// PinballLoss their mean loss at PinballLevels. PIT counts the levels of the targets
	// among the predicted quantiles (probability integral transform), and PITCalibrated
	// their levels in the conformal predictive distribution.
	CRPS          *float64   `json:"crps,omitempty"`
	PinballLevels []float64  `json:"pinball_levels,omitempty"`
	PinballLoss   []float64  `json:"pinball_loss,omitempty"`
	PIT           *Histogram `json:"pit,omitempty"`
	PITCalibrated *Histogram `json:"pit_calibrated,omitempty"`
	// Points are targets and their intervals at the predictor's level, for a sample of at
	// most 2,000 rows.
	Points []TargetPoint `json:"points,omitempty"`
}

// TargetPoint is a target and its interval.
type TargetPoint struct {
	Target float64 `json:"target"`
	Median float64 `json:"median"`
	Lower  float64 `json:"lower"`
	Upper  float64 `json:"upper"`
}

// Rows predicts for blocks of rows and compares the predictions with their Labels or
// Targets. The example shows how to pass a single block. Rows that have neither are evaluated
// for flags only. Rows may have Groups even if the .attach file is not calibrated by group.
// Memory holds a few numbers for each row, and the features of at most 10,000 rows.
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

// sortedUnique returns all of the numbers once, in increasing order.
func sortedUnique(one float64, more []float64) []float64 {
	all := append([]float64{one}, more...)
	slices.Sort(all)
	return slices.Compact(all)
}
