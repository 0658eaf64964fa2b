// Package train defines the problems that trainers of small fully connected networks solve,
// and the resulting networks. Package heads/fit trains networks in ONNX Runtime. A program
// may provide its own [Trainer].
package train

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// Loss names the loss that a Trainer minimises. The loss is a mean over rows and outputs:
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
//     target, and Problem.Levels holds the levels of L and U.
//
// The loss "quality-driven" is computed for a batch of n rows:
//
//	Σ(U−L)·k / max(Σk, 1) + 15·n/(α(1−α))·max(0, 1−α − mean(σ(160·(U−y))·σ(160·(y−L))))²
//
// Here, k is 1 if y lies between L and U and otherwise 0. σ is the logistic function, and
// 1−α is the difference of the two levels.
type Loss string

// Validation holds held-out rows. Training keeps the weights with the smallest loss on
// these rows. It evaluates the loss after every epoch if there are fewer than 200 epochs,
// and otherwise 100 to 150 times, the last epoch included. This loss does not include
// penalties or dropout.
type Validation struct {
	X, Y blas32.General // as in Problem
	// Levels are the levels at which a conditional network is evaluated with the pinball
	// loss. Nil means Problem.Levels. If Problem.Levels is nil, the levels are 0.1, 0.2, …
	// 0.9.
	Levels []float64
}

// Trainer trains small fully connected networks by stochastic gradient descent. Package
// heads/fit implements it in ONNX Runtime.
type Trainer interface {
	// Train trains len(p.Models) networks of one architecture on one data set. The result
	// has one network for each model, in order, with the widths of p and finite weights. If
	// the context is cancelled, Train returns the error of the context.
	Train(ctx context.Context, p Problem) ([]Network, error)
}

// Problem describes one data set, one architecture and one loss. A Trainer trains one
// network for each element of Models.
//
// A network maps a row x through affine layers with ReLU between them. The widths are d →
// Hidden[0] → … → Outputs, where d is the number of columns of X. If Conditional is set,
// the network has one more input: (τ−0.5)·12, where τ is the quantile level of the row.
type Problem struct {
	// X holds the n rows to train on, as an n×d matrix.
	X blas32.General
	// Y holds the targets, as an n×t matrix with t ≥ 1. Model m learns the column
	// Models[m].Target. If Target is negative, the model learns all columns. Outputs must then
	// be t, or t times the number of levels (see Levels). If Y has a single row, all rows of X
	// share these targets. If Y is the zero value, all targets are zero.
	Y blas32.General

	Hidden  []int // widths of the hidden layers; empty for a linear model
	Outputs int   // number of outputs, at least 1
	NoBias  bool

	Loss Loss
	// Conditional makes the quantile level an input of the network (simultaneous quantile
	// regression). Loss must then be one of the two pinball losses.
	Conditional bool
	// Levels are the quantile levels for the two pinball losses, or the two levels of the
	// ends for the loss "quality-driven". If Conditional is set, each row of a mini-batch
	// gets a random one of these levels, or a new τ ~ U(0,1) if Levels is empty.
	//
	// If Conditional is not set, each target has one output for each level. Outputs are
	// ordered by target, then by level. With one target, output j learns Levels[j]. With
	// one level, output j learns target j.
	Levels []float64

	// If Validation is not nil, each model keeps the weights that have the smallest loss on
	// these rows.
	Validation *Validation

	Models []ModelConfig

	Epochs    int // passes over X, or over the Rows of a model; at least 1
	BatchSize int // rows per step, at least 1; the last step of an epoch may have fewer

	// If Progress is not nil, it is called from time to time with the fraction of steps
	// done.
	Progress func(share float64)
}

// ModelConfig holds the options that may differ between networks that are trained together.
type ModelConfig struct {
	// Seed determines the initial weights, the order of rows, the dropout masks, the random
	// levels and the noise of penalties. The result of a model does not depend on the other
	// models, except for rounding.
	Seed uint64
	// LearningRate is the learning rate of Adam (β₁ 0.9, β₂ 0.999, ε 1e-8).
	LearningRate float64
	// WeightDecay is the factor of L2 regularisation: WeightDecay·w is added to the gradient
	// of the weights and biases w.
	WeightDecay float64
	// Dropout is the probability that a hidden unit is dropped during training.
	Dropout float64
	// Orthonormal is the weight λ of the penalty λ·mean((CᵀC−I)²), where C is the in×out
	// weight matrix of the last layer.
	Orthonormal float64
	// GradientPenalty is the weight λ of the penalty λ·mean((‖∇f(x̃)‖−1)²). It keeps
	// outputs near a Lipschitz constant of 1. The point x̃ is random between a row of the
	// mini-batch and a row of standard normal noise (Gulrajani et al. 2017). ∇f is the
	// gradient of one output with respect to the inputs, without dropout. The output is
	// drawn at random for each x̃.
	GradientPenalty float64
	// Diversity is the weight λ of the penalty λ·mean((S−I)²). It keeps outputs different
	// from each other and from constants. S is the second moment of the outputs, without
	// dropout, on rows of standard normal noise. There are as many of these rows as a full
	// mini-batch has. For a linear network without bias, the expectation of S is CᵀC, as in
	// Orthonormal.
	//
	// GradientPenalty and Diversity cannot be combined with Conditional.
	Diversity float64
	// Averaging is the factor d, in [0,1), of an average of the weights after every epoch.
	// In this average, the epoch that is k epochs before the last counts dᵏ times as much
	// as the last. If Averaging is 0, the weights of the last epoch are kept.
	Averaging float64
	// Target is the column of Y that this model learns. If Target is negative, the model
	// learns all columns.
	Target int
	// Level is the level of a pinball loss for this model, or 0. It allows networks with
	// one level each to be trained together. If one model has a level, all models must have
	// one, Conditional must not be set, and Problem.Levels must be empty.
	Level float64
	// Rows are the indices of the rows of X that this model is trained on. They may repeat,
	// as in a bootstrap sample. Nil means all rows. Models that are trained together have
	// equally many rows. An epoch visits each element of Rows once.
	Rows []int
	// Start holds the initial layers, with the architecture of the Problem. Training does
	// not modify them. If Start is nil, the initial layers are random: every weight and
	// bias of a layer with d inputs is uniform on ±1/√d.
	Start []Layer
}

// Network is a trained network: its layers from input to output.
type Network struct {
	Layers []Layer `state:"layers,least=1"`
	// Loss is the mean training loss over the last epoch, including penalties.
	Loss float64
	// Epoch is the number of epochs after which the weights were kept. Validation is the
	// loss of these weights on the rows of Problem.Validation. Both are 0 without
	// validation rows.
	Epoch      int
	Validation float64
}

// Layer computes y = xW + b. The weight W is an in×out matrix, row-major. The bias B has
// out elements, or is nil if there is no bias.
type Layer struct {
	W blas32.General `state:"weight[in,out]"`
	B []float32      `state:"bias[out],optional"`
}

// DivergedError is the error for a model whose loss or weights became infinite or NaN.
type DivergedError struct {
	Model        int // index in Problem.Models
	Step         int // counted from 1
	LearningRate float64
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("training of model %d diverged at step %d: use a learning rate below %g", e.Model, e.Step, e.LearningRate)
}
