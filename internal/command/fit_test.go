package command

import (
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// TestHoldOut checks that held-out rows keep their targets and groups, and that no
// held-out row is fitted on.
func TestHoldOut(t *testing.T) {
	const n = 100
	column := blas32.General{Rows: n, Cols: 1, Stride: 1}
	var groups []string
	for i := range n {
		column.Data = append(column.Data, float32(i))
		groups = append(groups, strconv.Itoa(i))
	}
	f := &fitCall{holdout: .3, options: attach.FitOptions{Batch: ood.Batch{Features: column}, Targets: column, Groups: groups, Seed: 3}}
	f.holdOut()
	if f.heldOut.Len() != 30 || f.options.Batch.Len() != 70 {
		t.Fatalf("%d rows kept back, %d fitted on", f.heldOut.Len(), f.options.Batch.Len())
	}
	all := slices.Concat(f.heldOut.Features.Data, f.options.Batch.Features.Data)
	slices.Sort(all)
	if !slices.Equal(all, column.Data) {
		t.Errorf("the rows are %v", all)
	}
	for _, r := range []attach.Rows{f.heldOut, {Batch: f.options.Batch, Targets: f.options.Targets, Groups: f.options.Groups}} {
		for i, x := range r.Features.Data {
			if r.Targets.Data[i] != x || r.Groups[i] != strconv.Itoa(int(x)) {
				t.Fatalf("row %v has the target %v and the group %s", x, r.Targets.Data[i], r.Groups[i])
			}
		}
	}
}
