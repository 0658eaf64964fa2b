package ort

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Model is a model that NewSession loads.
type Model struct {
	Proto *pb.ModelProto
	Dir   string // folder of the model's external data
	// Unfused stops the runtime from fusing operators, because fusing takes a long time for
	// large graphs.
	Unfused bool
}

// ValueInfo describes an input or output of a session, or a tensor passed for it.
type ValueInfo struct {
	Name  string
	DType pb.TensorProto_DataType
	Shape []int64 // a dimension of −1 varies; nil means that no shape is declared

	kind string // kind of a value that is not a tensor, for example "Sequence" or "Map"
}

func (v ValueInfo) typeString() string {
	name := onnx.DTypeName(int32(v.DType))
	if v.Shape == nil {
		return name + " of any shape"
	}
	dims := make([]string, len(v.Shape))
	for i, d := range v.Shape {
		dims[i] = "?"
		if d >= 0 {
			dims[i] = strconv.FormatInt(d, 10)
		}
	}
	return name + " [" + strings.Join(dims, "×") + "]"
}

// Session is a model that is ready to run. Several runs may overlap, but Close must not
// overlap a run.
type Session struct {
	session *onnxruntime_go.DynamicAdvancedSession
	inputs  []ValueInfo
	outputs []ValueInfo
}

// NewSession loads a model. inputs and outputs name the tensors that Run takes and returns,
// in this order. If inputs is nil, Run takes all required inputs. If outputs is nil, Run
// returns all outputs. The error may wrap [onnx.ErrExternalData], [ErrDType] or an error of
// ONNX Runtime.
func (r *Runtime) NewSession(ctx context.Context, m Model, inputs, outputs []string) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	so, err := r.newSessionOptions(r.provider)
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	return newSession(m, inputs, outputs, so)
}

func newSession(m Model, inputs, outputs []string, so *onnxruntime_go.SessionOptions) (*Session, error) {
	if m.Unfused {
		if err := so.SetGraphOptimizationLevel(onnxruntime_go.GraphOptimizationLevelEnableBasic); err != nil {
			return nil, cleanError(err)
		}
	}
	if err := onnx.CheckExternal(m.Proto, m.Dir); err != nil {
		return nil, err
	}
	s := &Session{}
	var err error
	if s.inputs, err = selectInputs(m.Proto.GetGraph(), inputs); err != nil {
		return nil, err
	}
	if s.outputs, err = selectValues("output", valueInfos(m.Proto.GetGraph().GetOutput()), outputs, nil); err != nil {
		return nil, err
	}
	data, err := proto.Marshal(m.Proto)
	if err != nil {
		return nil, fmt.Errorf("cannot serialize the model: %w", err)
	}
	if m.Dir != "" {
		if err := so.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", m.Dir); err != nil {
			return nil, cleanError(err)
		}
	}
	if s.session, err = onnxruntime_go.NewDynamicAdvancedSessionWithONNXData(data, names(s.inputs), names(s.outputs), so); err != nil {
		return nil, fmt.Errorf("load the model: %w", cleanError(err))
	}
	return s, nil
}

// selectInputs returns the inputs named in want, or all required inputs if want is nil. It
// returns an error if want lacks a required input.
func selectInputs(g *pb.GraphProto, want []string) ([]ValueInfo, error) {
	// Below IR version 4, initializers are also inputs. They are optional because they have
	// a value.
	defaults := map[string]bool{}
	for _, t := range g.GetInitializer() {
		defaults[t.GetName()] = true
	}
	have := valueInfos(g.GetInput())
	selected, err := selectValues("input", have, want, defaults)
	if err != nil {
		return nil, err
	}
	for _, v := range have {
		given := slices.ContainsFunc(selected, func(p ValueInfo) bool { return p.Name == v.Name })
		if !given && !defaults[v.Name] {
			return nil, fmt.Errorf("the model also needs input %q", v.Name)
		}
	}
	if len(selected) == 0 {
		return nil, errors.New("the model has no input")
	}
	return selected, nil
}

// selectValues returns the values in have that want names. If want is nil, it returns all
// except those in skip. It returns an error for types that a Tensor cannot hold.
func selectValues(kind string, have []ValueInfo, want []string, skip map[string]bool) ([]ValueInfo, error) {
	var selected []ValueInfo
	if want == nil {
		for _, v := range have {
			if !skip[v.Name] {
				selected = append(selected, v)
			}
		}
	}
	for _, name := range want {
		i := slices.IndexFunc(have, func(v ValueInfo) bool { return v.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the model has no %s %q, it has %q", kind, name, names(have))
		}
		selected = append(selected, have[i])
	}
	for _, v := range selected {
		switch {
		case v.kind != "":
			return nil, fmt.Errorf("%w: %s %q is a %s, not a tensor", ErrDType, kind, v.Name, strings.ToLower(v.kind))
		case v.DType == pb.TensorProto_BFLOAT16:
			return nil, fmt.Errorf("%w: %s %q is bfloat16: export the model with float32 or float16 inputs and outputs", ErrDType, kind, v.Name)
		case v.DType != pb.TensorProto_UNDEFINED && v.DType != pb.TensorProto_STRING && elements[v.DType] == nil:
			return nil, fmt.Errorf("%w: %s %q is %s", ErrDType, kind, v.Name, onnx.DTypeName(int32(v.DType)))
		}
	}
	return selected, nil
}

func names(vs []ValueInfo) []string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.Name
	}
	return s
}

func valueInfos(list []*pb.ValueInfoProto) []ValueInfo {
	infos := make([]ValueInfo, len(list))
	for i, p := range list {
		t := p.GetType().GetTensorType()
		v := ValueInfo{Name: p.GetName(), DType: pb.TensorProto_DataType(t.GetElemType()), Shape: onnx.Shape(p, 0)}
		if t == nil && p.GetType().GetValue() != nil {
			v.kind = strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", p.GetType().GetValue()), "*pb.TypeProto_"), "Type")
		}
		infos[i] = v
	}
	return infos
}

// Close releases the session. Further calls do nothing.
func (s *Session) Close() error {
	if s == nil || s.session == nil {
		return nil
	}
	dyn := s.session
	s.session = nil
	return cleanError(dyn.Destroy())
}
