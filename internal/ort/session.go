package ort

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Model is what a session is made from: a file, or the bytes of one.
type Model struct {
	Path string // the file; names the model in errors if Data is set
	Data []byte // a serialized ModelProto, such as a graph edited in memory
	Dir  string // folder of the external data that Data refers to; default the folder of Path
	// Unfused keeps the runtime from fusing operators, which takes long on large graphs.
	Unfused bool
}

// ValueInfo describes an input or output of a session.
type ValueInfo struct {
	Name  string
	DType DType
	Shape []int64 // −1 where a dimension varies, nil if the rank is not declared

	kind string // "Sequence", "Map"… where it is no tensor
}

func (v ValueInfo) typeString() string {
	if v.Shape == nil {
		return v.DType.String() + " of any shape"
	}
	dims := make([]string, len(v.Shape))
	for i, d := range v.Shape {
		dims[i] = "?"
		if d >= 0 {
			dims[i] = strconv.FormatInt(d, 10)
		}
	}
	return v.DType.String() + " [" + strings.Join(dims, "×") + "]"
}

// Session is a model ready to run. Its runs may overlap; Close may not overlap a run.
type Session struct {
	dyn     *onnxruntime_go.DynamicAdvancedSession
	inputs  []ValueInfo
	outputs []ValueInfo
}

// NewSession loads a model. inputs and outputs name the tensors that Run takes and returns, in that order; nil means all of the
// model's. Errors are [ErrNotModel], [ErrExternalData] and [ErrDType], or what ONNX Runtime says of the model.
func (r *Runtime) NewSession(ctx context.Context, m Model, inputs, outputs []string) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	so, err := r.newSessionOptions(r.provider)
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	s, err := newSession(m, inputs, outputs, so)
	if err == nil {
		return s, nil
	}
	if m.Path != "" && !strings.Contains(err.Error(), m.Path) {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return nil, err
}

func newSession(m Model, inputs, outputs []string, so *onnxruntime_go.SessionOptions) (*Session, error) {
	fromFile := m.Data == nil
	if fromFile {
		var err error
		if m.Data, err = os.ReadFile(m.Path); err != nil {
			return nil, err
		}
	}
	if m.Dir == "" && m.Path != "" {
		m.Dir = filepath.Dir(m.Path)
	}
	if m.Unfused {
		if err := so.SetGraphOptimizationLevel(onnxruntime_go.GraphOptimizationLevelEnableBasic); err != nil {
			return nil, sentence(err)
		}
	}
	h, err := readHeader(m.Data)
	if err != nil {
		return nil, err
	}
	if err := h.checkExternal(m.Dir); err != nil {
		return nil, err
	}
	s := &Session{}
	if s.inputs, err = h.pickInputs(inputs); err != nil {
		return nil, err
	}
	if s.outputs, err = pick("output", h.outputs, outputs, nil); err != nil {
		return nil, err
	}
	inNames, outNames := names(s.inputs), names(s.outputs)
	if cast := castHalf(s.outputs, outNames); cast != nil {
		m.Data, fromFile = append(slices.Clip(m.Data), cast...), false
	}
	if fromFile {
		m.Data = nil // the runtime reads the file itself
		s.dyn, err = onnxruntime_go.NewDynamicAdvancedSession(m.Path, inNames, outNames, so)
	} else {
		if m.Dir != "" {
			if err := so.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", m.Dir); err != nil {
				return nil, sentence(err)
			}
		}
		s.dyn, err = onnxruntime_go.NewDynamicAdvancedSessionWithONNXData(m.Data, inNames, outNames, so)
	}
	if err != nil {
		return nil, fmt.Errorf("load the model: %w", sentence(err))
	}
	return s, nil
}

func (h *header) pickInputs(want []string) ([]ValueInfo, error) {
	picked, err := pick("input", h.inputs, want, h.defaults)
	if err != nil {
		return nil, err
	}
	for _, v := range h.inputs {
		given := slices.ContainsFunc(picked, func(p ValueInfo) bool { return p.Name == v.Name })
		if !given && !h.defaults[v.Name] {
			return nil, fmt.Errorf("the model also needs input %q", v.Name)
		}
	}
	if len(picked) == 0 {
		return nil, errors.New("the model has no input")
	}
	return picked, nil
}

func pick(kind string, have []ValueInfo, want []string, skip map[string]bool) ([]ValueInfo, error) {
	var picked []ValueInfo
	if want == nil {
		for _, v := range have {
			if !skip[v.Name] {
				picked = append(picked, v)
			}
		}
	}
	for _, name := range want {
		i := slices.IndexFunc(have, func(v ValueInfo) bool { return v.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the model has no %s %q, it has %q", kind, name, names(have))
		}
		picked = append(picked, have[i])
	}
	for _, v := range picked {
		switch {
		case v.kind != "":
			return nil, fmt.Errorf("%w: %s %q is a %s, not a tensor", ErrDType, kind, v.Name, strings.ToLower(v.kind))
		case v.DType == BFloat16:
			return nil, fmt.Errorf("%w: %s %q is bfloat16: export the model with float32 or float16 inputs and outputs", ErrDType, kind, v.Name)
		case v.DType != Undefined && !v.DType.held():
			return nil, fmt.Errorf("%w: %s %q is %s", ErrDType, kind, v.Name, v.DType)
		}
	}
	return picked, nil
}

// castHalf returns what to append to a serialized model so that each float16 output is also there as float32, and renames the
// entries of names to those. The binding gives a float16 result only half the memory that it needs, and a cast to float32 is exact.
// Appending is enough: a protobuf message that occurs twice is merged.
func castHalf(outputs []ValueInfo, names []string) []byte {
	g := &pb.GraphProto{}
	for i, v := range outputs {
		if v.DType != Float16 {
			continue
		}
		wide := "attach.float32:" + v.Name
		g.Node = append(g.Node, &pb.NodeProto{OpType: proto.String("Cast"), Input: []string{v.Name}, Output: []string{wide},
			Attribute: []*pb.AttributeProto{{Name: proto.String("to"), Type: pb.AttributeProto_INT.Enum(), I: proto.Int64(int64(Float32))}}})
		g.Output = append(g.Output, &pb.ValueInfoProto{Name: proto.String(wide), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
			TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(Float32))}}}})
		names[i] = wide
	}
	if len(g.Node) == 0 {
		return nil
	}
	b, err := proto.Marshal(&pb.ModelProto{Graph: g})
	if err != nil {
		panic(err) // a message made here always marshals
	}
	return b
}

func names(vs []ValueInfo) []string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.Name
	}
	return s
}

// Inputs describes what Run takes, in order.
func (s *Session) Inputs() []ValueInfo { return s.inputs }

// Outputs describes what Run returns, in order. The type is Undefined where the model declares none.
func (s *Session) Outputs() []ValueInfo { return s.outputs }

// Close frees the session. Closing twice is harmless.
func (s *Session) Close() error {
	if s == nil || s.dyn == nil {
		return nil
	}
	dyn := s.dyn
	s.dyn = nil
	return sentence(dyn.Destroy())
}
