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
func (n bound) forward(ctx context.Context, x ood.InputBlock) (blas32.General, error) {
	b, err := n.network.Forward(ctx, x)
	if err != nil {
		return blas32.General{}, err
	}
	return b.Logits, checkLogits(b.Logits, x.Rows())
}

// gradient returns the logits of x and a gradient in the shape of x.
func (n bound) gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (blas32.General, []float32, error) {
	b, g, err := n.network.Gradient(ctx, x, of)
	if err != nil {
		return blas32.General{}, nil, err
	}
	if len(g) != len(x.Data) {
		return blas32.General{}, nil, fmt.Errorf("the network gives a gradient of %d numbers for inputs of %d", len(g), len(x.Data))
	}
	return b.Logits, g, checkLogits(b.Logits, x.Rows())
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

// room is dst, or new, for the scores of b by each of n scorers. A single
// scorer may be handed its dst.
func room(n int, dst []float64, b ood.Batch) [][]float64 {
	all := make([][]float64, n)
	all[0] = scores(dst, b.Len())
	for i := range all[1:] {
		all[i+1] = make([]float64, b.Len())
	}
	return all
}

// together are the scorers of a grid as what they are.
func together[S ood.Scorer](grid []ood.Scorer) ([]S, error) {
	all := make([]S, len(grid))
	for i, s := range grid {
		var ok bool
		if all[i], ok = s.(S); !ok {
			return nil, fmt.Errorf("scorer %d of the grid is of another method", i)
		}
	}
	return all, nil
}

// firstScores are the scores of a grid of one.
func firstScores(all [][]float64, err error) ([]float64, error) {
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
