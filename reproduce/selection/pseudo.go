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

// task is the problem of telling in-distribution rows from pseudo-outliers made of
// in-distribution rows.
type task struct {
	training ood.Training
	in, out  ood.Batch
}

// makeTasks makes the tasks of a criterion from labelled rows. Methods are fitted on four
// fifths of the rows and compared on the remaining fifth. The seed draws the split.
func makeTasks(ctx context.Context, criterion string, t ood.Training) ([]task, error) {
	if len(t.Labels) == 0 {
		return nil, errors.New("the rows to fit with have no labels")
	}
	network, inputs := t.Network, t.Inputs
	t.Network, t.Inputs = nil, nil // the network cannot run on rows made of features
	fit, heldOut := rows.Split(t.Len(), rows.DefaultFraction, t.Seed)
	if criterion == heldOutClasses {
		return heldOutTasks(t, fit, heldOut)
	}
	single := task{training: t, in: t.Batch.Select(heldOut)}
	single.training.Batch = t.Batch.Select(fit)
	var err error
	switch criterion {
	case corruptedInputs:
		single.out, err = corruptImages(ctx, network, inputs.Select(heldOut), t.Seed)
		return []task{single}, err
	case shuffledRows:
		single.out = shuffleColumns(single.in, t.Seed)
	default:
		if single.out, err = mixRows(single.in, t.Seed); err != nil {
			return nil, err
		}
	}
	if t.Last != nil && t.Last.Weight.Cols == single.out.Features.Cols {
		single.out.Logits = rows.Linear(single.out.Features, t.Last.Weight, t.Last.Bias)
	}
	return []task{single}, nil
}

// pseudoStream separates the random numbers for pseudo-outliers from other uses of the same
// seed.
const pseudoStream = 0x70736575646f

// classFolds is the largest number of groups of classes. Each group is held out once.
const classFolds = 5

// mixRows returns as many rows as b has. Each result is the midpoint between a row and a
// random row of a different class.
func mixRows(b ood.Batch, seed uint64) (ood.Batch, error) {
	n := b.Len()
	if !slices.ContainsFunc(b.Labels, func(c int) bool { return c != b.Labels[0] }) {
		return ood.Batch{}, errors.New("rows of a single class, and mixing takes two: take more --rows")
	}
	rng := rand.New(rand.NewPCG(seed, pseudoStream))
	partners := make([]int, n)
	for i := range partners {
		for partners[i] = rng.IntN(n); b.Labels[partners[i]] == b.Labels[i]; {
			partners[i] = rng.IntN(n)
		}
	}
	return batchparts.Map(b, func(m blas32.General) blas32.General {
		mean := rows.Select(m, partners)
		for i := range mean.Rows {
			dst := rows.Row(mean, i)
			for j, v := range rows.Row(m, i) {
				dst[j] = dst[j]/2 + v/2
			}
		}
		return mean
	}), nil
}

// shuffleColumns permutes every column independently.
func shuffleColumns(b ood.Batch, seed uint64) ood.Batch {
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

// heldOutTasks returns one task for each fold of the classes. Rows of the fold are not used
// for fitting and serve as out-of-distribution rows. A fold gives no task if a part of the
// task would have no rows.
func heldOutTasks(t ood.Training, fit, heldOut []int) ([]task, error) {
	labels := t.Labels
	present := slices.Compact(slices.Sorted(slices.Values(labels)))
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
		filter := func(indices []int, inFold bool) []int {
			return slices.DeleteFunc(slices.Clone(indices), func(r int) bool { return out[labels[r]] != inFold })
		}
		fold := task{training: t, in: t.Batch.Select(filter(heldOut, false)), out: t.Batch.Select(filter(heldOut, true))}
		fold.training.Batch = t.Batch.Select(filter(fit, false))
		if min(fold.in.Len(), fold.out.Len(), fold.training.Len()) == 0 {
			continue
		}
		fold.out.Labels = nil
		fold.removeClasses(out)
		tasks = append(tasks, fold)
	}
	if len(tasks) == 0 {
		return nil, errors.New("too few rows of a class to hold it out: take more --rows")
	}
	return tasks, nil
}

// removeClasses removes the classes from the last layer and the logits, and renumbers the
// labels.
func (p *task) removeClasses(classes map[int]bool) {
	var remaining []int
	index := make([]int, p.training.Logits.Cols)
	for k := range index {
		if !classes[k] {
			index[k] = len(remaining)
			remaining = append(remaining, k)
		}
	}
	for _, b := range []*ood.Batch{&p.training.Batch, &p.in, &p.out} {
		b.Logits = selectColumns(b.Logits, remaining)
		for i, y := range b.Labels {
			b.Labels[i] = index[y]
		}
	}
	if last := p.training.Last; last != nil {
		reduced := ood.Linear{Weight: rows.Select(last.Weight, remaining), Bias: make([]float32, len(remaining))}
		for i, k := range remaining {
			reduced.Bias[i] = last.Bias[k]
		}
		p.training.Last = &reduced
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
