package ort

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"github.com/yalue/onnxruntime_go"

	"github.com/attach-uncertainty/attach/internal/float16"
)

// Run runs the model on in, one tensor for each of Inputs, and returns one for each of Outputs, which the caller closes. When ctx
// is cancelled the run stops between two operators. A tensor that does not fit is an [*InputError].
func (s *Session) Run(ctx context.Context, in []*Tensor) ([]*Tensor, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	values, err := s.bind("input", s.inputs, in)
	if err != nil {
		return nil, err
	}
	defer values.release()
	result := make([]onnxruntime_go.Value, len(s.outputs))
	for i, v := range s.outputs {
		if v.Shape != nil && len(v.Shape) == 0 && v.DType != Float16 && v.DType != Undefined {
			// The binding does not take over scalars that the runtime allocated, so this one is allocated here.
			t := elements[v.DType].scalar()
			if result[i], err = t.fresh(); err != nil {
				return nil, sentence(err)
			}
		}
	}
	if err := s.run(ctx, values.values, result); err != nil {
		for _, v := range result {
			// What the binding could not take over is a nil pointer of some type.
			if v != nil && !reflect.ValueOf(v).IsNil() {
				v.Destroy()
			}
		}
		return nil, err
	}
	runtime.KeepAlive(in)
	out := make([]*Tensor, len(result))
	for i, v := range result {
		t, err := s.take(s.outputs[i], v)
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

func (s *Session) take(info ValueInfo, v onnxruntime_go.Value) (*Tensor, error) {
	if len(v.GetShape()) == 0 {
		defer v.Destroy()
		t := elements[info.DType].scalar()
		t.load(v)
		return t, nil
	}
	t, err := fromValue(v)
	if err != nil || info.DType != Float16 {
		return t, err
	}
	defer t.Close()
	return NewFloat16(t.shape, halves(t.Float32s()))
}

// RunInto runs the model like Run and writes the results into out, whose shapes must be those of the results. It allocates next to
// nothing and cannot be cancelled, as a step of training wants it.
func (s *Session) RunInto(in, out []*Tensor) error {
	inputs, err := s.bind("input", s.inputs, in)
	if err != nil {
		return err
	}
	defer inputs.release()
	var wide []int
	for i, v := range s.outputs {
		if v.DType == Float16 {
			wide = append(wide, i)
		}
	}
	target := out
	if wide != nil {
		if target, err = s.widen(out, wide); err != nil {
			return err
		}
		defer func() {
			for _, i := range wide {
				target[i].Close()
			}
		}()
	}
	outputs, err := s.bind("output", s.outputs, target)
	if err != nil {
		return err
	}
	defer outputs.release()
	if err := s.run(context.Background(), inputs.values, outputs.values); err != nil {
		return err
	}
	for i, t := range target {
		if t.load != nil {
			t.load(outputs.values[i])
		}
	}
	for _, i := range wide {
		copy(out[i].Float16s(), halves(target[i].Float32s()))
	}
	runtime.KeepAlive(in)
	runtime.KeepAlive(out)
	return nil
}

// widen replaces float16 outputs by float32 ones, as castHalf gives them.
func (s *Session) widen(out []*Tensor, wide []int) ([]*Tensor, error) {
	if len(out) != len(s.outputs) {
		return nil, s.countError("output", len(s.outputs), len(out))
	}
	target := slices.Clone(out)
	for k, i := range wide {
		if out[i].DType() != Float16 {
			return nil, &InputError{Kind: "output", Want: s.outputs[i], Got: out[i].info()}
		}
		t, err := NewTensor(out[i].shape, make([]float32, len(out[i].Float16s())))
		if err != nil {
			for _, j := range wide[:k] {
				target[j].Close()
			}
			return nil, err
		}
		target[i] = t
	}
	return target, nil
}

// run calls the binding; a context that can be cancelled costs run options and terminates the run.
func (s *Session) run(ctx context.Context, in, out []onnxruntime_go.Value) error {
	if ctx.Done() == nil {
		return sentence(s.dyn.Run(in, out))
	}
	ro, err := onnxruntime_go.NewRunOptions()
	if err != nil {
		return sentence(err)
	}
	defer ro.Destroy()
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		ro.Terminate()
	})
	err = s.dyn.RunWithOptions(in, out, ro)
	if !stop() {
		<-terminated
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return sentence(err)
}

// bound is the binding's values of some tensors. Those of scalars are made for one run.
type bound struct {
	values []onnxruntime_go.Value
	own    []onnxruntime_go.Value
}

func (b *bound) release() {
	for _, v := range b.own {
		v.Destroy()
	}
}

func (s *Session) bind(kind string, want []ValueInfo, ts []*Tensor) (*bound, error) {
	if s.dyn == nil {
		return nil, errClosed
	}
	if len(ts) != len(want) {
		return nil, s.countError(kind, len(want), len(ts))
	}
	b := &bound{values: make([]onnxruntime_go.Value, len(ts))}
	for i, t := range ts {
		err := fit(kind, want[i], t)
		if err == nil && t.value == nil {
			var v onnxruntime_go.Value
			if v, err = t.fresh(); err == nil {
				b.own = append(b.own, v)
				b.values[i] = v
				continue
			}
		}
		if err != nil {
			b.release()
			return nil, err
		}
		b.values[i] = t.value
	}
	return b, nil
}

func (s *Session) countError(kind string, want, got int) error {
	return fmt.Errorf("the session has %d %ss, got %d tensors", want, kind, got)
}

func fit(kind string, want ValueInfo, t *Tensor) error {
	if t == nil || t.data == nil {
		return fmt.Errorf("%s %q: %w", kind, want.Name, errClosed)
	}
	ok := want.DType == t.dtype || want.DType == Undefined || kind == "output" && want.DType == Float16 && t.dtype == Float32
	if ok && want.Shape != nil {
		ok = len(want.Shape) == len(t.shape)
		for i := 0; ok && i < len(t.shape); i++ {
			ok = want.Shape[i] < 0 || want.Shape[i] == t.shape[i]
		}
	}
	if !ok {
		return &InputError{Kind: kind, Want: want, Got: t.info()}
	}
	return nil
}

func (t *Tensor) info() ValueInfo { return ValueInfo{DType: t.dtype, Shape: t.shape} }

func halves(x []float32) []uint16 {
	bits := make([]uint16, len(x))
	for i, v := range x {
		bits[i] = float16.Encode(v)
	}
	return bits
}
