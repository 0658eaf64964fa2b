package fit

import (
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"
)

// checkStart checks layers to start from against the architecture.
func checkStart(p train.Problem, layers []train.Layer) error {
	if layers == nil {
		return nil
	}
	n := train.Network{Layers: layers}
	if err := n.Validate(); err != nil {
		return fmt.Errorf("the network to start from: %w", err)
	}
	in := p.X.Cols
	if p.Conditional {
		in++
	}
	if n.In() != in || n.Out() != p.Outputs || len(layers) != len(p.Hidden)+1 {
		return fmt.Errorf("the network to start from has %d layers from %d values to %d, want %d from %d to %d",
			len(layers), n.In(), n.Out(), len(p.Hidden)+1, in, p.Outputs)
	}
	for i, l := range layers {
		if i < len(p.Hidden) && l.Out() != p.Hidden[i] {
			return fmt.Errorf("the network to start from has %d units in hidden layer %d, want %d", l.Out(), i, p.Hidden[i])
		}
		if (l.B == nil) != p.NoBias {
			return fmt.Errorf("the network to start from has a bias in layer %d: %t, want %t", i, l.B != nil, !p.NoBias)
		}
	}
	return nil
}

// start writes layers to start from over the weights that were drawn.
func start(flat []float32, list []parameter, model int, layers []train.Layer) {
	if layers == nil {
		return
	}
	layer := -1
	for _, p := range list {
		dst := p.of(flat, model)
		if p.weight {
			layer++
			w := layers[layer].W
			for i := range w.Rows {
				dst = dst[copy(dst, w.Data[i*w.Stride:i*w.Stride+w.Cols]):]
			}
		}
		if p.bias {
			copy(dst, layers[layer].B)
		}
	}
}
