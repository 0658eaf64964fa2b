package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
)

// plan holds a checked problem and sizes derived from it.
type plan struct {
	train.Problem
	models  int  // number of models
	n       int  // number of rows that a model visits in an epoch
	in      int  // number of inputs of a network, including the level
	width   int  // number of columns of batches: in, plus one for a folded bias
	folded  bool // the first layer has a folded bias; see parametersOf
	targets int  // number of columns of Y that a model learns; 0 if targets are zero
	batch   int  // rows of a full batch
	params  []parameter
	flat    int // length of the flat vector: number of weights and biases of all models

	sharedBatches bool // all models have the same seed and rows, and therefore the same batches
	sharedTargets bool // all models learn the same columns of Y
}

// newPlan returns the plan of a problem that passed check.
func newPlan(p train.Problem) *plan {
	pl := &plan{Problem: p, models: len(p.Models), in: p.X.Cols, n: p.X.Rows}
	if p.Conditional {
		pl.in++
	}
	first := p.Models[0]
	if first.Rows != nil {
		pl.n = len(first.Rows)
	}
	pl.batch = min(p.BatchSize, pl.n)
	pl.sharedBatches, pl.sharedTargets = true, true
	for _, m := range p.Models {
		pl.sharedBatches = pl.sharedBatches && m.Seed == first.Seed && slices.Equal(m.Rows, first.Rows)
		pl.sharedTargets = pl.sharedTargets && m.Target == first.Target
	}
	if p.Y.Rows > 0 {
		pl.targets = 1
		if first.Target < 0 {
			pl.targets = p.Y.Cols
			pl.sharedTargets = true
		}
	} else {
		pl.sharedTargets = true
	}
	pl.width = pl.in
	if pl.folded = !p.NoBias && len(p.Hidden) > 0; pl.folded {
		pl.width++
	}
	widths := append(slices.Clone(p.Hidden), p.Outputs)
	pl.params, pl.flat = parametersOf(pl.models, pl.in, widths, !p.NoBias, pl.folded)
	return pl
}

// maxWeights limits the memory for training to 8 GB, at 64 bytes per weight.
const maxWeights = 1 << 27

// check returns an error if p is not a valid problem.
func check(p train.Problem) error {
	switch {
	case p.X.Rows < 1 || p.X.Cols < 1:
		return fmt.Errorf("nothing to train on: X is %d×%d", p.X.Rows, p.X.Cols)
	case p.X.Rows > math.MaxInt32:
		return fmt.Errorf("the %d rows of X are more than 2³¹−1", p.X.Rows)
	case p.Y.Rows > 1 && p.Y.Rows != p.X.Rows:
		return fmt.Errorf("there are %d rows of X, but %d of Y", p.X.Rows, p.Y.Rows)
	case p.Outputs < 1:
		return fmt.Errorf("a network needs at least one output, got %d", p.Outputs)
	case len(p.Models) == 0:
		return errors.New("no models to train")
	case p.Epochs < 1:
		return fmt.Errorf("the number of epochs must be at least 1, not %d", p.Epochs)
	case p.BatchSize < 1:
		return fmt.Errorf("the batch size must be at least 1, not %d", p.BatchSize)
	case losses[p.Loss] == nil:
		return fmt.Errorf("unknown loss %q, want bce, mse, l1, pinball, sigmoid-pinball, gaussian-nll or quality-driven", p.Loss)
	case p.Y.Rows == 0 && readsTwoOutputs(p.Loss):
		return fmt.Errorf("the %s loss needs targets", p.Loss)
	}
	in, weights := float64(p.X.Cols), 0.
	for _, h := range p.Hidden {
		if h < 1 {
			return fmt.Errorf("a hidden layer needs at least one unit, got %d", h)
		}
		weights += in * float64(h)
		in = float64(h)
	}
	weights = (weights + in*float64(p.Outputs)) * float64(len(p.Models))
	if weights > maxWeights {
		return fmt.Errorf("%d inputs, hidden layers of %d units and %d outputs make %.3g weights in %d networks, and %d can be trained: choose fewer or narrower layers",
			p.X.Cols, p.Hidden, p.Outputs, weights, len(p.Models), maxWeights)
	}
	if err := checkLevels(p); err != nil {
		return err
	}
	if err := checkModels(p); err != nil {
		return err
	}
	if p.Validation != nil {
		return checkValidation(p, *p.Validation)
	}
	return nil
}

// ownLevels reports whether each model has its own level.
func ownLevels(p train.Problem) bool { return p.Models[0].Level != 0 }

// readsTwoOutputs reports whether the loss reads two outputs for each target.
func readsTwoOutputs(l train.Loss) bool { return l == "gaussian-nll" || l == "quality-driven" }

// readsLevels reports whether the loss uses quantile levels.
func readsLevels(l train.Loss) bool { return l == "pinball" || l == "sigmoid-pinball" }

func checkLevels(p train.Problem) error {
	for _, l := range p.Levels {
		if !(l > 0 && l < 1) {
			return fmt.Errorf("a quantile level must lie between 0 and 1, not be %v", l)
		}
	}
	switch {
	case p.Loss == "quality-driven":
		if p.Conditional || len(p.Levels) != 2 || p.Levels[0] >= p.Levels[1] {
			return fmt.Errorf("the %s loss needs two increasing levels and cannot be conditional; the levels are %v", p.Loss, p.Levels)
		}
	case !readsLevels(p.Loss):
		if p.Conditional || len(p.Levels) > 0 {
			return fmt.Errorf("only pinball losses have quantile levels, not %s", p.Loss)
		}
	case p.Conditional:
	case len(p.Levels) == 0:
		if !ownLevels(p) {
			return errors.New("a pinball loss that is not conditional needs levels")
		}
	case p.Outputs%len(p.Levels) != 0:
		return fmt.Errorf("%d outputs for %d quantile levels", p.Outputs, len(p.Levels))
	}
	return nil
}

func checkModels(p train.Problem) error {
	for i, m := range p.Models {
		for _, w := range []struct {
			name  string
			value float64
		}{
			{"weight decay", m.WeightDecay}, {"the orthonormality penalty", m.Orthonormal},
			{"the gradient penalty", m.GradientPenalty}, {"diversity", m.Diversity},
		} {
			if !(w.value >= 0) || math.IsInf(w.value, 0) {
				return fmt.Errorf("model %d: the weight of %s must not be negative, but is %v", i, w.name, w.value)
			}
		}
		switch {
		case !(m.LearningRate > 0) || math.IsInf(m.LearningRate, 0):
			return fmt.Errorf("model %d: the learning rate must be positive, not %v", i, m.LearningRate)
		case !(m.Dropout >= 0 && m.Dropout < 1):
			return fmt.Errorf("model %d: dropout must lie in [0, 1), not be %v", i, m.Dropout)
		case p.Conditional && (m.GradientPenalty > 0 || m.Diversity > 0):
			return fmt.Errorf("model %d: a conditional network cannot have a gradient penalty or a diversity penalty", i)
		case !(m.Averaging >= 0 && m.Averaging < 1):
			return fmt.Errorf("model %d: the averaging factor must lie in [0, 1), not be %v", i, m.Averaging)
		case m.Level != 0 && !(m.Level > 0 && m.Level < 1):
			return fmt.Errorf("model %d: a quantile level must lie between 0 and 1, not be %v", i, m.Level)
		case m.Level != 0 && (!readsLevels(p.Loss) || p.Conditional || len(p.Levels) > 0):
			return fmt.Errorf("model %d: a model can have its own level only with a pinball loss that is not conditional, in a problem without levels", i)
		case (m.Level != 0) != ownLevels(p):
			return fmt.Errorf("model %d and model 0: either all models have their own level or none", i)
		}
		if err := checkRows(p, i); err != nil {
			return err
		}
		if err := checkStart(p, m.Start); err != nil {
			return fmt.Errorf("model %d: %w", i, err)
		}
		if p.Y.Rows == 0 {
			continue
		}
		if (m.Target < 0) != (p.Models[0].Target < 0) {
			return fmt.Errorf("either all models learn all targets, or each learns one; models %d and 0 differ", i)
		}
		if m.Target >= p.Y.Cols {
			return fmt.Errorf("model %d learns target %d of %d", i, m.Target, p.Y.Cols)
		}
	}
	if p.Y.Rows == 0 {
		return nil
	}
	want := 1
	if p.Models[0].Target < 0 {
		want = p.Y.Cols
	}
	if readsTwoOutputs(p.Loss) {
		if want != 1 || p.Outputs != 2 {
			return fmt.Errorf("the %s loss reads 2 outputs for 1 target, got %d for %d", p.Loss, p.Outputs, want)
		}
		return nil
	}
	perTarget := 1
	if !p.Conditional && readsLevels(p.Loss) {
		perTarget = max(len(p.Levels), 1)
	}
	if p.Outputs != want*perTarget {
		return fmt.Errorf("a network with %d outputs for %d targets and %d quantile levels each", p.Outputs, want, perTarget)
	}
	return nil
}

// checkRows returns an error if the rows that model i is trained on are invalid.
func checkRows(p train.Problem, i int) error {
	rows, first := p.Models[i].Rows, p.Models[0].Rows
	switch {
	case (rows == nil) != (first == nil) || len(rows) != len(first):
		return fmt.Errorf("model %d is trained on %s and model 0 on %s; models that are trained together must have equally many",
			i, countRows(rows), countRows(first))
	case rows != nil && len(rows) == 0:
		return fmt.Errorf("model %d has no rows to train on", i)
	}
	for _, r := range rows {
		if r < 0 || r >= p.X.Rows {
			return fmt.Errorf("model %d is trained on row %d of %d", i, r, p.X.Rows)
		}
	}
	return nil
}

func countRows(rows []int) string {
	if rows == nil {
		return "all rows"
	}
	return fmt.Sprintf("%d rows", len(rows))
}

// uniform returns the value of a hyper-parameter that all models share. It returns false if
// the values differ.
func (p *plan) uniform(value func(train.ModelConfig) float64) (float64, bool) {
	v := value(p.Models[0])
	for _, m := range p.Models[1:] {
		if value(m) != v {
			return 0, false
		}
	}
	return v, true
}

// perEntry returns a hyper-parameter for every entry of the flat vector, so that each entry
// has the value of its model.
func (p *plan) perEntry(value func(train.ModelConfig) float64) []float32 {
	flat := make([]float32, p.flat)
	for _, q := range p.params {
		for m := range p.models {
			v := float32(value(p.Models[m]))
			part := q.slice(flat, m)
			for i := range part {
				part[i] = v
			}
		}
	}
	return flat
}

func learningRate(m train.ModelConfig) float64 { return m.LearningRate }

func weightDecay(m train.ModelConfig) float64 { return m.WeightDecay }

func dropout(m train.ModelConfig) float64 { return m.Dropout }

func orthonormal(m train.ModelConfig) float64 { return m.Orthonormal }
