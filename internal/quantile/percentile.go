package quantile

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// Percentile is a percentile of v, which it reorders, with values in
// between interpolated linearly: numpy.percentile's default.
func Percentile(v []float64, percentile float64) float64 {
	low, share := math.Modf(percentile / 100 * float64(len(v)-1))
	a := Select(v, int(low))
	if share == 0 {
		return a
	}
	return a + share*(Select(v[int(low):], 1)-a)
}

// Percentiles is Percentile of all elements of m, which has some,
// for several percentiles. It goes over m twice and copies none of it.
func Percentiles(ctx context.Context, m blas32.General, percentiles []float64) ([]float64, error) {
	n := m.Rows * m.Cols
	var ranks []int
	shares := make([]float64, len(percentiles))
	for i, p := range percentiles {
		low, share := math.Modf(p / 100 * float64(n-1))
		ranks = append(ranks, int(low), min(int(low)+1, n-1))
		shares[i] = share
	}
	found, err := elementsOfRank(ctx, m, ranks)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(percentiles))
	for i, share := range shares {
		a, b := float64(found[2*i]), float64(found[2*i+1])
		values[i] = a + share*(b-a)
	}
	return values, nil
}

// elementsOfRank returns the elements that sorting m would put at some indices:
// it counts by the upper half of a number's bits and then, among those that
// share it with one that is looked for, by the lower.
func elementsOfRank(ctx context.Context, m blas32.General, ranks []int) ([]float32, error) {
	const half = 1 << 16
	upper := make([]int, half)
	lower := map[uint32][]int{}
	each := func(visit func(key uint32)) error {
		for i := range m.Rows {
			if i%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			for _, v := range m.Data[i*m.Stride : i*m.Stride+m.Cols] {
				visit(orderedBits(v))
			}
		}
		return ctx.Err()
	}
	if err := each(func(key uint32) { upper[key>>16]++ }); err != nil {
		return nil, err
	}
	keys := make([]uint32, len(ranks))
	rest := make([]int, len(ranks))
	for i, rank := range ranks {
		keys[i], rest[i] = bucketOf(upper, rank)
		if lower[keys[i]] == nil {
			lower[keys[i]] = make([]int, half)
		}
	}
	err := each(func(key uint32) {
		if counts, ok := lower[key>>16]; ok {
			counts[key%half]++
		}
	})
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(ranks))
	for i, key := range keys {
		low, _ := bucketOf(lower[key], rest[i])
		values[i] = fromOrderedBits(key<<16 | low)
	}
	return values, nil
}

// bucketOf finds the bucket that holds the element of some rank, and its rank
// in there.
func bucketOf(counts []int, rank int) (uint32, int) {
	for b, n := range counts {
		if rank < n {
			return uint32(b), rank
		}
		rank -= n
	}
	panic("quantile: rank beyond the last element")
}

// orderedBits maps numbers to integers in the same order.
func orderedBits(v float32) uint32 {
	if b := math.Float32bits(v); b>>31 == 0 {
		return b | 1<<31
	} else {
		return ^b
	}
}

func fromOrderedBits(key uint32) float32 {
	if key>>31 == 1 {
		return math.Float32frombits(key &^ (1 << 31))
	}
	return math.Float32frombits(^key)
}
