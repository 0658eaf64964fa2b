package featurize

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// scoreGradient is a graph that computes the gradient of an OOD score.
type scoreGradient struct {
	session *ort.Session // returns the gradient with respect to each required input
	inputs  []int        // the indices of these inputs
	err     error        // why there is no gradient; wraps ood.ErrNotDifferentiable
}

// scoreGradient returns the graph that computes the gradient of the score of a bundle's
// detector, and builds it on the first call.
func (m *Model) scoreGradient(ctx context.Context, b *attach.Bundle) (*scoreGradient, error) {
	m.derived.mu.Lock()
	defer m.derived.mu.Unlock()
	if d := m.derived.scores[b]; d != nil {
		return d, d.err
	}
	d := &scoreGradient{}
	d.err = m.buildScoreGradient(ctx, b, d)
	if d.err != nil && !errors.Is(d.err, ood.ErrNotDifferentiable) {
		return nil, d.err
	}
	if m.derived.scores == nil {
		m.derived.scores = make(map[*attach.Bundle]*scoreGradient)
	}
	m.derived.scores[b] = d
	return d, d.err
}

// buildScoreGradient appends the detector and the gradient of its score to the model's graph.
func (m *Model) buildScoreGradient(ctx context.Context, bundle *attach.Bundle, d *scoreGradient) error {
	var names []string
	for i, in := range m.inputs {
		if in.isOptional() {
			continue
		}
		if !in.isReal() || in.isMask() {
			return fmt.Errorf("%w: the input %q holds %s", ood.ErrNotDifferentiable, in.name, onnx.DTypeName(in.elemType))
		}
		d.inputs, names = append(d.inputs, i), append(names, in.name)
	}
	dir := filepath.Dir(m.path)
	g, err := load(m.path)
	if err != nil {
		return err
	}
	if g, err = onnx.Upgrade(g, dir); err != nil {
		return fmt.Errorf("%w: %w", ood.ErrNotDifferentiable, err)
	}
	views := viewNames(m.views)
	b := onnx.Extend(exposeViews(g, m.inputs, m.views, views))
	tensor := func(i, width int) graph.Tensor { return graph.Wrap(b, views[i], pb.TensorProto_FLOAT, width) }
	w := graphWriter{bundle: bundle, builder: b}
	w.rows.Features = tensor(0, bundle.Base.Width)
	if m.info.Logits != "" {
		w.rows.Logits = tensor(1, bundle.Base.Outputs)
	}
	for i, l := range bundle.Base.Layers {
		w.rows.Layers = append(w.rows.Layers, tensor(2+i, l.Width))
	}
	w.prepareRows()
	score, err := w.detectorScore()
	if err != nil {
		return fmt.Errorf("%w: %w", ood.ErrNotDifferentiable, err)
	}
	gradients, err := autodiff.Gradient(b, dir, []autodiff.Seed{{Output: score.Name()}}, names)
	if err != nil {
		return fmt.Errorf("%w: %w", ood.ErrNotDifferentiable, err)
	}
	var outputs []string
	for _, g := range gradients {
		outputs = append(outputs, declareSum(b, []string{g}))
	}
	model, err := b.Model()
	if err != nil {
		return err
	}
	d.session, err = m.runtime.NewSession(ctx, ort.Model{Proto: model, Dir: dir}, m.inputs.feedNames(), outputs)
	return err
}

// gradients attributes the scores of the given rows to elements by expected gradients.
func (at *attributor) gradients(ctx context.Context, list []int, result []Attribution) error {
	m := at.model.Model
	if at.reference.Len() == 0 {
		return fmt.Errorf("%w: the score of a text has no gradient with respect to its words", ood.ErrNotDifferentiable)
	}
	d, err := m.scoreGradient(ctx, at.scorer.Bundle())
	if err != nil {
		return err
	}
	if len(at.x.Tensors) != len(d.inputs) {
		return fmt.Errorf("%w: the rows have an optional input", ood.ErrNotDifferentiable)
	}
	// tensors maps the inputs of the gradient to tensors of x.
	tensors := make([]int, len(d.inputs))
	for j, i := range d.inputs {
		tensors[j] = slices.IndexFunc(at.x.Tensors, func(t ood.Tensor) bool {
			return m.inputs.tensorFor([]ood.Tensor{t}, m.inputs[i]) != nil
		})
	}
	values := make([][]TensorAttribution, len(result))
	for _, i := range list {
		if values[i] = at.newTensors(i); math.IsInf(result[i].Score, 0) {
			return fmt.Errorf("%w: the score of row %d (counted from 0) is infinite", ood.ErrNotDifferentiable, i)
		}
	}
	points := at.reference.Len() * at.opts.Steps
	f := newFeeder(m, m.gradientBatch(GradientOptions{}), gradientPositions)
	done := 0
	for gradients, err := range stream(ctx, f, at.pathBlocks(list), func(ctx context.Context, c chunk) ([]ood.Tensor, error) {
		return d.run(ctx, m, c)
	}, nil) {
		if err != nil {
			return err
		}
		n := gradients[0].Shape[0]
		for j, k := range tensors {
			width := len(gradients[j].Data) / n
			for point := range n {
				i, draw := list[(done+point)/points], (done+point)%points/at.opts.Steps
				row, reference := rowData(at.x.Tensors[k], i, width), rowData(at.reference.Tensors[k], draw, width)
				slope := gradients[j].Data[point*width:]
				for e, members := range at.grids[k].members {
					sum := 0.
					for _, index := range members {
						sum += float64(slope[index]) * (float64(row[index]) - float64(reference[index]))
					}
					values[i][k].Values[e] += sum / float64(points)
				}
			}
		}
		done += n
	}
	for _, i := range list {
		result[i].Method, result[i].Tensors = "gradient", values[i]
	}
	return nil
}

// rowData returns the numbers of row i.
func rowData(t ood.Tensor, i, width int) []float32 { return t.Data[i*width : (i+1)*width] }

// pathBlocks yields points on the lines from the reference rows to the given rows.
func (at *attributor) pathBlocks(list []int) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		size := at.blockRows()
		var block ood.InputBlock
		for _, i := range list {
			for draw := range at.reference.Len() {
				for step := range at.opts.Steps {
					// The points differ between references, so that together they are dense.
					offset := (float32(draw) + .5) / float32(at.reference.Len())
					at.appendPoint(&block, i, draw, (float32(step)+offset)/float32(at.opts.Steps))
					if block.Len() == size {
						if !yield(block, nil) {
							return
						}
						block = ood.InputBlock{}
					}
				}
			}
		}
		if block.Len() > 0 {
			yield(block, nil)
		}
	}
}

// appendPoint appends the point that divides the line from a reference row to row i.
func (at *attributor) appendPoint(block *ood.InputBlock, i, draw int, fraction float32) {
	if block.Tensors == nil {
		for _, t := range at.x.Tensors {
			block.Tensors = append(block.Tensors, ood.Tensor{Name: t.Name, Shape: append([]int{0}, t.Shape[1:]...)})
		}
	}
	for k := range block.Tensors {
		t := &block.Tensors[k]
		width := product(t.Shape[1:])
		row, reference := rowData(at.x.Tensors[k], i, width), rowData(at.reference.Tensors[k], draw, width)
		for j, v := range row {
			t.Data = append(t.Data, reference[j]+fraction*(v-reference[j]))
		}
		t.Shape[0]++
	}
}

// run computes the gradients for one chunk.
func (d *scoreGradient) run(ctx context.Context, m *Model, c chunk) ([]ood.Tensor, error) {
	x, err := m.inputs.newTensors(c.tensors)
	if err != nil {
		return nil, err
	}
	defer closeAll(x)
	out, err := d.session.Run(ctx, x)
	if err != nil {
		return nil, runError(ctx, c, err)
	}
	defer closeAll(out)
	list := make([]ood.Tensor, len(out))
	for j, t := range out {
		if list[j], err = gradientOf(c, t, m.inputs[d.inputs[j]].name); err != nil {
			return nil, fmt.Errorf("%w: at points between rows and reference rows: %w", ood.ErrNotDifferentiable, err)
		}
	}
	return list, nil
}
