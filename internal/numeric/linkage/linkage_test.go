package linkage

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// normal returns n points of a normal distribution around each centre.
func normal(seed uint64, n, width int, centres ...float64) *mat.Dense {
	r := rand.New(rand.NewPCG(seed, 2))
	x := mat.NewDense(n*len(centres), width, nil)
	for i := range n * len(centres) {
		for j := range width {
			x.Set(i, j, r.NormFloat64())
		}
		x.Set(i, i/n%width, x.At(i, i/n%width)+centres[i/n])
	}
	return x
}

func TestClusters(t *testing.T) {
	c, err := Clusters(context.Background(), normal(1, 20, 8, 15, 15, 15))
	if err != nil || c == nil {
		t.Fatalf("%v, %v", c, err)
	}
	for i := range c {
		if c[i] != i/20 {
			t.Fatalf("point %d is in cluster %d: %v", i, c[i], c)
		}
	}
	// A few points far away are in no cluster, and hide no other.
	x := normal(2, 30, 5, 12, 12)
	for i := range 3 {
		x.Set(i, 4, 60)
	}
	c, err = Clusters(context.Background(), x)
	if err != nil || c == nil {
		t.Fatalf("%v, %v", c, err)
	}
	want := append([]int{None, None, None}, append(make([]int, 27), slices.Repeat([]int{1}, 30)...)...)
	if !slices.Equal(c, want) {
		t.Errorf("%v", c)
	}
}

// TestNoClusters checks that points of one distribution are rarely divided, also if they lie
// along a line.
func TestNoClusters(t *testing.T) {
	divided := 0
	for seed := range uint64(20) {
		x := normal(seed, 60, 1+int(seed%6), 0)
		for i := range 60 {
			x.Set(i, 0, 4*x.At(i, 0))
		}
		c, err := Clusters(context.Background(), x)
		if err != nil {
			t.Fatal(err)
		}
		if c != nil {
			divided++
		}
	}
	if divided > 4 { // P(more than 4 of 20) is 0.003 at a rate of 1/20
		t.Errorf("%d of 20 samples are divided", divided)
	}
	for _, x := range []*mat.Dense{normal(1, 4, 3, 0, 9), mat.NewDense(20, 3, nil)} {
		if c, err := Clusters(context.Background(), x); c != nil || err != nil {
			t.Errorf("%v, %v", c, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Clusters(ctx, normal(1, 20, 8, 15, 15, 15)); err == nil {
		t.Error("it ignores the context")
	}
}

// TestReference compares clusters and their silhouettes with those of AgglomerativeClustering
// (linkage "ward") and silhouette_score of scikit-learn 1.9.1.
func TestReference(t *testing.T) {
	points := make([][]float64, 30)
	for i := range points {
		points[i] = []float64{math.Sin(float64(7*i)) + float64(4*(i%3)), math.Cos(float64(5*i*i)) + float64(3*(i%2))}
	}
	d := squaredDistances(points)
	merges := ward(d)
	for _, want := range []struct {
		count      int
		of         [3]int // clusters of the first points, which repeat
		silhouette float64
	}{
		{2, [3]int{0, 1, 1}, 0.47178828565042663},
		{3, [3]int{0, 1, 2}, 0.45693022423811525},
	} {
		c, count := cut(merges[:30-want.count], 30)
		for i := range c {
			if c[i] != want.of[i%3] {
				t.Fatalf("%d clusters: %v", want.count, c)
			}
		}
		if s := meanSilhouette(d, c, count); count != want.count || math.Abs(s-want.silhouette) > 1e-12 {
			t.Errorf("%d clusters have a silhouette of %v", count, s)
		}
	}
}
