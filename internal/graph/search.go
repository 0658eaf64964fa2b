package graph

import (
	"math"
	"slices"
)

// mostCompared is how many numbers are compared with at once; longer lists are
// searched in two steps.
const mostCompared = 4096

// Above is how many numbers of a list are above x, of n×lists×1, or n×1 of a single
// list: the last axis goes. For list i it begins from i times width, as Look takes it
// in tables that have width numbers for each list.
func (x Tensor) Above(lists ...[]float64) (at Tensor, width int) {
	longest := 0
	for _, l := range lists {
		longest = max(longest, len(l))
	}
	block := longest + 1
	if block > mostCompared {
		block = int(math.Ceil(math.Sqrt(float64(block))))
	}
	blocks := (longest + block) / block
	width = blocks * block
	var all, last []float64
	first := make([]int32, len(lists))
	for i, l := range lists {
		falling := slices.Sorted(slices.Values(l))
		slices.Reverse(falling)
		for len(falling) < width {
			falling = append(falling, math.Inf(-1)) // which is above nothing
		}
		for k := block - 1; k < width; k += block {
			last = append(last, falling[k])
		}
		all, first[i] = append(all, falling...), int32(i*blocks)
	}
	count := func(numbers Tensor) Tensor { return x.Less(numbers).Count(len(lists)) }
	from := func(n Tensor) Tensor {
		if len(lists) == 1 {
			return n
		}
		return n.Add(x.Constant(first))
	}
	if blocks == 1 {
		for i := range first {
			first[i] *= int32(width)
		}
		return from(count(x.Numbers(all, len(lists), width))), width
	}
	begin := from(count(x.Numbers(last, len(lists), blocks)))
	within := count(begin.Look(x.Numbers(all, len(lists)*blocks, block)).Columned(block))
	return begin.Mul(float64(block)).Add(within), width
}
