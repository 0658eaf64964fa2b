package trees

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkQuantiles predicts 10,000 rows with 500 trees that were grown on 10,000 rows.
func BenchmarkQuantiles(b *testing.B) {
	x, y := noisyData(10000, 8, 1)
	test, _ := noisyData(10000, 8, 2)
	data, err := NewData(x, Exact)
	if err != nil {
		b.Fatal(err)
	}
	levels := []float64{0.025, 0.975}
	dst := make([]float32, test.Rows*len(levels))
	for _, depth := range []int{0, 3, 5, 10} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			f, err := GrowForest(context.Background(), data, y, ForestOptions{Trees: 500, Options: Options{MaxDepth: depth}})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				f.Quantiles(dst, test, levels)
			}
		})
	}
}

func BenchmarkGrow(b *testing.B) {
	x, y := noisyData(10000, 8, 1)
	for _, bins := range []int{Exact, maxBins} {
		data, err := NewData(x, bins)
		if err != nil {
			b.Fatal(err)
		}
		for _, depth := range []int{0, 5} {
			b.Run(fmt.Sprintf("bins=%d,depth=%d", bins, depth), func(b *testing.B) {
				for b.Loop() {
					if _, err := GrowForest(context.Background(), data, y, ForestOptions{Trees: 10, Options: Options{MaxDepth: depth}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("boost,bins=%d", bins), func(b *testing.B) {
			for b.Loop() {
				if _, err := Boost(context.Background(), data, y, BoostOptions{Level: 0.9, LearningRate: .1, Trees: 10, Options: Options{MaxDepth: 3}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
