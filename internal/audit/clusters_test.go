package audit

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

// TestClusters checks that discoveries of two kinds are two clusters, however rows are divided
// into parts, and that their inputs can be listed. Outliers of one kind are in no cluster.
func TestClusters(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .02, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]ood.Batch{"good/0.npz": sample(300, 5, 0), "bad/down.npz": sample(60, 6, -6), "bad/up.npz": sample(50, 7, 6)}
	names := slices.Sorted(maps.Keys(all))
	files := scoreFiles(t, s, all, names, noCuts)
	_, a := finishAudit(t, files)
	if len(a.Clusters) != 2 || a.Clustered != a.Discoveries {
		t.Fatalf("%d of %d discoveries are in %+v", a.Clustered, a.Discoveries, a.Clusters)
	}
	w, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	for i, place := range []string{"bad/down.npz", "bad/up.npz"} {
		c := a.Clusters[i]
		if c.Place == nil || c.Place.Name != place || 10*c.Place.Inputs < 9*c.Inputs || c.Inputs < 45 || c.Class == nil || c.Reasons == nil {
			t.Errorf("%+v", c)
		}
		if len(c.Keys) != maxClusterKeys || len(c.NearestNormal) != maxNearestNormal || slices.ContainsFunc(c.NearestNormal, func(key string) bool { return !strings.HasPrefix(key, "good/") }) {
			t.Errorf("%+v", c)
		}
		var keys []string
		if err := w.List(t.Context(), a, Selection{Within: c.Name}, func(row []any) error { keys = append(keys, row[0].(string)); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(keys) != c.Inputs || !slices.Contains(keys, c.Keys[0]) {
			t.Errorf("%s has %d inputs, and lists %v", c.Name, c.Inputs, keys)
		}
		for _, r := range a.HighestScoring {
			if (r.Cluster == c.Name) != slices.Contains(keys, r.Key) {
				t.Errorf("%s is in %q", r.Key, r.Cluster)
			}
		}
	}
	_, divided := finishAudit(t, scoreFiles(t, s, all, names, func(int) []int { return []int{7, 31} }))
	if !reflect.DeepEqual(divided.Clusters, a.Clusters) {
		t.Errorf("in other parts, there are %+v", divided.Clusters)
	}
	delete(all, "bad/up.npz")
	for i, class := range all["bad/down.npz"].Labels { // the classes of a sample are clusters too
		all["bad/down.npz"].Features.Data[6*i+class] -= 3
	}
	if _, a := finishAudit(t, scoreFiles(t, s, all, slices.Sorted(maps.Keys(all)), noCuts)); a.Clusters != nil || a.Discoveries < 45 {
		t.Errorf("%d discoveries of one kind are in %+v", a.Discoveries, a.Clusters)
	}
}
