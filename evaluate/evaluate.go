// Package evaluate tests whether the guarantees of a bundle hold on rows whose labels or
// targets are known: false-alarm rates, the coverage of intervals and prediction sets, and
// the error rate of accepted rows. [Rows] predicts for them and returns an [Evaluation].
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

// Options chooses what is evaluated beside the Level and Alpha of the
// predictor, whose Seed draws the rows that the worst slab is looked for among, and
// Points. The zero value is a good choice.
type Options struct {
	// Others are rows from elsewhere, which are to be flagged; they need no truth.
	OOD iter.Seq2[attach.Rows, error]
	// Levels are other levels of intervals and sets, Alphas other false-alarm
	// rates; nil Alphas stand for .01, .05 and .1.
	Levels, Alphas []float64
}

// Evaluation is what rows whose truth is known show of a bundle, and whether it
// keeps its promises on them. Shares have Clopper–Pearson intervals of 95 %. What
// the rows or the bundle lack the parts for is nil. Its JSON form is stable.
type Evaluation struct {
	Task            attach.Task `json:"task"`
	Rows            int         `json:"rows"`
	CalibrationRows int         `json:"calibration_rows"` // rows that the bundle was calibrated on
	HeldOut         string      `json:"held_out,omitempty"`
	Alpha           float64     `json:"alpha"`
	Level           float64     `json:"level"`
	// Promises are those of the bundle: of flags, then of intervals or sets.
	Guarantees []Guarantee `json:"guarantees"`
	// Notes say what looks wrong with rows or bundle, and what is missing.
	Notes      []Note      `json:"notes,omitempty"`
	Flags      *Flags      `json:"flags,omitempty"`
	Classifier *Classifier `json:"classifier,omitempty"` // of a classifier
	Targets    []Target    `json:"targets,omitempty"`    // of a regressor, in the order of its outputs
	// IntervalScore is what intervals of a regressor are calibrated by.
	IntervalScore string `json:"interval_score,omitempty"`
	// Joint is by level, with attach.PredictOptions.Joint, how often all targets of a row are
	// covered.
	Joint []Coverage `json:"joint,omitempty"`
	// Others is of rows from elsewhere.
	OOD *OOD `json:"ood,omitempty"`
}

// Rate is how often something was so.
type Rate struct {
	Name     string  `json:"name,omitempty"`    // of the class, the group or the stretch of predictions that rows are of
	Nominal  float64 `json:"nominal,omitempty"` // the share that is promised or predicted
	Count    int     `json:"count"`
	Rows     int     `json:"rows"`
	Fraction float64 `json:"fraction"` // Count of Rows
	Low      float64 `json:"ci_low"`   // the ends of its interval
	High     float64 `json:"ci_high"`
	// Width is the mean width of intervals or size of sets, where they end.
	MeanWidth *float64 `json:"mean_width,omitempty"`
	// PValue is the probability, at most, of a part that misses as often if all parts of
	// the rows are alike. It is adjusted for the number of all parts of an evaluation
	// (Holm), and nil if parts are not compared.
	AdjustedPValue *float64 `json:"adjusted_p_value,omitempty"`

	part int // the number of the class, or the place of the part
}

// rate is nil of no rows.
func rate(count, rows int) *Rate {
	if rows == 0 {
		return nil
	}
	low, high := hypothesis.Interval(count, rows, .95)
	return &Rate{Count: count, Rows: rows, Fraction: float64(count) / float64(rows), Low: low, High: high}
}

// among is how often yes holds of the rows, of n, of which of does; nil is all.
func among(n int, yes, of func(i int) bool) *Rate {
	hits, all := 0, 0
	for i := range n {
		if of == nil || of(i) {
			all++
			if yes(i) {
				hits++
			}
		}
	}
	return rate(hits, all)
}

// Note is what to know of an evaluation, and what to do about it, if anything.
type Note struct {
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Part is set if a guarantee holds on average but not in each part of the rows:
	// "decile" (of the prediction), "class" or "group". Option and Value are then the
	// choice that mends it, if there is one: "interval_score" and a score, "sets_by_class",
	// "flag_by_class", or "groups" of a fit.
	Part   string `json:"part,omitempty"`
	Option string `json:"option,omitempty"`
	Value  string `json:"value,omitempty"`
}

// Histogram counts numbers from 0 to 1 in bins of one width; the first holds both
// of its ends, the others their upper one.
type Histogram struct {
	Counts   []int     `json:"counts"`
	Expected []float64 `json:"expected"` // counts where all is as promised
	// Distance is the largest between the distribution functions of fresh and of
	// calibration rows, and Probability about that of one as large where both are
	// alike (Kolmogorov and Smirnov); nil where calibration rows say nothing of these
	// numbers, and of p-values by predicted class.
	KSStatistic *float64 `json:"ks_statistic,omitempty"`
	KSPValue    *float64 `json:"ks_p_value,omitempty"`
}

// Flags is what rows of the domain show of scores.
type Flags struct {
	ByAlpha []Rate    `json:"by_alpha"` // flagged rows, by alpha
	PValues Histogram `json:"p_values"`
	// ByClass and ByGroup are rows that are flagged at the predictor's alpha, by label
	// and by attach.Rows.Groups.
	ByClass []Rate `json:"by_class,omitempty"`
	ByGroup []Rate `json:"by_group,omitempty"`
}

// Others is what rows from elsewhere show of scores.
type OOD struct {
	Rows    int       `json:"rows"`
	ByAlpha []Rate    `json:"by_alpha"` // flagged rows, by alpha
	PValues Histogram `json:"p_values"`
	// AUROC says how well scores tell these rows from those of the domain, and FPR95 how
	// many of the latter are flagged where 95 % of the former are.
	AUROC float64 `json:"auroc"`
	FPR95 float64 `json:"fpr95"`
}

// Classes is what labelled rows show of a classifier.
type Classifier struct {
	Accuracy *Rate `json:"accuracy"`
	// Calibration is that of the calibration rows, where the bundle knows it.
	CalibrationAccuracy *Rate  `json:"calibration_accuracy,omitempty"`
	AccuracyFlagged     *Rate  `json:"accuracy_flagged,omitempty"`   // accuracy among rows flagged at the predictor's alpha
	AccuracyUnflagged   *Rate  `json:"accuracy_unflagged,omitempty"` // and among others
	ByClass             []Rate `json:"by_class"`                     // accuracy, by label
	ByGroup             []Rate `json:"by_group,omitempty"`
	// Before is with the softmax of the logits, After with that of logits over
	// Temperature, nil where none was fitted.
	Uncalibrated Reliability  `json:"uncalibrated"`
	Calibrated   *Reliability `json:"calibrated,omitempty"`
	Temperature  float64      `json:"temperature,omitempty"`
	// RiskCoverage is how many rows are answered with at least some confidence, and
	// how many of them wrongly, in at most 200 points; AURC is the area under it, and
	// AURCScore the one under that of out-of-domain scores.
	RiskCoverage []RiskPoint `json:"risk_coverage"`
	AURC         float64     `json:"aurc"`
	AURCOODScore *float64    `json:"aurc_ood_score,omitempty"`
	Sets         []Coverage  `json:"sets,omitempty"` // by level
	// SetScore is what sets rank classes by, and SetParts what they are promised of apart,
	// "class" or "cluster", or empty where they are promised of all rows.
	SetScore string `json:"set_score,omitempty"`
	SetsBy   string `json:"sets_by,omitempty"`
	// Accepted are the rows that attach.PredictOptions.MaxError accepts, Errors the wrong ones
	// among them.
	Accepted       *Rate `json:"accepted,omitempty"`
	SelectiveError *Rate `json:"selective_error,omitempty"`
}

// RiskPoint is where the rows are answered whose confidence is no less.
type RiskPoint struct {
	Coverage   float64 `json:"coverage"`   // share of rows that are answered
	Risk       float64 `json:"risk"`       // share of wrong answers among these
	Confidence float64 `json:"confidence"` // the least
}

// Reliability is how far confidence is what it says.
type Reliability struct {
	NLL *float64 `json:"nll,omitempty"` // mean negative log-likelihood of the labels, of a softmax
	ECE float64  `json:"ece"`           // expected calibration error, in 15 bins of equal width
	// Bins are those that hold rows: their mean confidence is Asked, their accuracy
	// Share.
	Bins []Rate `json:"bins"`
}

// Coverage is how often intervals or sets of one level hold the truth.
type Coverage struct {
	Rate                 // Asked is the level, Width the mean over all that end
	MedianWidth *float64 `json:"median_width,omitempty"`
	Infinite    int      `json:"infinite,omitempty"`    // intervals that do not end on both sides
	SizeCounts  []int    `json:"size_counts,omitempty"` // sets of 0, 1, … classes
	ByClass     []Rate   `json:"by_class,omitempty"`
	ByGroup     []Rate   `json:"by_group,omitempty"`
	ByDecile    []Rate   `json:"by_decile,omitempty"` // of the predictions
	// Slab are the rows in the slab of the features that is covered worst, of those
	// with a tenth of the rows at least. It is looked for among one half of at most
	// 10 000 rows and measured on the other.
	// Reference: Cauchois, Gupta & Duchi (2021), Knowing what You Know: valid and
	// validated confidence sets in multiclass and multilabel prediction.
	WorstSlab *Rate `json:"worst_slab,omitempty"`
}

// Target is what rows show of one target of a regressor.
type Target struct {
	Name string `json:"name,omitempty"` // of its column, where the bundle was fitted on a table
	// RMSE, MAE and R2 are those of the network's own prediction.
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"`
	R2   *float64 `json:"r2,omitempty"`
	// Coverage is of intervals, by level.
	Coverage []Coverage `json:"coverage,omitempty"`
	// CRPS is of the head's quantiles, and Pinball their mean loss at Levels; PIT
	// are the levels of the targets among them, PITCalibrated those in the conformal
	// predictive distribution.
	CRPS          *float64   `json:"crps,omitempty"`
	PinballLevels []float64  `json:"pinball_levels,omitempty"`
	PinballLoss   []float64  `json:"pinball_loss,omitempty"`
	PIT           *Histogram `json:"pit,omitempty"`
	PITCalibrated *Histogram `json:"pit_calibrated,omitempty"`
	// Points are targets beside their intervals, of at most 2 000 rows, at the
	// predictor's level.
	Points []TargetPoint `json:"points,omitempty"`
}

// TargetPoint is a target beside its interval.
type TargetPoint struct {
	Target float64 `json:"target"`
	Median float64 `json:"median"`
	Lower  float64 `json:"lower"`
	Upper  float64 `json:"upper"`
}

// Rows predicts for blocks of rows and compares the predictions with their Labels or
// Targets; attach.Predictor.Stream shows how rows are one block. Rows that have neither
// are evaluated as far as that goes. They may have Groups even if the bundle is not
// calibrated by group. It keeps a few numbers of each row in memory, and the features of
// at most 10,000.
func Rows(ctx context.Context, p *attach.Predictor, blocks iter.Seq2[attach.Rows, error], o Options) (*Evaluation, error) {
	if p == nil || p.Bundle() == nil {
		return nil, errors.New("the predictor is empty: a bundle's Predictor makes one")
	}
	if p.Options().NoScore && p.Bundle().Detector != nil {
		return nil, errors.New("flags are to be evaluated, and the predictor leaves out their scores: make one without NoScore")
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

// asked are all of the shares, increasing.
func sortedUnique(one float64, more []float64) []float64 {
	all := append([]float64{one}, more...)
	slices.Sort(all)
	return slices.Compact(all)
}
