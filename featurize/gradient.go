package featurize

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// GradientOptions configures Gradients. With the zero value, Gradients differentiates the
// log-softmax of the predicted class with respect to the model's input.
type GradientOptions struct {
	// Of selects the scalar that is differentiated for each row. If it refers to an output
	// that the model does not have, Gradients returns an error.
	Of ood.Scalar
	// Tensor names the tensor to differentiate with respect to. It must be computed from
	// the inputs, and its first axis must be the row axis. By default it is the only
	// input, or else the only required input that holds real numbers and is not a mask. If
	// there is no such input, the error wraps ood.ErrNotDifferentiable. If rows of tokens
	// differ in length, the gradient of each row has the length of that row.
	Tensor string
	// Batch is the largest number of rows in one run. The default is the Batch of Options,
	// or fewer rows if inputs are large, because the activations of a whole batch are kept
	// in memory. If the model has a fixed batch, Batch is ignored.
	Batch int
}

// GradientBatch holds a batch of rows and their gradients.
type GradientBatch struct {
	ood.Batch // features φ and logits
	// Gradient holds the gradients with respect to one tensor, and has the name and the
	// shape of that tensor. Its first axis is the row axis.
	Gradient ood.Tensor
}

// Gradients runs the model on blocks of rows, like Features. It yields the features φ, the
// logits, and for each row the gradient of a scalar function of the logits. The logits are
// Info.Logits, before any Softmax. The first call for each kind of scalar and each tensor
// builds a graph.
//
// Gradients of probabilities have a small relative error as long as the probabilities are
// above 1e-38, about the smallest float32. If the largest logit exceeds the second-largest
// by more than 87 times the temperature, the gradients are 0 or almost 0.
//
// If the gradient of an operator is not known, the error wraps ood.ErrNotDifferentiable and
// names the operator and its node. If the input of a ReLU unit is 0 up to rounding, it is
// unpredictable in any implementation whether the unit is on. One such unit can change a
// gradient by 1e-3 of its size or more.
func (m *Model) Gradients(ctx context.Context, rows iter.Seq2[ood.InputBlock, error], o GradientOptions) iter.Seq2[GradientBatch, error] {
	return func(yield func(GradientBatch, error) bool) {
		if err := m.checkGradient(o); err != nil {
			yield(GradientBatch{}, err)
			return
		}
		key := gradientKey{of: o.Of, tensor: o.Tensor}
		key.of.Temperature, key.of.Index = 0, 0 // the graph takes these as inputs
		d, err := m.gradientGraph(ctx, key)
		if err != nil {
			yield(GradientBatch{}, err)
			return
		}
		f := newFeeder(m, m.gradientBatch(o), gradientPositions)
		if o.Batch > 0 {
			f.maxPositions = 0
		}
		stream(ctx, f, rows, func(ctx context.Context, c chunk) (GradientBatch, error) {
			return m.runGradient(ctx, d, c, o)
		}, restoreGradientOrder)(yield)
	}
}

// checkGradient returns an error if the options are invalid or the model does not have the
// requested scalar.
func (m *Model) checkGradient(o GradientOptions) error {
	switch {
	case o.Of.Temperature < 0 || !rows.Finite(o.Of.Temperature):
		return fmt.Errorf("the temperature is %v, it must be a positive number", o.Of.Temperature)
	case countKinds(o.Of) > 1:
		return fmt.Errorf("set one scalar at a time, not several: %+v", o.Of)
	case !o.Of.Logit && o.Of.Index != 0:
		return scalarErrorf("Index is %d, but Logit is not set", o.Of.Index)
	case o.Batch < 0:
		return fmt.Errorf("the batch size is %d; it must not be negative", o.Batch)
	case o.Of.Logit && o.Of.Index < 0:
		return scalarErrorf("there is no output %d; outputs are counted from 0", o.Of.Index)
	}
	if m.info.Logits == "" {
		return scalarErrorf("the model has no output that could be differentiated")
	}
	if m.info.OutputsWidth == 0 {
		return nil // the first run checks it
	}
	return o.checkOutputs(m.info.OutputsWidth)
}

// countKinds returns how many kinds of scalar are requested. 0 means the log-softmax of the
// predicted class.
func countKinds(of ood.Scalar) (n int) {
	for _, requested := range []bool{of.Sum, of.TopTwo, of.Logit, of.Top} {
		if requested {
			n++
		}
	}
	return n
}

// checkOutputs returns an error if the requested scalar does not exist in a model with c
// outputs.
func (o GradientOptions) checkOutputs(c int) error {
	switch {
	case o.Of.Logit && o.Of.Index >= c:
		return scalarErrorf("there is no output %d, the network has %d, counted from 0", o.Of.Index, c)
	case c == 1 && (countKinds(o.Of) == 0 || o.Of.TopTwo):
		return scalarErrorf("the network has one output: differentiate it itself, or the sum, and not a function of several classes")
	}
	return nil
}

// maxGradientNumbers bounds the input numbers in a batch that is differentiated, unless the
// caller or the model sets the batch size. The bound is eight images of 3×224×224. A single
// row may exceed it.
const maxGradientNumbers = 8 * 3 * 224 * 224

// gradientBatch returns the largest number of rows in one run that computes gradients.
func (m *Model) gradientBatch(o GradientOptions) int {
	switch {
	case m.fixedBatch:
		return m.batchSize
	case o.Batch > 0:
		return o.Batch
	}
	width := 0.
	for _, in := range m.inputs {
		width += floatProduct(in.dims[min(1, len(in.dims)):])
	}
	return max(1, min(m.batchSize, int(maxGradientNumbers/max(1, width))))
}

// runGradient runs the model on a chunk and returns the features, the logits and the
// gradient.
func (m *Model) runGradient(ctx context.Context, d *gradientGraph, c chunk, o GradientOptions) (GradientBatch, error) {
	x, err := m.inputs.newTensors(c.tensors)
	if err != nil {
		return GradientBatch{}, err
	}
	defer closeAll(x)
	scalar, err := d.scalarInputs(o)
	defer closeAll(scalar)
	if err != nil {
		return GradientBatch{}, err
	}
	out, err := d.session.Run(ctx, append(x[:len(x):len(x)], scalar...))
	if err != nil && m.info.OutputsWidth == 0 {
		if plain, e := m.run(ctx, c); e == nil {
			if e = o.checkOutputs(plain.Logits.Cols); e != nil {
				return GradientBatch{}, e
			}
		}
	}
	if err != nil {
		return GradientBatch{}, runError(ctx, c, err)
	}
	defer closeAll(out)
	var b GradientBatch
	if b.Batch, err = m.batchOf(c, out); err != nil {
		return b, err
	}
	if err = o.checkOutputs(b.Logits.Cols); err != nil {
		return b, err
	}
	if b.Gradient, err = gradientOf(c, out[2], d.tensor); err == nil {
		b.Gradient = m.trimPadding(c, b.Gradient, d.lengthInput)
	}
	return b, err
}

// gradientOf copies the gradient out of t, without the padding rows. It returns an error if
// the first axis is not the row axis or a number is not finite.
func gradientOf(c chunk, t *ort.Tensor, tensor string) (ood.Tensor, error) {
	shape := t.Shape()
	data := t.Float32s()
	if len(shape) == 0 || int(shape[0]) != c.rows || len(data)%c.rows != 0 {
		return ood.Tensor{}, &autodiff.TensorError{Tensor: tensor, Reason: fmt.Sprintf("its gradient has shape %v for %d rows, so that its first axis is not that of the rows", shape, c.rows)}
	}
	width := len(data) / c.rows
	outShape := []int{c.n}
	for _, d := range shape[1:] {
		outShape = append(outShape, int(d))
	}
	data = slices.Clone(data[:c.n*width])
	if i := rows.FirstNotFinite(data); i >= 0 {
		return ood.Tensor{}, notFinite("gradient", data[i], c.row(i/width))
	}
	return ood.Tensor{Name: tensor, Shape: outShape, Data: data}, nil
}

func scalarErrorf(format string, args ...any) error {
	return &autodiff.TensorError{Reason: fmt.Sprintf(format, args...)}
}
