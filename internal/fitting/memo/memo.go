// Package memo shares intermediate results between fits and scorers of the same rows, so
// that each result is computed only once. The results are stored in the context.
package memo

import (
	"context"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// store holds results that were computed from the same rows.
type store struct {
	rows    identity
	results sync.Map
	// The following fields are set only if the rows are a part of a larger training. Then
	// whole is the larger training, and parent is the store of its rows. held lists the rows
	// of whole that the part lacks.
	whole  *ood.Training
	parent *store
	held   []int
}

// identity identifies a set of rows by the addresses of its data in memory.
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

// storeOf returns the store in the context if it belongs to the rows of b, or nil.
func storeOf(ctx context.Context, b ood.Batch) *store {
	if s, ok := ctx.Value(storeKey{}).(*store); ok && s.rows == identityOf(b) {
		return s
	}
	return nil
}

// Share returns a context that stores results computed from the rows of b.
func Share(ctx context.Context, b ood.Batch) context.Context {
	if storeOf(ctx, b) != nil {
		return ctx
	}
	return context.WithValue(ctx, storeKey{}, &store{rows: identityOf(b)})
}

// Cached returns the result of make. If the context stores results of the rows of b, Cached
// calls make only once for each key, and stores the result or the error. The type of key
// must belong to the caller, so that keys of different packages differ.
func Cached[T any](ctx context.Context, b ood.Batch, key any, make func() (T, error)) (T, error) {
	s := storeOf(ctx, b)
	if s == nil {
		return make()
	}
	cached, _ := s.results.LoadOrStore(key, sync.OnceValues(make))
	return cached.(func() (T, error))()
}

// Without returns the part of t that lacks the rows held, and a context for its fit. In
// that context, Whole returns t, so that results for the part can be derived from results
// for all rows.
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
	parent := storeOf(Share(ctx, t.Batch), t.Batch)
	return context.WithValue(ctx, storeKey{}, &store{rows: identityOf(part.Batch), whole: &t, parent: parent, held: held}), part
}

// Whole returns the training that t is a part of, the rows that t lacks, and a context that
// stores results of all rows. If t is not a part, whole is nil.
func Whole(ctx context.Context, t ood.Training) (whole *ood.Training, held []int, wholeCtx context.Context) {
	s := storeOf(ctx, t.Batch)
	if s == nil || s.whole == nil {
		return nil, nil, ctx
	}
	return s.whole, s.held, context.WithValue(ctx, storeKey{}, s.parent)
}

// grid holds the configurations that are fitted one after another, and the index of the
// current configuration.
type grid struct {
	all []ood.Params
	at  int
}

// Fitting returns a context for the fit of configuration all[at].
func Fitting(ctx context.Context, all []ood.Params, at int) context.Context {
	return context.WithValue(ctx, gridKey{}, grid{all, at})
}

// Grid returns all configurations of the current grid. FitGrid fits them one after another
// to one set of rows.
func Grid(ctx context.Context) []ood.Params {
	g, _ := ctx.Value(gridKey{}).(grid)
	return g.all
}

// OncePerKey returns the result of make for the configuration that is being fitted to t. On
// the first call for a key, make gets all configurations of the grid with this key, in
// order. It must return one result for each of them.
func OncePerKey[K comparable, T any](ctx context.Context, t ood.Training, key func(ood.Params) K, make func(same []ood.Params, report func(fraction float64)) ([]T, error)) (T, error) {
	type cacheKey struct {
		grid *ood.Params
		key  K
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
	all, err := Cached(ctx, t.Batch, cacheKey{&g.all[0], own}, func() ([]T, error) {
		return make(same, func(fraction float64) { t.Progress(fraction * float64(len(same))) })
	})
	if err != nil {
		return *new(T), err
	}
	return all[at], nil
}
