package ood

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// Training is what a method is fitted with: in-domain rows and abilities.
type Training struct {
	Batch
	Last *Linear // the last layer, or nil
	// Trainer trains networks, or is nil. Package heads/fit makes one. The networks that
	// a method gets from it are checked: they have the widths asked for, and are finite.
	Trainer train.Trainer
	// InputScale is how the preprocessing scales the network's inputs.
	InputScale InputScale
	Outliers   Batch // out-of-domain rows, for oracles only
	// Targets is n×t, for interval methods.
	Targets blas32.General
	// Levels, each in (0,1), are those that matter, such as α/2 and 1−α/2, for
	// methods that fit each on its own.
	Levels []float64
	// Validation and ValidationTargets, if they have rows, are features and
	// targets for networks to choose by which epoch's weights they keep. Nothing is
	// fitted to them, and yet a promise about coverage needs other rows.
	Validation, ValidationTargets blas32.General
	// Regression says that the network regresses, and else classifies: methods
	// that train with the network's own kind of loss ask.
	Regression bool
	// MayRetain says that nothing changes the rows as long as what is fitted lives:
	// methods that keep them then need no copy.
	MayRetain bool
	Seed      uint64
	// Progress is called with the share of the fit that is done. It may be nil, and
	// is not where a method is fitted.
	Progress func(share float64)
}

// Method is one way to tell in-domain from out-of-domain, or, where it needs
// targets, to predict their quantiles, as a value: what is its own. Rows,
// parameters and states are checked before it sees them.
type Method struct {
	Name string // as users type it, by custom in lower case with hyphens
	Doc  string // one sentence, then details
	Ref  string // paper or equation
	// Needs says what it cannot do without.
	Needs Needs
	// Control marks methods that are no competitors: random and oracles.
	Control bool
	// Params declares the parameters.
	Params []Param
	// Sweep are the configurations to compare, the paper's where the paper has a
	// grid. Nil stands for every combination of what Params are swept over.
	Sweep []Params
	// Memory, if not nil, is about how many bytes a fit of one configuration
	// holds beside the rows and copies of them, what it returns included. Nil
	// stands for no more than rows take.
	Memory func(t Training, p Params) float64
	// Fit fits one configuration. The training rows have what Needs asks for:
	// at least one row, finite, as many of each part, two logits or more, a last
	// layer of their widths. What it returns is safe for concurrent use: a pointer
	// to a struct whose tagged fields are its state, as the package's comment
	// says, and a Detector or, of an interval method, a QuantileRegressor.
	Fit func(ctx context.Context, t Training, p Params) (any, error)
	// New returns what Fit returns, empty: a state is restored into it.
	New func() any
}

// Detector is what the fit of a detector returns.
type Detector interface {
	// Score writes one score per row of b to dst, which has as many elements.
	// The rows have what the method needs, with the widths that it was fitted
	// with; they may not be finite.
	Score(ctx context.Context, dst []float64, b Batch) error
}
