package inputs

import (
	"context"
	"errors"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// source provides the rows of a Set.
type source interface {
	rows() int
	// name returns the name of row i for messages: a file, or a row of a file.
	name(i int) string
	// tensors returns the names and shapes of the tensors, without rows.
	tensors() []ood.Tensor
	open() (reader, error)
}

// reader reads rows of a source.
type reader interface {
	// read returns the rows with the numbers idx, in that order.
	read(ctx context.Context, idx []int) ([]ood.Tensor, error)
	Close() error
}

// measurer is a reader that measures rows before preprocessing.
type measurer interface {
	// measures returns the measures of the rows that were read last.
	measures() []ood.Measure
}

// measuresOf returns the measures of the rows that r read last, or nil if it makes none.
func measuresOf(r any) []ood.Measure {
	if m, ok := r.(measurer); ok {
		return m.measures()
	}
	return nil
}

// filler reads rows of numbers that all have the same shape.
type filler interface {
	// fill writes the rows with the numbers idx to dst, in that order.
	fill(ctx context.Context, idx []int, dst []float32) error
	Close() error
}

// filledReader is a reader of one tensor, which a filler fills.
type filledReader struct {
	filler
	tensor ood.Tensor
}

func (f filledReader) read(ctx context.Context, idx []int) ([]ood.Tensor, error) {
	t := numbers(f.tensor.Name, f.tensor.Shape[1:])
	t.Shape[0] = len(idx)
	t.Data = make([]float32, rows.Elements(t.Shape))
	return []ood.Tensor{t}, f.fill(ctx, idx, t.Data)
}

func (f filledReader) measures() []ood.Measure { return measuresOf(f.filler) }

// numbers returns a tensor of numbers, without rows.
func numbers(name string, row []int) ood.Tensor {
	return ood.Tensor{Name: name, Shape: append([]int{0}, row...)}
}

// texts returns a tensor of texts, without rows.
func texts(name string) ood.Tensor {
	return ood.Tensor{Name: name, Shape: []int{0}, Strings: []string{}}
}

// joined combines several sources of the same rows, each with some of the tensors.
type joined []source

func (j joined) rows() int { return j[0].rows() }

func (j joined) name(i int) string { return j[0].name(i) }

func (j joined) tensors() (all []ood.Tensor) {
	for _, s := range j {
		all = append(all, s.tensors()...)
	}
	return all
}

func (j joined) open() (reader, error) {
	var all readers
	for _, s := range j {
		r, err := s.open()
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, r)
	}
	return all, nil
}

type readers []reader

func (r readers) read(ctx context.Context, idx []int) (all []ood.Tensor, err error) {
	for _, part := range r {
		tensors, err := part.read(ctx, idx)
		if err != nil {
			return nil, err
		}
		all = append(all, tensors...)
	}
	return all, nil
}

func (r readers) measures() (all []ood.Measure) {
	for _, part := range r {
		all = append(all, measuresOf(part)...)
	}
	return all
}

func (r readers) Close() error {
	var errs []error
	for _, part := range r {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

// findSource returns s if it has the type T, or else the first of its joined sources that
// has.
func findSource[T any](s source) (found T, ok bool) {
	if j, many := s.(joined); many {
		for _, part := range j {
			if found, ok = part.(T); ok {
				return found, true
			}
		}
	}
	found, ok = s.(T)
	return found, ok
}
