// Package train describes how small fully connected networks are trained: the rows,
// the loss, the options, and the networks that come of it. Package heads/fit trains
// them in ONNX Runtime; a program may bring a [Trainer] of its own.
package train

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// Loss names what a Trainer minimises, a mean over rows and outputs:
//
//   - "bce" is binary cross-entropy with logits;
//   - "mse" is the squared error (without a factor of one half);
//   - "l1" is the absolute error;
//   - "pinball" is the quantile loss; see Problem.Levels;
//   - "sigmoid-pinball" is pinball of σ(z) in place of the output z: quantiles of
//     a target in [0,1], such as a class label of 0 or 1;
//   - "gaussian-nll" is the negative log-likelihood ½(ln s + (y−m)²/s) of one
//     target under a network with the two outputs m and v, with the variance
//     s = softplus(v) + 1e-3;
//   - "quality-driven" trades the width of intervals against their coverage
//     (Pearce et al. 2018): a network has the two outputs L and U for one
//     target, and Problem.Levels are the two levels they stand for.
//
// The last is a loss of a batch of n rows,
//
//	Σ(U−L)·k / max(Σk, 1) + 15·n/(α(1−α))·max(0, 1−α − mean(σ(160·(U−y))·σ(160·(y−L))))²
//
// where k says whether y lies between L and U, σ is the logistic function and
// 1−α the distance of the two levels.
type Loss string

// Validation are rows that are not trained on, and by whose loss the weights
// to keep are chosen, about a hundred times over the training and after its last
// epoch. Penalties and dropout do not enter that loss.
type Validation struct {
	X, Y blas32.General // as Problem.X and Y
	// Levels are the levels of the pinball loss of a conditional network. Nil
	// stands for Problem.Levels, and where those are nil too for .1, .2, … .9.
	Levels []float64
}

// Trainer fits small fully connected networks by stochastic gradient descent.
// Package heads/fit implements it in ONNX Runtime.
type Trainer interface {
	// Train fits len(p.Models) networks of one architecture to one data set.
	// The result has one entry per model, in order, of the widths that p says,
	// and with finite weights. A cancelled context ends training with the
	// context's error.
	Train(ctx context.Context, p Problem) ([]Network, error)
}

// Problem is one data set, one architecture and one loss, fitted once per
// entry of Models.
//
// A network maps a row x to affine layers with ReLU between them:
// d → Hidden[0] → … → Outputs. With Conditional set, a row's quantile level τ
// enters as one more input, (τ−0.5)·12, after the d columns of X.
type Problem struct {
	// X is n×d.
	X blas32.General
	// Y is n×t, t ≥ 1. Models[m].Target picks the column that model m learns;
	// a negative Target means that Outputs = t and all columns are learnt.
	// A single row stands for targets that all rows share, and the zero value
	// for targets that are zero everywhere.
	Y blas32.General

	Hidden  []int // widths of hidden layers; none is a linear model
	Outputs int   // width of the last layer, at least 1
	NoBias  bool

	Loss Loss
	// Conditional says that the network takes the quantile level as an input
	// (simultaneous quantile regression). Only with the two pinball losses.
	Conditional bool
	// Levels are the levels that these two losses train on. With Conditional, each
	// row of each mini-batch draws one of them, or, where Levels is empty,
	// a fresh τ ~ U(0,1). Without Conditional, a target has one output per
	// level: the outputs are the levels of the first target that is learnt,
	// then those of the second. So with one target output j learns Levels[j],
	// and with one level output j learns target j.
	Levels []float64

	// Validation, if not nil, has each model keep the weights, among those
	// evaluated, whose loss on its rows is least.
	Validation *Validation

	Models []ModelConfig

	Epochs    int // passes over X (or a model's Rows), at least 1
	BatchSize int // rows per step, at least 1; an epoch's last step has what is left

	// Progress, if not nil, is told now and then from the training goroutine.
	Progress func(share float64)
}

// ModelConfig is what may differ between networks that are trained together.
type ModelConfig struct {
	// Seed sets the initial weights, the order of rows, the dropout masks
	// and the levels drawn. A model's result depends on its own config only,
	// not on the models beside it (up to floating-point rounding).
	Seed uint64
	// LearningRate of Adam (β₁ .9, β₂ .999, ε 1e-8).
	LearningRate float64
	// WeightDecay is added to the gradient as WeightDecay·w (L2).
	WeightDecay float64
	// Dropout is the probability that a hidden unit is dropped in training.
	Dropout float64
	// Orthonormal is the λ of λ·mean((CᵀC−I)²), where C is the in×out weight
	// of the last layer.
	Orthonormal float64
	// GradientPenalty is the λ of λ·mean((‖∇f(x̃)‖−1)²), which keeps outputs
	// near a Lipschitz constant of 1: ∇f is the gradient by the network's
	// inputs, without dropout, of one output, drawn for each x̃, and x̃ a point
	// drawn between each row of the mini-batch and a row of noise, of the
	// standard normal distribution in all inputs (Gulrajani et al. 2017).
	GradientPenalty float64
	// Diversity is the λ of λ·mean((S−I)²), which keeps outputs apart and away
	// from constants: S is the outputs' second moment over as many such rows
	// of noise as a mini-batch has, without dropout. For a linear network
	// without bias it is expected to be CᵀC, as in Orthonormal. Neither of the
	// two goes with Conditional.
	Diversity float64
	// Averaging is the factor d, in [0,1), by which the weights of an epoch
	// count less with each epoch that follows: the result is not the weights
	// of the last epoch but the mean of those after every epoch, the k-th
	// last with weight dᵏ. 0 keeps the last.
	Averaging float64
	// Target is the column of Y that this model learns.
	Target int
	// Level is the level that a pinball loss trains this model on, so
	// that networks of one level each are trained together. Either all models
	// have one, without Conditional and with Problem.Levels empty, or none, and
	// it is 0.
	Level float64
	// Rows are the rows of X that this model is trained on, in which a row
	// may come up more than once (a bootstrap sample, a split of its own);
	// nil stands for all of them. Models that are trained together have
	// equally many. An epoch passes over Rows.
	Rows []int
	// Start has the layers to start from, of the Problem's architecture; it is
	// only read. Nil draws them by Seed, and then every weight and bias of a
	// layer of d inputs is uniform on ±1/√d.
	Start []Layer
}

// Network is a trained network: its layers from input to output.
type Network struct {
	Layers []Layer `state:"layers,least=1"`
	// Loss is the mean training loss over the last epoch, penalties included.
	Loss float64
	// Epoch is the number of epochs after which the weights were kept, and
	// Validation their loss on the rows of Problem.Validation; both are 0
	// where there are none.
	Epoch      int
	Validation float64
}

// Layer is y = xW + b. W is in×out, row-major; B has out entries, or is nil.
type Layer struct {
	W blas32.General `state:"weight[in,out]"`
	B []float32      `state:"bias[out],optional"`
}

// DivergedError says that a model's loss or weights ceased to be finite.
type DivergedError struct {
	Model        int // index in Problem.Models
	Step         int // counted from 1
	LearningRate float64
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("training of model %d diverged at step %d: use a learning rate below %g", e.Model, e.Step, e.LearningRate)
}
