package ood

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
)

// Batch is n rows as methods see them. What is absent is the zero value.
type Batch struct {
	Features blas32.General // n×h, the input φ of the last linear layer
	Logits   blas32.General // n×c
	Labels   []int          // n class indices in [0,c)
	Inputs   Inputs         // n rows as the network takes them, or nil
	// Layers are activations of earlier layers, from the input on, each n×h_l:
	// averaged over positions where they have any.
	Layers []blas32.General
	// Cache, if not nil, keeps what several fits or scorers make of these rows.
	Cache *Cache
	// Block and Network are the inputs of these rows and the network that takes
	// them, where a method that needs both scores a block.
	Block   InputBlock
	Network Network
}

// Linear is the network's last layer: logits = φ·Weightᵀ + Bias.
type Linear struct {
	Weight blas32.General // c×h
	Bias   []float32      // c
}

// Needs is the set of things that a method cannot do without.
type Needs uint

const (
	NeedFeatures Needs = 1 << iota // Batch.Features, to fit and to score
	NeedLogits                     // Batch.Logits, to fit and to score
	NeedLabels                     // Training.Batch.Labels, to fit only
	NeedWeights                    // Training.Last
	NeedTrainer                    // Training.Trainer
	NeedOutliers                   // Training.Outliers: true of oracles only
	NeedInputs                     // Batch.Inputs, to score only
	NeedNetwork                    // Training.Network, for gradients
	NeedDropout                    // Training.Network, for passes with dropout
	NeedLayers                     // Batch.Layers, to fit and to score

	needsEnd
)

// Training is what a method is fitted with: in-domain rows and abilities.
type Training struct {
	Batch
	Last    *Linear       // the last layer, or nil
	Trainer heads.Trainer // or nil
	Network Network       // or nil
	// InputScale is how the preprocessing scales the network's inputs.
	InputScale InputScale
	Outliers   Batch // out-of-domain rows, for oracles only
	// Regression says that the network regresses, and else classifies: methods
	// that train with the network's own kind of loss ask.
	Regression bool
	// Stays says that nothing changes the rows as long as a scorer lives:
	// methods that keep them then need no copy.
	Stays bool
	Seed  uint64
	// Grid are all configurations that are fitted to these rows, one after
	// another: what is trained together is trained for the first, and kept.
	Grid []Values
	// At is the one of Grid that is being fitted.
	At int
	// Fold, if not nil, says which rows these are of which others.
	Fold *Fold
	// Progress, if not nil, is called with the share of the fit that is done.
	Progress func(share float64)
}

// Params are a method's hyper-parameters by name: float64, string or bool.
// Integers are stored as float64.
type Params map[string]any

// Scorer is a fitted method. It is safe for concurrent use.
type Scorer interface {
	// Score writes one score per row of b to dst and returns it; a nil dst is
	// allocated, any other has the batch's length. A score grows with
	// uncertainty: higher is more likely out-of-domain.
	Score(ctx context.Context, dst []float64, b Batch) ([]float64, error)
}

// Method is one way to tell in-domain from out-of-domain, as a value.
type Method struct {
	Name string // as users type it: lower case, hyphens
	Doc  string // one sentence, then details
	Ref  string // paper or equation
	// Needs says what Fit and Score cannot do without.
	Needs Needs
	// Memory, if not nil, is about how many bytes a fit of one configuration
	// holds beside the rows and copies of them, what it returns included. Nil
	// stands for no more than rows take. Fit checks p, Memory does not.
	Memory func(t Training, p Params) float64
	// Control marks methods that are no competitors: random and oracles.
	Control bool
	// Default is the configuration used without a sweep.
	Default Params
	// Grid is the sweep, the paper's where the paper has one. It may lack
	// Default. An empty Grid means that Default is the only configuration.
	Grid []Params
	// Fit fits one configuration.
	Fit func(ctx context.Context, t Training, p Params) (Scorer, error)
	// FitGrid, if not nil, fits several configurations at once, in order,
	// at less cost than one by one.
	FitGrid func(ctx context.Context, t Training, grid []Params) ([]Scorer, error)
	// Restore rebuilds a scorer from what its State method returned. Every
	// scorer that Fit returns implements heads.Stater.
	Restore func(s heads.State) (Scorer, error)
}
