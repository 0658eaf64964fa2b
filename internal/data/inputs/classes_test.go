package inputs

import (
	"errors"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

func TestOfClasses(t *testing.T) {
	s := open(t, writeNPZ(t, false, map[string]rows.Array{
		"x":      {Shape: []int{6, 1}, Data: sequence[float32](6)},
		"labels": {Shape: []int{6}, Data: []uint8{4, 0, 7, 4, 1, 7}},
	}), Options{})
	sub, err := s.OfClasses([]int{7, 4})
	if err != nil {
		t.Fatal(err)
	}
	if x := readAll(t, sub, 2); !slices.Equal(x, []float32{0, 2, 3, 5}) || !slices.Equal(sub.Labels, []int{1, 0, 1, 0}) {
		t.Errorf("rows %v with labels %v", x, sub.Labels)
	}
	if sub.Row(1) != 2 || sub.File(1) != "" {
		t.Errorf("row 1 was row %d of file %q", sub.Row(1), sub.File(1))
	}
	if !slices.Equal(s.Labels, []int{4, 0, 7, 4, 1, 7}) {
		t.Errorf("the set itself changed to %v", s.Labels)
	}
	_, err = s.OfClasses([]int{9})
	wantError(t, err, "[9]", "no row has one of the labels")
	if !errors.Is(err, ErrEmpty) {
		t.Errorf("error %v is not ErrEmpty", err)
	}
	_, err = s.OfClasses([]int{1, 1})
	wantError(t, err, "class 1", "class 1 is selected twice")
	_, err = open(t, writeNPY(t, "x.npy", rows.Array{Shape: []int{1}, Data: []float32{1}}), Options{}).OfClasses([]int{1})
	wantError(t, err, "", "no labels")

	root := imageTree(t, map[string]string{"a/1.png": "", "b/2.png": "", "c/3.png": ""})
	sub, err = open(t, root, Options{Preprocess: unscaled(t), Labels: true}).OfClasses([]int{2, 0})
	if err != nil || !slices.Equal(sub.ClassNames, []string{"c", "a"}) || sub.File(1) != "c/3.png" {
		t.Errorf("classes %v, error %v", sub.ClassNames, err)
	}
}
