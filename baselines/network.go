package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/ood"
)

// replaced is the block with another tensor in place of the one of its name, which
// has as many rows.
func replaced(b ood.InputBlock, t ood.Tensor) ood.InputBlock {
	b.Tensors = slices.Clone(b.Tensors)
	*b.Find(t.Name) = t
	return b
}

// gradientOf returns the logits of the block's inputs and the gradient of a
// scalar with respect to the one of real numbers. Scorers that ask for the same
// share it.
func gradientOf(ctx context.Context, b ood.Batch, of ood.Scalar) (blas32.General, ood.Tensor, error) {
	type result struct {
		logits   blas32.General
		gradient ood.Tensor
	}
	r, err := memo.Cached(ctx, b, of, func() (result, error) {
		block := b.Inputs.(ood.InputBlock)
		out, g, err := b.Network.Gradient(ctx, block, of)
		if err != nil {
			return result{}, err
		}
		if x := block.Find(g.Name); x == nil || len(g.Data) != len(x.Data) {
			return result{}, fmt.Errorf("the network gives a gradient of %d numbers, and its inputs have another number", len(g.Data))
		}
		return result{out.Logits, g}, checkLogits(out.Logits, block.Len())
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
	if c < 2 { // after a pass, as fitting.Fit asks before it
		return fmt.Errorf("%d logits a row, but at least 2 are needed: one per class", c)
	}
	return nil
}

// norm is the Euclidean length of v. Where all of v is 0, to float32, it is the
// smallest number above, so that a margin over it is large and not infinite.
func norm(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return max(math.Sqrt(sum), math.SmallestNonzeroFloat32)
}

// sign is −1, 0 or 1, and NaN of NaN.
func sign(v float32) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return float64(v)
}
