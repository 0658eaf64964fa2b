package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/version"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// maxDistanceRows is the largest number of rows in FitOptions.Batch for which "distance" is
// a default detector. Its search for the nearest fit row would be slow with more rows.
const maxDistanceRows = 20_000

// defaultDetectors returns the detectors to try if none is named, in order. Certificates
// compare only the directions of features, but in a table the position matters too, so tables
// have other defaults.
func (in FitOptions) defaultDetectors() []ood.Method {
	switch {
	case in.Base.Standardised && in.Batch.Len() > maxDistanceRows:
		return methodsByName("gaussian-mixture", "covariance")
	case in.Base.Standardised:
		return methodsByName("distance", "covariance")
	}
	return methodsByName("fused-layers", "fused", "certificates-coupled", "certificates")
}

// FitOptions holds the inputs of Fit: in-distribution rows, a description of the model, and
// choices. The zero value of a choice is its default.
type FitOptions struct {
	// Base describes the model. Task is required. If Width, Outputs or the widths of Layers
	// are 0, Fit sets them from the rows. Fit drops Layers if the detector does not read them.
	Base       Base
	Preprocess json.RawMessage
	Layout     string // "nchw" or "nhwc"; empty if the model takes no images
	Text       *Text
	// Profile describes the inputs of the fit rows. A schema.Learner makes it while the model
	// reads them. Without it, predictions have no reasons.
	Profile *schema.Profile

	// Batch holds n in-distribution rows. Every fit needs features. Most detectors also need
	// logits and labels, and some need earlier layers. Targets is n×t for t targets, and empty
	// unless the task is regression.
	Batch   ood.Batch
	Targets blas32.General
	// Cal and CalTargets are calibration rows that neither the model nor the heads were
	// trained on. Without them, Fit splits a random fraction CalFraction off Batch for
	// calibration. That fraction must be 0 if Cal is given; otherwise 0 means 0.2.
	Cal         ood.Batch
	CalTargets  blas32.General
	CalFraction float64
	// TargetRows, if not empty, holds the features of unlabelled rows like those to predict,
	// whose inputs come from another distribution than the calibration rows. Fit then
	// estimates weights of the calibration rows, and p-values, intervals and sets use them:
	// see calibrate.DensityRatio. Calibration rows should then come from the distribution of
	// the fit rows. Fit returns an error if they are worth fewer than 30 rows.
	//
	// TargetLogits, if not empty, holds the logits of TargetRows. It says that only the shares
	// of the classes differ from the calibration rows, and not the inputs of each class (label
	// shift). Weights then depend on classes: see calibrate.LabelShift. This needs a softmax
	// classifier and labels of the calibration rows.
	TargetRows, TargetLogits blas32.General
	// MayRetain promises that the rows do not change while the bundle is in use, so that
	// methods may keep them without a copy: see ood.Training.
	MayRetain bool

	Last *ood.Linear // the last layer of the model, for methods that need it
	// Trainer trains the networks of interval models and of detectors. Only methods that train
	// a network need it. Package heads/fit provides one.
	Trainer train.Trainer
	// InputScale is the scale of Batch.Inputs and Cal.Inputs, for methods that run
	// Batch.Network.
	InputScale ood.InputScale

	// Detector is the detection method. Its zero value means a default: the first method that
	// can be fitted, from the list for the model:
	//
	//   - With Base.Standardised: "distance" (to the nearest fit row) or, for more than 20,000
	//     rows, among which that search would be slow, "gaussian-mixture"; then "covariance".
	//   - Other classifiers: "fused-layers" (certificates coupled with the logits, and earlier
	//     layers), "fused" (such certificates and ViM, if the last layer is known),
	//     "certificates-coupled", "certificates".
	//   - Other models: "certificates".
	//
	// DetectorParams replace the default parameters of Detector, which must then be named.
	Detector       ood.Method
	DetectorParams ood.Params
	SkipDetector   bool
	// IntervalModel is the method that predicts quantiles from the features, for
	// regression. Its zero value means "sqr". With Base.Residual, at most 100,000 rows and
	// no IntervalParams, Fit chooses between "gradient-boosting", "symmetric-boosting" and
	// "quantile-forest". If there are fewer than 100 different rows, no errors, or IntervalFit
	// "cross", it is "quantile-forest" with 50 trees and at least 5 rows in a leaf.
	// IntervalParams replace the default parameters of the method. Fit returns an error if
	// options are given for a head that is not fitted.
	IntervalModel  ood.Method
	IntervalParams ood.Params
	SkipIntervals  bool
	// IntervalFit says what the interval model learns from: "fit", the rows of Batch;
	// "surrogate", the same rows with the predictions of a surrogate model that has not seen
	// them; "calibration", a random half of the calibration rows, which then do not calibrate
	// intervals; or "cross", all calibration rows, which also calibrate: 10 models learn from
	// nine tenths of them each, and calibrate.CrossIntervals combines them. This suits few
	// calibration rows, but less is guaranteed: see Calibration.LeastCoverage. By default, Fit
	// chooses between the first two: see there.
	IntervalFit string
	// IntervalScore is the nonconformity score of intervals, if PredictOptions names none: see
	// calibrate.IntervalOptions. By default, Fit chooses it if it chooses the interval model, and
	// otherwise it is "cqr". For "ridge", Fit chooses the interval model by the score "cqr-r",
	// which has the same widths and takes less time.
	IntervalScore string
	// OutOfFold, if not empty, holds predictions of the rows of Batch, n×t, by models like this
	// one that were trained on other rows, as cross-validation makes them. The interval model
	// then learns the errors of these predictions.
	OutOfFold blas32.General

	choosesIntervals bool // whether Fit chooses the interval model and its parameters

	// Groups, if not nil, holds the group of each row of Batch, and CalGroups the group of
	// each row of Cal. Intervals are then calibrated by group: see
	// calibrate.QuantileCalibration.ByGroup. Only the groups of calibration rows matter.
	Groups, CalGroups []string

	Alpha float64 // default false-alarm rate; 0 means 0.05
	Level float64 // default coverage; 0 means 0.9
	Seed  uint64

	// Log receives a warning if the fit of a default detector failed and a later default
	// replaced it. If Log is nil, the warning is discarded.
	Log *slog.Logger
	// Progress, if not nil, is called with the name of a stage ("detector", "quantiles" or
	// "calibration") and the fraction of that stage that is done.
	Progress func(stage string, fraction float64)
}

// Fit fits a detector and, for regression, an interval model, and calibrates both on held-out
// rows. Equal options give equal bundles. If all given calibration rows are also fit rows, Fit
// returns an error; if only some are, Calibration.Reused is their number.
//
// A model that has memorised the fit rows, as trees do, errs less on them than on other rows, so
// an interval model learns little from these errors. If calibration rows are given and features
// contain the inputs of the model (Base.Residual), Fit therefore trains a surrogate model:
// gradient boosting, cross-fitted on the fit rows. The interval model learns the errors of the
// surrogate instead of the model's own, unless the own errors resemble the errors on the
// calibration rows about as well. Only this decision between two interval models uses the
// calibration rows. Coverage can differ from the level by at most the probability that a single
// row changes the decision.
//
// Fit then chooses the interval model and its nonconformity score by the Winkler scores of
// cross-fitted intervals on at most 4,000 of the rows that it learns from, times a penalty if
// the deciles of the predictions are covered unevenly. Calibration.IntervalChoice holds the
// comparison. The calibration rows have no part in it, so intervals have the guarantee of split
// conformal prediction (Vovk, Gammerman & Shafer 2005).
//
// With IntervalFit "calibration", copies of a calibration row stay in one half. Near copies, such
// as frames of a video, do not, and then coverage is too low.
func Fit(ctx context.Context, in FitOptions) (*Bundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in, err := in.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	d, err := in.splitRows()
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Library: version.String(), Base: in.Base, Preprocess: in.Preprocess, Layout: in.Layout, Text: in.Text, Profile: in.Profile,
		Calibration: Calibration{
			HeldOut: d.heldOut, NFit: d.fit.Len(), NCal: d.cal.Len(), Seed: in.Seed,
			Alpha: in.Alpha, Level: in.Level,
		},
	}
	if err := b.Calibration.compareRows(d); err != nil {
		return nil, err
	}
	b.Base.Layers = nil                  // fitDetector sets them if the detector reads them
	b.cells, d.unseen = in.learnCells(d) // before scaling replaces empty cells by the mean
	d.unscaled, d.unscaledCal = d.fit.Features, d.cal.Features
	if in.Base.Standardised {
		b.scaling = rows.NewScaling(d.fit.Features)
		d.fit.Features, d.cal.Features = b.scaling.Apply(d.fit.Features), b.scaling.Apply(d.cal.Features)
		if in.Last != nil {
			w, bias := b.scaling.Layer(in.Last.Weight, in.Last.Bias)
			in.Last = &ood.Linear{Weight: w, Bias: bias}
		}
	}
	if err := b.Calibration.weigh(ctx, in, d, b.scaling); err != nil {
		return nil, err
	}
	d.calWeights = b.Calibration.Weights
	// Check before the fit, which can take a long time, that its result can be saved.
	if err := cmp.Or(b.manifest(nil).check(), b.Text.check(), checkProfile(b.Profile)); err != nil {
		return nil, err
	}
	if !in.SkipDetector {
		if err := b.fitDetector(ctx, in, d); err != nil {
			return nil, err
		}
	}
	if in.fitsIntervals() {
		if err := b.fitQuantiles(ctx, in, d); err != nil {
			return nil, err
		}
	}
	if in.Base.Task == Classification && !in.Base.Sigmoid && d.cal.Logits.Cols > 0 && d.cal.Labels != nil {
		// calibrate.Temperature returns 0 if the labels determine no temperature. Confidence
		// is then the plain softmax.
		if b.Calibration.Temperature, err = calibrate.Temperature(d.cal.Logits, d.cal.Labels); err != nil {
			return nil, fmt.Errorf("temperature: %w", err)
		}
		if b.Calibration.TrueClasses, err = calibrate.NewClassCalibration(d.cal.Logits, d.cal.Labels); err != nil {
			return nil, fmt.Errorf("calibration rows: %w", err)
		}
	}
	if in.Base.Task == Classification && d.cal.Logits.Cols > 0 {
		b.Calibration.Predicted = rows.Argmax(d.cal.Logits)
	}
	in.Progress("calibration", 1)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return b, nil
}

func (in FitOptions) withDefaults() (FitOptions, error) {
	in.Alpha, in.Level = cmp.Or(in.Alpha, rows.DefaultAlpha), cmp.Or(in.Level, rows.DefaultLevel)
	if in.Cal.Len() > 0 && in.CalFraction != 0 {
		return in, errors.New("both calibration rows and a calibration fraction are given; choose one of them")
	}
	in.CalFraction = cmp.Or(in.CalFraction, rows.DefaultFraction)
	if in.Log == nil {
		in.Log = slog.New(slog.DiscardHandler)
	}
	if in.Progress == nil {
		in.Progress = func(string, float64) {}
	}
	known := batchparts.Widths{"features": in.Base.Width, "logits": in.Base.Outputs}
	if err := batchparts.Of(&in.Batch).Widths().Check(known, "fit rows", "the model has"); err != nil {
		return in, err
	}
	in.Base.Width = in.Batch.Features.Cols
	if in.Batch.Logits.Cols > 0 {
		in.Base.Outputs = in.Batch.Logits.Cols
	}
	in.Batch, in.Cal = in.Base.pairLogits(in.Batch), in.Base.pairLogits(in.Cal)
	if in.Base.Task == Classification {
		in.Last = binarylogit.Last(in.Last)
	}
	var err error
	if in, err = in.withQuantileDefaults(); err != nil {
		return in, err
	}
	if in.SkipDetector {
		if in.Detector.Name != "" || in.Detector.Fit != nil || len(in.DetectorParams) > 0 {
			return in, fmt.Errorf("detector %q or its parameters are given, but no detector is fitted", in.Detector.Name)
		}
		return in, nil
	}
	if in.Detector.Needs.Targets {
		return in, fmt.Errorf("method %s is an interval method, not a detector", in.Detector.Name)
	}
	if in.Detector.Name == "" && in.Detector.Fit == nil {
		if len(in.DetectorParams) > 0 {
			return in, errors.New("parameters are given without the name of their detector")
		}
		return in, nil
	}
	if err := checkMethod(in.Detector); err != nil {
		return in, err
	}
	in.DetectorParams, err = fitting.With(in.Detector, in.DetectorParams)
	return in, err
}

// rowSplit holds the fit rows and the calibration rows.
type rowSplit struct {
	fit, cal               ood.Batch
	fitTargets, calTargets blas32.General // targets of fit rows and of calibration rows
	calGroups              []string
	calWeights             []float64      // nil without target rows
	unscaled, unscaledCal  blas32.General // the features before scaling
	outOfFold              blas32.General // out-of-fold predictions of the fit rows
	heldOut                string
	unseen                 []bool // which calibration rows have emptier cells than the fit rows; nil if none
}

// splitRows returns the given calibration rows or, without any, splits some off the fit rows.
func (in FitOptions) splitRows() (rowSplit, error) {
	if in.Cal.Len() > 0 {
		return rowSplit{fit: in.Batch, cal: in.Cal, outOfFold: in.OutOfFold, fitTargets: in.Targets, calTargets: in.CalTargets, calGroups: in.CalGroups, heldOut: rows.Given}, nil
	}
	if in.Batch.Len() < 2 {
		return rowSplit{}, &rows.TooFewRowsError{What: "fit and calibration", Have: in.Batch.Len(), Need: 2}
	}
	fit, cal := rows.Split(in.Batch.Len(), in.CalFraction, in.Seed)
	d := rowSplit{
		fit: in.Batch.Select(fit), cal: in.Batch.Select(cal), outOfFold: rows.Select(in.OutOfFold, fit),
		fitTargets: rows.Select(in.Targets, fit), calTargets: rows.Select(in.Targets, cal), heldOut: rows.SplitOff,
	}
	if in.Groups != nil {
		for _, i := range cal {
			d.calGroups = append(d.calGroups, in.Groups[i])
		}
	}
	return d, nil
}

// missingNeed returns the *ood.NeedError for the first need of method m that the data t do not
// meet. It returns nil if t meets all needs.
func missingNeed(m ood.Method, t ood.Training) error {
	if need, ok := errors.AsType[*ood.NeedError](fitting.Check(m, t, nil)); ok {
		return need
	}
	return nil
}

// fitScorer fits the named detector. Without a name, it tries the default detectors in order
// until one can be fitted, and stores that method in in.Detector.
func (in *FitOptions) fitScorer(ctx context.Context, t ood.Training) (*fitting.Scorer, error) {
	fit := func(m ood.Method, p ood.Params) (*fitting.Scorer, error) {
		if err := fitting.Check(m, t, p); err != nil {
			return nil, err
		}
		if err := fitting.CheckBatch(m, in.Cal, "the calibration rows"); err != nil {
			return nil, err
		}
		s, err := fitting.Fit(ctx, m, t, p)
		if err == nil {
			err = checkSavable(m, s)
		}
		if err != nil {
			return nil, fmt.Errorf("detector %s: %w", m.Name, err)
		}
		return s, nil
	}
	if in.Detector.Name != "" {
		s, err := fit(in.Detector, in.DetectorParams)
		return s, in.withAlternatives(err, t)
	}
	var missing, failed, tooLarge error // the first missing need, all failed fits, and the first fit that needs too much memory
	for _, m := range in.defaultDetectors() {
		// The outputs of a regressor are targets, so a method that expects class logits would
		// misread them.
		if t.Regression && m.Needs.Logits {
			continue
		}
		if err := missingNeed(m, t); err != nil {
			missing = cmp.Or(missing, err)
			continue
		}
		s, err := fit(m, nil)
		if err == nil {
			if failed != nil {
				in.Log.WarnContext(ctx, "attached a later default detector", "detector", m.Name, "reason", failed)
			}
			in.Detector, in.DetectorParams = m, fitting.Default(m)
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if tooLarge == nil && errors.Is(err, fitting.ErrMemory) {
			tooLarge = err
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return nil, in.withAlternatives(cmp.Or(tooLarge, failed, missing), t)
}

// readsLayers reports whether the detector reads earlier layers. Without a named detector,
// it reports this for the first default detector. It returns false if that one cannot be
// fitted, and for regression.
func (in FitOptions) readsLayers(t ood.Training) bool {
	m := in.Detector
	if m.Name == "" {
		m = in.defaultDetectors()[0]
		if t.Regression || missingNeed(m, t) != nil {
			return false
		}
	}
	return m.Needs.Layers
}

// layersRead returns the names and widths of the earlier layers, or nil if the detector does
// not read them.
func (in FitOptions) layersRead() []Layer {
	if !in.Detector.Needs.Layers {
		return nil
	}
	layers := make([]Layer, len(in.Batch.Layers))
	for i, m := range in.Batch.Layers {
		if i < len(in.Base.Layers) {
			layers[i].Tensor = in.Base.Layers[i].Tensor
		}
		layers[i].Width = m.Cols
	}
	return layers
}

func (b *Bundle) fitDetector(ctx context.Context, in FitOptions, d rowSplit) error {
	in.Cal = d.cal // the calibration rows, whether given or split off
	t := ood.Training{
		Batch: d.fit, Last: in.Last, Trainer: in.Trainer, Seed: in.Seed, InputScale: in.InputScale,
		Regression: in.Base.Task == Regression, MayRetain: in.MayRetain || d.heldOut == rows.SplitOff,
		Progress: func(done float64) { in.Progress("detector", done) },
	}
	if in.readsLayers(t) {
		if err := in.checkLayers(); err != nil {
			return err
		}
	}
	scorer, err := in.fitScorer(ctx, t)
	if err != nil {
		return err
	}
	b.Base.Layers = in.layersRead()
	scores, err := scorer.Score(ctx, nil, d.cal)
	if err != nil {
		return fmt.Errorf("detector %s on the calibration rows: %w", in.Detector.Name, err)
	}
	b.Detector = &Fitted{Method: in.Detector.Name, Params: in.DetectorParams, scorer: scorer}
	b.Calibration.OOD = scores
	conformal, err := calibrate.NewConformal(scores)
	if err != nil {
		return fmt.Errorf("detector %s: %w", in.Detector.Name, err)
	}
	if n := float64(len(scores)); in.Alpha*(n+1) >= 1 && math.IsInf(conformal.Threshold(in.Alpha), 1) {
		return fmt.Errorf("detector %s: more than a fraction %v of the calibration rows have infinite scores, so that nothing could be flagged; their features are far too large", in.Detector.Name, in.Alpha)
	}
	for i, unseen := range d.unseen {
		if unseen {
			scores[i] = math.Inf(1)
		}
	}
	in.Progress("detector", 1)
	return nil
}
