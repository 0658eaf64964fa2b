package memo

import (
	"context"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// TestCached checks that a result is computed once for its rows, and that it is never
// returned for other rows.
func TestCached(t *testing.T) {
	type key struct{}
	results := 0
	cachedLen := func(ctx context.Context, b ood.Batch) int {
		n, err := Cached(ctx, b, key{}, func() (int, error) { results++; return b.Len(), nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := ood.Batch{Features: rows.New(6, 2)}
	part, copied := all.Slice(0, 4), all.Select([]int{0, 1, 2, 3, 4, 5})
	ctx := Share(t.Context(), all)
	for range 2 {
		if cachedLen(ctx, all) != 6 || results != 1 {
			t.Errorf("made %d times for the same rows, want once", results)
		}
	}
	if cachedLen(ctx, part) != 4 || cachedLen(ctx, copied) != 6 || results != 3 {
		t.Errorf("made %d times for three batches, want 3", results)
	}
	inputs := ood.Batch{Inputs: ood.BlockOf([]int{2, 1}, []float32{1, 2})}
	otherInputs := ood.Batch{Inputs: ood.BlockOf([]int{2, 1}, []float32{1, 3})}
	ctx = Share(ctx, inputs)
	cachedLen(ctx, inputs)
	if cachedLen(ctx, otherInputs); results != 5 {
		t.Errorf("made %d times, want 5: inputs of the same shape are not the same rows", results)
	}
}

// TestWithout checks that the fit of a part has access to all rows, and that different
// parts share results for all rows.
func TestWithout(t *testing.T) {
	type key struct{}
	results := 0
	whole := ood.Training{Batch: ood.Batch{Features: rows.New(6, 2)}}
	ctx := Share(t.Context(), whole.Batch)
	for _, held := range [][]int{{0, 3}, {1, 2}} {
		partCtx, part := Without(ctx, whole, held)
		all, lacking, parent := Whole(partCtx, part)
		if part.Len() != 4 || all == nil || all.Len() != 6 || !slices.Equal(lacking, held) {
			t.Fatalf("part of %d rows of %v without %v", part.Len(), all, lacking)
		}
		if _, err := Cached(parent, all.Batch, key{}, func() (int, error) { results++; return 0, nil }); err != nil {
			t.Fatal(err)
		}
		if again, _, _ := Whole(parent, *all); again != nil {
			t.Error("all rows are said to be part of others")
		}
	}
	if results != 1 {
		t.Errorf("made %d times, want once for both parts", results)
	}
}

// TestOncePerKey checks that the first call for a key computes the results of all
// configurations with this key.
func TestOncePerKey(t *testing.T) {
	training := ood.Training{Batch: ood.Batch{Features: rows.New(3, 1)}, Progress: func(float64) {}}
	var grid []ood.Params
	for _, v := range []float64{10, 21, 12, 23} {
		grid = append(grid, ood.Params{"v": v})
	}
	ctx, results := Share(t.Context(), training.Batch), 0
	for i, p := range grid {
		got, err := OncePerKey(Fitting(ctx, grid, i), training, func(p ood.Params) int { return p.Int("v") / 10 }, func(same []ood.Params, _ func(float64)) (all []int, err error) {
			results++
			for _, s := range same {
				all = append(all, s.Int("v"))
			}
			return all, nil
		})
		if err != nil || got != p.Int("v") {
			t.Errorf("configuration %d: %d, %v", i, got, err)
		}
	}
	if results != 2 {
		t.Errorf("made %d times, want once for each of two keys", results)
	}
}
