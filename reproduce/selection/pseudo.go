package selection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// task is telling in-domain rows from others made of in-domain rows.
type task struct {
	training ood.Training
	in, out  ood.Batch
}

// tasksOf makes the tasks of a criterion of labelled rows: methods are fitted
// with four fifths of them, and told apart by the others, which the seed draws.
func tasksOf(ctx context.Context, criterion string, t ood.Training) ([]task, error) {
	if len(t.Labels) == 0 {
		return nil, errors.New("the rows to fit with have no labels")
	}
	network, inputs := t.Network, t.Inputs
	t.Network, t.Inputs = nil, nil // rows made of features cannot be put through it
	fit, held := rows.Split(t.Len(), rows.DefaultFraction, t.Seed)
	if criterion == heldOutClasses {
		return heldOutTasks(t, fit, held)
	}
	one := task{training: t, in: t.Batch.Select(held)}
	one.training.Batch = t.Batch.Select(fit)
	var err error
	switch criterion {
	case corruptedInputs:
		one.out, err = corrupted(ctx, network, inputs.Select(held), t.Seed)
		return []task{one}, err
	case shuffledRows:
		one.out = shuffled(one.in, t.Seed)
	default:
		if one.out, err = mixed(one.in, t.Seed); err != nil {
			return nil, err
		}
	}
	if t.Last != nil && t.Last.Weight.Cols == one.out.Features.Cols {
		one.out.Logits = rows.Linear(one.out.Features, t.Last.Weight, t.Last.Bias)
	}
	return []task{one}, nil
}

// pseudoStream keeps what is drawn apart from other uses of the same seed.
const pseudoStream = 0x70736575646f

// classFolds is the number of parts that classes are held out in.
const classFolds = 5

// mixed returns as many rows as b has, each half-way between two rows of it of
// different classes.
func mixed(b ood.Batch, seed uint64) (ood.Batch, error) {
	n := b.Len()
	if !slices.ContainsFunc(b.Labels, func(c int) bool { return c != b.Labels[0] }) {
		return ood.Batch{}, errors.New("rows of a single class, and mixing takes two: take more --rows")
	}
	rng := rand.New(rand.NewPCG(seed, pseudoStream))
	with := make([]int, n)
	for i := range with {
		for with[i] = rng.IntN(n); b.Labels[with[i]] == b.Labels[i]; {
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
func heldOutTasks(t ood.Training, fit, held []int) ([]task, error) {
	of := t.Labels
	present := slices.Compact(slices.Sorted(slices.Values(of)))
	if len(present) < 3 {
		return nil, fmt.Errorf("rows of %d classes, and holding one out takes at least 3: take more --rows", len(present))
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
	var tasks []task
	for _, out := range folds {
		keep := func(rows []int, is bool) []int {
			return slices.DeleteFunc(slices.Clone(rows), func(r int) bool { return out[of[r]] != is })
		}
		one := task{training: t, in: t.Batch.Select(keep(held, false)), out: t.Batch.Select(keep(held, true))}
		one.training.Batch = t.Batch.Select(keep(fit, false))
		if min(one.in.Len(), one.out.Len(), one.training.Len()) == 0 {
			continue
		}
		one.out.Labels = nil
		one.forget(out)
		tasks = append(tasks, one)
	}
	if len(tasks) == 0 {
		return nil, errors.New("too few rows of a class to hold it out: take more --rows")
	}
	return tasks, nil
}

// forget takes the classes away from the last layer, the logits and the labels.
func (p *task) forget(classes map[int]bool) {
	var left []int
	index := make([]int, p.training.Logits.Cols)
	for k := range index {
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
	s := blas32.General{Rows: m.Rows, Cols: len(columns), Stride: len(columns), Data: make([]float32, 0, m.Rows*len(columns))}
	for i := range m.Rows {
		for _, j := range columns {
			s.Data = append(s.Data, m.Data[i*m.Stride+j])
		}
	}
	return s
}
