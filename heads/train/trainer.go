// Package train defines how small fully connected networks are trained: rows, loss, options,
// and the resulting networks. Package heads/fit trains them in ONNX Runtime; a program may
// provide its own [Trainer].
package train

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// Loss names the loss that a Trainer minimises, a mean over rows and outputs:
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
// The last one is a loss of a batch of n rows,
//
//	Σ(U−L)·k / max(Σk, 1) + 15·n/(α(1−α))·max(0, 1−α − mean(σ(160·(U−y))·σ(160·(y−L))))²
//
// where k tells whether y lies between L and U, σ is the logistic function and 1−α the
// difference of the two levels.
type Loss string

// Validation holds held-out rows. The weights with the smallest loss on them are kept; they
// are evaluated about one hundred times during the training and after its last epoch.
// Penalties and dropout do not affect that loss.
type Validation struct {
	X, Y blas32.General // as in Problem
	// Levels are the levels of the pinball loss of a conditional network. Nil means
	// Problem.Levels or, if these are nil too, 0.1, 0.2, … 0.9.
	Levels []float64
}

// Trainer trains small fully connected networks by stochastic gradient descent. Package
// heads/fit implements it in ONNX Runtime.
type Trainer interface {
	// Train trains len(p.Models) networks of one architecture on one data set. The result has
	// one entry for each model, in order, with the widths of p and finite weights. If the
	// context is cancelled, the error is the context's.
	Train(ctx context.Context, p Problem) ([]Network, error)
}

// Problem is one data set, one architecture and one loss. One network is trained for each
// entry of Models.
//
// A network maps a row x through affine layers with ReLU between them: d → Hidden[0] → … →
// Outputs. With Conditional, the quantile level τ of a row is an additional input, (τ−0.5)·12,
// after the d columns of X.
type Problem struct {
	// X is n×d.
	X blas32.General
	// Y is n×t, t ≥ 1. Model m learns the column Models[m].Target. A negative Target means
	// that Outputs = t and that all columns are learned. A single row means targets that all
	// rows share, and the zero value means targets that are all zero.
	Y blas32.General

	Hidden  []int // widths of hidden layers; none means a linear model
	Outputs int   // width of the last layer, at least 1
	NoBias  bool

	Loss Loss
	// Conditional makes the quantile level an input of the network (simultaneous quantile
	// regression). It needs one of the two pinball losses.
	Conditional bool
	// Levels are the levels that these two losses train on. With Conditional, each row of each
	// mini-batch draws one of them or, if Levels is empty, a new τ ~ U(0,1). Without
	// Conditional, a target has one output for each level: first the outputs for the levels of
	// the first learned target, then those of the second. With one target, output j thus
	// learns Levels[j], and with one level, output j learns target j.
	Levels []float64

	// Validation, if not nil, makes each model keep those of its evaluated weights that have
	// the smallest loss on these rows.
	Validation *Validation

	Models []ModelConfig

	Epochs    int // passes over X (or a model's Rows), at least 1
	BatchSize int // rows per step, at least 1; the last step of an epoch has the remaining rows

	// Progress, if not nil, is called now and then from the training goroutine.
	Progress func(share float64)
}

// ModelConfig holds what may differ between networks that are trained together.
type ModelConfig struct {
	// Seed determines the initial weights, the order of rows, the dropout masks and the random
	// levels. The result of a model depends only on its own configuration, not on the other
	// models (up to floating-point rounding).
	Seed uint64
	// LearningRate is that of Adam (β₁ 0.9, β₂ 0.999, ε 1e-8).
	LearningRate float64
	// WeightDecay is added to the gradient as WeightDecay·w (L2).
	WeightDecay float64
	// Dropout is the probability that a hidden unit is dropped during training.
	Dropout float64
	// Orthonormal is the λ of λ·mean((CᵀC−I)²), where C is the in×out weight of the last
	// layer.
	Orthonormal float64
	// GradientPenalty is the λ of λ·mean((‖∇f(x̃)‖−1)²), which keeps outputs near a Lipschitz
	// constant of 1. ∇f is the gradient of one output, drawn for each x̃, with respect to the
	// network's inputs, without dropout. x̃ is a random point between a row of the mini-batch
	// and a row of standard normal noise (Gulrajani et al. 2017).
	GradientPenalty float64
	// Diversity is the λ of λ·mean((S−I)²), which keeps outputs different from each other and
	// from constants. S is the second moment of the outputs over as many such rows of noise as
	// a mini-batch has, without dropout. For a linear network without bias its expectation is
	// CᵀC, as in Orthonormal. Neither GradientPenalty nor Diversity can be combined with
	// Conditional.
	Diversity float64
	// Averaging is the factor d, in [0,1), of an average of the weights after every epoch, in
	// which the k-th last epoch has weight dᵏ. 0 keeps the weights of the last epoch.
	Averaging float64
	// Target is the column of Y that this model learns.
	Target int
	// Level is the level of a pinball loss for this model, so that networks of one level each
	// can be trained together. Either all models have a level, without Conditional and with
	// Problem.Levels empty, or none has one and it is 0.
	Level float64
	// Rows are the rows of X that this model is trained on, possibly repeated (a bootstrap
	// sample or its own split). Nil means all rows. Models that are trained together have
	// equally many. An epoch visits each entry of Rows once.
	Rows []int
	// Start holds the initial layers, with the architecture of the Problem. It is only read.
	// Nil draws them by Seed: every weight and bias of a layer with d inputs is uniform on
	// ±1/√d.
	Start []Layer
}

// Network is a trained network: its layers from input to output.
type Network struct {
	Layers []Layer `state:"layers,least=1"`
	// Loss is the mean training loss over the last epoch, penalties included.
	Loss float64
	// Epoch is the number of epochs after which the weights were kept, and Validation their
	// loss on the rows of Problem.Validation. Both are 0 without validation.
	Epoch      int
	Validation float64
}

// Layer is y = xW + b. W is in×out, row-major; B has out entries, or is nil.
type Layer struct {
	W blas32.General `state:"weight[in,out]"`
	B []float32      `state:"bias[out],optional"`
}

// DivergedError reports that the loss or the weights of a model became infinite or NaN.
type DivergedError struct {
	Model        int // index in Problem.Models
	Step         int // counted from 1
	LearningRate float64
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("training of model %d diverged at step %d: use a learning rate below %g", e.Model, e.Step, e.LearningRate)
}
