package graph

import (
	"math"
	"slices"
)

// CountAbove counts, for each list, the numbers that are larger than x. x is n×lists×1, or
// n×1 for a single list. The returned tensor at lacks the last axis. The count for list i
// is offset by i·width, so that Lookup can use it as an index into tables with width
// entries per list. To save comparisons, CountAbove first finds the block of the sorted
// list that contains x, and then the place of x in that block.
func (x Tensor) CountAbove(lists ...[]float64) (at Tensor, width int) {
	longest := 0
	for _, l := range lists {
		longest = max(longest, len(l))
	}
	block := int(math.Ceil(math.Sqrt(float64(longest + 1))))
	blocks := (longest + block) / block
	width = blocks * block
	var all, blockEnds []float64
	first := make([]int32, len(lists))
	for i, l := range lists {
		descending := slices.Sorted(slices.Values(l))
		slices.Reverse(descending)
		for len(descending) < width {
			descending = append(descending, math.Inf(-1)) // padding: −Inf is never larger than x, so it is not counted
		}
		for k := block - 1; k < width; k += block {
			blockEnds = append(blockEnds, descending[k])
		}
		all, first[i] = append(all, descending...), int32(i*blocks)
	}
	count := func(numbers Tensor) Tensor { return x.Less(numbers).Count(len(lists)) }
	blockIndex := count(x.Numbers(blockEnds, len(lists), blocks))
	if len(lists) > 1 {
		blockIndex = blockIndex.Add(x.Constant(first))
	}
	inBlock := count(blockIndex.Lookup(x.Numbers(all, len(lists)*blocks, block)).WithCols(block))
	return blockIndex.Mul(float64(block)).Add(inBlock), width
}
