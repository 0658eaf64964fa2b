package attach

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// format is the newest format version that this package reads.
const format = 1

// Task says what the base network does.
type Task string

const (
	Classification Task = "classification"
	Regression     Task = "regression"
	// Embedding networks answer nothing: their features are all there is, which
	// detectors look at.
	Embedding Task = "embedding"
)

// Bundle is what is attached to one base network: any of its parts may be
// absent. It is made by [Fit], [Open] or [Read] and is safe for concurrent use
// as long as nobody changes it.
type Bundle struct {
	// Library is the version of this module that made the bundle.
	Library string
	// Base is the network that the parts belong to.
	Base Base
	// Preprocess is the preprocessing that turns images into the network's
	// input, with Hugging Face's keys, or nil. Its numbers are kept to the
	// letter, its white space is not.
	Preprocess json.RawMessage
	// Layout is the order of axes of the network's image input, "nchw" or "nhwc", or empty.
	Layout string
	// Text is how texts become the network's input, or nil.
	Text *Text

	Detector      *Fitted // out-of-domain scores, or nil
	IntervalModel *Fitted // conditional quantiles of the targets, or nil
	Calibration   Calibration

	scaling rows.Scaling // of features, empty unless Base.Standardised
	cells   emptyCells
}

// Base identifies a base network and the tensors that were read from it.
type Base struct {
	// Path of the model. In memory it is a path that this process can open;
	// in a file it is relative to the folder of the bundle.
	Path    string `json:"path,omitempty"`
	SHA256  string `json:"sha256,omitempty"`  // in small hex digits, over the model file and its external data; empty of features that came without it
	Feature string `json:"feature,omitempty"` // name of the tensor φ
	Output  string `json:"output,omitempty"`  // name of the tensor that the logits, of which Outputs says the number, were read from
	Task    Task   `json:"task"`
	// Inputs are what the network takes, in its order, or nil.
	Inputs []Input `json:"inputs,omitempty"`
	// Layers are the earlier layers that the detector reads, or nil.
	Layers  []Layer  `json:"layers,omitempty"`
	Width   int      `json:"width"`                   // columns of φ
	Outputs int      `json:"outputs_width,omitempty"` // columns of the logits, which Output names: classes or targets; 0 is unknown
	Classes []string `json:"classes,omitempty"`       // names of the first classes, in the order of the logits, of which several may have one, or nil
	// ClassNumbers are what the model itself calls the classes if it has other numbers for
	// them than 0, 1, …: labels of rows are then these. An open model tells them; no file
	// holds them.
	ClassNumbers []int `json:"-"`
	// Columns are the names of the columns of the table fitted on that are
	// inputs, in the order that the network takes them, or nil.
	Columns []string `json:"columns,omitempty"`
	// Targets are the names of its columns that are targets, in their order, or nil.
	Targets []string `json:"target_columns,omitempty"`
	// Sigmoid says that a classifier's outputs are probabilities of their own,
	// of which several may be high at once, and not a softmax.
	Sigmoid bool `json:"sigmoid,omitempty"`
	// Standardised says that features are of different units, such as the inputs of
	// a model of tables: heads then read them with mean 0 and deviation 1 on the rows
	// fitted on, constant ones as 0, and NaN, a gap, as the mean. Rows bring them as they are.
	Standardised bool `json:"standardised,omitempty"`
	// Residual says that the quantile head is of what targets differ by from the
	// network's own predictions, which are added back. Rows then need logits.
	Residual bool `json:"residual,omitempty"`
}

// widths are the columns of the network's parts, as far as they are known.
func (b Base) widths() batchparts.Widths {
	w := batchparts.Widths{"features": b.Width, "logits": b.Outputs}
	for i, l := range b.Layers {
		w[batchparts.Layer(i)] = l.Width
	}
	return w
}

// Input is what the base network takes of rows.
type Input struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`           // as NumPy spells it, such as "int64"
	Shape []int  `json:"shape,omitempty"` // with the rows first; −1 varies, and nil is unknown
	// Optional says that rows may lack the input, and NaN that its NaN are gaps, which the
	// model knows of. An open model tells both (featurize.Model.Base); no file holds them.
	Optional bool `json:"-"`
	NaN      bool `json:"-"`
}

// Layer is an earlier layer of the base network.
type Layer struct {
	Tensor string `json:"tensor,omitempty"` // empty where rows came without the network
	Width  int    `json:"width"`            // columns
}

// Fitted is a fitted method, a detector or an interval method.
type Fitted struct {
	Method string // such as "sqr"
	Params ood.Params
	scorer *fitting.Scorer
}

// Value returns the value that the method's Fit returned, which must not be changed. It is
// nil if neither a fit nor a file made f.
func (f *Fitted) Value() any {
	if f.scorer == nil {
		return nil
	}
	return f.scorer.Fitted()
}

// Widths returns the columns of each part of rows that the method reads, by the name of the
// part: features, logits, layer_0, layer_1 and so on. It is nil if neither a fit nor a file
// made f.
func (f *Fitted) Widths() map[string]int {
	if f.scorer == nil {
		return nil
	}
	return f.scorer.Widths()
}

// Calibration holds what held-out in-domain rows taught. Scores are stored,
// not thresholds, so that levels stay adjustable.
type Calibration struct {
	// HeldOut says where calibration rows came from, and with it what calibration may
	// promise: "given" ones were held out by the user from the network and the heads;
	// "split" ones were split off the rows to fit on, so that the heads have not seen
	// them, and the network may have.
	HeldOut string `json:"held_out,omitempty"`
	NFit    int    `json:"n_fit"` // rows that the heads were fitted on
	NCal    int    `json:"n_cal"` // rows that they were calibrated on
	Seed    uint64 `json:"seed"`
	// Alpha is the default false-alarm rate of flags, Level the default
	// probability that an interval covers the target.
	Alpha float64 `json:"alpha"`
	Level float64 `json:"level"`
	// Temperature divides the logits before the softmax; 0 is not fitted, for
	// want of labels or because they settle none.
	Temperature float64 `json:"temperature,omitempty"`
	// Reused is how many calibration rows were fitted on too, and Repeated how many equal
	// an earlier one, targets or labels included. Both are 0 if no more rows are equal
	// than chance explains, as in tables of few columns.
	Reused   int `json:"reused,omitempty"`
	Repeated int `json:"repeated,omitempty"`
	// Hashed is what FitHashes and CalHashes are of: "inputs" of the model or "features".
	Hashed string `json:"hashed"`
	// FitHashes and CalHashes are the least of the distinct hashes of the rows fitted and
	// calibrated on, at most 4,096 of each, by which evaluations and audits find rows that
	// were used before. FitTies and CalTies count the rows that have these hashes, and
	// the rows among them that equal another row by chance.
	FitHashes, CalHashes []uint64 `json:"-"`
	FitTies              [2]int   `json:"fit_ties"`
	CalTies              [2]int   `json:"cal_ties"`
	// OOD are the detector's scores on the calibration rows, in the order of these;
	// it is empty without a detector.
	OOD []float64 `json:"-"`
	// TrueClasses are what a classifier whose outputs are a softmax gave the true
	// classes of the calibration rows, in the same order, for sets of classes and
	// for selective prediction; it is empty where rows came without labels or logits.
	TrueClasses calibrate.ClassCalibration `json:"-"`
	// Predicted are the classes that the network predicts of the calibration rows, in
	// the same order; it is empty without logits.
	Predicted []int `json:"-"`
	// Quantiles are the quantile head's predictions on the calibration rows
	// beside the targets, one per target; nil without a quantile head.
	Quantiles []calibrate.QuantileCalibration `json:"-"`
	// Groups are the groups of the calibration rows, for intervals that are
	// calibrated group by group, or nil.
	Groups []string `json:"-"`
}

// Guarantee says in one sentence what calibrated numbers mean for this bundle.
func (b *Bundle) Guarantee() string {
	if c := b.Calibration; c.Reused > 0 {
		return rowhash.ReusedNote(c.Reused, c.NCal) + "; calibrate with rows that nothing was fitted on"
	}
	switch b.Calibration.HeldOut {
	case rows.Given:
		return "coverage and p-values hold for inputs drawn like the calibration rows, which neither network nor heads have seen"
	case rows.SplitOff:
		trees := ""
		if b.Base.Standardised {
			trees = " (far less around trees and their like, which nearly know such rows by heart)"
		}
		return "calibration rows were split off the fit rows: if the network was trained on them, " +
			"intervals and sets may cover less than they say" + trees + " and p-values may be too small; calibration rows that it has not seen promise more"
	}
	return "nothing was calibrated"
}

// made refuses a bundle, or a part, that neither a fit nor a file made.
func (b *Bundle) made() error {
	if b == nil || b.Detector == nil && b.IntervalModel == nil {
		return errors.New("the bundle is empty: Fit, Open or Read makes one")
	}
	for _, part := range []*Fitted{b.Detector, b.IntervalModel} {
		if part != nil && part.scorer == nil {
			return fmt.Errorf("the bundle's method %q is not fitted: Fit, Open or Read makes what is", part.Method)
		}
	}
	return nil
}

// Scaling returns the mean and the deviation of each feature on the rows fitted on, by
// which detectors and quantile heads read features: see Base.Standardised, without which
// both are nil. The deviation of a constant feature is 0.
func (b *Bundle) Scaling() (mean, deviation []float64) {
	return b.scaling.Mean, b.scaling.Deviation
}

// Check refuses a base model other than the one the bundle was fitted on. The
// argument is the hex SHA-256 of the model at hand.
func (b *Bundle) Check(sha256 string) error {
	switch {
	case b.Base.SHA256 == "":
		return fmt.Errorf("%w: the bundle was fitted on features alone and names no model", ErrWrongModel)
	case b.Base.SHA256 != sha256:
		return fmt.Errorf("%w: the bundle was fitted on %s, this one is %s",
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
