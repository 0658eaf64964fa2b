package attach

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// format is the newest format version that this package reads.
const format = 7

// Task is what the base model predicts: classes, numbers, or nothing.
type Task string

const (
	Classification Task = "classification"
	Regression     Task = "regression"
	// Embedding is the task of a model that computes features but no predictions. Such a model
	// can have a detector, but no interval model.
	Embedding Task = "embedding"
)

// Bundle holds the content of a .attach file: a detector, an interval model, or both, with
// their calibration. [Fit], [Open] and [Read] return a Bundle. Goroutines may share a Bundle
// if none of them changes it.
type Bundle struct {
	// Library is the version of attach that fitted the bundle.
	Library string
	// Base describes the model that the detector and the interval model belong to.
	Base Base
	// Preprocess describes how images are prepared for the model, with the keys of Hugging
	// Face's preprocessor_config.json. It is nil if there is no preprocessing. A saved file
	// keeps its numbers exactly, but not its white space.
	Preprocess json.RawMessage
	// Layout is the order of the axes of the model's image input: "nchw" or "nhwc". It is
	// empty if the model takes no images.
	Layout string
	// Text describes how texts become the model's input. It is nil if the model takes no
	// texts.
	Text *Text
	// Profile describes the columns of the inputs in the fit rows. It is nil if the fit used
	// features without a model, or if FitOptions had no profile.
	Profile *schema.Profile

	Detector      *Fitted // computes OOD scores; nil if there is none
	IntervalModel *Fitted // predicts quantiles of the targets; nil if there is none
	Calibration   Calibration

	foldModels []*fitting.Scorer // the interval model of each of Calibration.Folds
	scaling    rows.Scaling      // mean and deviation of each feature; empty unless Base.Standardised
	cells      emptyCells
}

// Base describes a base model and the tensors that features and logits are read from.
type Base struct {
	// Path is the path of the model file. In memory, it is a path that this process can open.
	// In a .attach file, it is relative to the folder of that file, and Open also finds a file of
	// the same name in that folder.
	Path    string `json:"path,omitempty"`
	SHA256  string `json:"sha256,omitempty"`  // SHA-256 of the model file and its external data, in lower-case hex digits; empty if features were given without a model
	Feature string `json:"feature,omitempty"` // name of the tensor that features are read from
	Output  string `json:"output,omitempty"`  // name of the tensor that logits are read from
	Task    Task   `json:"task"`
	// Inputs describes the inputs of the model, in the order that the model declares them. It
	// is nil if they are unknown.
	Inputs []Input `json:"inputs,omitempty"`
	// Layers describes the earlier layers that the detector reads, which come before the layer
	// of the features. It is nil if the detector reads none.
	Layers  []Layer  `json:"layers,omitempty"`
	Width   int      `json:"width"`                   // number of features
	Outputs int      `json:"outputs_width,omitempty"` // number of logits; 0 if unknown
	Classes []string `json:"classes,omitempty"`       // class names in the order of the logits; the last classes may lack names, and names may repeat
	// ClassNumbers holds the model's own number of each class, if the classes are not numbered
	// 0, 1, and so on. Labels of rows then use these numbers. They are set when the model is
	// opened, and are not saved.
	ClassNumbers []int `json:"-"`
	// Columns lists the table columns that are inputs of the model, in the order that the
	// model takes them. It is nil if the fit rows did not come from a table.
	Columns []string `json:"columns,omitempty"`
	// Targets lists the table columns that hold the targets, in the order of the model's
	// outputs. It is nil if they are unknown.
	Targets []string `json:"target_columns,omitempty"`
	// Sigmoid reports whether a classifier gives each class a separate probability, so that
	// several can be high at once. Otherwise its probabilities are a softmax.
	Sigmoid bool `json:"sigmoid,omitempty"`
	// Standardised reports whether features have different units, for example because they are
	// the columns of a table. The detector and the interval model then read features that are
	// scaled to mean 0 and standard deviation 1 on the fit rows. They read empty cells (NaN)
	// and constant features as 0. Rows always hold unscaled features.
	Standardised bool `json:"standardised,omitempty"`
	// Residual reports whether the interval model predicts the residuals of the targets, which
	// are the targets minus the model's own predictions. The predictions are added afterwards,
	// so rows need logits.
	Residual bool `json:"residual,omitempty"`
}

// widths returns the number of columns of the features, the logits and each earlier layer.
// Unknown numbers are 0.
func (b Base) widths() batchparts.Widths {
	w := batchparts.Widths{"features": b.Width, "logits": b.Outputs}
	for i, l := range b.Layers {
		w[batchparts.Layer(i)] = l.Width
	}
	return w
}

// Input describes an input of the base model.
type Input struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`           // NumPy's name of the element type, such as "int64"
	Shape []int  `json:"shape,omitempty"` // the first axis is the number of rows; −1 for an axis that varies; nil if unknown
	// Optional reports whether rows may lack the input. NaN reports whether the model accepts
	// NaN in the input as an empty cell. featurize.Model.Base sets both fields; they are not
	// saved.
	Optional bool `json:"-"`
	NaN      bool `json:"-"`
}

// Layer describes a hidden layer of the base model that comes before the layer of the
// features.
type Layer struct {
	Tensor string `json:"tensor,omitempty"` // name of the layer's tensor; empty if layers were given without a model
	Width  int    `json:"width"`            // number of columns
}

// Fitted is a fitted detector or interval model.
type Fitted struct {
	Method string // name of the method, such as "sqr"
	Params ood.Params
	scorer *fitting.Scorer
}

// Value returns the result of the method's Fit function. Callers must not change it. Value
// returns nil if f comes neither from Fit nor from a file.
func (f *Fitted) Value() any {
	if f.scorer == nil {
		return nil
	}
	return f.scorer.Fitted()
}

// Widths returns the number of columns of each matrix that the method reads, by name:
// features, logits, layer_0, layer_1 and so on. It returns nil if f comes neither from Fit nor
// from a file.
func (f *Fitted) Widths() map[string]int {
	if f.scorer == nil {
		return nil
	}
	return f.scorer.Widths()
}

// Calibration holds scores and predictions of held-out in-distribution rows. It stores scores,
// not thresholds, so that levels can be chosen later.
type Calibration struct {
	// HeldOut is the origin of the calibration rows, which determines the guarantee. It is
	// "given" if the user passed them: the model and the heads (detector and interval model)
	// must not have been trained on such rows. It is "split" if Fit split them off the fit
	// rows: the heads were not fitted on them, but the model may have been trained on them.
	HeldOut string `json:"held_out,omitempty"`
	NFit    int    `json:"n_fit"` // number of fit rows
	NCal    int    `json:"n_cal"` // number of calibration rows
	// NInterval is the number of calibration rows that calibrate intervals, or 0 if all do. The
	// other calibration rows teach the interval model if TaughtByCalibration is set. Otherwise
	// they only chose that the fit rows do, as in files of earlier versions.
	NInterval           int  `json:"n_interval,omitempty"`
	TaughtByCalibration bool `json:"taught_by_calibration,omitempty"`
	// IntervalErrors names the errors that taught the interval model. "surrogate" stands for
	// errors of a surrogate model, and "out-of-fold" for errors of out-of-fold predictions. An
	// empty string stands for the model's own errors, or for none. ErrorRatio is the reason for a surrogate:
	// the model's median absolute error on the calibration rows, divided by that on the fit
	// rows, at most 1,000. With several targets it is the largest. It is 0 unless Fit chose by
	// it.
	IntervalErrors string  `json:"interval_errors,omitempty"`
	ErrorRatio     float64 `json:"error_ratio,omitempty"`
	// IntervalScore is the nonconformity score of intervals, if PredictOptions names none. An
	// empty string stands for "cqr". IntervalChoice lists the interval models and scores that
	// Fit compared, the best first. It is nil if Fit had no choice.
	IntervalScore  string              `json:"interval_score,omitempty"`
	IntervalChoice []IntervalCandidate `json:"interval_choice,omitempty"`
	Seed           uint64              `json:"seed"`
	// Alpha is the default false-alarm rate of flags, and Level the default coverage of
	// intervals and sets.
	Alpha float64 `json:"alpha"`
	Level float64 `json:"level"`
	// Temperature divides the logits before the softmax. It is 0 if no temperature was fitted,
	// because labels are missing or do not determine one.
	Temperature float64 `json:"temperature,omitempty"`
	// Reused is the number of calibration rows that are also fit rows. Repeated is the number
	// of calibration rows that equal an earlier calibration row. Rows are equal only if their
	// targets or labels are equal too. Both numbers are 0 if chance explains the equal rows,
	// for example in a table with few columns.
	Reused   int `json:"reused,omitempty"`
	Repeated int `json:"repeated,omitempty"`
	// Hashed names the data that FitHashes and CalHashes are computed from: "inputs" of the
	// model, or "features".
	Hashed string `json:"hashed"`
	// FitHashes and CalHashes hold the smallest distinct hashes of the fit rows and of the
	// calibration rows, at most 4,096 of each. Evaluations and audits use them to find rows
	// that were used before. FitTies and CalTies hold two counts: the rows with one of these
	// hashes, and how many of those rows equal another row by chance.
	FitHashes, CalHashes []uint64 `json:"-"`
	FitTies              [2]int   `json:"fit_ties"`
	CalTies              [2]int   `json:"cal_ties"`
	// OOD holds the detector's score of each calibration row, in row order. It is empty
	// without a detector.
	OOD []float64 `json:"-"`
	// TrueClasses holds the true class of each calibration row with its softmax probability
	// and its rank, in row order. Prediction sets, selective prediction and Venn–Abers bounds
	// use it. It is empty if the rows had no labels or no logits, or if the model has no
	// softmax.
	TrueClasses calibrate.ClassCalibration `json:"-"`
	// Predicted holds the predicted class of each calibration row, in row order. It is
	// empty without logits, and for models that are not classifiers.
	Predicted []int `json:"-"`
	// Quantiles holds one entry for each target: the true values of the IntervalRows
	// calibration rows, and the interval model's quantiles for them. It is nil without an
	// interval model.
	Quantiles []calibrate.QuantileCalibration `json:"-"`
	// Groups holds the group of each of the IntervalRows calibration rows. It is nil unless
	// intervals are calibrated by group.
	Groups []string `json:"-"`
	// Folds holds the fold of each calibration row, counted from 0, if intervals are
	// cross-fitted: see FitOptions.IntervalFit. It is nil otherwise.
	Folds []int `json:"-"`
	// Weights holds the weight of each calibration row, in row order. It is nil without
	// FitOptions.TargetRows. Quantiles holds the weights of the IntervalRows rows too. The weight
	// of a new row comes from one of two sources. Ratio computes it from the features, which are
	// scaled with Base.Standardised. LabelShift, with FitOptions.TargetLogits, has the weight of
	// each class. It also corrects Prediction.Confidence.
	Weights    []float64               `json:"-"`
	Ratio      *calibrate.DensityRatio `json:"-"`
	LabelShift *calibrate.LabelShift   `json:"label_shift,omitempty"`
}

// IntervalRows returns the number of calibration rows that calibrate intervals.
func (c Calibration) IntervalRows() int { return cmp.Or(c.NInterval, c.NCal) }

// Guarantee returns one sentence, without a full stop, that states what the calibration
// guarantees and on which condition, or why guarantees may not hold.
func (b *Bundle) Guarantee() string {
	if c := b.Calibration; c.Reused > 0 {
		return rowhash.ReusedNote(c.Reused, c.NCal) + "; calibrate with held-out rows"
	}
	switch b.Calibration.HeldOut {
	case rows.Given:
		if b.Calibration.LabelShift != nil {
			return "guarantees hold approximately for rows with the estimated shares of classes, because these are estimates, if the inputs of each class have not changed and the model was not trained on the calibration rows"
		}
		if b.Calibration.Weights != nil {
			return "guarantees hold approximately for inputs like the target rows, because the weights of the calibration rows are estimated, if the model was not trained on the calibration rows"
		}
		text := "guarantees hold for inputs that are exchangeable with the calibration rows, if the model was not trained on these"
		if c := b.Calibration; c.Folds != nil {
			text += fmt.Sprintf("; intervals are cross-fitted, so their coverage is guaranteed to be at least %s, and is about %s in practice", display.Percent(c.LeastCoverage(c.Level)), display.GivenPercent(c.Level))
		}
		return text
	case rows.SplitOff:
		var effects []string
		if b.IntervalModel != nil || len(b.Calibration.TrueClasses.Labels) > 0 {
			effects = append(effects, "coverage is below the level")
			if b.Base.Standardised {
				effects[0] += " (far below if the model has memorised its training rows, as trees do)"
			}
		}
		if b.Detector != nil {
			effects = append(effects, "too many rows are flagged")
		}
		return "calibration rows were split off the fit rows; if the model was trained on them, " + strings.Join(effects, " and ")
	}
	return "nothing was calibrated"
}

// checkFitted returns an error if the bundle, or a part of it, comes neither from Fit nor from
// a file.
func (b *Bundle) checkFitted() error {
	if b == nil || b.Detector == nil && b.IntervalModel == nil {
		return errors.New("the bundle is empty; create one with Fit, Open or Read")
	}
	for _, part := range []*Fitted{b.Detector, b.IntervalModel} {
		if part != nil && part.scorer == nil {
			return fmt.Errorf("method %q is not fitted; create bundles with Fit, Open or Read", part.Method)
		}
	}
	return nil
}

// Scaling returns the mean and the standard deviation of each feature on the fit rows, with
// which the heads scale features. Both are nil unless Base.Standardised. The deviation of a
// constant feature is 0.
func (b *Bundle) Scaling() (mean, deviation []float64) {
	return b.scaling.Mean, b.scaling.Deviation
}

// Check returns an error that wraps ErrWrongModel unless sha256, in hex, is the SHA-256 of the
// model that the bundle was fitted for.
func (b *Bundle) Check(sha256 string) error {
	switch {
	case b.Base.SHA256 == "":
		return fmt.Errorf("%w: the fit used features without a model", ErrWrongModel)
	case b.Base.SHA256 != sha256:
		return fmt.Errorf("%w: the fit used the model with SHA-256 %s, but this one has %s",
			ErrWrongModel, abbreviateSHA256(b.Base.SHA256), abbreviateSHA256(sha256))
	}
	return nil
}

func abbreviateSHA256(digest string) string {
	if len(digest) > 12 {
		return digest[:12] + "…"
	}
	return digest
}
