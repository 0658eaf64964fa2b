package autodiff

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/double"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// TestDoubleOpsets holds that what the runtime computes in single precision, of
// whichever operator set, it computes in double precision after the rewrite:
// kernels come and go with operator sets.
func TestDoubleOpsets(t *testing.T) {
	rt := orttest.Open(t)
	for _, opset := range ints(11, 12, 13, 15, 18, 19) {
		t.Run(fmt.Sprint(opset), func(t *testing.T) {
			count := 0
			for _, c := range allCases() {
				if c.name == "Resize antialias" {
					continue
				}
				in := values(c)
				build := func() *pb.ModelProto {
					b := onnx.NewBuilder("case", opset)
					var x []string
					for i, shape := range c.shapes {
						x = append(x, b.Input(fmt.Sprintf("x%d", i), pb.TensorProto_FLOAT, shapeModes["symbols"](i, shape)...))
					}
					y := c.build(b, x)
					return outputs(t, b, []string{b.Node("Reshape", []string{y, b.Const(ints(-1))})}) // the binding returns no scalars
				}
				single := make([]*ort.Tensor, len(in))
				for i, v := range in {
					single[i], _ = ort.NewTensor(c.shapes[i], v.AppendFloat32s(nil))
				}
				want, err := tryModel(rt, build(), single)
				if err != nil { // of another operator set
					continue
				}
				m := build()
				if err = double.Promote(m, ""); err == nil {
					if opset < 13 && !strings.Contains(c.name, "by weights") {
						loadBackward(t, rt, c, m)
					}
					err = double.Lower(m, Types(onnx.Extend(m).Index(), ""))
				}
				var got []float64
				if err == nil {
					got, err = tryModel(rt, m, in)
				}
				if err != nil || len(got) != len(want) {
					t.Errorf("%s: %d numbers, want %d, error %v", c.name, len(got), len(want), err)
					continue
				}
				count++
				for i, g := range got {
					if w := want[i]; !(math.Abs(g-w) <= 1e-5*(1+math.Abs(w))) {
						t.Errorf("%s: element %d is %v, in single precision %v", c.name, i, g, w)
					}
				}
			}
			if count < 200 {
				t.Errorf("%d cases ran, want 200 or more", count)
			}
		})
	}
}

// loadBackward holds that the backward model of a double one can be lowered, and
// that the runtime has kernels for it.
func loadBackward(t *testing.T, rt *ort.Runtime, c graphCase, forward *pb.ModelProto) {
	t.Helper()
	s := NewSeparate(onnx.Extend(proto.CloneOf(forward)).Index(), "")
	var x []string
	for _, v := range forward.Graph.Input {
		x = append(x, v.GetName())
	}
	gradients, err := s.Gradient([]Seed{{Output: forward.Graph.Output[0].GetName()}}, x)
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return
	}
	declareOutputs(s.Builder(), gradients)
	m, _, err := s.Model()
	if err == nil {
		err = double.Lower(m, Types(onnx.Extend(m).Index(), ""))
	}
	var data []byte
	if err == nil {
		data, err = proto.Marshal(m)
	}
	var session *ort.Session
	if err == nil {
		session, err = rt.NewSession(context.Background(), ort.Model{Data: data, Unfused: true}, nil, nil)
	}
	if err != nil {
		t.Errorf("%s, backward: %v", c.name, err)
		return
	}
	session.Close()
}

// tryModel runs a model without fusing operators.
func tryModel(rt *ort.Runtime, m *pb.ModelProto, in []*ort.Tensor) ([]float64, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	s, err := rt.NewSession(context.Background(), ort.Model{Data: data, Unfused: true}, nil, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out, err := s.Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	defer out[0].Close()
	if out[0].DType() == ort.Float64 {
		return append([]float64(nil), out[0].Float64s()...), nil
	}
	var wide []float64
	for _, v := range out[0].AppendFloat32s(nil) {
		wide = append(wide, float64(v))
	}
	return wide, nil
}
