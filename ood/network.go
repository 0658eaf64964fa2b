package ood

import (
	"context"
	"errors"
)

// Network runs the network itself, for methods that differentiate or perturb it. It is safe
// for concurrent use. A block may have any number of rows.
type Network interface {
	// Forward returns the features and logits of the rows.
	Forward(ctx context.Context, x InputBlock) (Batch, error)
	// Gradient also returns the gradient of one scalar per row with respect to the only
	// real-valued input, with the name and shape of that input. The error wraps
	// ErrNotDifferentiable if the network cannot be differentiated, or has none or several
	// such inputs.
	Gradient(ctx context.Context, x InputBlock, of Scalar) (Batch, Tensor, error)
	// Dropouts returns the number of dropout layers of the network, without those of rate 0.
	Dropouts() int
	// Dropout runs the network passes times with dropout switched on, and returns the logits,
	// passes×n×c. What is dropped depends only on the seed and the pass, and is the same for
	// every row. A row's logits therefore do not depend on its position.
	//
	// A network with dropout layers keeps its own rates, and p is not used. In a network
	// without them, p > 0 inserts a layer of that rate before the last linear layer, and p = 0
	// is ErrNoDropout.
	Dropout(ctx context.Context, x InputBlock, passes int, p float64, seed uint64) ([]float32, error)
}

// ErrNotDifferentiable is wrapped by the error for a network with an operator whose gradient
// is not known. The error names the operator.
var ErrNotDifferentiable = errors.New("the network cannot be differentiated")

// ErrNoDropout reports that a network has no dropout to switch on.
var ErrNoDropout = errors.New("the network has no dropout layers and no rate was given to insert one")

// Scalar is a function of a row's logits z, to be differentiated: one of Sum, TopTwo, Logit
// and Top, or otherwise log softmax(z/T)_k for k = argmax z, where k counts as constant.
type Scalar struct {
	Sum    bool // Σ z
	TopTwo bool // largest output minus the second largest
	Logit  bool // output Index
	Top    bool // the largest output

	// Temperature is T; 0 means 1.
	Temperature float64
	Index       int // used by Logit only
	// Softmax replaces the outputs z by softmax(z/T), for TopTwo and Logit.
	Softmax bool
}
