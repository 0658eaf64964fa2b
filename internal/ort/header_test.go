package ort

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func seeds() [][]byte {
	external := marshalGraph(&pb.GraphProto{
		Initializer: []*pb.TensorProto{{Name: proto.String("w"), DataLocation: pb.TensorProto_EXTERNAL.Enum(), ExternalData: []*pb.StringStringEntryProto{
			{Key: proto.String("location"), Value: proto.String("w.bin")}, {Key: proto.String("offset"), Value: proto.String("9223372036854775807")},
			{Key: proto.String("length"), Value: proto.String("1")}}}},
		Input: []*pb.ValueInfoProto{{Name: proto.String("s"), Type: &pb.TypeProto{Value: &pb.TypeProto_SequenceType{SequenceType: &pb.TypeProto_Sequence{}}}}},
	})
	return [][]byte{identity(), operation{dtype: Float64, transA: true}.model(), external, nil, []byte("text")}
}

func FuzzHeader(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, model []byte) {
		h, err := readHeader(model)
		if err != nil {
			if !errors.Is(err, ErrNotModel) {
				t.Errorf("%v is not %v", err, ErrNotModel)
			}
			return
		}
		// What protobuf accepts has the same inputs.
		var m pb.ModelProto
		if proto.Unmarshal(model, &m) == nil && len(h.inputs) != len(m.GetGraph().GetInput()) {
			t.Errorf("%d inputs, want %d", len(h.inputs), len(m.GetGraph().GetInput()))
		}
		h.checkExternal(t.TempDir())
		h.pickInputs(nil)
		pick("output", h.outputs, nil, nil)
	})
}

func TestHeader(t *testing.T) {
	all := seeds()
	h, err := readHeader(all[1])
	if err != nil {
		t.Fatal(err)
	}
	if len(h.inputs) != 2 || h.inputs[1].Name != "b" || h.inputs[0].typeString() != "float64 [?×?]" || h.outputs[0].Name != "c" {
		t.Errorf("got %+v", h)
	}
	if h, err = readHeader(all[2]); err != nil {
		t.Fatal(err)
	}
	if err := h.checkExternal(t.TempDir()); !errors.Is(err, ErrExternalData) {
		t.Errorf("got %v", err)
	}
	if _, err := h.pickInputs(nil); !errors.Is(err, ErrDType) {
		t.Errorf("a sequence as input: got %v", err)
	}
	// An output that declares no type has that of value_info.
	g := &pb.GraphProto{Output: []*pb.ValueInfoProto{{Name: proto.String("y")}}, ValueInfo: []*pb.ValueInfoProto{{Name: proto.String("y"),
		Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(Float16))}}}}}}
	if h, err = readHeader(marshalGraph(g)); err != nil || h.outputs[0].DType != Float16 || h.outputs[0].Shape != nil {
		t.Errorf("got %+v, %v", h, err)
	}
}
