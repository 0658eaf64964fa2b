package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// format is the newest format version that this package reads.
const format = 1

// Task is the task of the base model.
type Task string

const (
	Classification Task = "classification"
	Regression     Task = "regression"
	// Embedding networks have only features, for detectors, and no predictions.
	Embedding Task = "embedding"
)

// Bundle is the content of a .attach file: a detector and an interval model for one base
// model, with their calibration. Either may be absent. [Fit], [Open] and [Read] return one. It
// is safe for concurrent use as long as it is not changed.
type Bundle struct {
	// Library is the version of this module that fitted the bundle.
	Library string
	// Base is the model that the parts belong to.
	Base Base
	// Preprocess is the preprocessing of images for the network, with Hugging Face's keys, or
	// nil. Its numbers are kept exactly, its white space is not.
	Preprocess json.RawMessage
	// Layout is the order of axes of the network's image input, "nchw" or "nhwc", or empty.
	Layout string
	// Text tells how texts become the network's input, or is nil.
	Text *Text

	Detector      *Fitted // OOD scores, or nil
	IntervalModel *Fitted // conditional quantiles of the targets, or nil
	Calibration   Calibration

	scaling rows.Scaling // of features, empty unless Base.Standardised
	cells   emptyCells
}

// Base identifies a base model and the tensors that were read from it.
type Base struct {
	// Path is the path of the model. In memory it is a path that this process can open; in a
	// file it is relative to the folder of the file.
	Path    string `json:"path,omitempty"`
	SHA256  string `json:"sha256,omitempty"`  // of the model file and its external data, in lower-case hex digits; empty if features came without a model
	Feature string `json:"feature,omitempty"` // name of the tensor φ
	Output  string `json:"output,omitempty"`  // name of the tensor that the logits were read from; Outputs is their number
	Task    Task   `json:"task"`
	// Inputs describes the inputs of the model, in its order, or is nil.
	Inputs []Input `json:"inputs,omitempty"`
	// Layers describes the earlier layers that the detector reads, or is nil.
	Layers  []Layer  `json:"layers,omitempty"`
	Width   int      `json:"width"`                   // columns of φ
	Outputs int      `json:"outputs_width,omitempty"` // columns of the logits: classes or targets; 0 is unknown
	Classes []string `json:"classes,omitempty"`       // names of the first classes, in the order of the logits, not necessarily distinct, or nil
	// ClassNumbers holds the model's own numbers of the classes if they are not 0, 1, …:
	// labels of rows then have these numbers. An open model provides them; they are not saved.
	ClassNumbers []int `json:"-"`
	// Columns are the names of the input columns in the table of the fit, in the order that
	// the model takes them, or nil.
	Columns []string `json:"columns,omitempty"`
	// Targets are the names of its target columns, in order, or nil.
	Targets []string `json:"target_columns,omitempty"`
	// Sigmoid tells that the outputs of a classifier are separate probabilities, several of
	// which may be high at once, and not a softmax.
	Sigmoid bool `json:"sigmoid,omitempty"`
	// Standardised tells that features have different units, such as the inputs of a model of
	// tables. Heads then read them scaled to mean 0 and deviation 1 on the fit rows: constant
	// features as 0, and NaN, an empty cell, as the mean. Rows always have the unscaled
	// features.
	Standardised bool `json:"standardised,omitempty"`
	// Residual tells that the interval model predicts the difference between targets and the
	// model's own predictions, which are then added. Rows then need logits.
	Residual bool `json:"residual,omitempty"`
}

// widths returns the columns of each part of rows, as far as they are known.
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
	DType string `json:"dtype"`           // in NumPy's spelling, such as "int64"
	Shape []int  `json:"shape,omitempty"` // number of rows first; −1 varies, and nil is unknown
	// Optional tells that rows may lack the input. NaN tells that a NaN in it is an empty cell
	// that the model handles. An open model provides both (featurize.Model.Base); they are not
	// saved.
	Optional bool `json:"-"`
	NaN      bool `json:"-"`
}

// Layer describes an earlier layer of the base model.
type Layer struct {
	Tensor string `json:"tensor,omitempty"` // empty if rows came without the model
	Width  int    `json:"width"`            // columns
}

// Fitted is a fitted detector or interval model.
type Fitted struct {
	Method string // such as "sqr"
	Params ood.Params
	scorer *fitting.Scorer
}

// Value returns the value that the method's Fit returned, which must not be changed. It is nil
// for a Fitted that neither a fit nor a file created.
func (f *Fitted) Value() any {
	if f.scorer == nil {
		return nil
	}
	return f.scorer.Fitted()
}

// Widths returns the columns of each part of rows that the method reads, by the name of the
// part: features, logits, layer_0, layer_1 and so on. It is nil for a Fitted that neither a
// fit nor a file created.
func (f *Fitted) Widths() map[string]int {
	if f.scorer == nil {
		return nil
	}
	return f.scorer.Widths()
}

// Calibration holds scores and predictions of held-out in-distribution rows. It stores scores,
// not thresholds, so that levels can be chosen later.
type Calibration struct {
	// HeldOut tells where the calibration rows come from, and thus what is guaranteed. "given"
	// rows were passed by the user and must be held out from both the model and the heads.
	// "split" rows were split off the fit rows: the heads were not fitted on them, but the
	// model may have been trained on them.
	HeldOut string `json:"held_out,omitempty"`
	NFit    int    `json:"n_fit"` // number of fit rows
	NCal    int    `json:"n_cal"` // number of calibration rows
	Seed    uint64 `json:"seed"`
	// Alpha is the default false-alarm rate of flags, and Level the default coverage of
	// intervals and sets.
	Alpha float64 `json:"alpha"`
	Level float64 `json:"level"`
	// Temperature divides the logits before the softmax. It is 0 if it was not fitted, because
	// labels are missing or do not determine it.
	Temperature float64 `json:"temperature,omitempty"`
	// Reused is the number of calibration rows that are fit rows too, and Repeated the number
	// that equal an earlier calibration row, including targets or labels. Both are 0 if chance
	// explains the equal rows, as in tables with few columns.
	Reused   int `json:"reused,omitempty"`
	Repeated int `json:"repeated,omitempty"`
	// Hashed tells what FitHashes and CalHashes are computed from: "inputs" of the model or
	// "features".
	Hashed string `json:"hashed"`
	// FitHashes and CalHashes are the smallest distinct hashes of the fit rows and of the
	// calibration rows, at most 4,096 of each. Evaluations and audits use them to find rows
	// that were used before. FitTies and CalTies count the rows with these hashes, and the
	// rows among them that equal another row by chance.
	FitHashes, CalHashes []uint64 `json:"-"`
	FitTies              [2]int   `json:"fit_ties"`
	CalTies              [2]int   `json:"cal_ties"`
	// OOD holds the detector's scores on the calibration rows, in their order. It is empty
	// without a detector.
	OOD []float64 `json:"-"`
	// TrueClasses holds the probabilities that a classifier with a softmax gave to the true
	// classes of the calibration rows, in their order, for prediction sets and for selective
	// prediction. It is empty if rows had no labels or no logits.
	TrueClasses calibrate.ClassCalibration `json:"-"`
	// Predicted holds the predicted classes of the calibration rows, in their order. It is
	// empty without logits.
	Predicted []int `json:"-"`
	// Quantiles holds the interval model's predictions on the calibration rows with the
	// targets, one entry for each target. It is nil without an interval model.
	Quantiles []calibrate.QuantileCalibration `json:"-"`
	// Groups holds the groups of the calibration rows, for intervals that are calibrated by
	// group, or is nil.
	Groups []string `json:"-"`
}

// Guarantee returns one sentence, without a full stop, that says what the calibration
// guarantees.
func (b *Bundle) Guarantee() string {
	if c := b.Calibration; c.Reused > 0 {
		return rowhash.ReusedNote(c.Reused, c.NCal) + "; calibrate with held-out rows"
	}
	switch b.Calibration.HeldOut {
	case rows.Given:
		return "guarantees hold for inputs that are exchangeable with the calibration rows, if the model was not trained on these"
	case rows.SplitOff:
		var effects []string
		if b.IntervalModel != nil || len(b.Calibration.TrueClasses.Labels) > 0 {
			effects = append(effects, "coverage is below the level")
			if b.Base.Standardised {
				effects[0] += " (far below for tree models, which almost memorise their training rows)"
			}
		}
		if b.Detector != nil {
			effects = append(effects, "too many rows are flagged")
		}
		return "calibration rows were split off the fit rows; if the model was trained on them, " + strings.Join(effects, " and ")
	}
	return "nothing was calibrated"
}

// checkFitted returns an error for a bundle, or a part, that was neither fitted nor read from
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

// Scaling returns the mean and the standard deviation of each feature on the fit rows, by
// which the heads scale features. Both are nil unless Base.Standardised. The deviation of a
// constant feature is 0.
func (b *Bundle) Scaling() (mean, deviation []float64) {
	return b.scaling.Mean, b.scaling.Deviation
}

// Check returns an error that wraps ErrWrongModel unless sha256, in hex, is the SHA-256 of the
// model of the fit.
func (b *Bundle) Check(sha256 string) error {
	switch {
	case b.Base.SHA256 == "":
		return fmt.Errorf("%w: the fit used features without a model", ErrWrongModel)
	case b.Base.SHA256 != sha256:
		return fmt.Errorf("%w: the fit used the model with SHA-256 %s, but this one has %s",
			ErrWrongModel, abbreviate(b.Base.SHA256), abbreviate(sha256))
	}
	return nil
}

func abbreviate(sha string) string {
	if len(sha) > 12 {
		return sha[:12] + "…"
	}
	return sha
}
