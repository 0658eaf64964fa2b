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

// replaced returns block b with tensor t in place of the tensor with the same name. Both
// tensors must have the same number of rows.
func replaced(b ood.InputBlock, t ood.Tensor) ood.InputBlock {
	b.Tensors = slices.Clone(b.Tensors)
	*b.Find(t.Name) = t
	return b
}

// gradientOf returns the logits of the inputs of b, and the gradient of a scalar function
// of the logits with respect to the inputs. Scorers of the same function share the result.
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
			return result{}, fmt.Errorf("the network returns a gradient of %d numbers, but its inputs have a different number", len(g.Data))
		}
		return result{out.Logits, g}, checkLogits(out.Logits, block.Len())
	})
	return r.logits, r.gradient, err
}

// checkLogits returns an error unless z has n rows and at least 2 logits per row.
func checkLogits(z blas32.General, n int) error {
	if z.Rows != n {
		return fmt.Errorf("the network returns %d rows of logits for %d inputs", z.Rows, n)
	}
	return checkClasses(z.Cols)
}

func checkClasses(c int) error {
	if c < 2 { // fitting.Fit checks the training rows, but not the outputs of the network
		return fmt.Errorf("it scores the logits of a classifier, one per class, but the network returns only %d per row", c)
	}
	return nil
}

// norm returns the Euclidean norm of v, but at least the smallest positive float32. A
// margin divided by it is then finite.
func norm(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return max(math.Sqrt(sum), math.SmallestNonzeroFloat32)
}

// sign returns −1, 0 or 1, or NaN if v is NaN.
func sign(v float32) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return float64(v)
}
