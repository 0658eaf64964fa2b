package ood

import (
	"sync"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// Cache keeps what several fits or scorers make of the same rows, by keys of
// the caller's own types. Its zero value is empty. It is safe for concurrent
// use.
type Cache struct {
	mu   sync.Mutex
	kept map[any]*kept
}

type kept struct {
	once  sync.Once
	value any
	err   error
}

// Cached returns what make made the first time that it was asked for with the
// key; where b has no cache, it makes it anew. An error is kept too.
func Cached[T any](b Batch, key any, make func() (T, error)) (T, error) {
	if b.Cache == nil {
		return make()
	}
	b.Cache.mu.Lock()
	k := b.Cache.kept[key]
	if k == nil {
		k = &kept{}
		if b.Cache.kept == nil {
			b.Cache.kept = map[any]*kept{}
		}
		b.Cache.kept[key] = k
	}
	b.Cache.mu.Unlock()
	k.once.Do(func() { k.value, k.err = make() })
	value, _ := k.value.(T)
	return value, k.err
}

// Fold says of which rows a training is the rest, for fits that calibrate each
// other.
type Fold struct {
	Whole Training // with a cache
	Held  []int    // rows of Whole
}

// Without returns t without some of its rows; what a fit needs of them may come
// from what it knows of all rows.
func (t Training) Without(held []int) Training {
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
	part.Batch, part.Stays = t.Batch.Select(keep), true
	part.Cache = &Cache{}
	part.Fold = &Fold{Whole: t, Held: held}
	return part
}

// Alike returns what make makes of the configuration that is being fitted,
// the first time for all of Grid that have its key, in order.
func Alike[K comparable, T any](t Training, key func(Params) K, make func(same []Params, tell func(share float64)) ([]T, error)) (T, error) {
	type place struct {
		grid *Params
		of   K
	}
	own, at := key(t.Grid[t.At]), 0
	var same []Params
	for i, v := range t.Grid {
		if key(v) != own {
			continue
		}
		if i < t.At {
			at++
		}
		same = append(same, v)
	}
	all, err := Cached(t.Batch, place{&t.Grid[0], own}, func() ([]T, error) {
		return make(same, func(share float64) { t.Tell(share * float64(len(same))) })
	})
	if err != nil {
		return *new(T), err
	}
	return all[at], nil
}

// Tell tells the training's progress, if anybody listens.
func (t Training) Tell(share float64) { rows.Progress(t.Progress).Tell(share) }
