package featurize_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// TestDigitsGradients compares with PyTorch's autograd in double precision,
// which testdata/gradients.py wrote, for blocks larger than a batch, from
// several goroutines at once.
func TestDigitsGradients(t *testing.T) {
	rt := runtime(t)
	reference := filepath.Join("testdata", "digits_gradients")
	shape, x := entry(t, reference, "x")
	for name, dropouts := range map[string]int{"resnet": 0, "vgg": 2} {
		m := open(t, rt, filepath.Join("..", "testmodels", "digits_"+name+".onnx"), featurize.Options{Batch: 3})
		n := m.Network()
		if n.Dropouts() != dropouts {
			t.Errorf("%s: %d dropout layers, want %d", name, n.Dropouts(), dropouts)
		}
		var wait sync.WaitGroup
		for key, of := range map[string]ood.Scalar{
			"top": {}, "warm": {Temperature: 1000}, "sum": {Sum: true}, "two": {TopTwo: true},
		} {
			_, want := entry(t, reference, name+"_"+key)
			wait.Go(func() {
				block := ood.BlockOf(shape, x)
				b, got, err := n.Gradient(context.Background(), block, of)
				if err != nil {
					t.Error(err)
					return
				}
				near(t, name+"'s gradient, "+key, got.Data, want, 1e-5)
				plain, err := n.Forward(context.Background(), block)
				if err != nil {
					t.Error(err)
					return
				}
				near(t, "φ", b.Features.Data, plain.Features.Data, 1e-5)
				near(t, "logits", b.Logits.Data, plain.Logits.Data, 1e-5)
			})
		}
		wait.Wait()
	}
}

// Weights beside the model are found, also where it is of an old operator set.
func TestGradientExternal(t *testing.T) {
	rt := runtime(t)
	path := filepath.Join("..", "testmodels", "odd", "external.onnx")
	m := open(t, rt, path, featurize.Options{})
	x := noise(5 * 6)
	want := gradients(t, m, []int{5, 6}, x, featurize.GradientOptions{})
	g, err := onnx.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	file := save(t, older(t, g.Model, 9))
	weights, err := os.ReadFile(filepath.Join("..", "testmodels", "odd", "external.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "external.bin"), weights, 0o600); err != nil {
		t.Fatal(err)
	}
	got := gradients(t, open(t, rt, file, featurize.Options{}), []int{5, 6}, x, featurize.GradientOptions{})
	near(t, "the gradient", got.Gradient.Data, want.Gradient.Data, 1e-6)
}

// What cannot be differentiated is an error that names the operator and its
// node, and what to do.
func TestNotDifferentiable(t *testing.T) {
	rt := runtime(t)
	branch := func(name string) *pb.GraphProto {
		b := onnx.NewBuilder(name, 13)
		b.Output(b.Append(onnx.Node{Op: "Exp", Inputs: []string{"x"}, Outputs: []string{name + "/y"}})[0], float, "n", 3)
		return b.Graph()
	}
	for name, build := range map[string]func(b *onnx.Builder, x string){
		"If": func(b *onnx.Builder, x string) {
			total := b.Node("ReduceSum", []string{x}, onnx.Attr("keepdims", 0))
			y := b.Append(onnx.Node{Op: "If", Name: "chooser", Inputs: []string{b.Node("Greater", []string{total, b.Const(float32(0))})}, Attrs: []*pb.AttributeProto{
				onnx.Attr("then_branch", branch("then")), onnx.Attr("else_branch", branch("else")),
			}})[0]
			out(b, gemm(b, phiOf(b, y)))
		},
		"Det": func(b *onnx.Builder, x string) {
			square := b.Node("MatMul", []string{b.Node("Unsqueeze", []string{x, b.Const([]int64{2})}), b.Node("Unsqueeze", []string{x, b.Const([]int64{1})})})
			d := b.Append(onnx.Node{Op: "Det", Name: "chooser", Inputs: []string{square}})[0]
			out(b, gemm(b, phiOf(b, b.Node("Add", []string{x, b.Node("Unsqueeze", []string{d, b.Const([]int64{1})})}))))
		},
	} {
		m := open(t, rt, tiny(t, 13, build, "n", 3), featurize.Options{})
		_, _, err := m.Network().Gradient(context.Background(), ood.BlockOf([]int{2, 3}, noise(6)), ood.Scalar{})
		if !errors.Is(err, ood.ErrNotDifferentiable) {
			t.Errorf("%s: error %v, want ErrNotDifferentiable", name, err)
			continue
		}
		for _, word := range []string{name, "chooser"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: error %q does not say %q", name, err, word)
			}
		}
		// What lies behind the node is differentiated all the same.
		gradients(t, m, []int{2, 3}, noise(6), featurize.GradientOptions{Tensor: m.Info().Feature.Tensor})
	}
}

func TestGradientErrors(t *testing.T) {
	rt := runtime(t)
	m := open(t, rt, tiny(t, 13, func(b *onnx.Builder, x string) { out(b, gemm(b, phiOf(b, x))) }, "n", 3), featurize.Options{})
	first := func(ctx context.Context, x []float32, o featurize.GradientOptions) error {
		for _, err := range m.Gradients(ctx, featurize.Single(ood.BlockOf([]int{2, 3}, x)), o) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := first(cancelled, noise(6), featurize.GradientOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
	bad := noise(6)
	bad[4] = float32(math.NaN())
	for want, err := range map[string]error{
		"no output 2":   first(context.Background(), noise(6), featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 2}}),
		"temperature":   first(context.Background(), noise(6), featurize.GradientOptions{Of: ood.Scalar{Temperature: -1}}),
		`"nothing"`:     first(context.Background(), noise(6), featurize.GradientOptions{Tensor: "nothing"}),
		"row 1":         first(context.Background(), bad, featurize.GradientOptions{}),
		"one at a time": first(context.Background(), noise(6), featurize.GradientOptions{Of: ood.Scalar{Sum: true, Top: true}}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
