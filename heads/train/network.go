package train

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// In is the width of the layer's input.
func (l Layer) In() int { return l.W.Rows }

// Out is the width of the layer's output.
func (l Layer) Out() int { return l.W.Cols }

// Apply writes xW + b, n×out, to dst, which must have that shape.
func (l Layer) Apply(dst, x blas32.General) {
	if x.Cols != l.In() || dst.Cols != l.Out() || dst.Rows != x.Rows {
		panic(fmt.Sprintf("train: layer %d→%d from %d×%d to %d×%d", l.In(), l.Out(), x.Rows, x.Cols, dst.Rows, dst.Cols))
	}
	if x.Rows == 0 {
		return
	}
	l.fillBias(dst)
	if l.Out() == 1 {
		column := func(m blas32.General) blas32.Vector { return blas32.Vector{N: m.Rows, Inc: m.Stride, Data: m.Data} }
		blas32.Gemv(blas.NoTrans, 1, x, column(l.W), 1, column(dst))
		return
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, x, l.W, 1, dst)
}

func (l Layer) fillBias(dst blas32.General) {
	for i := range dst.Rows {
		row := dst.Data[i*dst.Stride : i*dst.Stride+dst.Cols]
		if l.B == nil {
			clear(row)
		} else {
			copy(row, l.B)
		}
	}
}

// In is the width of the network's input.
func (n Network) In() int { return n.Layers[0].In() }

// Out is the width of the network's output.
func (n Network) Out() int { return n.Layers[len(n.Layers)-1].Out() }

// Apply returns the network's output, n×Out, for the rows of x, n×In.
func (n Network) Apply(x blas32.General) blas32.General {
	for i, l := range n.Layers {
		out := rows.New(x.Rows, l.Out())
		l.Apply(out, x)
		if i < len(n.Layers)-1 {
			ReLU(out.Data)
		}
		x = out
	}
	return x
}

// ReLU replaces what is negative in v by 0.
func ReLU(v []float32) {
	// As max(x, 0) is, NaN included, in fewer instructions.
	const negativeInf = 0xff800000
	for i, x := range v {
		b := math.Float32bits(x)
		if b <= negativeInf {
			b &^= uint32(int32(b) >> 31)
		}
		v[i] = math.Float32frombits(b)
	}
}

// Validate returns an error if the layers do not fit together or a weight is
// not finite.
func (n Network) Validate() error {
	if len(n.Layers) == 0 {
		return errors.New("network has no layers")
	}
	for i, l := range n.Layers {
		if l.In() == 0 || l.Out() == 0 || l.B != nil && len(l.B) != l.Out() {
			return fmt.Errorf("layer %d has weights %d×%d and %d biases", i, l.In(), l.Out(), len(l.B))
		}
		if i > 0 && l.In() != n.Layers[i-1].Out() {
			return fmt.Errorf("layer %d reads %d values, layer %d makes %d", i, l.In(), i-1, n.Layers[i-1].Out())
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

// Restored implements rows.Restored.
func (n *Network) Restored() error { return n.Validate() }

// Check returns an error unless a Trainer returned as many networks as
// were asked, from in values to out, with finite weights.
func Check(networks []Network, models, in, out int) error {
	if len(networks) != models {
		return fmt.Errorf("%d networks for %d models", len(networks), models)
	}
	for i, n := range networks {
		if err := n.Validate(); err != nil {
			return fmt.Errorf("network %d: %w", i, err)
		}
		if n.In() != in || n.Out() != out {
			return fmt.Errorf("network %d maps %d values to %d, want %d to %d", i, n.In(), n.Out(), in, out)
		}
	}
	return nil
}
