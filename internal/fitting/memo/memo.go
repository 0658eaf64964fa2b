// Package memo keeps what the fits and scorers of some rows make of them, so that the
// next that needs it does not make it again. A context carries it.
package memo

import (
	"context"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// store is what was made of some rows.
type store struct {
	rows identity
	made sync.Map
	// whole, if not nil, is the training that the rows are of, all but the rows held;
	// above is the store of its rows.
	whole *ood.Training
	above *store
	held  []int
}

// identity tells rows apart by where they lie in memory.
type identity struct {
	n                               int
	features, logits, layer, tensor *float32
}

func identityOf(b ood.Batch) identity {
	id := identity{n: b.Len(), features: first(b.Features), logits: first(b.Logits)}
	if len(b.Layers) > 0 {
		id.layer = first(b.Layers[0])
	}
	if x, ok := b.Inputs.(ood.InputBlock); ok {
		for _, t := range x.Tensors {
			if len(t.Data) > 0 {
				id.tensor = &t.Data[0]
				break
			}
		}
	}
	return id
}

func first(m blas32.General) *float32 {
	if len(m.Data) == 0 {
		return nil
	}
	return &m.Data[0]
}

type (
	storeKey struct{}
	gridKey  struct{}
)

// storeOf returns the store that a context carries if it is of the rows of b, or nil.
func storeOf(ctx context.Context, b ood.Batch) *store {
	if s, ok := ctx.Value(storeKey{}).(*store); ok && s.rows == identityOf(b) {
		return s
	}
	return nil
}

// Share returns a context whose users make once what they need of the rows of b.
func Share(ctx context.Context, b ood.Batch) context.Context {
	if storeOf(ctx, b) != nil {
		return ctx
	}
	return context.WithValue(ctx, storeKey{}, &store{rows: identityOf(b)})
}

// Cached returns what make made of the rows of b the first time that it was asked for
// with the key, one of the caller's own types; if the context shares nothing of these
// rows, make is called. An error is kept too.
func Cached[T any](ctx context.Context, b ood.Batch, key any, make func() (T, error)) (T, error) {
	s := storeOf(ctx, b)
	if s == nil {
		return make()
	}
	kept, _ := s.made.LoadOrStore(key, sync.OnceValues(make))
	return kept.(func() (T, error))()
}

// Without returns t without some of its rows, and a context to fit it with: what a fit
// needs of them may come from what is known of all rows, which Whole finds.
func Without(ctx context.Context, t ood.Training, held []int) (context.Context, ood.Training) {
	out := make(map[int]bool, len(held))
	for _, r := range held {
		out[r] = true
	}
	var keep []int
	for r := range t.Len() {
		if !out[r] {
			keep = append(keep, r)
		}
	}
	part := t
	part.Batch, part.MayRetain = t.Batch.Select(keep), true
	above := storeOf(Share(ctx, t.Batch), t.Batch)
	return context.WithValue(ctx, storeKey{}, &store{rows: identityOf(part.Batch), whole: &t, above: above, held: held}), part
}

// Whole returns the training that t is of, the rows that t lacks, and a context that
// shares what is made of all rows. If t is whole, it returns nil.
func Whole(ctx context.Context, t ood.Training) (whole *ood.Training, held []int, of context.Context) {
	s := storeOf(ctx, t.Batch)
	if s == nil || s.whole == nil {
		return nil, nil, ctx
	}
	return s.whole, s.held, context.WithValue(ctx, storeKey{}, s.above)
}

// grid is the configurations that are fitted one after another, and the one that is
// being fitted.
type grid struct {
	all []ood.Params
	at  int
}

// Fitting returns a context to fit configuration at of all with.
func Fitting(ctx context.Context, all []ood.Params, at int) context.Context {
	return context.WithValue(ctx, gridKey{}, grid{all, at})
}

// Grid returns all configurations that are fitted to the same rows, one after another.
func Grid(ctx context.Context) []ood.Params {
	g, _ := ctx.Value(gridKey{}).(grid)
	return g.all
}

// Alike returns what make makes of the configuration that is being fitted to t, the
// first time for all of Grid that have its key, in order.
func Alike[K comparable, T any](ctx context.Context, t ood.Training, key func(ood.Params) K, make func(same []ood.Params, tell func(share float64)) ([]T, error)) (T, error) {
	type place struct {
		grid *ood.Params
		of   K
	}
	g := ctx.Value(gridKey{}).(grid)
	own, at := key(g.all[g.at]), 0
	var same []ood.Params
	for i, v := range g.all {
		if key(v) != own {
			continue
		}
		if i < g.at {
			at++
		}
		same = append(same, v)
	}
	all, err := Cached(ctx, t.Batch, place{&g.all[0], own}, func() ([]T, error) {
		return make(same, func(share float64) { t.Progress(share * float64(len(same))) })
	})
	if err != nil {
		return *new(T), err
	}
	return all[at], nil
}
