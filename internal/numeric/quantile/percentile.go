package quantile

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// Percentile returns a percentile of v and reorders v. It interpolates linearly, as
// numpy.percentile does by default.
func Percentile(v []float64, percentile float64) float64 {
	low, fraction := math.Modf(percentile / 100 * float64(len(v)-1))
	a := Select(v, int(low))
	if fraction == 0 {
		return a
	}
	return a + fraction*(Select(v[int(low):], 1)-a)
}

// Percentiles returns several percentiles of all elements of m, which must not be empty. It
// reads m twice instead of copying it.
func Percentiles(ctx context.Context, m blas32.General, percentiles []float64) ([]float64, error) {
	last := m.Rows*m.Cols - 1
	var ranks []int
	for _, p := range percentiles {
		low := int(p / 100 * float64(last))
		ranks = append(ranks, low, min(low+1, last))
	}
	elements := elementsAt(ctx, m, ranks)
	values := make([]float64, len(percentiles))
	for i, p := range percentiles {
		_, fraction := math.Modf(p / 100 * float64(last))
		a, b := float64(elements[2*i]), float64(elements[2*i+1])
		values[i] = a + fraction*(b-a)
	}
	return values, ctx.Err()
}

// elementsAt returns the elements of m that would have the given indices after sorting. It
// first counts all elements by the upper half of their bits. In the buckets that contain the
// ranks, it then counts elements by the lower half. The result is meaningless if the context
// ends.
func elementsAt(ctx context.Context, m blas32.General, ranks []int) []float32 {
	const half = 1 << 16
	forEach := func(visit func(key uint32)) {
		for i := 0; i < m.Rows && (i%1024 != 0 || ctx.Err() == nil); i++ {
			for _, v := range m.Data[i*m.Stride : i*m.Stride+m.Cols] {
				visit(OrderedBits(v))
			}
		}
	}
	upper, lower := make([]int, half), map[uint32][]int{}
	forEach(func(key uint32) { upper[key>>16]++ })
	keys, rankInBucket := make([]uint32, len(ranks)), make([]int, len(ranks))
	for i, rank := range ranks {
		keys[i], rankInBucket[i] = bucketOf(upper, rank)
		lower[keys[i]] = make([]int, half)
	}
	forEach(func(key uint32) {
		if counts, ok := lower[key>>16]; ok {
			counts[key%half]++
		}
	})
	values := make([]float32, len(ranks))
	for i, key := range keys {
		low, _ := bucketOf(lower[key], rankInBucket[i])
		values[i] = fromOrderedBits(key<<16 | low)
	}
	return values
}

// bucketOf returns the bucket that contains the element with the given rank, and its rank
// within the bucket. If there are fewer elements, it returns the last bucket.
func bucketOf(counts []int, rank int) (bucket uint32, inBucket int) {
	for b, n := range counts {
		if bucket = uint32(b); rank < n {
			break
		}
		rank -= n
	}
	return bucket, rank
}

// OrderedBits maps float32 numbers to integers with the same order.
func OrderedBits(v float32) uint32 {
	b := math.Float32bits(v)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// fromOrderedBits is the inverse of OrderedBits.
func fromOrderedBits(key uint32) float32 {
	return math.Float32frombits(key ^ (uint32(int32(^key)>>31) | 1<<31))
}
