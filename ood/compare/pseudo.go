package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/ood"
)

// pseudoTask is telling in-domain rows from others made of in-domain rows.
type pseudoTask struct {
	criterion string
	training  ood.Training
	in, out   ood.Batch
}

// tasks are what methods are measured on.
func (s Selection) tasks(ctx context.Context) ([]pseudoTask, error) {
	p := pseudo{t: s.Training, network: s.Training.Network, inputs: s.Training.Inputs, corrupting: s.Corrupting}
	p.t.Network, p.t.Inputs, p.t.Outliers, p.t.Progress = nil, nil, ood.Batch{}, nil
	var err error
	if p.classes, err = classesOf(p.t.Batch); err != nil && s.Criterion == heldOutClasses {
		return nil, fmt.Errorf("no classes to hold out of the rows to fit with: %w; choose another criterion", err)
	}
	if s.Criterion == corruptedInputs && (p.network == nil || p.inputs == nil) {
		return nil, errors.New("inputs are corrupted before the network, and there are features alone: give the inputs and the model, or choose another criterion")
	}
	p.fit, p.held = rows.Split(p.t.Len(), rows.DefaultFraction, p.t.Seed)
	if s.Criterion != meanRank {
		return p.of(ctx, s.Criterion)
	}
	var tasks []pseudoTask
	var first error
	for _, c := range Criteria() {
		if c == meanRank || c == heldOutClasses && p.classes == nil || c == corruptedInputs && (p.network == nil || p.inputs == nil) {
			continue
		}
		more, err := p.of(ctx, c)
		if errors.Is(err, errTokens) {
			continue
		}
		// A network that fails is no matter of which rows there are.
		if err != nil && (c == corruptedInputs || ctx.Err() != nil) {
			return nil, err
		}
		first = cmp.Or(first, err)
		tasks = append(tasks, more...)
	}
	if len(tasks) > 0 {
		return tasks, nil
	}
	return nil, first
}

// pseudo is what rows that stand in for out-of-domain ones are made of.
type pseudo struct {
	t         ood.Training
	classes   []int // or nil
	fit, held []int
	network   ood.Network // or nil
	inputs    ood.Inputs  // or nil

	corrupting func(done, total int) // or nil
}

// of makes the tasks of one criterion.
func (p pseudo) of(ctx context.Context, c string) ([]pseudoTask, error) {
	t := p.t
	if c == heldOutClasses {
		return heldOutTasks(t, p.classes, p.fit, p.held)
	}
	task := pseudoTask{criterion: c, training: t, in: t.Batch.Select(p.held)}
	task.training.Batch = t.Batch.Select(p.fit)
	var err error
	switch c {
	case corruptedInputs:
		if task.out, err = corrupted(ctx, p.network, p.inputs.Select(p.held), t.Seed, p.corrupting); err != nil {
			return nil, err
		}
		if t.Logits.Cols == 0 {
			task.out.Logits = blas32.General{}
		}
		return []pseudoTask{task}, nil
	case shuffledRows:
		task.out = shuffled(task.in, t.Seed)
	default:
		if task.out, err = mixed(task.in, t.Seed); err != nil {
			return nil, err
		}
	}
	if t.Last != nil && task.out.Features.Cols > 0 && t.Last.Weight.Cols == task.out.Features.Cols {
		task.out.Logits = rows.Linear(task.out.Features, t.Last.Weight, t.Last.Bias)
	}
	return []pseudoTask{task}, nil
}

// pseudoStream keeps what is drawn apart from other uses of the same seed.
const pseudoStream = 0x70736575646f

// classFolds is the number of parts that classes are held out in.
const classFolds = 5

// classesOf takes the labels, or where there are none the largest logit.
func classesOf(b ood.Batch) ([]int, error) {
	if len(b.Labels) > 0 {
		return b.Labels, nil
	}
	if b.Logits.Cols < 2 {
		return nil, classes.ErrNoClasses
	}
	return rows.Argmax(b.Logits), nil
}

// mixed returns as many rows as b has, each half-way between two rows of it: of
// different classes, or any two where nothing says which they are of.
func mixed(b ood.Batch, seed uint64) (ood.Batch, error) {
	n := b.Len()
	of, _ := classesOf(b)
	if of != nil && !slices.ContainsFunc(of, func(c int) bool { return c != of[0] }) {
		return ood.Batch{}, errors.New("rows of a single class, and mixing takes two: select by another criterion")
	}
	if n < 2 {
		return ood.Batch{}, fmt.Errorf("%d rows to mix, and at least 2 are needed: select with more rows", n)
	}
	rng := rand.New(rand.NewPCG(seed, pseudoStream))
	with := make([]int, n)
	for i := range with {
		for with[i] = rng.IntN(n); with[i] == i || of != nil && of[with[i]] == of[i]; {
			with[i] = rng.IntN(n)
		}
	}
	return batchparts.Map(b, func(m blas32.General) blas32.General {
		mean := rows.Select(m, with)
		for i := range mean.Rows {
			to := rows.Row(mean, i)
			for j, v := range rows.Row(m, i) {
				to[j] = to[j]/2 + v/2
			}
		}
		return mean
	}), nil
}

// shuffled permutes every column on its own.
func shuffled(b ood.Batch, seed uint64) ood.Batch {
	rng := rand.New(rand.NewPCG(seed, pseudoStream))
	return batchparts.Map(b, func(m blas32.General) blas32.General {
		s := rows.New(m.Rows, m.Cols)
		for j := range m.Cols {
			for i, r := range rng.Perm(m.Rows) {
				s.Data[i*s.Stride+j] = m.Data[r*m.Stride+j]
			}
		}
		return s
	})
}

// heldOutTasks is one task for each fold of the classes: its rows are not
// fitted with and stand in for out-of-domain ones.
func heldOutTasks(t ood.Training, of, fit, held []int) ([]pseudoTask, error) {
	present := slices.Compact(slices.Sorted(slices.Values(of)))
	if len(present) < 3 {
		return nil, fmt.Errorf("rows of %d classes, and holding one out takes at least 3: select by another criterion", len(present))
	}
	rng := rand.New(rand.NewPCG(t.Seed, pseudoStream))
	rng.Shuffle(len(present), func(i, j int) { present[i], present[j] = present[j], present[i] })
	folds := make([]map[int]bool, min(classFolds, len(present)))
	for i, c := range present {
		if f := i % len(folds); folds[f] == nil {
			folds[f] = map[int]bool{c: true}
		} else {
			folds[f][c] = true
		}
	}
	var tasks []pseudoTask
	for _, out := range folds {
		keep := func(rows []int, is bool) []int {
			return slices.DeleteFunc(slices.Clone(rows), func(r int) bool { return out[of[r]] != is })
		}
		task := pseudoTask{criterion: heldOutClasses, training: t, in: t.Batch.Select(keep(held, false)), out: t.Batch.Select(keep(held, true))}
		task.training.Batch = t.Batch.Select(keep(fit, false))
		if min(task.in.Len(), task.out.Len(), task.training.Len()) == 0 {
			continue
		}
		task.out.Labels = nil
		if c := t.Logits.Cols; c > 0 || t.Last != nil {
			task.forget(out)
		}
		tasks = append(tasks, task)
	}
	if len(tasks) == 0 {
		return nil, errors.New("too few rows of a class to hold it out: select with more rows or by another criterion")
	}
	return tasks, nil
}

// forget takes the classes away from the last layer, the logits and the labels.
func (p *pseudoTask) forget(classes map[int]bool) {
	c := p.training.Logits.Cols
	if last := p.training.Last; last != nil {
		c = last.Weight.Rows
	}
	var left []int
	index := make([]int, c)
	for k := range c {
		if !classes[k] {
			index[k] = len(left)
			left = append(left, k)
		}
	}
	for _, b := range []*ood.Batch{&p.training.Batch, &p.in, &p.out} {
		b.Logits = selectColumns(b.Logits, left)
		for i, y := range b.Labels {
			b.Labels[i] = index[y]
		}
	}
	if last := p.training.Last; last != nil {
		shorter := ood.Linear{Weight: rows.Select(last.Weight, left), Bias: make([]float32, len(left))}
		for i, k := range left {
			shorter.Bias[i] = last.Bias[k]
		}
		p.training.Last = &shorter
	}
}

func selectColumns(m blas32.General, columns []int) blas32.General {
	if m.Cols == 0 {
		return blas32.General{}
	}
	s := blas32.General{Rows: m.Rows, Cols: len(columns), Stride: len(columns), Data: make([]float32, 0, m.Rows*len(columns))}
	for i := range m.Rows {
		for _, j := range columns {
			s.Data = append(s.Data, m.Data[i*m.Stride+j])
		}
	}
	return s
}
