package autodiff

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// settleWindows restates poolings with ceil_mode as the same ones without it
// where a last window would start in the padding. The runtime makes no such
// window, but ONNX infers a size with one, that nothing which depends on the
// pooling's true size agrees with.
func (g *tape) settleWindows() {
	for _, n := range g.nodes {
		switch n.GetOpType() {
		case "AveragePool", "LpPool", "MaxPool":
			if onnx.IsDefault(n.GetDomain()) {
				g.settle(n)
			}
		}
	}
}

func (g *tape) settle(n *pb.NodeProto) {
	x := g.types.of(n.Input[0])
	s, ok := g.types.geometryOf(n, x, nil)
	if !ok || !s.ceil || !s.sized || s.isSame() {
		return
	}
	include := onnx.AttributeInt(n, "count_include_pad", 0) != 0
	end, dropped := slices.Clone(s.end), false
	for i, stride := range s.stride {
		d, _ := x.dim(int64(i + 2))
		if !d.known() {
			return
		}
		count := s.windows(i, d.n)
		beyond := (count-1)*stride + s.extent(i) - s.begin[i] - d.n
		// More padding than there was would be counted, and the runtime takes
		// none as wide as the kernel.
		if beyond > s.end[i] && (include || beyond >= s.kernel[i]) {
			return
		}
		dropped = dropped || beyond < s.end[i]
		end[i] = max(beyond, 0)
	}
	if !dropped {
		return
	}
	n.Attribute = slices.DeleteFunc(slices.Clone(n.Attribute), func(a *pb.AttributeProto) bool {
		return a.GetName() == "ceil_mode" || a.GetName() == "pads"
	})
	n.Attribute = append(n.Attribute, onnx.Attr("pads", slices.Concat(s.begin, end)))
}
