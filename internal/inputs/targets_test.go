package inputs

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/rows"
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
		y, err := OpenTargets(context.Background(), c.path, len(c.values)/c.cols, c.cols)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(y.Values.Data, c.values) || y.Values.Cols != c.cols || y.Values.Rows*c.cols != len(c.values) || !slices.Equal(y.Labels, c.labels) {
			t.Errorf("%s: %+v; want %v in %d columns, labels %v", c.path, y, c.values, c.cols, c.labels)
		}
	}
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
		_, err := OpenTargets(context.Background(), path, 2, 0)
		wantError(t, err, path, words)
	}
	s := open(t, writeNPY(t, "x.npy", rows.Array{Shape: []int{2, 1}, Data: []float32{1, 2}}), Options{})
	y, err := OpenTargets(context.Background(), writeNPY(t, "y.npy", a), 1, 0)
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
