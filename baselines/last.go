package baselines

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// lastLayer is a network's last layer, kept by scorers that work on its input.
type lastLayer struct {
	weight blas32.General // c×h, contiguous
	bias   []float64      // c
}

// newLastLayer copies the layer that a method is fitted with: one that tells
// classes apart, and so has logits.
func newLastLayer(t ood.Training, method string) (lastLayer, error) {
	missing := func(need ood.Needs) (lastLayer, error) {
		return lastLayer{}, &ood.NeedError{Method: method, Need: need, Where: "the rows to fit with"}
	}
	switch {
	case !t.HasFeatures():
		return missing(ood.NeedFeatures)
	case !t.HasLogits():
		return missing(ood.NeedLogits)
	case t.Last == nil:
		return missing(ood.NeedWeights)
	}
	if err := checkRows(t.Features, method); err != nil {
		return lastLayer{}, err
	}
	l, err := copyLast(t.Last, t.Features.Cols)
	if err != nil {
		return lastLayer{}, err
	}
	return l, checkClasses(l.weight.Rows)
}

// copyLast copies a layer on rows of some width.
func copyLast(last *ood.Linear, width int) (lastLayer, error) {
	w := last.Weight
	if w.Cols != width {
		return lastLayer{}, fmt.Errorf("the last layer's weights are for %d features, and the rows have %d", w.Cols, width)
	}
	if len(last.Bias) > 0 && len(last.Bias) != w.Rows {
		return lastLayer{}, fmt.Errorf("the last layer has %d biases for %d outputs", len(last.Bias), w.Rows)
	}
	if err := heads.CheckFinite("the last layer's weights", w); err != nil {
		return lastLayer{}, err
	}
	l := lastLayer{
		weight: blas32.General{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: make([]float32, 0, w.Rows*w.Cols)},
		bias:   make([]float64, w.Rows),
	}
	for i := range w.Rows {
		l.weight.Data = append(l.weight.Data, row(w, i)...)
	}
	for i, v := range last.Bias {
		l.bias[i] = float64(v)
	}
	return l, nil
}

// Rows that are multiplied between two looks at the context.
const lastBlock = 256

// each calls visit with b's features and what the layer makes of them, without
// the bias, block after block. Both are reused.
func (l lastLayer) each(ctx context.Context, b ood.Batch, visit func(first int, phi, product blas32.General)) error {
	if err := checkWidth(b.Features, l.weight.Cols, "features"); err != nil {
		return err
	}
	n, c := b.Features.Rows, l.weight.Rows
	data := make([]float32, min(n, lastBlock)*c)
	for i := 0; i < n; i += lastBlock {
		if err := ctx.Err(); err != nil {
			return err
		}
		phi := ood.Batch{Features: b.Features}.Slice(i, min(i+lastBlock, n)).Features
		product := blas32.General{Rows: phi.Rows, Cols: c, Stride: c, Data: data[:phi.Rows*c]}
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, phi, l.weight, 0, product)
		for r := range product.Rows {
			unlessFinite(row(product, r))
		}
		visit(i, phi, product)
	}
	return ctx.Err()
}

// unlessFinite makes a row NaN as a whole where it overflows: an infinite logit
// would pass for certainty.
func unlessFinite(z []float32) {
	if heads.CheckFinite("", blas32.General{Rows: 1, Cols: len(z), Stride: len(z), Data: z}) == nil {
		return
	}
	for k := range z {
		z[k] = float32(math.NaN())
	}
}

// logits adds the bias to a row that each hands out.
func (l lastLayer) logits(dst []float32, product []float32) []float32 {
	for k, v := range product {
		dst[k] = float32(float64(v) + l.bias[k])
	}
	return dst
}

// predict writes the logits of a row that each hands out to z, and returns the
// predicted class.
func (l lastLayer) predict(z []float64, product []float32) int {
	top := 0
	for k, v := range product {
		z[k] = float64(v) + l.bias[k]
		if z[k] > z[top] {
			top = k
		}
	}
	return top
}

// state adds the layer to what is stored.
func (l lastLayer) state(params map[string]any) heads.State {
	return heads.State{Params: params, Arrays: map[string]heads.Array{
		"weight": heads.ArrayOf(l.weight), "bias": heads.Vector(l.bias),
	}}
}

func restoreLast(st heads.State) (lastLayer, error) {
	var l lastLayer
	var err error
	if l.weight, err = st.General("weight"); err != nil {
		return l, err
	}
	if l.bias, err = st.Float64s("bias"); err != nil {
		return l, err
	}
	if len(l.bias) != l.weight.Rows || l.weight.Cols < 1 {
		return l, fmt.Errorf("weight %d×%d and %d biases do not make a layer", l.weight.Rows, l.weight.Cols, len(l.bias))
	}
	if err := heads.CheckFinite("array \"weight\"", l.weight); err != nil {
		return l, err
	}
	if err := checkFinite64("bias", l.bias); err != nil {
		return l, err
	}
	return l, checkClasses(l.weight.Rows)
}
