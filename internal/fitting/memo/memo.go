// Package memo keeps what was computed from a set of rows, so that other fits and
// scorers of the same rows do not compute it again.
package memo

import (
	"sync"

	"github.com/attach-uncertainty/attach/ood"
)

// Cached returns what make made the first time that it was asked for with the
// key, one of the caller's own types; where b has no cache, it makes it anew. An
// error is kept too.
func Cached[T any](b ood.Batch, key any, make func() (T, error)) (T, error) {
	if b.Cache == nil {
		return make()
	}
	kept, _ := b.Cache.LoadOrStore(key, sync.OnceValues(make))
	return kept.(func() (T, error))()
}

// Without returns t without some of its rows; what a fit needs of them may come
// from what it knows of all rows.
func Without(t ood.Training, held []int) ood.Training {
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
	part.Cache, part.Whole, part.Held = &sync.Map{}, &t, held
	return part
}

// Alike returns what make makes of the configuration that is being fitted,
// the first time for all of Grid that have its key, in order.
func Alike[K comparable, T any](t ood.Training, key func(ood.Params) K, make func(same []ood.Params, tell func(share float64)) ([]T, error)) (T, error) {
	type place struct {
		grid *ood.Params
		of   K
	}
	own, at := key(t.Grid[t.At]), 0
	var same []ood.Params
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
		return make(same, func(share float64) { t.Progress(share * float64(len(same))) })
	})
	if err != nil {
		return *new(T), err
	}
	return all[at], nil
}
