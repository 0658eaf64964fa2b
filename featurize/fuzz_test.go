package featurize

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// FuzzFind checks that the steps of Open that need no ONNX Runtime do not panic on hostile
// graphs. Finding no layer is allowed.
func FuzzFind(f *testing.F) {
	seeds := 0
	add := func(build func(b *onnx.Builder, x string) string) {
		b := onnx.NewBuilder("seed", 13)
		y := build(b, b.Input("x", pb.TensorProto_FLOAT, "n", 2))
		b.Output(y, pb.TensorProto_FLOAT, "n", 2)
		m, err := b.Model()
		if err != nil {
			f.Fatal(err)
		}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		seeds++
	}
	w := []float32{1, 2, 3, 4}
	add(func(b *onnx.Builder, x string) string {
		return b.Node("Softmax", []string{b.Node("Gemm", []string{x, b.Const(w, 2, 2), b.Const([]float32{1, 2})})})
	})
	add(func(b *onnx.Builder, x string) string {
		d := b.NodeN(3, "DynamicQuantizeLinear", []string{x})
		y := b.Node("Cast", []string{b.Node("MatMulInteger", []string{d[0], b.Const(w, 2, 2), d[2]})}, onnx.Attr("to", 1))
		return b.Node("Mul", []string{y, b.Node("Mul", []string{d[1], b.Const(float32(2))})})
	})
	add(func(b *onnx.Builder, x string) string {
		return b.Node("ReduceMean", []string{b.Node("BatchNormalization", []string{b.Node("Conv", []string{x, b.Const(w, 2, 2, 1, 1)}), x, x, x, x})})
	})
	add(func(b *onnx.Builder, x string) string {
		return b.Node("DequantizeLinear", []string{b.Node("QLinearMatMul", []string{x, x, x, x, x, x, x, x}), b.Const(float32(1))})
	})
	for _, path := range []string{"logistic", "linear", "xgboost"} {
		data, err := os.ReadFile("../testmodels/tables/" + path + ".onnx")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := onnx.Parse(data)
		if err != nil {
			return
		}
		if g, err = lower(g); err != nil {
			return
		}
		in, err := findInputs(g, "")
		if err != nil {
			return
		}
		k := newConstants(g, "", nil)
		for _, v := range g.Outputs() {
			p, err := findLastLayer(k, v.GetName())
			if err != nil {
				continue
			}
			edited := exposeViews(g, in, []view{p.feature, {tensor: p.logits}}, []string{featuresName, logitsName})
			if _, err := proto.Marshal(edited); err != nil {
				t.Fatal(err)
			}
			pickEvenly(modelBuilder{constants: k, inputs: in}.layersBefore(p.feature.tensor), maxProbed)
			_, _ = findDropLayers(g, "", p.logits) // an error is allowed
		}
		in.trialShapes(g)
		_, _ = in.match(ood.BlockOf([]int{2, 2}, make([]float32, 4)), 0)
	})
}

// FuzzFeed checks that each row is fed exactly once, completely and unchanged, for random
// ways to divide, group and pad rows. Rows that do not fit may give an error instead.
func FuzzFeed(f *testing.F) {
	f.Add([]byte{1, 2, 9, 1, 0, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{2, 1, 1, 7, 9, 1, 0, 5, 3, 40, 3, 7, 40, 1, 2, 3, 4, 5, 6})
	f.Add([]byte{3, 4, 2, 1, 0, 8, 1, 9, 3, 2, 2, 2, 1, 3, 3, 3, 5, 200, 100, 33, 34})
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b)
		}
		m := &Model{batchSize: 1 + next()%5, canPad: next()%2 == 0, maxPositions: next() % 2 * 50}
		for i, name := range []string{"ids", "attention_mask", "s"}[:1+next()%3] {
			in := input{name: name, elemType: []int32{7, 9, 8, 1}[(i+next())%4], dims: []int{-1, []int{-1, -1, 4, 48}[next()%4], 2}[:1+next()%3]}
			in.axes = []string{"", []string{"", "length"}[next()%2], ""}[:len(in.dims)]
			if next()%4 == 0 {
				in.dims = nil
			}
			if next()%4 == 0 {
				in.defaultValue.Shape = []int{1}
			}
			m.inputs = append(m.inputs, in)
		}
		m.fixedBatch = next()%4 == 0
		var blocks []ood.InputBlock
		for range 1 + next()%3 {
			n := next() % 6
			lengths := make([]int, n)
			for i := range lengths {
				lengths[i] = next() % 50
			}
			var b ood.InputBlock
			for _, in := range m.inputs {
				shape := []int{n, next() % 5, next() % 3}[:1+next()%3]
				x := ood.Tensor{Name: in.name, Shape: shape}
				if len(shape) > 1 && next()%2 == 0 && n > 0 {
					shape[1], x.Lengths = slices.Max(lengths), lengths
				}
				size := product(shape)
				if x.Lengths != nil {
					size = 0
					for _, own := range lengths {
						size += own * product(shape[2:])
					}
				}
				for i := range size {
					if in.takesText() {
						x.Strings = append(x.Strings, strconv.Itoa(i))
					} else {
						x.Data = append(x.Data, float32(i%2))
					}
				}
				if next()%8 > 0 {
					b.Tensors = append(b.Tensors, x)
				}
			}
			blocks = append(blocks, b)
		}
		feed := newFeeder(m, m.batchSize, m.maxPositions)
		go feed.feed(context.Background(), func(yield func(ood.InputBlock, error) bool) {
			for _, b := range blocks {
				if !yield(b, nil) {
					return
				}
			}
		})
		var all ood.InputBlock // only Start is used: the number of rows so far
		rows := map[int]ood.InputBlock{}
		for _, b := range blocks {
			for i := range b.Len() {
				rows[all.Start] = b
				if b.Check() == nil {
					rows[all.Start] = b.Slice(i, i+1)
				}
				all.Start++
			}
		}
		for c := range feed.filled {
			if c.err != nil {
				return
			}
			for i := range c.n {
				want, ok := rows[c.row(i)]
				if !ok {
					t.Fatalf("row %d comes twice or is none", c.row(i))
				}
				delete(rows, c.row(i))
				for k, x := range c.tensors {
					from := m.inputs.tensorFor(want.Tensors, m.inputs[k])
					if from == nil {
						if x.Shape != nil {
							t.Fatalf("%q is fed, and does not come", m.inputs[k].name)
						}
						continue
					}
					if len(x.Data)+len(x.Strings) != product(x.Shape) || x.Shape[0] != c.rows {
						t.Fatalf("shape %v of %d", x.Shape, len(x.Data)+len(x.Strings))
					}
					width := product(x.Shape[1:])
					own := len(from.Data) + len(from.Strings)
					if len(from.Strings) > 0 && !slices.Equal(x.Strings[i*width:i*width+own], from.Strings) || len(from.Data) > 0 && !slices.Equal(x.Data[i*width:i*width+own], from.Data) {
						t.Fatalf("row %d is %v, want %v", c.row(i), x, from)
					}
				}
			}
			feed.buffers <- c.tensors
		}
		if len(rows) > 0 {
			t.Fatalf("%d rows are not fed", len(rows))
		}
	})
}
