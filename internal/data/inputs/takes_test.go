package inputs

import (
	"context"
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// tokenInputs returns the inputs of a model that reads texts. One of them is optional.
func tokenInputs() []Takes {
	return []Takes{
		{Name: "input_ids", DType: "int64", Shape: []int{-1, -1}},
		{Name: "attention_mask", DType: "int64", Shape: []int{-1, -1}},
		{Name: "scale", DType: "float32", Shape: []int{-1}, Optional: true},
	}
}

// describeFirst describes the tensors in the first block of a set.
func describeFirst(t *testing.T, s *Set) (all []string) {
	t.Helper()
	for b, err := range s.Blocks(context.Background(), 1000) {
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(); err != nil {
			t.Error(err)
		}
		for _, x := range b.Tensors {
			all = append(all, describe(x))
		}
		return all
	}
	return nil
}

func describe(x ood.Tensor) string {
	text := fmt.Sprintf("%s%v%v", x.Name, x.Shape, x.Data)
	if x.Strings != nil {
		text = fmt.Sprintf("%s%v%q", x.Name, x.Shape, x.Strings)
	}
	if x.Lengths != nil {
		text += fmt.Sprint("of", x.Lengths)
	}
	return text
}

// TestArraysByName checks that arrays of an archive become the inputs of the same name, and
// that labels and targets are not inputs.
func TestArraysByName(t *testing.T) {
	ids := rows.Array{Shape: []int{2, 2}, Data: []int64{1, 2, 3, 4}}
	mask := rows.Array{Shape: []int{2, 2}, Data: []uint8{1, 1, 1, 0}}
	labels := rows.Array{Shape: []int{2}, Data: []int64{7, 8}}
	scale := rows.Array{Shape: []int{2, 1}, Data: []float32{.5, 1}}
	type arrays map[string]rows.Array
	for _, c := range []struct {
		takes  []Takes
		arrays arrays
		want   string
	}{
		{tokenInputs(), arrays{"input_ids": ids, "attention_mask": mask, "labels": labels}, "[input_ids[2 2][1 2 3 4] attention_mask[2 2][1 1 1 0]]"},
		{tokenInputs(), arrays{"attention_mask": mask, "input_ids": ids, "scale": scale}, "[input_ids[2 2][1 2 3 4] attention_mask[2 2][1 1 1 0] scale[2][0.5 1]]"},
		{tokenInputs(), arrays{"x": ids, "attention_mask": mask}, "[attention_mask[2 2][1 1 1 0] input_ids[2 2][1 2 3 4]]"},
		{[]Takes{{Name: "x"}, {Name: "y"}}, arrays{"x": ids, "y": mask}, "[x[2 2][1 2 3 4] y[2 2][1 1 1 0]]"},
		{[]Takes{{Name: "input"}}, arrays{"x": ids, "y": labels}, "[input[2 2][1 2 3 4]]"},
		{nil, arrays{"x": labels}, "[[2 1][7 8]]"},
	} {
		s := open(t, writeNPZ(t, false, c.arrays), Options{Takes: c.takes})
		if got := fmt.Sprint(describeFirst(t, s)); got != c.want {
			t.Errorf("%v: %s, want %s", c.takes, got, c.want)
		}
		if y, ok := s.Targets, s.Targets.Rows > 0; ok != (c.takes != nil && c.arrays["labels"].Data != nil || c.takes != nil && c.takes[0].Name == "input") {
			t.Errorf("%v: targets %v", c.takes, y)
		}
	}
	for want, a := range map[string]arrays{
		`the model's input "attention_mask" (int64 n×?) is not among its arrays input_ids, labels`: {"input_ids": ids, "labels": labels},
		"attention_mask: it has 3 rows, but input_ids has 2":                                       {"input_ids": ids, "attention_mask": {Shape: []int{3, 1}, Data: []uint8{1, 1, 1}}},
		`the model's input "input_ids" (int64 n×?) is not among its arrays x`:                      {"x": ids},
	} {
		_, err := Open(context.Background(), writeNPZ(t, false, a), Options{Takes: tokenInputs()})
		wantError(t, err, "set.npz", want)
	}
	_, err := Open(context.Background(), writeNPY(t, "x.npy", ids), Options{Takes: tokenInputs()})
	wantError(t, err, "x.npy", `the model has 2 inputs; save them by their names in an .npz file: numpy.savez("x.npz", input_ids=…, attention_mask=…)`)
	ids = rows.Array{Shape: []int{1, 2}, Data: []int64{0, 1 << 24}}
	s := open(t, writeNPZ(t, false, arrays{"input_ids": ids}), Options{Takes: tokenInputs()[:1]})
	for _, err := range s.Blocks(context.Background(), 2) {
		wantError(t, err, "row 0 of", `16777216 at index [1]; whole numbers of 2²⁴ and more, for the input "input_ids", are not read`)
	}
}
