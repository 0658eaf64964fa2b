package inputs

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

func TestTargets(t *testing.T) {
	column := rows.Array{Shape: []int{3, 1}, Data: []float64{2, 0, 1}}
	for _, c := range []struct {
		path   string
		values []float32
		cols   int
		labels []int
	}{
		{writeNPY(t, "y.npy", rows.Array{Shape: []int{3}, Data: []int64{2, 0, 1}}), []float32{2, 0, 1}, 1, []int{2, 0, 1}},
		{writeNPY(t, "y.npy", rows.Array{Shape: []int{3}, Data: []float32{2, 0, 1.5}}), []float32{2, 0, 1.5}, 1, nil},
		{writeNPY(t, "y.npy", rows.Array{Shape: []int{2, 2}, Data: []float32{2, 0, 1, 3}}), []float32{2, 0, 1, 3}, 2, nil},
		{writeNPZ(t, true, map[string]rows.Array{"y": column, "x": column}), []float32{2, 0, 1}, 1, []int{2, 0, 1}},
		{writeNPZ(t, true, map[string]rows.Array{"labels": column, "x": column}), []float32{2, 0, 1}, 1, []int{2, 0, 1}},
		{writeNPZ(t, true, map[string]rows.Array{"anything": column}), []float32{2, 0, 1}, 1, []int{2, 0, 1}},
		{writeFile(t, t.TempDir(), "y.csv", "price\n2\n0\n1.5\n"), []float32{2, 0, 1.5}, 1, nil},
		{writeFile(t, t.TempDir(), "y.txt", "2 0\n1 3\n"), []float32{2, 0, 1, 3}, 2, nil},
	} {
		y, err := OpenTargets(context.Background(), c.path, len(c.values)/c.cols, c.cols, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(y.Values.Data, c.values) || y.Values.Cols != c.cols || y.Values.Rows*c.cols != len(c.values) || !slices.Equal(y.Labels, c.labels) {
			t.Errorf("%s: %+v; want %v in %d columns, labels %v", c.path, y, c.values, c.cols, c.labels)
		}
	}
}

// TestUnknownTargets checks that an empty cell or NaN is an unknown target.
func TestUnknownTargets(t *testing.T) {
	classes := []string{"low", "high", "None"}
	nan := float32(math.NaN())
	for _, c := range []struct {
		path   string
		labels []int
		known  []int
	}{
		{writeNPY(t, "y.npy", rows.Array{Shape: []int{3}, Data: []float32{2, nan, 1}}), []int{2, Unlabelled, 1}, []int{0, 2}},
		{writeNPY(t, "y.npy", rows.Array{Shape: []int{3, 2}, Data: []float32{2, nan, 1, 2, nan, 3}}), nil, []int{1}},
		{writeNPY(t, "y.npy", rows.Array{Shape: []int{3}, Data: []float32{nan, nan, nan}}), nil, nil},
		{writeFile(t, t.TempDir(), "y.csv", "price\n2\n\"\"\n1\n"), []int{2, Unlabelled, 1}, []int{0, 2}},
		{writeFile(t, t.TempDir(), "y.csv", "price,b\n2,1\n,1\n1,NA\n"), nil, []int{0}},
		{writeFile(t, t.TempDir(), "y.jsonl", `{"kind": "high"}`+"\n"+`{"kind": null}`+"\n"+`{"kind": "low"}`), []int{1, Unlabelled, 0}, []int{0, 2}},
		{writeFile(t, t.TempDir(), "y.csv", "kind\nhigh\nNone\nNA\n"), []int{1, 2, Unlabelled}, []int{0, 1}},
		{writeFile(t, t.TempDir(), "y.txt", "high\nlow\n1\n"), []int{1, 0, 1}, []int{0, 1, 2}},
		{writeFile(t, t.TempDir(), "y.jsonl", `{"y": [1, 2]}`+"\n"+`{"y": [3, 4]}`+"\n"+`{"y": [5, 6]}`), nil, []int{0, 1, 2}},
	} {
		y, err := OpenTargets(context.Background(), c.path, 3, 0, classes)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(y.Labels, c.labels) || !slices.Equal(y.Known(), c.known) || y.Values.Rows != 3 {
			t.Errorf("%s: labels %v, %v known; want %v, %v", c.path, y.Labels, y.Known(), c.labels, c.known)
		}
	}
	s := open(t, writeNPZ(t, true, map[string]rows.Array{"x": {Shape: []int{2, 1}, Data: []float32{1, 2}}, "y": {Shape: []int{2}, Data: []float32{nan, nan}}}), Options{})
	if _, err := s.Known(); !errors.Is(err, ErrNoTarget) {
		t.Error(err)
	}
	if err := s.NumberLabels([]int{7}); err != nil || CheckLabels([]int{0, Unlabelled}, 2) != nil {
		t.Error("a label that is not known is refused")
	}
	_, err := OpenTargets(context.Background(), writeFile(t, t.TempDir(), "y.jsonl", `{"y": [1, 2]}`+"\n"+`{"y": [3]}`), 2, 0, nil)
	wantError(t, err, "y.jsonl", "line 2: it has 1 target, but earlier rows have 2")
	_, err = OpenTargets(context.Background(), writeFile(t, t.TempDir(), "y.csv", "kind\nhigh\nwide\n"), 2, 0, classes)
	wantError(t, err, "y.csv", `line 3, column "kind": "wide" is neither a number nor the name of a class; classes are low, high, None`)
}

func TestTargetErrors(t *testing.T) {
	a := rows.Array{Shape: []int{1}, Data: []float32{1}}
	for path, words := range map[string]string{
		writeNPY(t, "y.npy", rows.Array{Shape: []int{2}, Data: []float32{1, float32(math.Inf(1))}}): "row 1: the target is +Inf",
		writeNPY(t, "y.npy", rows.Array{Shape: []int{1, 1, 1}, Data: []float32{1}}):                 "neither n nor n×t",
		writeNPY(t, "y.npy", rows.Array{Shape: []int{0}, Data: []float32{}}):                        "there are no rows",
		writeNPZ(t, false, map[string]rows.Array{"a": a, "b": a}):                                   `"labels"; it holds "a", "b"`,
		writeFile(t, t.TempDir(), "y.csv", "1\nx\n"):                                                "line 2, column 1",
		writeFile(t, t.TempDir(), "y.json", "[1]"):                                                  "targets are",
	} {
		_, err := OpenTargets(context.Background(), path, 2, 0, nil)
		wantError(t, err, path, words)
	}
	s := open(t, writeNPY(t, "x.npy", rows.Array{Shape: []int{2, 1}, Data: []float32{1, 2}}), Options{})
	y, err := OpenTargets(context.Background(), writeNPY(t, "y.npy", a), 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.SetTargets(y), "y.npy", "1 target for 2 inputs")
}

func TestCheckLabels(t *testing.T) {
	if err := CheckLabels([]int{0, 4, 2}, 5); err != nil {
		t.Error(err)
	}
	wantError(t, CheckLabels([]int{0, 5}, 5), "row 1", "label 5 is out of range")
	wantError(t, CheckLabels([]int{-1}, 5), "row 0", "label -1 is out of range")
}

// TestNoTargetsInLists checks that an empty list of targets is an error.
func TestNoTargetsInLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "y.jsonl")
	if err := os.WriteFile(path, []byte("{\"y\": []}\n{\"y\": []}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTargets(t.Context(), path, 2, 1, nil); err == nil || !strings.Contains(err.Error(), "line 1: its list of targets is empty") {
		t.Errorf("error %v", err)
	}
}
