package kmeans

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

func TestClustersFarApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := rows.New(2500, 3)
	for i := range x.Rows {
		for j := range x.Cols {
			rows.Row(x, i)[j] = float32(r.NormFloat64())
		}
		rows.Row(x, i)[i%3] += 100
	}
	clusters, err := Cluster(t.Context(), x, 3, r)
	if err != nil || slices.Max(clusters) != 2 {
		t.Fatalf("clusters %v, error %v", clusters, err)
	}
	for i, c := range clusters {
		if c != clusters[i%3] {
			t.Fatalf("row %d is in cluster %d, and row %d near it in %d", i, c, i%3, clusters[i%3])
		}
	}
}

func TestNoMoreClustersThanDistinctRows(t *testing.T) {
	x := rows.New(10, 1)
	for i := range x.Rows {
		x.Data[i] = float32(i % 2)
	}
	clusters, err := Cluster(t.Context(), x, 5, rand.New(rand.NewPCG(0, 0)))
	if err != nil || slices.Max(clusters) != 1 || clusters[0] == clusters[1] || clusters[0] != clusters[2] {
		t.Fatalf("clusters %v, error %v", clusters, err)
	}
}
