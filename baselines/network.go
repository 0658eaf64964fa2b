package baselines

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// bound is the part of a scorer that runs a network.
type bound struct {
	method  string
	need    ood.Needs   // what the network is needed for
	network ood.Network // nil in a scorer that was restored and not bound yet
}

// newBound takes the network to run from what a method is fitted with: one that
// tells classes apart, and so has logits.
func newBound(ctx context.Context, t ood.Training, method string, need ood.Needs) (bound, error) {
	if t.Network == nil {
		return bound{}, &ood.NeedError{Method: method, Need: need, Where: "the rows to fit with"}
	}
	if !t.HasLogits() {
		return bound{}, &ood.NeedError{Method: method, Need: ood.NeedLogits, Where: "the rows to fit with"}
	}
	return bound{method, need, t.Network}, ctx.Err()
}

// Rows that are run and held at a time.
const networkBlock = 64

// each calls visit with b's inputs block after block.
func (n bound) each(ctx context.Context, b ood.Batch, rows int, visit func(x ood.InputBlock) error) error {
	if b.Inputs == nil {
		return &ood.NeedError{Method: n.method, Need: ood.NeedInputs, Where: "the rows to score"}
	}
	if n.network == nil {
		return &ood.NeedError{Method: n.method, Need: n.need, Where: "scorers that were stored"}
	}
	if b.Inputs.Len() != b.Len() {
		return fmt.Errorf("%d rows but %d of inputs", b.Len(), b.Inputs.Len())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done := 0
	for x, err := range b.Inputs.Blocks(ctx, rows) {
		if err != nil {
			return err
		}
		if err := visit(x); err != nil {
			if errors.Is(err, ood.ErrNotDifferentiable) || errors.Is(err, ood.ErrNoDropout) {
				return err // which is of no row
			}
			return fmt.Errorf("inputs %d to %d: %w", x.Start, x.Start+x.Rows()-1, err)
		}
		done += x.Rows()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if done != b.Inputs.Len() {
		return fmt.Errorf("%d rows of inputs came where %d were announced", done, b.Inputs.Len())
	}
	return nil
}

// forward returns the logits of x.
func forward(ctx context.Context, n ood.Network, x ood.InputBlock) (blas32.General, error) {
	b, err := n.Forward(ctx, x)
	if err != nil {
		return blas32.General{}, err
	}
	return b.Logits, checkLogits(b.Logits, x.Rows())
}

// gradientOf returns the logits of the block's inputs and the gradient of a
// scalar in their shape, which scorers that ask for the same share.
func gradientOf(ctx context.Context, b ood.Batch, of ood.Scalar) (blas32.General, []float32, error) {
	type result struct {
		logits   blas32.General
		gradient []float32
	}
	r, err := ood.Cached(b, of, func() (result, error) {
		out, g, err := b.Network.Gradient(ctx, b.Block, of)
		if err != nil {
			return result{}, err
		}
		if len(g) != len(b.Block.Data) {
			return result{}, fmt.Errorf("the network gives a gradient of %d numbers for inputs of %d", len(g), len(b.Block.Data))
		}
		return result{out.Logits, g}, checkLogits(out.Logits, b.Block.Rows())
	})
	return r.logits, r.gradient, err
}

// checkLogits refuses what a network says about n rows where it is no
// classifier of several classes.
func checkLogits(z blas32.General, n int) error {
	if z.Rows != n {
		return fmt.Errorf("the network gives %d rows of logits for %d inputs", z.Rows, n)
	}
	return checkClasses(z.Cols)
}

func checkClasses(c int) error {
	if c < leastLogits {
		return fmt.Errorf("%d logits a row, but at least %d are needed: one per class", c, leastLogits)
	}
	return nil
}
