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
)

// mostNeighbours is the largest number of rows among which the default detector searches for
// the nearest.
const mostNeighbours = 20_000

// defaults lists the detectors to try, in order. For columns of a table the position matters,
// and not only the direction as for features of a network.
func (in FitOptions) defaults() []ood.Method {
	switch {
	case in.Base.Standardised && in.Batch.Len() > mostNeighbours:
		return named("gaussian-mixture", "covariance")
	case in.Base.Standardised:
		return named("distance", "covariance")
	}
	return named("fused-layers", "fused", "certificates-coupled", "certificates")
}

// FitOptions holds what Fit needs: in-distribution rows, a description of the model, and
// choices whose zero values are the defaults.
type FitOptions struct {
	// Base describes the model. Task is required. Width, Outputs and the widths of Layers are
	// filled in if they are 0. Layers are left out if the detector does not read them.
	Base       Base
	Preprocess json.RawMessage
	Layout     string // "nchw", "nhwc" or, if the model takes no images, empty
	Text       *Text

	// Batch holds n in-distribution rows: features, for most methods logits and labels, and
	// for some earlier layers. Targets is n×t, only for regression.
	Batch   ood.Batch
	Targets blas32.General
	// Cal and CalTargets are held-out rows: neither the model nor the heads may be trained on
	// them. Without them, a random fraction CalFraction of the rows of Batch, by Seed, is
	// split off for calibration; 0 means 0.2. With them, CalFraction must be 0.
	Cal         ood.Batch
	CalTargets  blas32.General
	CalFraction float64
	// MayRetain is as in ood.Training: the rows do not change while the bundle is in use.
	MayRetain bool

	Last *ood.Linear // the last layer of the network, for methods that need it
	// Trainer trains the networks of interval models and of trained detectors. Package
	// heads/fit provides one.
	Trainer train.Trainer
	// InputScale is the scale of the Inputs of Batch and Cal, for methods that run
	// Batch.Network.
	InputScale ood.InputScale

	// Detector is the detector. The zero value means the first of these that can be fitted.
	// For classifiers: "fused-layers", which fuses certificates coupled with the logits and
	// earlier layers; "fused", which fuses such certificates and ViM, if the last layer is
	// known; and otherwise "certificates-coupled". For regression: "certificates". For
	// Base.Standardised features: "distance", the distance to the nearest fit row, or
	// "gaussian-mixture" for more than 20,000 rows, among which that search would be slow.
	// DetectorParams replace the default parameters of a Detector that is named.
	Detector       ood.Method
	DetectorParams ood.Params
	SkipDetector   bool
	// IntervalModel is the method that predicts quantiles from the features, for regression.
	// The zero value means "sqr" or, if Base.Residual is set and there are not too many rows,
	// "quantile-forest" with 50 trees and at least 5 rows in a leaf. IntervalParams replace
	// its default parameters. Options for a detector or an interval model that is not fitted
	// are an error.
	IntervalModel  ood.Method
	IntervalParams ood.Params
	SkipIntervals  bool

	// Groups, if not nil, holds the group of each row of Batch, and CalGroups the group of
	// each row of Cal. Intervals are then calibrated by group: see
	// calibrate.QuantileCalibration.ByGroup. Groups of rows that do not calibrate are not
	// used.
	Groups, CalGroups []string

	Alpha float64 // default false-alarm rate; 0 means 0.05
	Level float64 // default coverage; 0 means 0.9
	Seed  uint64

	Log *slog.Logger // logs which default detector could not be fitted, and why; nil discards
	// Progress, if not nil, is called with a stage ("detector", "quantiles", "calibration")
	// and the fraction of it that is done.
	Progress func(stage string, share float64)
}

// Fit fits a detector and, for regression, an interval model, and calibrates both on held-out
// rows. Equal inputs give equal bundles. It returns an error if all calibration rows are fit
// rows. If only some are, [Calibration] has their number.
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
	d, err := in.divide()
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Library: version.String(), Base: in.Base, Preprocess: in.Preprocess, Layout: in.Layout, Text: in.Text,
		Calibration: Calibration{
			HeldOut: d.heldOut, NFit: d.fit.Len(), NCal: d.cal.Len(), Seed: in.Seed,
			Alpha: in.Alpha, Level: in.Level,
		},
	}
	if err := b.Calibration.compareRows(d); err != nil {
		return nil, err
	}
	b.Base.Layers = nil                  // kept only for a detector that reads them
	b.cells, d.unseen = in.learnCells(d) // before empty cells in features become the mean
	if in.Base.Standardised {
		b.scaling = rows.NewScaling(d.fit.Features)
		d.fit.Features, d.cal.Features = b.scaling.Apply(d.fit.Features), b.scaling.Apply(d.cal.Features)
		if in.Last != nil {
			w, bias := b.scaling.Layer(in.Last.Weight, in.Last.Bias)
			in.Last = &ood.Linear{Weight: w, Bias: bias}
		}
	}
	// Find out before the work that the result could not be saved.
	if err := cmp.Or(b.manifest(nil).check(), b.Text.check()); err != nil {
		return nil, err
	}
	if !in.SkipDetector {
		if err := b.fitDetector(ctx, in, d); err != nil {
			return nil, err
		}
	}
	if in.quantiles() {
		if err := b.fitQuantiles(ctx, in, d); err != nil {
			return nil, err
		}
	}
	if in.Base.Task == Classification && !in.Base.Sigmoid && d.cal.Logits.Cols > 0 && d.cal.Labels != nil {
		// With a temperature of 0, confidence is the plain softmax: see Prediction.
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

// division is the split into fit rows and calibration rows.
type division struct {
	fit, cal     ood.Batch
	fitTo, calTo blas32.General // targets
	calGroups    []string
	heldOut      string
	unseen       []bool // the calibration rows with emptier cells than the fit rows, or nil
}

func (in FitOptions) divide() (division, error) {
	if in.Cal.Len() > 0 {
		return division{fit: in.Batch, cal: in.Cal, fitTo: in.Targets, calTo: in.CalTargets, calGroups: in.CalGroups, heldOut: rows.Given}, nil
	}
	if in.Batch.Len() < 2 {
		return division{}, errors.New("one row cannot serve for both fit and calibration; give more rows, or separate calibration rows")
	}
	fit, cal := rows.Split(in.Batch.Len(), in.CalFraction, in.Seed)
	d := division{
		fit: in.Batch.Select(fit), cal: in.Batch.Select(cal),
		fitTo: rows.Select(in.Targets, fit), calTo: rows.Select(in.Targets, cal), heldOut: rows.SplitOff,
	}
	if in.Groups != nil {
		for _, i := range cal {
			d.calGroups = append(d.calGroups, in.Groups[i])
		}
	}
	return d, nil
}

// lacks returns the *ood.NeedError for the first need of a method that t lacks, or nil.
func lacks(m ood.Method, t ood.Training) error {
	if need, ok := errors.AsType[*ood.NeedError](fitting.Check(m, t, nil)); ok {
		return need
	}
	return nil
}

// fitScorer fits the named detector or, without a name, the first default that can be fitted,
// and sets its name.
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
			err = savable(m, s)
		}
		if err != nil {
			return nil, fmt.Errorf("detector %s: %w", m.Name, err)
		}
		return s, nil
	}
	if in.Detector.Name != "" {
		s, err := fit(in.Detector, in.DetectorParams)
		return s, in.withOthers(err, t)
	}
	var refused, unfit, large error // errors for missing needs, of failed fits, and for memory
	for _, m := range in.defaults() {
		// Outputs of a regressor are not scores of classes.
		if t.Regression && m.Needs.Logits {
			continue
		}
		if err := lacks(m, t); err != nil {
			refused = cmp.Or(refused, err)
			continue
		}
		s, err := fit(m, nil)
		if err == nil {
			if unfit != nil {
				in.Log.WarnContext(ctx, "attached a later default detector", "detector", m.Name, "reason", unfit)
			}
			in.Detector, in.DetectorParams = m, fitting.Default(m)
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if large == nil && errors.Is(err, fitting.ErrMemory) {
			large = err
		}
		if unfit == nil {
			unfit = err
		} else {
			unfit = fmt.Errorf("%w; %w", unfit, err)
		}
	}
	return nil, in.withOthers(cmp.Or(large, unfit, refused), t)
}

// readsLayers reports whether the detector, or the first default if it can be fitted, reads
// earlier layers.
func (in FitOptions) readsLayers(t ood.Training) bool {
	m := in.Detector
	if m.Name == "" {
		m = in.defaults()[0]
		if t.Regression || lacks(m, t) != nil {
			return false
		}
	}
	return m.Needs.Layers
}

// layersRead describes the earlier layers, if the detector reads them.
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

func (b *Bundle) fitDetector(ctx context.Context, in FitOptions, d division) error {
	in.Cal = d.cal // split off, if none are given
	t := ood.Training{
		Batch: d.fit, Last: in.Last, Trainer: in.Trainer, Seed: in.Seed, InputScale: in.InputScale,
		Regression: in.Base.Task == Regression, MayRetain: in.MayRetain || d.heldOut == rows.SplitOff,
		Progress: func(share float64) { in.Progress("detector", share) },
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
	sorted, err := calibrate.NewConformal(scores)
	if err != nil {
		return fmt.Errorf("detector %s: %w", in.Detector.Name, err)
	}
	if n := float64(len(scores)); in.Alpha*(n+1) >= 1 && math.IsInf(sorted.Threshold(in.Alpha), 1) {
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
