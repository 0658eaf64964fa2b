package trees

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"
)

func fitBoosted(t *testing.T, bins int, rows int, o BoostOptions) *Boosted {
	t.Helper()
	x, y := noisyData(rows, 8, 7)
	data, err := NewData(x, bins)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Boost(context.Background(), data, y, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBoostDependsOnSeedNotThreads checks that the model depends on the seed but not on the
// number of threads. The root and its children are large enough for several threads.
func TestBoostDependsOnSeedNotThreads(t *testing.T) {
	for _, bins := range []int{Exact, maxBins} {
		o := BoostOptions{Level: 0.9, Trees: 5, LearningRate: .1, Threads: 1, Options: Options{MaxDepth: 4, MaxFeatures: 0.5}}
		oneThread := fitBoosted(t, bins, 4*minParallelElements/8, o)
		o.Threads = 4
		if fourThreads := fitBoosted(t, bins, 4*minParallelElements/8, o); !reflect.DeepEqual(oneThread, fourThreads) {
			t.Errorf("bins %d: four threads fit another model than one", bins)
		}
		o.Seed = 1
		if otherSeed := fitBoosted(t, bins, 4*minParallelElements/8, o); reflect.DeepEqual(oneThread, otherSeed) {
			t.Errorf("bins %d: two seeds fit one model of half of the columns", bins)
		}
	}
}

func TestBoostReachesItsLevel(t *testing.T) {
	x, y := noisyData(2000, 8, 7)
	for _, level := range []float64{0.05, 0.5, 0.9} {
		b := fitBoosted(t, Exact, 2000, BoostOptions{Level: level, Trees: 3, LearningRate: 1, Options: Options{MaxDepth: 3}})
		p := make([]float64, 2000)
		b.Predict(p, x)
		var below, at float64
		for i, v := range y {
			switch d := float64(v) - p[i]; {
			case d < -1e-9:
				below += 1. / 2000
			case d < 1e-9:
				at += 1. / 2000
			}
		}
		if below > level || below+at < level {
			t.Errorf("at %v: %.4f of the targets are below and %.4f at the prediction", level, below, at)
		}
	}
}

// TestBoostComesDownFromTheLargestTarget checks data with many targets equal to the largest
// one. The upper quantile starts at this value and must decrease for inputs with small
// targets.
func TestBoostComesDownFromTheLargestTarget(t *testing.T) {
	x, y := noisyData(1000, 2, 9)
	for i := range y {
		y[i] = min(max(x.Data[i*x.Stride], 0), 1)
	}
	data, err := NewData(x, Exact)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Boost(context.Background(), data, y, BoostOptions{Level: 0.975, Trees: 100, LearningRate: .1, Options: Options{MaxDepth: 3}})
	if err != nil {
		t.Fatal(err)
	}
	p := make([]float64, len(y))
	b.Predict(p, x)
	if b.Base != 1 {
		t.Fatalf("the first prediction is %v, want 1", b.Base)
	}
	for i, v := range y {
		if math.Abs(p[i]-float64(v)) > 0.01 {
			t.Fatalf("row %d, which has no noise: %v, want %v", i, p[i], v)
		}
	}
}

func TestBoostEnds(t *testing.T) {
	x, y := noisyData(20, 2, 1)
	data, err := NewData(x, Automatic)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Boost(ctx, data, y, BoostOptions{Level: 0.5, Trees: 1, LearningRate: .1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
