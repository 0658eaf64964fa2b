package ort

import (
	"context"
	"fmt"
	"reflect"
	"runtime"

	"github.com/yalue/onnxruntime_go"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Run runs the model. in has one tensor for each input of the session. The result has one
// tensor for each output, and the caller must close these tensors. If ctx is cancelled, the
// run stops after the current operator. If a tensor does not match its input, the error is
// an [*InputError].
func (s *Session) Run(ctx context.Context, in []*Tensor) ([]*Tensor, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	values, err := s.bind("input", s.inputs, in)
	if err != nil {
		return nil, err
	}
	result := make([]onnxruntime_go.Value, len(s.outputs))
	if err := s.run(ctx, values, result); err != nil {
		for _, v := range result {
			// If the binding fails to convert a value, the value is a typed nil pointer.
			if v != nil && !reflect.ValueOf(v).IsNil() {
				v.Destroy()
			}
		}
		return nil, err
	}
	runtime.KeepAlive(in)
	out := make([]*Tensor, len(result))
	for i, v := range result {
		t, err := fromValue(v)
		if err != nil {
			for _, t := range out[:i] {
				t.Close()
			}
			for _, v := range result[i+1:] {
				v.Destroy()
			}
			return nil, fmt.Errorf("output %q: %w", s.outputs[i].Name, err)
		}
		out[i] = t
	}
	return out, nil
}

// RunInto runs the model like Run, but writes the results to out. The shapes of out must
// match the results. It is for frequent runs, such as training steps, because it allocates
// almost no memory. It cannot be cancelled.
func (s *Session) RunInto(in, out []*Tensor) error {
	inputs, err := s.bind("input", s.inputs, in)
	if err != nil {
		return err
	}
	outputs, err := s.bind("output", s.outputs, out)
	if err != nil {
		return err
	}
	if err := s.run(context.Background(), inputs, outputs); err != nil {
		return err
	}
	runtime.KeepAlive(in)
	runtime.KeepAlive(out)
	return nil
}

// run runs the model in the binding. If ctx can be cancelled, a cancellation stops the run.
func (s *Session) run(ctx context.Context, in, out []onnxruntime_go.Value) error {
	if ctx.Done() == nil {
		return cleanError(s.session.Run(in, out))
	}
	ro, err := onnxruntime_go.NewRunOptions()
	if err != nil {
		return cleanError(err)
	}
	defer ro.Destroy()
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		ro.Terminate()
	})
	err = s.session.RunWithOptions(in, out, ro)
	if !stop() {
		<-terminated
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cleanError(err)
}

// bind checks that tensors match the inputs or outputs of the session, and returns their
// values in the binding.
func (s *Session) bind(kind string, want []ValueInfo, ts []*Tensor) ([]onnxruntime_go.Value, error) {
	if s.session == nil {
		return nil, errClosed
	}
	if len(ts) != len(want) {
		return nil, fmt.Errorf("the session has %d %ss, got %d tensors", len(want), kind, len(ts))
	}
	values := make([]onnxruntime_go.Value, len(ts))
	for i, t := range ts {
		if err := checkFit(kind, want[i], t); err != nil {
			return nil, err
		}
		values[i] = t.value
	}
	return values, nil
}

// checkFit returns an error if the type or shape of t does not match want.
func checkFit(kind string, want ValueInfo, t *Tensor) error {
	if t == nil || t.data == nil {
		return fmt.Errorf("%s %q: %w", kind, want.Name, errClosed)
	}
	ok := want.DType == t.dtype || want.DType == pb.TensorProto_UNDEFINED
	if ok && want.Shape != nil {
		ok = len(want.Shape) == len(t.shape)
		for i := 0; ok && i < len(t.shape); i++ {
			ok = want.Shape[i] < 0 || want.Shape[i] == t.shape[i]
		}
	}
	if !ok {
		return &InputError{Kind: kind, Want: want, Got: ValueInfo{DType: t.dtype, Shape: t.shape}}
	}
	return nil
}
