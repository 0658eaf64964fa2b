package train

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Widths returns the numbers of inputs and outputs of the network.
func (n Network) Widths() (in, out int) {
	return n.Layers[0].W.Rows, n.Layers[len(n.Layers)-1].W.Cols
}

// Apply returns the outputs of the network, an n×out matrix, for the rows of x, an n×in
// matrix.
func (n Network) Apply(x blas32.General) blas32.General {
	for i, l := range n.Layers {
		out := rows.New(x.Rows, l.W.Cols)
		rows.Affine(out, x, l.W, l.B)
		if i < len(n.Layers)-1 {
			rows.ReLU(out.Data)
		}
		x = out
	}
	return x
}

// Restored returns an error if the layers do not fit together or a weight is not finite.
// Networks from files and from custom Trainers are checked with it.
func (n *Network) Restored() error {
	if len(n.Layers) == 0 {
		return errors.New("the network has no layers")
	}
	for i, l := range n.Layers {
		if l.W.Rows == 0 || l.W.Cols == 0 || l.B != nil && len(l.B) != l.W.Cols {
			return fmt.Errorf("layer %d has weights %d×%d and %d biases", i, l.W.Rows, l.W.Cols, len(l.B))
		}
		if i > 0 && l.W.Rows != n.Layers[i-1].W.Cols {
			return fmt.Errorf("layer %d reads %d values, layer %d makes %d", i, l.W.Rows, i-1, n.Layers[i-1].W.Cols)
		}
		if err := rows.CheckFinite(fmt.Sprintf("weight of layer %d", i), l.W); err != nil {
			return err
		}
		b := blas32.General{Rows: 1, Cols: len(l.B), Stride: max(len(l.B), 1), Data: l.B}
		if err := rows.CheckFinite(fmt.Sprintf("bias of layer %d", i), b); err != nil {
			return err
		}
	}
	return nil
}
