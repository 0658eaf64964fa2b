package double

import (
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// lowerNonZero asks for what is not 0 first.
func lowerNonZero(s *site) string {
	return s.node("NonZero", s.node("Not", s.node("Equal", s.in(0), s.number(0))))
}

// lowerOneHot marks by integers and chooses by the marks.
func lowerOneHot(s *site) string {
	whole := func(t string) string {
		return s.Node("Cast", []string{t}, onnx.Attr("to", pb.TensorProto_INT64))
	}
	mark := s.Node("OneHot", []string{whole(s.in(0)), whole(s.in(1)), s.ints(0, 1)}, onnx.Attr("axis", s.attrInt("axis", -1)))
	value := func(i int64) string { return s.node("Gather", s.in(2), s.Const(i)) }
	return s.where(s.Node("Cast", []string{mark}, onnx.Attr("to", pb.TensorProto_BOOL)), value(1), value(0))
}
