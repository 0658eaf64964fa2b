package ood

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// Training holds the data for a fit: in-distribution rows, and further data that only some
// methods use.
type Training struct {
	Batch
	Last *Linear // the last layer of the model; nil if unknown
	// Trainer trains networks; nil if there is none. Package heads/fit provides one. A trained
	// network is checked before a method gets it: its widths must be as requested, and its
	// weights finite.
	Trainer train.Trainer
	// InputScale is the scale of the inputs of the model after preprocessing.
	InputScale InputScale
	Outliers   Batch // OOD rows, only for oracles, which show how well OOD rows can be detected if some of them are known
	// Targets holds n rows of t targets, n×t, for interval methods.
	Targets blas32.General
	// Levels, each in (0,1), are the quantile levels that are needed, for example α/2 and
	// 1−α/2. Only methods that fit each level separately use them.
	Levels []float64
	// Validation and ValidationTargets hold the features and targets of rows used to choose
	// the epoch whose weights a trained network keeps. They may be empty. Nothing is fitted
	// to them, but a coverage guarantee still needs other rows for calibration.
	Validation, ValidationTargets blas32.General
	// Regression reports whether the model is a regressor. Some methods train with a loss for
	// the task of the model.
	Regression bool
	// MayRetain promises that the rows do not change while the fitted method is in use, so
	// that methods may keep them without a copy.
	MayRetain bool
	Seed      uint64
	// Progress is called with the fraction of the fit that is done. A caller may leave it nil,
	// but methods always get a function.
	Progress func(fraction float64)
}

// Method describes a detector or, if it needs targets, an interval method. Before a method
// gets rows, parameters or a state, they are checked.
type Method struct {
	Name string // name as users type it, by convention in lower case with hyphens
	Doc  string // one sentence on the meaning of the score, one on when to use the method, then details
	Ref  string // reference: a paper or an equation
	// Needs lists the data that the method requires.
	Needs Needs
	// Control marks methods that only show the limits of a comparison: random scores and
	// oracles.
	Control bool
	// Params declares the parameters of the method.
	Params []Param
	// Sweep holds the configurations for a comparison, for example the grid of the paper. Nil
	// means all combinations of the Sweep values of Params.
	Sweep []Params
	// Memory, if not nil, estimates how many bytes the fit of one configuration uses. It
	// counts the result, but not the rows and copies of them. Nil means that the fit uses at
	// most as much memory as the rows.
	Memory func(t Training, p Params) float64
	// Fit fits one configuration. The training rows have everything in Needs, except perhaps
	// Inputs. There is at least one row, values are finite, and all parts have the same number
	// of rows. If Needs.Logits is set, there are two logits or more; only a regressor may have
	// one if Needs.Dropout is set too. The last layer has matching widths.
	//
	// The result is a pointer to a struct whose tagged fields are its state: see the package
	// comment. It is a Detector or, for an interval method, a QuantileRegressor. It must be
	// safe for concurrent use.
	Fit func(ctx context.Context, t Training, p Params) (any, error)
	// New returns an empty value of the type that Fit returns. A saved state is then read into
	// it.
	New func() any
}

// Detector is a fitted detector.
type Detector interface {
	// Score writes a score for each row of b to dst, which has as many entries as b has rows.
	// A higher score means more uncertainty. The rows have all data that the method needs,
	// with the widths of the fit, but may contain NaN and infinities. A row with NaN should
	// get the score NaN, whose p-value is the smallest one. Several goroutines may call Score.
	Score(ctx context.Context, dst []float64, b Batch) error
}
