package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// validation evaluates models on held-out rows and keeps the best weights of each model.
type validation struct {
	*plan // a copy of the plan in which all models share a batch
	rows  train.Validation
	tau   []float64 // levels at which each row is evaluated; nil if not conditional

	flat    []float32 // weights to evaluate, as a flat vector
	loss    []float32
	blocks  []*evaluator // one for full blocks, and one for a smaller last block
	tensors tensors

	bestWeights []float32 // best weights, as a flat vector
	best        []float64 // smallest loss of each model
	epoch       []int     // epoch of the smallest loss of each model
}

// evaluator computes the loss of blocks that all have the same number of rows.
type evaluator struct {
	session *ort.Session
	batch   *batch
	in, out []*ort.Tensor
}

func checkValidation(p train.Problem, v train.Validation) error {
	switch {
	case v.X.Rows < 1 || v.X.Cols != p.X.Cols:
		return fmt.Errorf("validation rows are %d×%d, but training rows have %d columns", v.X.Rows, v.X.Cols, p.X.Cols)
	case p.Y.Rows > 0 && (v.Y.Rows != v.X.Rows || v.Y.Cols != p.Y.Cols):
		return fmt.Errorf("validation targets are %d×%d for %d rows and %d targets", v.Y.Rows, v.Y.Cols, v.X.Rows, p.Y.Cols)
	case len(v.Levels) > 0 && !p.Conditional:
		return errors.New("validation levels need a conditional network")
	}
	for _, l := range v.Levels {
		if !(l > 0 && l < 1) {
			return fmt.Errorf("a validation level must lie between 0 and 1, not be %v", l)
		}
	}
	return errors.Join(rows.CheckFinite("x to validate on", v.X), rows.CheckFinite("y to validate on", v.Y))
}

// validationFloats limits how many numbers the widest layer has, for a block of rows and
// all models together. A block of 64 rows may exceed it, and so may the block of the loss
// "quality-driven".
const validationFloats = 2 << 20

func newValidation(ctx context.Context, r *ort.Runtime, p *plan) (*validation, error) {
	shared := *p
	shared.sharedBatches = true
	v := &validation{
		plan: &shared, rows: *p.Validation,
		flat: make([]float32, p.flat), loss: make([]float32, p.models),
		best: make([]float64, p.models), epoch: make([]int, p.models),
	}
	for m := range v.best {
		v.best[m] = math.Inf(1)
	}
	if p.Conditional {
		v.tau = v.levels()
	}
	n := v.rows.X.Rows * max(len(v.tau), 1)
	block := n
	if p.Loss != "quality-driven" { // this loss needs all rows in one block, because it depends on their coverage
		widest := slices.Max(append(slices.Clone(p.Hidden), p.Outputs))
		block = min(max(validationFloats/(p.models*widest), 64), n)
	}
	sizes := []int{block}
	if n%block != 0 {
		sizes = append(sizes, n%block)
	}
	for _, rows := range sizes {
		e, err := v.newEvaluator(ctx, r, rows)
		if err == nil {
			v.blocks = append(v.blocks, e)
		}
		if err = errors.Join(err, v.tensors.err); err != nil {
			v.close()
			return nil, err
		}
	}
	return v, nil
}

func (v *validation) levels() []float64 {
	switch {
	case len(v.rows.Levels) > 0:
		return v.rows.Levels
	case len(v.Levels) > 0:
		return v.Levels
	default:
		return []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9}
	}
}

func (v *validation) newEvaluator(ctx context.Context, r *ort.Runtime, rows int) (*evaluator, error) {
	g, err := buildEvaluation(v.plan, rows)
	if err != nil {
		return nil, fmt.Errorf("build the validation: %w", err)
	}
	e := &evaluator{batch: newBatch(v.plan, rows)}
	if e.session, err = r.NewSession(ctx, ort.Model{Proto: g.model}, g.inputs, g.outputs); err != nil {
		return nil, fmt.Errorf("load the validation: %w", err)
	}
	e.in = append(v.tensors.batchInputs(v.plan, e.batch), v.tensors.views(v.plan, v.flat)...)
	e.out = []*ort.Tensor{v.tensors.newTensor(v.loss, v.shape(v.models, 1, 1)...)}
	return e, nil
}

// buildEvaluation returns the graph that computes the loss of each model from x, y, tau and
// the parameters.
func buildEvaluation(p *plan, rows int) (stepGraph, error) {
	s := newStep(p, rows, "validation")
	s.penaltyRows = p.batch
	x := s.dataInputs()
	loss := s.mean(losses[p.Loss](s, s.network(x, s.weightInputs(), nil)))
	s.b.Output(loss, float, toAny(s.dims(1, 1))...)
	m, err := s.b.Model()
	return stepGraph{model: m, inputs: s.inputs, outputs: []string{loss}}, err
}

// isDue reports whether to evaluate the weights after an epoch. Epochs are counted from 1.
func (v *validation) isDue(epoch int) bool {
	return epoch%max(v.Epochs/100, 1) == 0 || epoch == v.Epochs
}

// evaluate computes the validation loss of the weights after an epoch. If the loss of a
// model is the smallest so far, evaluate keeps its weights.
func (v *validation) evaluate(flat []float32, epoch int) error {
	copy(v.flat, flat)
	sums := make([]float64, v.models)
	n := v.rows.X.Rows * max(len(v.tau), 1)
	for start := 0; start < n; {
		e := v.blocks[0]
		if n-start < e.batch.rows {
			e = v.blocks[1]
		}
		v.fill(e.batch, start)
		if err := e.session.RunInto(e.in, e.out); err != nil {
			return err
		}
		for m, l := range v.loss {
			sums[m] += float64(l) * float64(e.batch.rows) / float64(n)
		}
		start += e.batch.rows
	}
	if v.bestWeights == nil {
		v.bestWeights = slices.Clone(flat)
	}
	for m, l := range sums {
		if l < v.best[m] {
			v.best[m], v.epoch[m] = l, epoch
			for _, q := range v.params {
				copy(q.slice(v.bestWeights, m), q.slice(flat, m))
			}
		}
	}
	return nil
}

// fill writes one row to the batch for each pair of a validation row and a level. The
// levels of a validation row are adjacent.
func (v *validation) fill(b *batch, start int) {
	levels := max(len(v.tau), 1)
	x := v.rows.X
	for i := range b.rows {
		row, level := (start+i)/levels, (start+i)%levels
		copy(b.x[i*v.width:], rows.Row(x, row))
		if v.Conditional {
			b.tau[i] = float32(v.tau[level])
			b.x[i*v.width+x.Cols] = (b.tau[i] - 0.5) * 12
		}
	}
	if v.targets == 0 {
		return
	}
	for m := range v.targetAxis() {
		first := max(v.Models[m].Target, 0)
		for i := range b.rows {
			at := (start+i)/levels*v.rows.Y.Stride + first
			copy(b.y[(m*b.rows+i)*v.targets:(m*b.rows+i+1)*v.targets], v.rows.Y.Data[at:at+v.targets])
		}
	}
}

func (v *validation) close() {
	for _, e := range v.blocks {
		e.session.Close()
	}
	for _, t := range v.tensors.all {
		t.Close()
	}
}

// averages holds running means of the weights over epochs, for models that use averaging.
type averages struct {
	*plan
	mean  []float32 // flat vector; nil if no model uses averaging
	total []float64 // for each model, the sum of the factors dᵏ in its average; see ModelConfig.Averaging
}

func newAverages(p *plan) *averages {
	a := &averages{plan: p, total: make([]float64, p.models)}
	if p.usedByAny(func(m train.ModelConfig) float64 { return m.Averaging }) {
		a.mean = make([]float32, p.flat)
	}
	return a
}

// add adds the weights after an epoch to the average.
func (a *averages) add(flat []float32) {
	if a.mean == nil {
		return
	}
	for m, config := range a.Models {
		a.total[m] = config.Averaging*a.total[m] + 1
		fraction := float32(1 / a.total[m])
		for _, q := range a.params {
			mean := q.slice(a.mean, m)
			for i, w := range q.slice(flat, m) {
				mean[i] += fraction * (w - mean[i])
			}
		}
	}
}

// weights returns the average or, if no model uses averaging, the weights flat.
func (a *averages) weights(flat []float32) []float32 {
	if a.mean == nil {
		return flat
	}
	// For a model without averaging, the average equals the weights of the last epoch.
	return a.mean
}
