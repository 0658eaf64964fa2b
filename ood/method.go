package ood

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// Training is the data for a fit: in-distribution rows, and what methods may use besides them.
type Training struct {
	Batch
	Last *Linear // the last layer, or nil
	// Trainer trains networks, or is nil. Package heads/fit provides one. The networks that it
	// returns to a method are checked for the requested widths and finite weights.
	Trainer train.Trainer
	// InputScale is the scale of the network's inputs after preprocessing.
	InputScale InputScale
	Outliers   Batch // OOD rows, only for oracles
	// Targets is n×t, for interval methods.
	Targets blas32.General
	// Levels, each in (0,1), are the levels that matter, such as α/2 and 1−α/2, for methods
	// that fit each level separately.
	Levels []float64
	// Validation and ValidationTargets, if they have rows, are features and targets by which
	// networks choose the epoch whose weights they keep. Nothing is fitted to them.
	// Nevertheless, a coverage guarantee needs other rows for calibration.
	Validation, ValidationTargets blas32.General
	// Regression tells whether the network is a regressor or a classifier, for methods that
	// train with the same kind of loss.
	Regression bool
	// MayRetain states that the rows do not change while the fitted method is in use. Methods
	// may then keep them without a copy.
	MayRetain bool
	Seed      uint64
	// Progress is called with the fraction of the fit that is done. A caller may leave it nil;
	// a method always gets a function.
	Progress func(share float64)
}

// Method is a detector or, if it needs targets, an interval method. It is a value. Rows,
// parameters and states are checked before it gets them.
type Method struct {
	Name string // as users type it, in lower case with hyphens
	Doc  string // a sentence on what the score is, a sentence on when to use it, then details
	Ref  string // paper or equation
	// Needs lists what the method requires.
	Needs Needs
	// Control marks methods that only show the limits of a comparison: random and oracles.
	Control bool
	// Params declares the parameters.
	Params []Param
	// Sweep holds the configurations to compare: those of the paper if it has a grid. Nil
	// means all combinations of the Sweep values of Params.
	Sweep []Params
	// Memory, if not nil, returns roughly how many bytes the fit of one configuration uses,
	// including its result, but not the rows and copies of them. Nil means no more than the
	// rows use.
	Memory func(t Training, p Params) float64
	// Fit fits one configuration. The training rows have everything in Needs: at least one
	// row, finite values, the same number of rows in each part, two logits or more, and a last
	// layer of matching widths. The result is a pointer to a struct whose tagged fields are
	// its state, as the package comment explains. It is a Detector or, for an interval method,
	// a QuantileRegressor, and is safe for concurrent use.
	Fit func(ctx context.Context, t Training, p Params) (any, error)
	// New returns an empty value of the type that Fit returns, into which a state is restored.
	New func() any
}

// Detector is a fitted detector.
type Detector interface {
	// Score writes one score for each row of b to dst, which has that length. A higher score
	// means more uncertain. The rows have what the method needs, with the widths of the fit.
	// They may contain NaN and infinities.
	Score(ctx context.Context, dst []float64, b Batch) error
}
