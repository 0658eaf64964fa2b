package featurize

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// DefaultEarlierLayers is the number of earlier layers in the benchmarks of attach's
// detectors.
const DefaultEarlierLayers = 3

// maxLayerWidth is the largest number of channels of a layer with positions that findLayers
// picks, unless all layers with positions are wider. The covariance of a wide layer could
// need too much memory (it grows with the square of the width) and time (with its cube).
const maxLayerWidth = 1024

// findLayers returns views of the earlier layers: the layers that o names, or else at most
// the number of layers that o requests. Like the features φ, each layer that findLayers
// picks itself is the input of a linear layer.
func (s modelBuilder) findLayers(ctx context.Context, feature view, o Options) ([]view, error) {
	if len(o.Layers) == 0 && o.EarlierLayers <= 0 {
		return nil, nil
	}
	all := s.layersBefore(feature.tensor)
	if len(o.Layers) > 0 {
		return s.namedLayers(ctx, feature.tensor, all, o.Layers)
	}
	all = pickEvenly(all, maxProbed)
	tensors := make([]string, len(all))
	for i, v := range all {
		tensors[i] = v.tensor
	}
	shapes, err := s.probeShapes(ctx, tensors)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && s.log != nil {
		s.log.Debug("no earlier layers are read", "reason", err)
	}
	batch := int64(-1)
	if n := s.inputs.fixedBatch(); n > 0 {
		batch = int64(n)
	}
	var positioned, wide, flat []view
	for _, v := range all {
		shape := shapes[v.tensor]
		if len(shape) < 2 || shape[0] != batch {
			continue
		}
		v.rank = len(shape)
		switch {
		case v.positionCount(shape) > 1 && shape[v.channelAxis()] > maxLayerWidth:
			wide = append(wide, v)
		case v.positionCount(shape) > 1:
			positioned = append(positioned, v)
		case v.rank == 2:
			flat = append(flat, v)
		}
	}
	// Layers with positions are preferred to vectors. After a layer with positions, a
	// vector is either as wide as all positions together, or it is a small gate that weighs
	// channels.
	for _, list := range [][]view{positioned, wide, flat} {
		if len(list) > 0 {
			return pickEvenly(list, o.EarlierLayers), nil
		}
	}
	return nil, nil
}

// namedLayers returns views of the layers with the given names. If a layer is the input of
// a linear layer, it is averaged over positions in the same way as in findLayers. So the
// names that findLayers picked give the same views again.
func (s modelBuilder) namedLayers(ctx context.Context, feature string, all []view, names []string) ([]view, error) {
	var layers []view
	var tokens []string // layers whose number of axes must be determined
	for k, name := range names {
		if name == feature || slices.Contains(names[:k], name) {
			return nil, fmt.Errorf("an earlier layer cannot be %q, which is read already", name)
		}
		i := slices.IndexFunc(all, func(v view) bool { return v.tensor == name })
		if i < 0 {
			v, err := s.namedView(ctx, name, "an earlier layer")
			if err != nil {
				return nil, err
			}
			layers = append(layers, v)
			continue
		}
		layers = append(layers, all[i])
		if all[i].meanOverTokens {
			tokens = append(tokens, name)
		}
	}
	ranks, err := s.ranks(ctx, tokens)
	for i, v := range layers {
		if r, ok := ranks[v.tensor]; ok {
			layers[i].rank = r
		}
	}
	return layers, err
}

// positionCount returns the number of positions that a view averages over in a tensor of this
// shape.
func (v view) positionCount(shape []int64) int64 {
	n := int64(1)
	for axis := 1; axis < len(shape); axis++ {
		if axis != v.channelAxis() {
			n *= shape[axis]
		}
	}
	return n
}

// channelAxis returns the index of the channel axis, which the view keeps.
func (v view) channelAxis() int {
	if v.meanOverSpace {
		return 1
	}
	return v.rank - 1
}

// pickEvenly picks n evenly spaced views from a list, or all views if the list is shorter.
// For n = 3, it picks the views at a quarter, half and three quarters of the list.
func pickEvenly(all []view, n int) []view {
	n = min(n, len(all))
	picked := make([]view, n)
	last := -1
	for i := range n {
		target := int(math.RoundToEven(float64((i+1)*(len(all)-1)) / float64(n+1)))
		// Each pick comes after the one before, and leaves enough views for the picks after
		// it.
		last = min(max(target, last+1), len(all)-n+i)
		picked[i] = all[last]
	}
	return picked
}

// layersBefore lists the inputs of the linear layers before a tensor, in the graph's
// order. It skips linear layers that no other linear layer precedes, because they read the
// model's own inputs.
func (s modelBuilder) layersBefore(tensor string) []view {
	downstream := map[string]bool{} // tensors that depend on a linear layer
	seen := map[string]bool{tensor: true}
	deps := ancestors(s.graph, tensor)
	var all []view
	for _, n := range s.graph.Model.GetGraph().GetNode() {
		if !slices.ContainsFunc(n.GetOutput(), func(t string) bool { return t != "" && deps[t] }) {
			continue
		}
		follows := slices.ContainsFunc(onnx.Reads(n), func(t string) bool { return downstream[t] })
		if s.isLinear(n) {
			v, err := inputView(s.graph, n)
			if err == nil && follows && !seen[v.tensor] {
				seen[v.tensor] = true
				all = append(all, v)
			}
			follows = true
		}
		if follows {
			for _, t := range n.GetOutput() {
				downstream[t] = true
			}
		}
	}
	return all
}

// isLinear reports whether a node is a linear layer with constant weights.
func (s modelBuilder) isLinear(n *pb.NodeProto) bool {
	operands, ok := linearOps[n.GetOpType()]
	return ok && operands.weight < len(n.GetInput()) && s.isConst(n.GetInput()[operands.weight])
}
