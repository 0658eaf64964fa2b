package fit

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// hooks lets tests replace the random parts of training and observe losses, to compare
// training with other implementations.
type hooks struct {
	weights func(model int, params []parameter, flat []float32)
	order   func(epoch int, perm []int32)
	levels  func(tau []float32)
	noise   func(rows, noiseFraction []float32, pick []int32)
	losses  func(loss []float32)
}

// training holds the state of one run of a plan.
type training struct {
	*plan
	hooks   hooks
	feeder  *feeder
	states  [2]*state    // step t reads states[t%2] and writes the other one
	rates   [2][]float32 // graph inputs rate and epsilon, with one entry each
	loss    []float32    // loss of each model before the last step
	full    *stepper     // runs full batches
	partial *stepper     // runs the last batch of an epoch; nil if it is full too

	averages   *averages
	validation *validation // nil without validation rows

	tensors      tensors
	sharedInputs []*ort.Tensor // graph inputs that all steppers share; they come after the tensors of the state
	lossTensor   *ort.Tensor
}

// state is one of the two sets of weights and moments that steps alternate between.
type state struct {
	w, m, v []float32
	views   []*ort.Tensor // the parameters, as views of w
	flat    []*ort.Tensor // w, m and v
}

// stepper runs training steps with one batch size. Its inputs and outputs for step t have
// the index t%2.
type stepper struct {
	session *ort.Session
	batch   *batch
	in      [2][]*ort.Tensor
	out     [2][]*ort.Tensor
}

// tensors collects tensors to close later, and the errors of their creation.
type tensors struct {
	all []*ort.Tensor
	err error
}

func (ts *tensors) newTensor(data []float32, shape ...int64) *ort.Tensor {
	t, err := ort.NewTensor(shape, data)
	if err != nil {
		ts.err = errors.Join(ts.err, err)
		return nil
	}
	ts.all = append(ts.all, t)
	return t
}

// batchInputs returns the graph inputs of a batch that training and validation have in
// common.
func (ts *tensors) batchInputs(p *plan, b *batch) []*ort.Tensor {
	list := []*ort.Tensor{ts.newTensor(b.x, p.shape(p.batchAxis(), b.rows, p.width)...)}
	if p.targets > 0 {
		list = append(list, ts.newTensor(b.y, p.shape(p.targetAxis(), b.rows, p.targets)...))
	}
	if p.Conditional {
		list = append(list, ts.newTensor(b.tau, p.shape(p.batchAxis(), b.rows, 1)...))
	}
	return list
}

// views returns the parameters as views of a flat vector.
func (ts *tensors) views(p *plan, flat []float32) []*ort.Tensor {
	var list []*ort.Tensor
	for _, q := range p.params {
		part := flat[q.offset : q.offset+p.models*q.size()]
		list = append(list, ts.newTensor(part, p.shape(p.models, q.rows(), q.out)...))
	}
	return list
}

func newTraining(ctx context.Context, r *ort.Runtime, p *plan, h hooks) (*training, error) {
	t := &training{plan: p, hooks: h, feeder: newFeeder(p, h), loss: make([]float32, p.models), averages: newAverages(p)}
	for i := range t.states {
		t.states[i] = t.newState()
	}
	for m := range p.models {
		initialise(t.states[0].w, p.params, m, p.Models[m].Seed)
		copyStart(t.states[0].w, p.params, m, p.Models[m].Start)
		if h.weights != nil {
			h.weights(m, p.params, t.states[0].w)
		}
	}
	for i := range t.rates {
		t.rates[i] = make([]float32, 1)
		t.sharedInputs = append(t.sharedInputs, t.tensors.newTensor(t.rates[i], 1))
	}
	rates, decay := p.hyperInputs()
	for _, values := range [][]float32{rates, decay} {
		if values != nil {
			t.sharedInputs = append(t.sharedInputs, t.tensors.newTensor(values, int64(len(values))))
		}
	}
	for _, q := range p.penalties() {
		lambda := make([]float32, p.models)
		for m := range lambda {
			lambda[m] = float32(q.value(p.Models[m]))
		}
		t.sharedInputs = append(t.sharedInputs, t.tensors.newTensor(lambda, p.shape(p.models, 1, 1)...))
	}
	t.lossTensor = t.tensors.newTensor(t.loss, p.shape(p.models, 1, 1)...)

	var err error
	if t.full, err = t.newStepper(ctx, r, p.batch); err == nil && p.n%p.batch != 0 {
		t.partial, err = t.newStepper(ctx, r, p.n%p.batch)
	}
	if err == nil && p.Validation != nil {
		t.validation, err = newValidation(ctx, r, p)
	}
	if err = errors.Join(err, t.tensors.err); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *training) newState() *state {
	s := &state{w: make([]float32, t.flat), m: make([]float32, t.flat), v: make([]float32, t.flat)}
	s.views = t.tensors.views(t.plan, s.w)
	for _, flat := range [][]float32{s.w, s.m, s.v} {
		s.flat = append(s.flat, t.tensors.newTensor(flat, int64(t.plan.flat)))
	}
	return s
}

func (t *training) newStepper(ctx context.Context, r *ort.Runtime, rows int) (*stepper, error) {
	g, err := buildStep(t.plan, rows)
	if err != nil {
		return nil, fmt.Errorf("build the training step: %w", err)
	}
	s := &stepper{batch: newBatch(t.plan, rows)}
	if s.session, err = r.NewSession(ctx, ort.Model{Proto: g.model}, g.inputs, g.outputs); err != nil {
		return nil, fmt.Errorf("load the training step: %w", err)
	}
	feed := t.tensors.batchInputs(t.plan, s.batch)
	for i, mask := range s.batch.masks {
		feed = append(feed, t.tensors.newTensor(mask, t.shape(t.maskAxis(), rows, t.Hidden[i])...))
	}
	if t.drawsNoise() {
		feed = append(feed,
			t.tensors.newTensor(s.batch.noise, t.shape(t.batchAxis(), t.batch, t.width)...),
			t.tensors.newTensor(s.batch.interpolated, t.shape(t.batchAxis(), rows, t.width)...),
			t.tensors.newTensor(s.batch.pick, t.shape(t.batchAxis(), rows, t.Outputs)...))
	}
	for i := range s.in {
		from, to := t.states[i], t.states[1-i]
		for _, part := range [][]*ort.Tensor{feed, from.views, from.flat, t.sharedInputs} {
			s.in[i] = append(s.in[i], part...)
		}
		s.out[i] = append(append(s.out[i], to.flat...), t.lossTensor)
	}
	return s, nil
}

// run trains the networks and returns them.
func (t *training) run(ctx context.Context) ([]train.Network, error) {
	n := t.n
	perEpoch := (n + t.batch - 1) / t.batch
	total := perEpoch * t.Epochs
	report := max(total/200, 1)
	sums := make([]float64, t.models)
	done := 0
	for epoch := range t.Epochs {
		t.feeder.shuffle()
		if t.hooks.order != nil {
			for _, s := range t.feeder.unique {
				t.hooks.order(epoch, s.perm)
			}
		}
		clear(sums)
		for start := 0; start < n; start += t.batch {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s := t.full
			if n-start < t.batch {
				s = t.partial
			}
			if err := t.step(s, start, done); err != nil {
				return nil, err
			}
			if t.hooks.losses != nil {
				t.hooks.losses(t.loss)
			}
			if m := rows.FirstNotFinite(t.loss); m >= 0 {
				return nil, t.diverged(m, done+1)
			}
			for m, l := range t.loss {
				sums[m] += float64(l) * float64(s.batch.rows)
			}
			done++
			if done%report == 0 || done == total {
				rows.Progress(t.Progress).Tell(float64(done) / float64(total))
			}
		}
		if err := t.endEpoch(epoch+1, done); err != nil {
			return nil, err
		}
	}
	return t.networks(sums, done)
}

// endEpoch adds the weights after an epoch to their average, and evaluates them if
// validation is due. Epochs are counted from 1.
func (t *training) endEpoch(epoch, done int) error {
	flat := t.states[done%2].w
	t.averages.add(flat)
	if t.validation == nil || !t.validation.isDue(epoch) {
		return nil
	}
	return t.validation.evaluate(t.averages.weights(flat), epoch)
}

// networks returns the trained networks once all steps are done. Their weights are those of
// each model's best epoch if there are validation rows. Otherwise they are the average over
// epochs, or the last weights without averaging. The sums are the losses of each model over
// the last epoch, summed over rows.
func (t *training) networks(sums []float64, done int) ([]train.Network, error) {
	last := t.states[done%2].w
	for m := range t.models {
		for _, q := range t.params {
			if rows.FirstNotFinite(q.slice(last, m)) >= 0 {
				return nil, t.diverged(m, done)
			}
		}
	}
	flat := t.averages.weights(last)
	if t.validation != nil {
		flat = t.validation.bestWeights
	}
	networks := make([]train.Network, t.models)
	for m := range networks {
		networks[m] = network(flat, t.params, m, sums[m]/float64(t.n))
		if t.validation != nil {
			networks[m].Epoch, networks[m].Validation = t.validation.epoch[m], t.validation.best[m]
		}
	}
	return networks, nil
}

// diverged returns the error for a loss or a weight that is not finite. If the data is
// finite, the reason is the learning rate.
func (t *training) diverged(model, step int) error {
	if err := rows.CheckFinite("x", t.X); err != nil {
		return err
	}
	if err := rows.CheckFinite("y", t.Y); err != nil {
		return err
	}
	return &train.DivergedError{Model: model, Step: step, LearningRate: t.Models[model].LearningRate}
}

// step trains on a batch that begins at position start of the epoch. done is the number of
// earlier steps.
func (t *training) step(s *stepper, start, done int) error {
	t.feeder.fill(s.batch, start)
	t.rates[0][0], t.rates[1][0] = t.plan.rates(done + 1)
	side := done % 2
	return s.session.RunInto(s.in[side], s.out[side])
}

func (t *training) close() {
	for _, s := range []*stepper{t.full, t.partial} {
		if s != nil && s.session != nil {
			s.session.Close()
		}
	}
	if t.validation != nil {
		t.validation.close()
	}
	for _, x := range t.tensors.all {
		x.Close()
	}
}
