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
	// name returns the name of row i for people: a file, or a row of one.
	name(i int) string
	// tensors returns the tensors of rows, without any row.
	tensors() []ood.Tensor
	open() (reader, error)
}

// reader reads rows of a source.
type reader interface {
	// read returns the rows idx, one after another.
	read(ctx context.Context, idx []int) ([]ood.Tensor, error)
	Close() error
}

// filler reads rows of numbers that all have one shape.
type filler interface {
	// fill writes the rows idx to dst, one after another.
	fill(ctx context.Context, idx []int, dst []float32) error
	Close() error
}

// filled returns the tensor that a filler fills.
type filled struct {
	filler
	tensor ood.Tensor
}

func (f filled) read(ctx context.Context, idx []int) ([]ood.Tensor, error) {
	t := numbers(f.tensor.Name, f.tensor.Shape[1:])
	t.Shape[0] = len(idx)
	t.Data = make([]float32, rows.Elements(t.Shape))
	return []ood.Tensor{t}, f.fill(ctx, idx, t.Data)
}

// numbers returns a tensor of numbers, without rows.
func numbers(name string, row []int) ood.Tensor {
	return ood.Tensor{Name: name, Shape: append([]int{0}, row...)}
}

// texts returns a tensor of texts, without rows.
func texts(name string) ood.Tensor {
	return ood.Tensor{Name: name, Shape: []int{0}, Strings: []string{}}
}

// joined is several sources of the same rows, each with some of the tensors.
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
	for _, one := range r {
		tensors, err := one.read(ctx, idx)
		if err != nil {
			return nil, err
		}
		all = append(all, tensors...)
	}
	return all, nil
}

func (r readers) Close() error {
	var errs []error
	for _, one := range r {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// find returns the source of a type, also among joined sources.
func find[T any](s source) (found T, ok bool) {
	if j, many := s.(joined); many {
		for _, one := range j {
			if found, ok = one.(T); ok {
				return found, true
			}
		}
	}
	found, ok = s.(T)
	return found, ok
}
