package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// TestClusters compares clusters and thresholds with TorchCP. TorchCP puts classes with too
// few rows into every set.
func TestClusters(t *testing.T) {
	b, err := os.ReadFile("testdata/clusters.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Scores   []float64
		Labels   []int
		Used     []bool `json:"served"`
		Clusters []int  `json:"of"`
		Limits   []*float64
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	parts := make([][]float64, len(want.Clusters))
	for i, label := range want.Labels {
		if want.Used[i] && want.Clusters[label] >= 0 {
			parts[label] = append(parts[label], want.Scores[i])
		}
	}
	clusters, scores, pairs := kmeansClusters(parts, 3, 1), map[int][]float64{}, map[[2]int]bool{}
	for i, label := range want.Labels {
		if !want.Used[i] {
			scores[clusters[label]] = append(scores[clusters[label]], want.Scores[i])
		}
	}
	for class, cluster := range clusters {
		pairs[[2]int{cluster, want.Clusters[class]}] = true
		if (cluster == 0) != (want.Limits[class] == nil) {
			t.Fatalf("class %d is in cluster %d", class, cluster)
		}
		if cluster == 0 {
			continue
		}
		slices.Sort(scores[cluster])
		if got := randomThresholdAt(scores[cluster], .1).score; math.Abs(got-*want.Limits[class]) > 1e-9 {
			t.Errorf("class %d has the threshold %v, want %v", class, got, *want.Limits[class])
		}
	}
	if len(pairs) != 4 {
		t.Errorf("clusters are %v, want %v", clusters, want.Clusters)
	}
}

// TestClusterCoverage checks that sets by cluster cover as often as guaranteed. They must
// cover hard classes more often than sets with one threshold for all classes.
func TestClusterCoverage(t *testing.T) {
	const repeats, n, classes, alpha = 75, 700, 30, .1
	covered, hard := map[bool]float64{}, map[bool]float64{}
	var rows, hardRows float64
	rng := rand.New(rand.NewPCG(9, 10))
	for r := range repeats {
		z, labels := drawClasses(rng, n, classes)
		test, truth := drawClasses(rng, 200, classes)
		for _, byCluster := range []bool{false, true} {
			sets := mustSets(t, z, labels, SetOptions{Score: "lac", ByCluster: byCluster, Seed: uint64(r)}, alpha).Predict(test, 0)
			for i, set := range sets {
				if !slices.Contains(set, truth[i]) {
					continue
				}
				covered[byCluster]++
				if truth[i]%3 == 0 {
					hard[byCluster]++
				}
			}
		}
		for _, label := range truth {
			rows++
			if label%3 == 0 {
				hardRows++
			}
		}
	}
	if got := covered[true] / rows; got < 1-alpha-.01 || got > 1-alpha+.03 {
		t.Errorf("sets by cluster cover %v", got)
	}
	if with, without := hard[true]/hardRows, hard[false]/hardRows; with < without+.005 {
		t.Errorf("sets by cluster cover %v of hard classes, and for all classes %v", with, without)
	}
}
