package inputs

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

func TestTableGroups(t *testing.T) {
	dir := t.TempDir()
	open := func(name, content string, o Options) (*Set, error) {
		return Open(context.Background(), writeFile(t, dir, name, content), o)
	}
	s, err := open("a.csv", "x,site,y\n1, north ,5\n2,7,6\n3,north,8\n", Options{Groups: "site", Targets: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Groups; !slices.Equal(got, []string{"north", "7", "north"}) || s.RowLen() != 1 {
		t.Errorf("groups %q of rows of %d columns", got, s.RowLen())
	}
	if got := s.Columns; !slices.Equal(got, []string{"x"}) {
		t.Errorf("columns %q without those of groups and the target", got)
	}
	if y := s.Targets; !slices.Equal(y.Data, []float32{5, 6, 8}) {
		t.Errorf("targets %v", y.Data)
	}
	if got := s.Subset([]int{2, 1}).Groups; !slices.Equal(got, []string{"north", "7"}) {
		t.Errorf("groups of a subset %q", got)
	}
	for _, tt := range []struct {
		name, content string
		o             Options
		want          string
	}{
		{"one.csv", "site\nnorth\n", Options{Groups: "site"}, "no inputs"},
		{"none.csv", "x,y\n1,2\n", Options{Groups: "site"}, `no column "site" to take groups from; its columns are x, y`},
		{"bare.csv", "1,2\n3,4\n", Options{Groups: "site"}, "no header"},
	} {
		if _, err := open(tt.name, tt.content, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want it to say %q", tt.name, err, tt.want)
		}
	}
}

// TestOpenTimes checks that times are texts, numbers or dates of tables, or numbers of arrays.
func TestOpenTimes(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, dir, "a.csv", "x,at\n1, 2024-05-01 \n2,7.50\n3,\n")
	arrays := writeNPZ(t, false, map[string]rows.Array{
		"at": {Shape: []int{3}, Data: []float64{0, .5, math.NaN()}}, "single": {Shape: []int{2, 1}, Data: []float32{.1, 2}}, "whole": {Shape: []int{2}, Data: []int64{-7, 20240501}}, "wide": {Shape: []int{1, 2}, Data: []int64{1, 2}},
	})
	for _, tt := range []struct {
		path, name string
		want       []string
		err        string
	}{
		{path, "at", []string{"2024-05-01", "7.50", ""}, ""},
		{"../parquet/testdata/dates/dates.parquet", "ms", []string{"2024-02-29 23:59:59.123", "", "1969-12-31 00:00:01"}, ""},
		{"../parquet/testdata/dates/dates.parquet", "number", []string{"1", "2", "3"}, ""},
		{arrays, "at", []string{"0", "0.5", "NaN"}, ""},
		{arrays, "single", []string{"0.1", "2"}, ""},
		{arrays, "whole", []string{"-7", "20240501"}, ""},
		{arrays, "wide", nil, "its shape is [1 2]"},
		{path, "month", nil, `a.csv: there is no column "month" to take times from; its columns are x, at`},
		{"a.tar", "at", nil, "a.tar: only a table or an .npz file has times"},
	} {
		got, err := OpenTimes(context.Background(), tt.path, tt.name)
		if !slices.Equal(got, tt.want) || (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s of %s: %q, %v", tt.name, tt.path, got, err)
		}
	}
}

func TestTextGroups(t *testing.T) {
	const path = "../npy/testdata/texts.npz"
	got, err := OpenGroups(context.Background(), path, "many", 120_001)
	if err != nil || got[0] != "abc" || got[120_000] != "d" {
		t.Errorf("%d groups, error %v", len(got), err)
	}
	_, err = OpenGroups(context.Background(), path, "little", 2)
	wantError(t, err, path+": little", "there must be one number for each row")
}
