package featurize

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// tritonBatch is the largest batch that Triton forms of requests.
const tritonBatch = 64

// tritonTypes are the names of element types in Triton's model_config.proto.
var tritonTypes = map[pb.TensorProto_DataType]string{
	pb.TensorProto_BOOL: "TYPE_BOOL", pb.TensorProto_STRING: "TYPE_STRING", pb.TensorProto_FLOAT: "TYPE_FP32", pb.TensorProto_DOUBLE: "TYPE_FP64", pb.TensorProto_FLOAT16: "TYPE_FP16", pb.TensorProto_BFLOAT16: "TYPE_BF16",
	pb.TensorProto_INT8: "TYPE_INT8", pb.TensorProto_INT16: "TYPE_INT16", pb.TensorProto_INT32: "TYPE_INT32", pb.TensorProto_INT64: "TYPE_INT64",
	pb.TensorProto_UINT8: "TYPE_UINT8", pb.TensorProto_UINT16: "TYPE_UINT16", pb.TensorProto_UINT32: "TYPE_UINT32", pb.TensorProto_UINT64: "TYPE_UINT64",
}

// TritonConfig returns config.pbtxt, the configuration with which Triton Inference Server runs
// an exported model with its ONNX Runtime backend.
//
// If the first axis of all inputs and outputs has no fixed length, Triton forms batches of
// requests. It then cannot take the optional inputs attach.alpha and attach.level, which hold
// one number for a whole batch. Otherwise they are optional inputs. Outputs without a declared
// shape are left out and named in notes.
func TritonConfig(path string) (config string, notes []string, err error) {
	g, err := onnx.Load(path)
	if err != nil {
		return "", nil, err
	}
	inputs := g.Inputs()
	required := len(inputs)
	for _, v := range g.Model.GetGraph().GetInput() {
		if _, hasDefault := g.Const(v.GetName()); hasDefault && strings.HasPrefix(v.GetName(), ownPrefix) {
			inputs = append(inputs, v)
		}
	}
	var outputs []*pb.ValueInfoProto
	for _, v := range g.Outputs() {
		switch tensor := v.GetType().GetTensorType(); {
		case tensor == nil:
			return "", nil, fmt.Errorf("%s: Triton cannot load a model whose output %s is no tensor; convert the model again, with zipmap=False", path, v.GetName())
		case tensor.GetShape() == nil:
			notes = append(notes, fmt.Sprintf("Triton does not return output %s, because the model does not declare its shape", v.GetName()))
		default:
			outputs = append(outputs, v)
		}
	}
	batched := true
	for _, v := range append(inputs[:required:required], outputs...) {
		dims := onnx.Shape(v, 1)
		batched = batched && len(dims) > 0 && dims[0] < 0
	}
	var text strings.Builder
	text.WriteString("backend: \"onnxruntime\"\n")
	if batched {
		fmt.Fprintf(&text, "max_batch_size: %d\ndynamic_batching { }\n", tritonBatch)
		if len(inputs) > required {
			text.WriteString("# attach.alpha and attach.level hold one number for all rows. Requests cannot give them, because\n# Triton joins the rows of several requests.\n")
		}
		inputs = inputs[:required]
	} else {
		text.WriteString("max_batch_size: 0\n")
	}
	for i, v := range append(inputs[:len(inputs):len(inputs)], outputs...) {
		kind := "input"
		if i >= len(inputs) {
			kind = "output"
		}
		elem := pb.TensorProto_DataType(v.GetType().GetTensorType().GetElemType())
		if tritonTypes[elem] == "" {
			return "", nil, fmt.Errorf("%s: Triton has no elements of type %v, which %s has", path, elem, v.GetName())
		}
		dims, reshape := onnx.Shape(v, 1), ""
		if v.GetType().GetTensorType().GetShape() == nil {
			return "", nil, fmt.Errorf("%s: the model does not declare the shape of input %s, and Triton needs it", path, v.GetName())
		}
		if batched {
			dims = dims[1:]
		}
		if len(dims) == 0 { // a number for each row, or one for all
			dims, reshape = []int64{1}, "\n  reshape { shape: [ ] }"
		}
		optional := ""
		if kind == "input" && i >= required {
			optional = "\n  optional: true"
		}
		fmt.Fprintf(&text, "%s {\n  name: %s\n  data_type: %s\n  dims: %s%s%s\n}\n", kind, strconv.Quote(v.GetName()), tritonTypes[elem], strings.ReplaceAll(fmt.Sprint(dims), " ", ", "), reshape, optional)
	}
	return text.String(), notes, nil
}
