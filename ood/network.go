package ood

import (
	"context"
	"errors"
)

// Network runs the base model, for methods that differentiate or perturb it. It is safe for
// concurrent use. A block may have any number of rows.
type Network interface {
	// Forward returns the features and logits of the rows.
	Forward(ctx context.Context, x InputBlock) (Batch, error)
	// Gradient returns the features and logits of the rows, and the gradient of one scalar for
	// each row with respect to the real-valued input. The gradient has the name and shape of
	// that input. The error wraps ErrNotDifferentiable if the model cannot be differentiated
	// or does not have exactly one real-valued input.
	Gradient(ctx context.Context, x InputBlock, of Scalar) (Batch, Tensor, error)
	// Dropouts returns the number of dropout layers whose rate is not 0.
	Dropouts() int
	// Dropout runs the model several times (passes) with dropout switched on. It returns the
	// logits, passes×n×c for n rows and c logits. The seed and the pass determine which values
	// are dropped, and all rows drop the same ones. Therefore the logits of a row do not
	// depend on its position.
	//
	// If the model has dropout layers, they keep their rates and p is ignored. Otherwise, p >
	// 0 inserts a dropout layer with rate p before the last linear layer, and p = 0 gives
	// ErrNoDropout.
	Dropout(ctx context.Context, x InputBlock, passes int, p float64, seed uint64) ([]float32, error)
}

// ErrNotDifferentiable reports that a model cannot be differentiated. If the reason is an
// operator without a known gradient, the error that wraps it names the operator.
var ErrNotDifferentiable = errors.New("the network cannot be differentiated")

// ErrNoDropout reports that a model has no dropout layers, and no rate was given to insert
// one.
var ErrNoDropout = errors.New("the network has no dropout layers and no rate was given to insert one")

// Scalar is a function of the logits z of a row that Network.Gradient differentiates. At most
// one of Sum, TopTwo, Logit and Top is set. If none is, the function is log softmax(z/T)_k for
// k = argmax z, and k counts as a constant.
type Scalar struct {
	Sum    bool // the sum of all logits
	TopTwo bool // the largest logit minus the second largest
	Logit  bool // the logit with number Index
	Top    bool // the largest logit

	// Temperature is T in softmax(z/T). 0 means 1.
	Temperature float64
	Index       int // only for Logit
	// Softmax replaces the logits z by softmax(z/T), for TopTwo and Logit.
	Softmax bool
}
