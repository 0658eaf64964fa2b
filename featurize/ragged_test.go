package featurize_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

const vocabulary = 11

var embedding = noise(vocabulary * 3)

// tokenModel builds a model of token ids. The input of its trunk is the mean of the embeddings
// over the mask, or over all tokens if the model has no mask.
func tokenModel(t testing.TB, masked bool, length any) string {
	b := onnx.NewBuilder("reader", 13)
	ids := b.Input("input_ids", pb.TensorProto_INT64, "batch", length)
	x := b.Node("Gather", []string{b.Initializer("embedding", embedding, vocabulary, 3), ids})
	axis := b.Const([]int64{1})
	var mean string
	if masked {
		mask := b.Node("Cast", []string{b.Input("attention_mask", pb.TensorProto_INT64, "batch", length)}, onnx.Attr("to", float))
		expanded := b.Node("Unsqueeze", []string{mask, b.Const([]int64{2})})
		x = b.Append(onnx.Node{Op: "Mul", Inputs: []string{x, b.Const(float32(1))}, Outputs: []string{b.UniqueName("embedded")}})[0]
		transposed := b.Append(onnx.Node{Op: "Transpose", Inputs: []string{x}, Outputs: []string{b.UniqueName("turned")}, Attrs: []*pb.AttributeProto{onnx.Attr("perm", []int64{0, 2, 1})}})[0]
		x = b.Node("Transpose", []string{transposed}, onnx.Attr("perm", []int64{0, 2, 1}))
		mean = b.Node("Div", []string{b.Node("ReduceSum", []string{b.Node("Mul", []string{x, expanded}), axis}, onnx.Attr("keepdims", 0)),
			b.Node("ReduceSum", []string{mask, axis}, onnx.Attr("keepdims", 1))})
		last := b.Const([]int64{2})
		expanded = b.Append(onnx.Node{Op: "Unsqueeze", Inputs: []string{mean, last}, Outputs: []string{b.UniqueName("column")}})[0]
		mean = b.Node("Squeeze", []string{expanded, last})
	} else {
		mean = b.Node("ReduceMean", []string{x}, onnx.Attr("axes", []int64{1}), onnx.Attr("keepdims", 0))
	}
	addOutput(b, gemm(b, phiOf(b, mean)))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return save(t, m)
}

// tokenRows returns rows of random token ids with the given lengths, their masks, and the
// mean embedding of each row.
func tokenRows(lengths ...int) (ood.InputBlock, []float32) {
	rng := rand.New(rand.NewPCG(3, 4))
	longest := slices.Max(lengths)
	var ids, ones, means []float32
	for _, n := range lengths {
		mean := make([]float32, 3)
		for range n {
			id := rng.IntN(vocabulary)
			ids, ones = append(ids, float32(id)), append(ones, 1)
			for j := range mean {
				mean[j] += embedding[3*id+j] / float32(n)
			}
		}
		means = append(means, mean...)
	}
	shape := []int{len(lengths), longest}
	return rowsOf(ood.Tensor{Name: "input_ids", Shape: shape, Data: ids, Lengths: lengths},
		ood.Tensor{Name: "attention_mask", Shape: shape, Data: ones, Lengths: lengths}), means
}

var rowLengths = []int{3, 40, 1, 7, 3, 33, 120, 34, 7, 3, 41, 5, 113, 1}

// splitBlocks divides rows into blocks of n rows.
func splitBlocks(b ood.InputBlock, n int) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for i := 0; i < b.Len() && yield(b.Slice(i, min(i+n, b.Len())), nil); i += n {
		}
	}
}

// TestRagged checks that each row gives the same results in any blocks and batches of rows
// of different lengths. The order of the rows must be kept.
func TestRagged(t *testing.T) {
	rt := runtime(t)
	block, means := tokenRows(rowLengths...)
	want := trunkOf(means)
	for _, c := range []struct {
		masked bool
		length any
	}{{true, "sequence"}, {true, 128}, {false, "sequence"}} {
		for _, batch := range []int{0, 1, 3} {
			m := open(t, rt, tokenModel(t, c.masked, c.length), featurize.Options{Batch: batch})
			b := block
			if !c.masked {
				b.Tensors = b.Tensors[:1]
			}
			for _, rows := range []int{1, 4, b.Len()} {
				got, err := m.All(context.Background(), splitBlocks(b, rows), b.Len(), nil)
				if err != nil {
					t.Fatal(err)
				}
				checkNear(t, "φ", got.Features.Data, want, 1e-5)
				checkNear(t, "the logits", got.Logits.Data, affine(want, headW, headB, h), 1e-5)
			}
		}
	}
}

// TestRaggedGradient checks gradients with respect to an inner tensor with a token axis.
// The gradient of a row must be as long as the row.
func TestRaggedGradient(t *testing.T) {
	m := open(t, runtime(t), tokenModel(t, true, "sequence"), featurize.Options{})
	block, means := tokenRows(rowLengths...)
	ctx := context.Background()
	o := featurize.GradientOptions{Of: ood.Scalar{Logit: true, Index: 1}, Tensor: "embedded"}
	var got featurize.GradientBatch
	for g, err := range m.Gradients(ctx, featurize.Single(block), o) {
		if err != nil {
			t.Fatal(err)
		}
		got = g
	}
	if !slices.Equal(got.Gradient.Lengths, rowLengths) || !slices.Equal(got.Gradient.Shape, []int{len(rowLengths), 120, 3}) {
		t.Fatalf("lengths %v, shape %v", got.Gradient.Lengths, got.Gradient.Shape)
	}
	checkNear(t, "φ", got.Features.Data, trunkOf(means), 1e-5)
	var want []float32
	for i, n := range rowLengths {
		phi := trunkOf(means[3*i : 3*i+3])
		var row [3]float32
		for j, v := range phi {
			for k := range row {
				if v > 0 {
					row[k] += headW[h+j] * trunk[k*h+j] / float32(n)
				}
			}
		}
		for range n {
			want = append(want, row[:]...)
		}
	}
	checkNear(t, "the gradient", got.Gradient.Data, want, 1e-5)
	// Token ids have no gradient. The error must say which kind of tensor has a gradient.
	_, _, err := m.Network().Gradient(ctx, block, ood.Scalar{Sum: true})
	if !errors.Is(err, ood.ErrNotDifferentiable) || !strings.Contains(err.Error(), "real numbers") {
		t.Errorf("with respect to ids: %v", err)
	}
	if got, err := m.Network().Dropout(ctx, block, 2, .5, 1); err != nil || len(got) != 2*len(rowLengths)*c {
		t.Errorf("%d logits with dropout: %v", len(got), err)
	}
}

// TestRaggedGradientOfOtherAxes checks that an axis is not taken for the token axis only
// because its size equals the length of some rows. If the gradients of rows differ along
// other axes, Gradients must return an error.
func TestRaggedGradientOfOtherAxes(t *testing.T) {
	m := open(t, runtime(t), tokenModel(t, true, "sequence"), featurize.Options{})
	block, _ := tokenRows(3, 5)
	o := featurize.GradientOptions{Of: ood.Scalar{Sum: true}, Tensor: "column"}
	for g, err := range m.Gradients(context.Background(), featurize.Single(block), o) {
		if err != nil || g.Gradient.Lengths != nil || !slices.Equal(g.Gradient.Shape, []int{2, 3, 1}) {
			t.Errorf("lengths %v, shape %v (%v)", g.Gradient.Lengths, g.Gradient.Shape, err)
		}
	}
	o.Tensor = "turned"
	for g, err := range m.Gradients(context.Background(), featurize.Single(block), o) {
		var refused *autodiff.TensorError
		if !errors.As(err, &refused) {
			t.Errorf("lengths %v, shape %v, %d numbers (%v)", g.Gradient.Lengths, g.Gradient.Shape, len(g.Gradient.Data), err)
		}
	}
}

// TestRaggedDropout checks that a row's logits with dropout do not depend on the other
// rows.
func TestRaggedDropout(t *testing.T) {
	m := open(t, runtime(t), tokenModel(t, true, "sequence"), featurize.Options{Batch: 3})
	block, _ := tokenRows(rowLengths...)
	n := block.Len()
	got, err := m.Network().Dropout(context.Background(), block, 2, .5, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		want, err := m.Network().Dropout(context.Background(), block.Slice(i, i+1), 2, .5, 1)
		if err != nil {
			t.Fatal(err)
		}
		for pass := range 2 {
			checkNear(t, "the logits", got[(pass*n+i)*c:(pass*n+i+1)*c], want[pass*c:(pass+1)*c], 1e-5)
		}
	}
}

// TestRaggedRefused checks the errors for rows of tokens that a model does not take.
func TestRaggedRefused(t *testing.T) {
	rt := runtime(t)
	ctx := context.Background()
	block, _ := tokenRows(3, 40, 2)
	empty, _ := tokenRows(3, 0, 2)
	outside, _ := tokenRows(3, 2, 40)
	outside.Tensors[0].Data[4] = math.MaxInt32
	unequal, _ := tokenRows(3, 2)
	otherLengths, _ := tokenRows(3, 4)
	unequal.Tensors[1] = otherLengths.Tensors[1]
	for want, c := range map[string]struct {
		m *featurize.Model
		b ood.InputBlock
	}{
		`row 0 (counted from 0) of the input "input_ids" has length 3, the model takes 64, and it has no mask input`:  {open(t, rt, tokenModel(t, false, 64), featurize.Options{}), rowsOf(block.Tensors[0])},
		`the model's input "input_ids" takes n×16 of int64, the rows given are n×40`:                                  {open(t, rt, tokenModel(t, true, 16), featurize.Options{}), block},
		`row 1 (counted from 0) of the input "input_ids" is empty`:                                                    {open(t, rt, tokenModel(t, true, "sequence"), featurize.Options{}), empty},
		`row 1 (counted from 0) has length 2 in the input "input_ids" and 4 in "attention_mask", and the model needs`: {open(t, rt, tokenModel(t, true, "sequence"), featurize.Options{}), unequal},
		`row 1 (counted from 0) of the input "input_ids" holds 2.147`:                                                 {open(t, rt, tokenModel(t, true, "sequence"), featurize.Options{}), outside},
	} {
		if _, err := c.m.All(ctx, featurize.Single(c.b), -1, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRaggedBERT checks that a trained BERT model gives a row the same features whether it
// runs alone or is padded in a batch with other rows.
func TestRaggedBERT(t *testing.T) {
	m := open(t, runtime(t), filepath.Join(sharedModels(t), "clinc_bert", "model.onnx"), featurize.Options{EarlierLayers: 2})
	rng := rand.New(rand.NewPCG(5, 6))
	lengths := []int{12, 5, 39, 12, 33, 7, 5, 60, 12, 50, 3}
	var x [3]ood.Tensor
	for i, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		x[i] = ood.Tensor{Name: name, Shape: []int{len(lengths), 60}, Lengths: lengths}
		for _, n := range lengths {
			for range n {
				v := float32(1)
				if i != 1 {
					v = float32([]int{rng.IntN(4000), 1, 0}[i])
				}
				x[i].Data = append(x[i].Data, v)
			}
		}
	}
	block := rowsOf(x[:]...)
	got := allOf(t, m, block)
	for i := range lengths {
		want := allOf(t, m, block.Slice(i, i+1))
		checkNear(t, "φ", got.Slice(i, i+1).Features.Data, want.Features.Data, 1e-5)
		checkNear(t, "the logits", got.Slice(i, i+1).Logits.Data, want.Logits.Data, 1e-5)
	}
}
