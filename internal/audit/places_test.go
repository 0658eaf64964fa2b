package audit

import (
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/audit/result"
)

func TestPlaces(t *testing.T) {
	a := &Audit{Audit: result.Audit{Shards: make([]Shard, 12), Groups: []Group{{Kind: "folder", Name: "days", Inputs: 1200, Outliers: 300}, {Kind: "group", Name: "all", Inputs: 1200, Outliers: 300}}}}
	for i := range 12 {
		a.Groups = append(a.Groups, Group{Kind: "shard", Name: fmt.Sprintf("day-%02d.csv", i+1), Inputs: 100, Outliers: max(0, 10*(i-4)), Labelled: []int{50}, LabelErrors: []int{i % 7 / 6}})
	}
	// The seventh of the days with outliers, which has the fewest, is counted but not named.
	if got, want := a.OutlierPlaces(), "20 of 100 in day-07.csv, 30 of 100 in day-08.csv, 40 of 100 in day-09.csv, 50 of 100 in day-10.csv, 60 of 100 in day-11.csv, 70 of 100 in day-12.csv, some in 1 more"; got != want {
		t.Errorf("outliers are in %q, want %q", got, want)
	}
	if got, want := a.LabelErrorPlaces(0), "1 of 50 in day-07.csv"; got != want {
		t.Errorf("wrong labels are in %q, want %q", got, want)
	}
	// A single file is divided into its folders.
	a.Shards, a.Groups = a.Shards[:1], []Group{{Kind: "shard", Name: "photos", Inputs: 20, Outliers: 5}, {Kind: "folder", Name: "photos/a", Inputs: 10, Outliers: 5}, {Kind: "folder", Name: "photos/b", Inputs: 10}}
	if got, want := a.OutlierPlaces(), "5 of 10 in photos/a"; got != want {
		t.Errorf("outliers are in %q, want %q", got, want)
	}
}
