package ood

import (
	"context"
	"errors"
)

// Network runs the network itself, for methods that differentiate or disturb
// it. It is safe for concurrent use. A block may have any number of rows.
type Network interface {
	// Forward returns the features and logits of the rows.
	Forward(ctx context.Context, x InputBlock) (Batch, error)
	// Gradient also returns the gradient of a scalar per row with respect to
	// the one input of real numbers, in that input's name and shape. The error of a
	// network that cannot be differentiated, or has none or several such inputs, wraps
	// ErrNotDifferentiable.
	Gradient(ctx context.Context, x InputBlock, of Scalar) (Batch, Tensor, error)
	// Dropouts is the number of dropout layers that the network has, not
	// counting those with a rate of 0.
	Dropouts() int
	// Dropout runs the network passes times with dropout switched on and
	// returns the logits, passes×n×c. What is dropped depends on the seed and
	// the pass alone and is the same for every row, so that a row's logits do
	// not depend on where it stands.
	//
	// A network that has dropout layers keeps its own rates and p is not
	// used; in one that has none, p > 0 inserts a layer of that rate before
	// the last linear layer, and p = 0 is ErrNoDropout.
	Dropout(ctx context.Context, x InputBlock, passes int, p float64, seed uint64) ([]float32, error)
}

// ErrNotDifferentiable is wrapped by the error for a network that has an
// operator without a known gradient. The error says which.
var ErrNotDifferentiable = errors.New("the network cannot be differentiated")

// ErrNoDropout says that a network has no dropout to switch on.
var ErrNoDropout = errors.New("the network has no dropout layers and no rate was given to insert one")

// Scalar is a function of a row's logits z, to be differentiated: one of Sum,
// TopTwo, Logit and Top, or, where none is asked for, log softmax(z/T)_k for
// k = argmax z, which is held fast.
type Scalar struct {
	Sum    bool // Σ z
	TopTwo bool // the difference between the largest output and the next
	Logit  bool // output Index
	Top    bool // the largest output

	// Temperature is T; 0 means 1.
	Temperature float64
	Index       int // of Logit alone
	// Softmax takes the outputs of TopTwo and Logit to be softmax(z/T)
	// rather than z.
	Softmax bool
}
