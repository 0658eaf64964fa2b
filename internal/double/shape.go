package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// dims is the shape of a tensor of the graph as far as it is known, −1 for
// what is not; ok is false where not even the rank is.
func (s *site) dims(tensor string) (dims []int64, ok bool) {
	shape := s.types(tensor).GetType().GetTensorType().GetShape()
	if shape == nil {
		return nil, false
	}
	for _, d := range shape.GetDim() {
		n := int64(-1)
		if v, ok := d.GetValue().(*pb.TensorShapeProto_Dimension_DimValue); ok {
			n = v.DimValue
		}
		dims = append(dims, n)
	}
	return dims, true
}

// size is part of a shape: a number (a size, or 0 and −1 as Reshape takes
// them), or a tensor of several, 1-D int64.
type size struct {
	n      int64
	tensor string
}

func sizes(v ...int64) []size {
	out := make([]size, len(v))
	for i, n := range v {
		out[i].n = n
	}
	return out
}

// sizesOf are the sizes of axes of x, numbers where they are known to be dims.
func (s *site) sizesOf(x string, dims []int64, from, to int) []size {
	if to <= len(dims) && !slices.Contains(dims[from:to], -1) {
		return sizes(dims[from:to]...)
	}
	return []size{{tensor: s.node("Slice", s.node("Shape", x), s.ints(int64(from)), s.ints(int64(to)))}}
}

// shape is a 1-D int64 tensor, a constant where it can be.
func (s *site) shape(parts ...size) string {
	var lists []string
	var known []int64
	flush := func() {
		if known != nil {
			lists, known = append(lists, s.ints(known...)), nil
		}
	}
	for _, p := range parts {
		if p.tensor == "" {
			known = append(known, p.n)
			continue
		}
		flush()
		lists = append(lists, p.tensor)
	}
	flush()
	switch len(lists) {
	case 0:
		return s.ints()
	case 1:
		return lists[0]
	}
	return s.Node("Concat", lists, onnx.Attr("axis", 0))
}

func (s *site) reshape(x string, parts ...size) string {
	return s.node("Reshape", x, s.shape(parts...))
}

func (s *site) transpose(x string, perm ...int64) string {
	return s.Node("Transpose", []string{x}, onnx.Attr("perm", perm))
}

func (s *site) concat(axis int64, list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return s.Node("Concat", list, onnx.Attr("axis", axis))
}
