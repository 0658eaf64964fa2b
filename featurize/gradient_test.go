package featurize_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// scalarOf computes the scalar s of one row of logits z in double precision. top is the
// class with the largest logit.
func scalarOf(z []float64, s ood.Scalar, top int) float64 {
	t := s.Temperature
	if t == 0 {
		t = 1
	}
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(v / t)
	}
	p := func(i int) float64 {
		if s.Softmax {
			return math.Exp(z[i]/t) / sum
		}
		return z[i]
	}
	switch {
	case s.Sum:
		total := 0.0
		for i := range z {
			total += z[i]
		}
		return total
	case s.Top:
		return z[top]
	case s.TopTwo:
		second := 1 - top // there are two classes
		return p(top) - p(second)
	case s.Logit:
		return p(s.Index)
	}
	return z[top]/t - math.Log(sum)
}

// forward computes the logits of the tiny model for one row in double precision.
func forward(x []float64) (z []float64) {
	z = make([]float64, c)
	for i := range c {
		z[i] = float64(headB[i])
		for j := range h {
			phi := 0.0
			for k := range 3 {
				phi += x[k] * float64(trunk[k*h+j])
			}
			z[i] += max(phi, 0) * float64(headW[i*h+j])
		}
	}
	return z
}

// gradientOf computes the gradient of the scalar s by central differences.
func gradientOf(x []float32, s ood.Scalar) []float32 {
	const step = 1e-6
	var g []float32
	for ; len(x) > 0; x = x[3:] {
		row := []float64{float64(x[0]), float64(x[1]), float64(x[2])}
		z := forward(row)
		top := 0
		if z[1] > z[0] {
			top = 1
		}
		for k := range row {
			at := row[k]
			row[k] = at + step
			up := scalarOf(forward(row), s, top)
			row[k] = at - step
			down := scalarOf(forward(row), s, top)
			row[k] = at
			g = append(g, float32((up-down)/(2*step)))
		}
	}
	return g
}

// gradients returns the gradients of all rows in one batch.
func gradients(t testing.TB, m *featurize.Model, shape []int, x []float32, o featurize.GradientOptions) featurize.GradientBatch {
	t.Helper()
	var all featurize.GradientBatch
	for b, err := range m.Gradients(context.Background(), featurize.Single(ood.BlockOf(shape, x)), o) {
		if err != nil {
			t.Fatal(err)
		}
		all.Logits.Data = append(all.Logits.Data, b.Logits.Data...)
		all.Features.Data = append(all.Features.Data, b.Features.Data...)
		all.Gradient.Data = append(all.Gradient.Data, b.Gradient.Data...)
		if all.Gradient.Shape == nil {
			all.Gradient.Shape = b.Gradient.Shape
			continue
		}
		all.Gradient.Shape[0] += b.Gradient.Shape[0]
	}
	return all
}

// TestGradients checks that the gradient of each scalar equals central differences, for
// several operator sets from 9 to 21.
func TestGradients(t *testing.T) {
	rt := runtime(t)
	x := noise(3 * 7)
	for _, opset := range []int64{9, 13, 17, 21} {
		path := tiny(t, opset, func(b *onnx.Builder, x string) {
			addOutput(b, b.Node("Softmax", []string{gemm(b, phiOf(b, x))}, onnx.Attr("axis", 1)))
		}, "n", 3)
		m := open(t, rt, path, featurize.Options{Batch: 4})
		for _, s := range []ood.Scalar{
			{}, {Temperature: 10}, {Sum: true}, {TopTwo: true}, {TopTwo: true, Softmax: true, Temperature: 2},
			{Logit: true}, {Logit: true, Index: 1}, {Logit: true, Index: 1, Softmax: true}, {Top: true},
		} {
			got := gradients(t, m, []int{7, 3}, x, featurize.GradientOptions{Of: s})
			if len(got.Gradient.Shape) != 2 || got.Gradient.Shape[0] != 7 || got.Gradient.Shape[1] != 3 {
				t.Fatalf("opset %d, %+v: shape %v", opset, s, got.Gradient.Shape)
			}
			checkNear(t, "the gradient", got.Gradient.Data, gradientOf(x, s), 1e-5)
			checkNear(t, "φ", got.Features.Data, trunkOf(x), 1e-6)
			checkNear(t, "logits", got.Logits.Data, affine(trunkOf(x), headW, headB, h), 1e-6)
		}
		got := gradients(t, m, []int{7, 3}, x, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 1}, Tensor: m.Info().Feature.Tensor})
		for i := range 7 {
			checkNear(t, "the gradient with respect to φ", got.Gradient.Data[i*h:(i+1)*h], headW[h:], 1e-6)
		}
	}
}

// TestGradientConfident checks that the gradient keeps its digits if it is tiny because the
// model is confident.
func TestGradientConfident(t *testing.T) {
	rt := runtime(t)
	m := open(t, rt, tiny(t, 13, func(b *onnx.Builder, x string) { addOutput(b, gemm(b, phiOf(b, x))) }, "n", 3), featurize.Options{})
	x := []float32{4, 8, 36}
	got := gradients(t, m, []int{1, 3}, x, featurize.GradientOptions{})
	z := forward([]float64{4, 8, 36})
	rest := 1 / (1 + math.Exp(math.Abs(z[1]-z[0]))) // 1 − p, where p is the probability of the top class
	want := gradientOf(x, ood.Scalar{TopTwo: true}) // gradient of the difference between the two logits
	for i := range want {
		want[i] *= float32(rest)
	}
	if rest > 1e-8 {
		t.Fatalf("the top class has probability 1 − %v, which is not sure", rest)
	}
	checkNear(t, "the gradient", got.Gradient.Data, want, 1e-4)
}

// TestGradientConfidentSoftmax checks that gradients of probabilities and of their differences
// keep their digits if the model is confident. Each number must have a small relative
// error.
func TestGradientConfidentSoftmax(t *testing.T) {
	rt := runtime(t)
	const classes = 4
	z := []float32{
		0, 25, -10, 3,
		40, 0, 20, -5,
		-30, -2, 0, -31,
		12, 11.5, -9, 3,
		1, 2, 3, 3.5,
	}
	identity := make([]float32, classes*classes)
	for i := range classes {
		identity[i*classes+i] = 1
	}
	for _, opset := range []int64{9, 17} {
		m := open(t, rt, tiny(t, opset, func(b *onnx.Builder, x string) {
			addOutput(b, b.Node("MatMul", []string{x, b.Initializer("W", identity, classes, classes)}), "n", classes)
		}, "n", classes), featurize.Options{})
		for _, s := range []ood.Scalar{
			{TopTwo: true, Softmax: true}, {TopTwo: true, Softmax: true, Temperature: 2},
			{Logit: true, Softmax: true}, {Logit: true, Index: 1, Softmax: true}, {Logit: true, Index: 2, Softmax: true},
			{Sum: true, Softmax: true},
		} {
			got := gradients(t, m, []int{len(z) / classes, classes}, z, featurize.GradientOptions{Of: s})
			for i, v := range got.Gradient.Data {
				want := softmaxGradient(z[i/classes*classes:][:classes], s)[i%classes]
				if math.Abs(float64(v)-want) > 1e-5*math.Abs(want) {
					t.Errorf("opset %d, %+v: entry %d of row %d is %v, not %v", opset, s, i%classes, i/classes, v, want)
				}
			}
		}
	}
}

// softmaxGradient computes the gradient of v·p with respect to the logits z, where p =
// softmax(z/T) and v is given by the scalar s. It uses double precision and only
// differences of logits:
// ∂(v·p)/∂z_i = p_i Σ_k p_k (v_i − v_k)/T.
func softmaxGradient(z []float32, s ood.Scalar) []float64 {
	temperature := max(s.Temperature, 1)
	v := make([]float64, len(z))
	switch {
	case s.TopTwo:
		order := []int{0, 1, 2, 3}
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(z[j], z[i]) })
		v[order[0]], v[order[1]] = 1, -1
	case s.Logit:
		v[s.Index] = 1
	case s.Sum:
		for i := range v {
			v[i] = 1
		}
	}
	p := make([]float64, len(z))
	for i := range p {
		sum := 0.0
		for k := range z {
			sum += math.Exp(float64(z[k]-z[i]) / temperature)
		}
		p[i] = 1 / sum
	}
	g := make([]float64, len(z))
	for i := range g {
		for k := range p {
			g[i] += p[i] * p[k] * (v[i] - v[k]) / temperature
		}
	}
	return g
}

// TestGradientFormats checks that inputs of several element types, and a fixed batch, give
// the same gradient.
func TestGradientFormats(t *testing.T) {
	rt := runtime(t)
	for _, k := range []struct {
		elem  pb.TensorProto_DataType
		batch any
		tol   float64
	}{
		{float, 4, 1e-5}, {pb.TensorProto_DOUBLE, "n", 1e-5}, {pb.TensorProto_FLOAT16, "n", 5e-3},
		{pb.TensorProto_UINT8, "n", 1e-5}, {pb.TensorProto_INT64, "n", 1e-5},
	} {
		for _, opset := range []int64{9, 17} {
			b := onnx.NewBuilder("tiny", opset)
			in := b.Input("x", k.elem, k.batch, 3)
			inner := float
			as := func(name string) string { return name }
			switch k.elem {
			case pb.TensorProto_UINT8, pb.TensorProto_INT64:
				in = b.Node("Cast", []string{in}, onnx.Attr("to", float))
			case pb.TensorProto_DOUBLE, pb.TensorProto_FLOAT16:
				inner = k.elem
				as = func(name string) string { return b.Node("Cast", []string{name}, onnx.Attr("to", k.elem)) }
			}
			phi := b.Node("Relu", []string{b.Node("MatMul", []string{in, as(b.Initializer("trunk", trunk, 3, h))})})
			y := b.Node("Add", []string{b.Node("MatMul", []string{phi, as(b.Initializer("W", headWT, h, c))}), as(b.Initializer("b", headB))})
			b.Output(y, inner, k.batch, c)
			model, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			m := open(t, rt, save(t, model), featurize.Options{})
			x := []float32{1, 2, 3, 2, 1, 0, 3, 1, 1, 0, 0, 2, 1, 4, 0}
			got := gradients(t, m, []int{5, 3}, x, featurize.GradientOptions{Of: ood.Scalar{Temperature: 4}})
			checkNear(t, k.elem.String(), got.Gradient.Data, gradientOf(x, ood.Scalar{Temperature: 4}), k.tol)
		}
	}
}

// gradientError returns the first error of Gradients, or nil.
func gradientError(m *featurize.Model, shape []int, x []float32, o featurize.GradientOptions) error {
	for _, err := range m.Gradients(context.Background(), featurize.Single(ood.BlockOf(shape, x)), o) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestGradientUnknownWidth checks models whose number of outputs is unknown until they run.
// A scalar that such a model does not have must give an error, not a gradient of zeros.
func TestGradientUnknownWidth(t *testing.T) {
	rt := runtime(t)
	for _, opset := range []int64{9, 17} {
		unknown := func(width int) *featurize.Model {
			m := open(t, rt, tiny(t, opset, func(b *onnx.Builder, x string) {
				// The reshape needs five tokens, and probe does not try this sequence
				// length.
				y := b.Node("Tanh", []string{b.Node("Reshape", []string{x, b.Const([]int64{0, 15})})})
				if width == 1 {
					y = b.Node("ReduceMean", []string{y}, onnx.Attr("axes", []int64{1}), onnx.Attr("keepdims", 1))
				}
				addOutput(b, y, "n", width)
			}, "n", "tokens", 3), featurize.Options{Feature: "x"})
			if w := m.Info().OutputsWidth; w != 0 {
				t.Fatalf("the model is known to have %d outputs", w)
			}
			return m
		}
		x := noise(2 * 5 * 3)
		for _, k := range []struct {
			width int
			o     featurize.GradientOptions
			want  string
		}{
			{15, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 15}}, "there is no output 15, the network has 15"},
			{15, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 14}}, ""},
			{15, featurize.GradientOptions{}, ""},
			{1, featurize.GradientOptions{}, "the network has one output"},
			{1, featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 1}}, "there is no output 1"},
			{1, featurize.GradientOptions{Of: ood.Scalar{Logit: true}}, ""},
		} {
			err := gradientError(unknown(k.width), []int{2, 5, 3}, x, k.o)
			var scalar *autodiff.TensorError
			if k.want == "" && err != nil || k.want != "" && (!errors.As(err, &scalar) || scalar.Tensor != "" || !strings.Contains(err.Error(), k.want)) {
				t.Errorf("opset %d, %d outputs, %+v: error %v, want %q", opset, k.width, k.o.Of, err, k.want)
			}
		}
	}
}

// TestGradientConstant checks that Gradients rejects a tensor that is the same for every
// row, even if its first axis has the same size as the batch.
func TestGradientConstant(t *testing.T) {
	rt := runtime(t)
	for _, opset := range []int64{9, 17} {
		m := open(t, rt, tiny(t, opset, func(b *onnx.Builder, x string) {
			scale := b.Initializer("scale", []float32{1, 2, 3, 4, 5, 6}, 2, 3)
			table := onnx.Attr("value", onnx.Tensor([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
			b.Append(onnx.Node{Op: "Constant", Outputs: []string{"constant"}, Attrs: []*pb.AttributeProto{table}})
			b.Append(onnx.Node{Op: "Add", Inputs: []string{scale, "constant"}, Outputs: []string{"sum"}})
			rows := b.Node("Mul", []string{x, "sum"})
			addOutput(b, gemm(b, phiOf(b, rows)), 2, c)
		}, 2, 3), featurize.Options{})
		for tensor, want := range map[string]string{
			"constant": "does not depend on the model's input",
			"scale":    "does not depend on the model's input",
			"sum":      "does not depend on the model's input",
			"nothing":  "not made from a tensor of that name",
		} {
			err := gradientError(m, []int{2, 3}, noise(6), featurize.GradientOptions{Tensor: tensor})
			var refused *autodiff.TensorError
			if !errors.As(err, &refused) || refused.Tensor != tensor || !strings.Contains(err.Error(), want) {
				t.Errorf("opset %d, tensor %q: error %v, want %q", opset, tensor, err, want)
			}
		}
		for _, tensor := range []string{"x", m.Info().Feature.Tensor} {
			if err := gradientError(m, []int{2, 3}, noise(6), featurize.GradientOptions{Tensor: tensor}); err != nil {
				t.Errorf("opset %d, tensor %q: %v", opset, tensor, err)
			}
		}
	}
}

// TestDigitsGradients compares gradients with PyTorch's autograd in double precision, which
// testdata/gradients.py recorded. Blocks are larger than a batch, and several goroutines
// run at once.
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
				checkNear(t, name+"'s gradient, "+key, got.Data, want, 1e-5)
				plain, err := n.Forward(context.Background(), block)
				if err != nil {
					t.Error(err)
					return
				}
				checkNear(t, "φ", b.Features.Data, plain.Features.Data, 1e-5)
				checkNear(t, "logits", b.Logits.Data, plain.Logits.Data, 1e-5)
			})
		}
		wait.Wait()
	}
}

// TestGradientExternal checks that external weights are found, even if the model has an old
// operator set.
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
	file := save(t, toOldOpset(t, g.Model, 9))
	weights, err := os.ReadFile(filepath.Join("..", "testmodels", "odd", "external.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "external.bin"), weights, 0o600); err != nil {
		t.Fatal(err)
	}
	got := gradients(t, open(t, rt, file, featurize.Options{}), []int{5, 6}, x, featurize.GradientOptions{})
	checkNear(t, "the gradient", got.Gradient.Data, want.Gradient.Data, 1e-6)
}

// TestNotDifferentiable checks that the error for an operator without a gradient names the
// operator and its node.
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
			addOutput(b, gemm(b, phiOf(b, y)))
		},
		"Det": func(b *onnx.Builder, x string) {
			square := b.Node("MatMul", []string{b.Node("Unsqueeze", []string{x, b.Const([]int64{2})}), b.Node("Unsqueeze", []string{x, b.Const([]int64{1})})})
			d := b.Append(onnx.Node{Op: "Det", Name: "chooser", Inputs: []string{square}})[0]
			addOutput(b, gemm(b, phiOf(b, b.Node("Add", []string{x, b.Node("Unsqueeze", []string{d, b.Const([]int64{1})})}))))
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
		// Gradients with respect to a tensor after that node must still work.
		gradients(t, m, []int{2, 3}, noise(6), featurize.GradientOptions{Tensor: m.Info().Feature.Tensor})
	}
}

// TestGradientErrors checks the errors for invalid options, invalid rows and a cancelled
// context.
func TestGradientErrors(t *testing.T) {
	rt := runtime(t)
	m := open(t, rt, tiny(t, 13, func(b *onnx.Builder, x string) { addOutput(b, gemm(b, phiOf(b, x))) }, "n", 3), featurize.Options{})
	firstError := func(ctx context.Context, x []float32, o featurize.GradientOptions) error {
		for _, err := range m.Gradients(ctx, featurize.Single(ood.BlockOf([]int{2, 3}, x)), o) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := firstError(cancelled, noise(6), featurize.GradientOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
	bad := noise(6)
	bad[4] = float32(math.NaN())
	for want, err := range map[string]error{
		"no output 2":          firstError(context.Background(), noise(6), featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 2}}),
		"temperature":          firstError(context.Background(), noise(6), featurize.GradientOptions{Of: ood.Scalar{Temperature: -1}}),
		`"nothing"`:            firstError(context.Background(), noise(6), featurize.GradientOptions{Tensor: "nothing"}),
		"row 1":                firstError(context.Background(), bad, featurize.GradientOptions{}),
		"one scalar at a time": firstError(context.Background(), noise(6), featurize.GradientOptions{Of: ood.Scalar{Sum: true, Top: true}}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
