package featurize_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// tensors returns the tensor names of layers.
func tensors(layers []attach.Layer) []string {
	var names []string
	for _, l := range layers {
		names = append(names, l.Tensor)
	}
	return names
}

// TestLayersAgreeWithNumPy compares the values of earlier layers with values that NumPy
// computed.
func TestLayersAgreeWithNumPy(t *testing.T) {
	data, err := os.ReadFile("testdata/layers.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref map[string]struct {
		Shape   []int
		Tensors []string
		Layers  [][][]float32
	}
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	rt := runtime(t)
	for name, want := range ref {
		t.Run(name, func(t *testing.T) {
			path := "../testmodels/" + name + ".onnx"
			m := open(t, rt, path, featurize.Options{EarlierLayers: featurize.DefaultEarlierLayers, Batch: 2})
			if got := tensors(m.Info().Layers); !slices.Equal(got, want.Tensors) {
				t.Fatalf("reads %v, want %v", got, want.Tensors)
			}
			n := 1
			for _, d := range want.Shape {
				n *= d
			}
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(math.Sin(float64(i)))
			}
			b := runAll(t, m, want.Shape, x)
			for i, layer := range want.Layers {
				if got := b.Layers[i]; got.Cols != m.Info().Layers[i].Width || got.Rows != len(layer) {
					t.Errorf("layer %d is %d×%d, and said to be %d wide", i, got.Rows, got.Cols, m.Info().Layers[i].Width)
				}
				checkNear(t, want.Tensors[i], b.Layers[i].Data, slices.Concat(layer...), 1e-5)
			}
			// Layers that are named in reverse order must have the same values. Without
			// layers, the features must be the same.
			slices.Reverse(want.Tensors)
			named := runAll(t, open(t, rt, path, featurize.Options{Layers: want.Tensors}), want.Shape, x)
			slices.Reverse(named.Layers)
			bare := runAll(t, open(t, rt, path, featurize.Options{}), want.Shape, x)
			if bare.Layers != nil {
				t.Error("layers that nobody asked for")
			}
			for i := range b.Layers {
				checkNear(t, "named "+want.Tensors[i], named.Layers[i].Data, b.Layers[i].Data, 1e-6)
			}
			checkNear(t, "features", b.Features.Data, bare.Features.Data, 1e-6)
			checkNear(t, "logits", b.Logits.Data, bare.Logits.Data, 1e-6)
		})
	}
}

// TestLayersFound checks which earlier layers are chosen: inputs of linear layers after the
// first one, if the row axis comes first. Layers with positions are preferred.
func TestLayersFound(t *testing.T) {
	rt := runtime(t)
	tenths := func(n int) []float32 { return slices.Repeat([]float32{.1}, n) }
	conv := func(b *onnx.Builder, name, x string, from, to, kernel int64) string {
		y := b.Node("Conv", []string{x, b.Initializer(name, tenths(int(to*from*kernel*kernel)), to, from, kernel, kernel)},
			onnx.Attr("pads", []int64{kernel / 2, kernel / 2, kernel / 2, kernel / 2}))
		return b.Node("Relu", []string{y})
	}
	classify := func(b *onnx.Builder, x string, width int) {
		addOutput(b, b.Node("Gemm", []string{x, b.Initializer("W", tenths(width*c), int64(width), c)}))
	}
	pool := func(b *onnx.Builder, x string) string {
		return b.Node("Flatten", []string{b.Node("GlobalAveragePool", []string{x})})
	}
	for name, k := range map[string]struct {
		dims   []any
		widths []int
		build  func(b *onnx.Builder, x string)
	}{
		// The gate reads a single position. The node that only transposes the input is not
		// a layer.
		"squeeze and excitation": {dims: []any{"n", 6, 6, 2}, widths: []int{3, 5}, build: func(b *onnx.Builder, x string) {
			y := conv(b, "a", b.Node("Transpose", []string{x}, onnx.Attr("perm", []int64{0, 3, 1, 2})), 2, 3, 3)
			y = conv(b, "b", y, 3, 5, 3)
			gate := b.Node("Sigmoid", []string{conv(b, "g", b.Node("GlobalAveragePool", []string{y}), 5, 5, 1)})
			classify(b, pool(b, conv(b, "c", b.Node("Mul", []string{y, gate}), 5, 4, 1)), 4)
		}},
		// If two layers read the same tensor, as at the start of a residual block, the
		// tensor counts once.
		"branches": {dims: []any{"n", 2, 6, 6}, widths: []int{3}, build: func(b *onnx.Builder, x string) {
			y := conv(b, "a", x, 2, 3, 3)
			classify(b, pool(b, b.Node("Add", []string{conv(b, "b", y, 3, 4, 3), conv(b, "c", y, 3, 4, 1)})), 4)
		}},
		// The first layer is averaged over its tokens. The flattened layer is not used,
		// because its first axis is not the row axis.
		"tokens": {dims: []any{"n", 7, 3}, widths: []int{6}, build: func(b *onnx.Builder, x string) {
			y := b.Node("Relu", []string{b.Node("MatMul", []string{x, b.Initializer("a", tenths(18), 3, 6)})})
			y = b.Node("Relu", []string{b.Node("MatMul", []string{y, b.Initializer("b", tenths(30), 6, 5)})})
			flat := b.Node("Gemm", []string{b.Node("Reshape", []string{y, b.Const([]int64{-1, 5})}), b.Initializer("c", tenths(20), 5, 4)})
			classify(b, b.Node("ReduceMean", []string{b.Node("Reshape", []string{flat, b.Const([]int64{-1, 7, 4})})},
				onnx.Attr("axes", []int64{1}), onnx.Attr("keepdims", 0)), 4)
		}},
		// The tensor is read once, although the two layers that read it have their channels
		// in different axes.
		"two readings": {dims: []any{"n", 3, 4, 4}, widths: []int{4}, build: func(b *onnx.Builder, x string) {
			y := conv(b, "a", x, 3, 4, 3)
			last := b.Node("MatMul", []string{y, b.Initializer("m", tenths(16), 4, 4)})
			classify(b, pool(b, b.Node("Add", []string{conv(b, "b", y, 4, 4, 3), last})), 4)
		}},
		"wide and narrow": {dims: []any{"n", 3, 4, 4}, widths: []int{1024}, build: func(b *onnx.Builder, x string) {
			y := conv(b, "b", conv(b, "a", x, 3, 1025, 1), 1025, 1024, 1)
			classify(b, pool(b, conv(b, "c", y, 1024, 2, 1)), 2)
		}},
		"wide alone": {dims: []any{"n", 3, 4, 4}, widths: []int{1025}, build: func(b *onnx.Builder, x string) {
			classify(b, pool(b, conv(b, "b", conv(b, "a", x, 3, 1025, 1), 1025, 2, 1)), 2)
		}},
		"four layers": {dims: []any{"n", 3, 4, 4}, widths: []int{3, 4, 5}, build: func(b *onnx.Builder, x string) {
			y := conv(b, "c", conv(b, "b", conv(b, "a", x, 3, 2, 1), 2, 3, 1), 3, 4, 1)
			classify(b, pool(b, conv(b, "e", conv(b, "d", y, 4, 5, 1), 5, 6, 1)), 6)
		}},
		// Channels come last, because some exporters write pointwise convolutions as matrix
		// products.
		"channels last": {dims: []any{"n", 3, 5, 5}, widths: []int{4, 6}, build: func(b *onnx.Builder, x string) {
			y := b.Node("Transpose", []string{conv(b, "a", x, 3, 4, 3)}, onnx.Attr("perm", []int64{0, 2, 3, 1}))
			y = b.Node("Relu", []string{b.Node("MatMul", []string{y, b.Initializer("b", tenths(24), 4, 6)})})
			y = b.Node("Relu", []string{b.Node("MatMul", []string{y, b.Initializer("c", tenths(30), 6, 5)})})
			classify(b, b.Node("ReduceMean", []string{y}, onnx.Attr("axes", []int64{1, 2}), onnx.Attr("keepdims", 0)), 5)
		}},
		"vectors alone": {dims: []any{"n", 3}, widths: []int{4, 6}, build: func(b *onnx.Builder, x string) {
			y := b.Node("Relu", []string{b.Node("MatMul", []string{x, b.Initializer("a", tenths(12), 3, 4)})})
			y = b.Node("Relu", []string{b.Node("MatMul", []string{y, b.Initializer("b", tenths(24), 4, 6)})})
			y = b.Node("Relu", []string{b.Node("MatMul", []string{y, b.Initializer("c", tenths(30), 6, 5)})})
			classify(b, y, 5)
		}},
		"vectors behind positions": {dims: []any{"n", 2, 6, 6}, widths: []int{3}, build: func(b *onnx.Builder, x string) {
			y := b.Node("Flatten", []string{conv(b, "b", conv(b, "a", x, 2, 3, 3), 3, 3, 3)})
			y = b.Node("Relu", []string{b.Node("Gemm", []string{y, b.Initializer("c", tenths(108*5), 108, 5)})})
			classify(b, y, 5)
		}},
		"one layer": {dims: []any{"n", 3}, build: func(b *onnx.Builder, x string) { addOutput(b, gemm(b, phiOf(b, x))) }},
		"a fixed batch": {dims: []any{3, 2, 6, 6}, widths: []int{3}, build: func(b *onnx.Builder, x string) {
			classifyFixed := b.Node("Gemm", []string{pool(b, conv(b, "b", conv(b, "a", x, 2, 3, 3), 3, 4, 3)), b.Initializer("W", tenths(8), 4, c)})
			addOutput(b, classifyFixed, 3, c)
		}},
		"inputs of any size": {dims: []any{"n", 3, "height", "width"}, widths: []int{4}, build: func(b *onnx.Builder, x string) {
			classify(b, pool(b, conv(b, "b", conv(b, "a", x, 3, 4, 3), 4, 5, 3)), 5)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := tiny(t, 13, k.build, k.dims...)
			m := open(t, rt, path, featurize.Options{EarlierLayers: 3})
			var widths []int
			for _, l := range m.Info().Layers {
				widths = append(widths, l.Width)
			}
			if !slices.Equal(widths, k.widths) {
				t.Errorf("layers %v, want widths %v", m.Info().Layers, k.widths)
			}
			named := open(t, rt, path, featurize.Options{Layers: tensors(m.Info().Layers)})
			if !slices.Equal(named.Info().Layers, m.Info().Layers) {
				t.Errorf("by name %v, found %v", named.Info().Layers, m.Info().Layers)
			}
		})
	}
}

// TestQuantisedLayers checks that layers of 8-bit integers are read as the real numbers
// that they represent.
func TestQuantisedLayers(t *testing.T) {
	rt := runtime(t)
	const scale, zero = float32(.25), 2
	path := tiny(t, 13, func(b *onnx.Builder, x string) {
		s, z, one := b.Const(scale), bytesOf(b, pb.TensorProto_UINT8, []byte{zero}), b.Const(float32(1))
		zeroInt := bytesOf(b, pb.TensorProto_INT8, []byte{0})
		identityConv := func(y string) string {
			w := bytesOf(b, pb.TensorProto_INT8, []byte{1, 0, 0, 1}, 2, 2, 1, 1)
			return b.Node("QLinearConv", []string{y, s, z, w, one, zeroInt, s, z})
		}
		y := identityConv(identityConv(b.Node("QuantizeLinear", []string{x, s, z})))
		y = b.Node("Flatten", []string{b.Node("GlobalAveragePool", []string{b.Node("DequantizeLinear", []string{y, s, z})})})
		addOutput(b, b.Node("Gemm", []string{y, b.Initializer("W", []float32{1, 2, 3, 4}, 2, 2)}))
	}, "n", 2, 1, 2)
	for _, o := range []featurize.Options{{EarlierLayers: 1}, {}} {
		if o.EarlierLayers == 0 {
			o.Layers = tensors(open(t, rt, path, featurize.Options{EarlierLayers: 1}).Info().Layers)
		}
		b := runAll(t, open(t, rt, path, o), []int{1, 2, 1, 2}, []float32{1, 1.5, -.25, .75})
		checkNear(t, "the layer", b.Layers[0].Data, []float32{1.25, .25}, 1e-6)
	}
}

// TestHowManyLayers checks how many layers are read: as many as requested, or all if there
// are fewer. Each layer is read once.
func TestHowManyLayers(t *testing.T) {
	rt := runtime(t)
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 4: 4, 5: 5, 6: 5, math.MaxInt: 5} {
		m := open(t, rt, "../testmodels/digits_vgg.onnx", featurize.Options{EarlierLayers: n})
		names := tensors(m.Info().Layers)
		if len(names) != want || len(slices.Compact(slices.Sorted(slices.Values(names)))) != want {
			t.Errorf("asked for %d: %v, want %d", n, names, want)
		}
	}
}

// TestLayersRefused checks the errors for a missing layer and for a layer that overflows.
func TestLayersRefused(t *testing.T) {
	rt := runtime(t)
	path := tiny(t, 13, func(b *onnx.Builder, x string) { addOutput(b, gemm(b, phiOf(b, x))) }, "n", 3)
	_, err := openErr(rt, path, featurize.Options{Layers: []string{"nowhere"}})
	if err == nil || !strings.Contains(err.Error(), `no tensor "nowhere" to use as an earlier layer`) {
		t.Errorf("a tensor that is not there: %v", err)
	}
	// A row with an overflow in a layer must not get a finite score.
	path = tiny(t, 13, func(b *onnx.Builder, x string) {
		y := b.Node("Mul", []string{b.Node("MatMul", []string{x, b.Initializer("big", slices.Repeat([]float32{3e38}, 12), 3, 4)}), b.Const(float32(2))})
		y = b.Node("Tanh", []string{b.Node("MatMul", []string{y, b.Initializer("a", slices.Repeat([]float32{1}, 16), 4, 4)})})
		addOutput(b, gemm(b, y))
	}, "n", 3)
	m, err := openErr(rt, path, featurize.Options{EarlierLayers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = m.All(context.Background(), featurize.Single(ood.BlockOf([]int{2, 3}, []float32{0, 0, 0, 1, 1, 1})), 2, nil)
	var layer *batchparts.LayerError
	if !errors.As(err, &layer) || !strings.Contains(err.Error(), "layer") || !strings.Contains(err.Error(), "row 1") {
		t.Errorf("an infinite layer: %v", err)
	}
}
