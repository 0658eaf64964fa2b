package ort_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// value declares a tensor. A dimension of −1 varies.
func value(name string, d pb.TensorProto_DataType, dims ...int64) *pb.ValueInfoProto {
	shape := &pb.TensorShapeProto{}
	for _, n := range dims {
		dim := &pb.TensorShapeProto_Dimension{}
		if n >= 0 {
			dim.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: n}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
		TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(d)), Shape: shape}}}}
}

func node(op string, in []string, out string, attrs ...*pb.AttributeProto) *pb.NodeProto {
	return &pb.NodeProto{OpType: proto.String(op), Input: in, Output: []string{out}, Attribute: attrs}
}

func model(g *pb.GraphProto) ort.Model {
	g.Name = proto.String("g")
	return ort.Model{Proto: &pb.ModelProto{IrVersion: proto.Int64(8), Graph: g,
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(17)}}}}
}

func graph(in, out *pb.ValueInfoProto, nodes ...*pb.NodeProto) *pb.GraphProto {
	return &pb.GraphProto{Input: []*pb.ValueInfoProto{in}, Output: []*pb.ValueInfoProto{out}, Node: nodes}
}

// unary returns a model that applies one operator to the input x. The output is y.
func unary(op string, d pb.TensorProto_DataType, dims ...int64) ort.Model {
	return model(graph(value("x", d, dims...), value("y", d, dims...), node(op, []string{"x"}, "y")))
}

func open(t testing.TB, r *ort.Runtime, m ort.Model) *ort.Session {
	t.Helper()
	s, err := r.NewSession(context.Background(), m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func tensor[T ort.Number](t testing.TB, shape []int64, data []T) *ort.Tensor {
	t.Helper()
	x, err := ort.NewTensor(shape, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func run(t testing.TB, s *ort.Session, in ...*ort.Tensor) *ort.Tensor {
	t.Helper()
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out[0].Close)
	return out[0]
}

func TestInputErrors(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", pb.TensorProto_FLOAT, -1, 3, 2))
	ok := tensor(t, []int64{4, 3, 2}, make([]float32, 24))
	closed := tensor(t, []int64{4, 3, 2}, make([]float32, 24))
	closed.Close()
	for _, c := range []struct {
		name string
		in   []*ort.Tensor
		want string
	}{
		{"width", []*ort.Tensor{tensor(t, []int64{4, 3, 3}, make([]float32, 36))}, `input "x": want float32 [?×3×2], got float32 [4×3×3]`},
		{"rank", []*ort.Tensor{tensor(t, []int64{4, 6}, make([]float32, 24))}, `input "x": want float32 [?×3×2], got float32 [4×6]`},
		{"dtype", []*ort.Tensor{tensor(t, []int64{4, 3, 2}, make([]float64, 24))}, `input "x": want float32 [?×3×2], got float64 [4×3×2]`},
		{"count", []*ort.Tensor{ok, ok}, "the session has 1 inputs, got 2 tensors"},
		{"closed", []*ort.Tensor{closed}, `input "x": use of a closed tensor or session`},
		{"nil", []*ort.Tensor{nil}, `input "x": use of a closed tensor or session`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := s.Run(context.Background(), c.in); err == nil || err.Error() != c.want {
				t.Errorf("Run: got %v, want %s", err, c.want)
			}
			if err := s.RunInto(c.in, []*ort.Tensor{ok}); err == nil || err.Error() != c.want {
				t.Errorf("RunInto: got %v, want %s", err, c.want)
			}
		})
	}
	var ie *ort.InputError
	_, err := s.Run(context.Background(), []*ort.Tensor{tensor(t, []int64{24}, make([]float32, 24))})
	if !errors.As(err, &ie) || ie.Want.Name != "x" || len(ie.Got.Shape) != 1 {
		t.Errorf("got %#v", err)
	}
	if err := s.RunInto([]*ort.Tensor{ok}, []*ort.Tensor{tensor(t, []int64{4, 3, 2}, make([]float64, 24))}); !errors.As(err, &ie) || ie.Kind != "output" {
		t.Errorf("wrong output: got %v", err)
	}
	// The wrong number of output rows is detected only at run time.
	if err := s.RunInto([]*ort.Tensor{ok}, []*ort.Tensor{tensor(t, []int64{5, 3, 2}, make([]float32, 30))}); err == nil {
		t.Error("an output with too many rows was accepted")
	}
	if _, err := ort.NewTensor([]int64{2, 3}, make([]float32, 5)); err == nil {
		t.Error("5 elements as 2×3")
	}
	if _, err := ort.NewTensor([]int64{-1, 3}, make([]float32, 3)); err == nil {
		t.Error("a negative dimension")
	}
}

func TestModelErrors(t *testing.T) {
	r := orttest.Open(t)
	good := unary("Neg", pb.TensorProto_FLOAT, -1, 2)
	sequence := &pb.ValueInfoProto{Name: proto.String("x"), Type: &pb.TypeProto{Value: &pb.TypeProto_SequenceType{SequenceType: &pb.TypeProto_Sequence{}}}}
	for _, c := range []struct {
		name    string
		model   ort.Model
		in, out []string
		is      error
		want    string
	}{
		{"no such input", good, []string{"z"}, nil, nil, `no input "z", it has ["x"]`},
		{"no such output", good, nil, []string{"z"}, nil, `no output "z", it has ["y"]`},
		{"input left out", good, []string{}, nil, nil, `also needs input "x"`},
		{"no graph", ort.Model{Proto: &pb.ModelProto{}}, nil, nil, nil, "no input"},
		{"sequence", model(graph(sequence, value("y", pb.TensorProto_FLOAT))), nil, nil, ort.ErrDType, "sequence"},
		{"bfloat16", unary("Neg", pb.TensorProto_BFLOAT16, 2), nil, nil, ort.ErrDType, `"x" is bfloat16: export the model with float32 or float16 inputs and outputs`},
		{"float16", unary("Neg", pb.TensorProto_FLOAT16, 2), nil, nil, ort.ErrDType, "float16"},
		{"unknown operator", unary("Nonsense", pb.TensorProto_FLOAT, 2), nil, nil, nil, "Nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.NewSession(context.Background(), c.model, c.in, c.out)
			if err == nil {
				t.Fatal("no error")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			for _, bad := range []string{"\n", ".cc", "onnxruntime_src", "ONNXRuntimeError"} {
				if strings.Contains(err.Error(), bad) {
					t.Errorf("%q says %q", err, bad)
				}
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
		})
	}
}

// TestRunError checks that an error inside an operator is one line that names the operator.
func TestRunError(t *testing.T) {
	g := graph(value("x", pb.TensorProto_FLOAT, -1, -1), value("y", pb.TensorProto_FLOAT, -1, -1), node("MatMul", []string{"x", "x"}, "y"))
	s := open(t, orttest.Open(t), model(g))
	_, err := s.Run(context.Background(), []*ort.Tensor{tensor(t, []int64{2, 3}, make([]float32, 6))})
	var re *ort.RuntimeError
	if !errors.As(err, &re) || re.Unwrap() == nil {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "MatMul") || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), ".h:") || strings.Contains(err.Error(), "onnxruntime") {
		t.Errorf("got %q", err)
	}
}

// TestInitializerAsInput checks a model below IR version 4, in which initializers are also
// inputs. An initializer keeps its value unless NewSession requests it as an input.
func TestInitializerAsInput(t *testing.T) {
	r := orttest.Open(t)
	g := graph(value("x", pb.TensorProto_FLOAT, 2), value("y", pb.TensorProto_FLOAT, 2), node("Add", []string{"x", "w"}, "y"))
	g.Input = append(g.Input, value("w", pb.TensorProto_FLOAT, 2))
	g.Initializer = []*pb.TensorProto{{Name: proto.String("w"), DataType: proto.Int32(int32(pb.TensorProto_FLOAT)), Dims: []int64{2}, FloatData: []float32{10, 20}}}
	m := model(g)
	s := open(t, r, m)
	if len(s.Inputs()) != 1 || s.Inputs()[0].Name != "x" {
		t.Fatalf("inputs %v", s.Inputs())
	}
	x := tensor(t, []int64{2}, []float32{1, 2})
	if y := run(t, s, x); !slices.Equal(y.Float32s(), []float32{11, 22}) {
		t.Errorf("got %v", y.Float32s())
	}
	both, err := r.NewSession(context.Background(), m, []string{"w", "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	if y := run(t, both, tensor(t, []int64{2}, []float32{5, 5}), x); !slices.Equal(y.Float32s(), []float32{6, 7}) {
		t.Errorf("got %v", y.Float32s())
	}
}

// slow returns a model that runs for seconds unless it is stopped: 400 matrix products in a
// row.
func slow() ort.Model {
	g := graph(value("x", pb.TensorProto_FLOAT, -1, -1), value("y", pb.TensorProto_FLOAT, -1, -1))
	last := "x"
	for i := range 400 {
		next := "t" + strconv.Itoa(i)
		g.Node = append(g.Node, node("MatMul", []string{last, "x"}, next))
		last = next
	}
	g.Node = append(g.Node, node("Identity", []string{last}, "y"))
	return model(g)
}

func TestCancel(t *testing.T) {
	s := open(t, orttest.Open(t), slow())
	const n = 1000
	x := tensor(t, []int64{n, n}, make([]float32, n*n))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	_, err := s.Run(ctx, []*ort.Tensor{x})
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("stopped after %v", d)
	}
	if _, err := s.Run(ctx, []*ort.Tensor{x}); !errors.Is(err, cause) {
		t.Errorf("already cancelled: got %v", err)
	}
	small := tensor(t, []int64{2, 2}, []float32{1, 0, 0, 1})
	live, stop := context.WithCancel(context.Background())
	defer stop()
	out, err := s.Run(live, []*ort.Tensor{small})
	if err != nil {
		t.Fatalf("the session does not run after a cancelled run: %v", err)
	}
	out[0].Close()
}

func TestConcurrentRuns(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", pb.TensorProto_FLOAT, -1, 8))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				n := int64(1 + (g+i)%17)
				data := make([]float32, n*8)
				for j := range data {
					data[j] = float32(g*1000 + i)
				}
				x, err := ort.NewTensor([]int64{n, 8}, data)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := s.Run(context.Background(), []*ort.Tensor{x})
				if err != nil {
					t.Error(err)
					return
				}
				for _, v := range out[0].Float32s() {
					if v != -float32(g*1000+i) {
						t.Errorf("goroutine %d: got %v", g, v)
						break
					}
				}
				out[0].Close()
				x.Close()
			}
		})
	}
	wg.Wait()
}

// TestUnclosed runs a model often with tensors that are never closed. Their collection by
// the garbage collector must not disturb the runs.
func TestUnclosed(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", pb.TensorProto_FLOAT, -1))
	for range 2000 {
		x, err := ort.NewTensor([]int64{1024}, make([]float32, 1024))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background(), []*ort.Tensor{x}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClosedSession(t *testing.T) {
	s := open(t, orttest.Open(t), unary("Neg", pb.TensorProto_FLOAT, -1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Run(context.Background(), []*ort.Tensor{tensor(t, []int64{1}, []float32{1})}); err == nil {
		t.Error("a closed session ran")
	}
}

func BenchmarkRunInto(b *testing.B) {
	s := open(b, orttest.Open(b), unary("Neg", pb.TensorProto_FLOAT, -1))
	x, y := tensor(b, []int64{1}, []float32{1}), tensor(b, []int64{1}, []float32{1})
	in, out := []*ort.Tensor{x}, []*ort.Tensor{y}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.RunInto(in, out); err != nil {
			b.Fatal(err)
		}
	}
}
