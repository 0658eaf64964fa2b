package featurize

import (
	"context"
	"iter"
	"math"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// blockNumbers bounds the numbers in a block of replaced rows.
const blockNumbers = 1 << 21

// blockRows returns the number of rows in a block of replaced rows.
func (at *attributor) blockRows() int {
	width := 1
	for _, t := range at.x.Tensors {
		width += product(t.Shape[1:])
	}
	return max(1, min(1024, blockNumbers/width))
}

// stream yields the scores of blocks of rows.
func (at *attributor) stream(ctx context.Context, blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[float64, error] {
	return func(yield func(float64, error) bool) {
		for r, err := range at.model.Rows(ctx, blocks) {
			var predictions []attach.Prediction
			if err == nil {
				if at.scorer.Bundle().Calibration.Groups != nil {
					r.Groups = make([]string, r.Len()) // scores do not depend on groups
				}
				predictions, err = at.scorer.Predict(ctx, r)
			}
			if err != nil {
				yield(0, err)
				return
			}
			for _, p := range predictions {
				if !yield(p.Score, nil) {
					return
				}
			}
		}
	}
}

// replace attributes the scores of the given rows to elements by replacing one element at a
// time.
func (at *attributor) replace(ctx context.Context, list []int, result []Attribution) error {
	next, stop := iter.Pull2(at.stream(ctx, at.replacedBlocks(list, result)))
	defer stop()
	for _, i := range list {
		result[i].Method = "replacement"
		for k, t := range result[i].Tensors {
			draws := at.draws(k)
			for e := range t.Values {
				sum := 0.
				for range draws {
					score, err, ok := next()
					if err != nil || !ok {
						return err
					}
					if drop := result[i].Score - score; !math.IsNaN(drop) { // both scores may be infinite
						sum += drop
					}
				}
				t.Values[e] = sum / float64(draws)
			}
		}
	}
	return nil
}

// draws returns how often each element of tensor k is replaced.
func (at *attributor) draws(k int) int {
	if at.grids[k].text || at.grids[k].image {
		return 1
	}
	return at.reference.Len()
}

// replacedBlocks yields copies of the given rows, each with one replaced element.
func (at *attributor) replacedBlocks(list []int, result []Attribution) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		size := at.blockRows()
		var block ood.InputBlock
		for _, i := range list {
			for k, t := range result[i].Tensors {
				for e := range t.Values {
					for draw := range at.draws(k) {
						if block.Len() == size {
							if !yield(block, nil) {
								return
							}
							block = ood.InputBlock{}
						}
						at.appendReplaced(&block, i, k, e, draw, t)
					}
				}
			}
		}
		if block.Len() > 0 {
			yield(block, nil)
		}
	}
}

// appendReplaced appends row i, in which element e of tensor k is replaced.
func (at *attributor) appendReplaced(block *ood.InputBlock, i, k, e, draw int, t TensorAttribution) {
	if block.Tensors == nil {
		for _, t := range at.x.Tensors {
			block.Tensors = append(block.Tensors, ood.Tensor{Name: t.Name, Shape: append([]int{0}, t.Shape[1:]...)})
		}
	}
	for j := range block.Tensors {
		appendRows(&block.Tensors[j], at.x.Tensors[j], i, i+1)
		block.Tensors[j].Shape[0]++
	}
	to := &block.Tensors[k]
	if at.grids[k].text {
		last := len(to.Strings) - 1
		w := t.Offsets[e]
		to.Strings[last] = to.Strings[last][:w[0]] + to.Strings[last][w[1]:]
		return
	}
	from := at.reference.Tensors[k]
	if at.grids[k].image {
		from = at.mean.Tensors[k]
	}
	width := product(from.Shape[1:])
	for _, m := range at.grids[k].members[e] {
		if to.Strings != nil {
			to.Strings[len(to.Strings)-width+m] = from.Strings[draw*width+m]
		} else {
			to.Data[len(to.Data)-width+m] = from.Data[draw*width+m]
		}
	}
}
