package inputs

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/preprocess"
)

func TestArrays(t *testing.T) {
	want := sequence[float32](24)
	for name, a := range map[string]rows.Array{
		"float32": {Shape: []int{4, 6}, Data: sequence[float32](24)},
		"float64": {Shape: []int{4, 2, 3}, Data: sequence[float64](24)},
		"int64":   {Shape: []int{4, 3, 2, 1}, Data: sequence[int64](24)},
		"uint8":   {Shape: []int{4, 6}, Data: sequence[uint8](24)},
	} {
		s := open(t, writeNPY(t, name+".npy", a), Options{})
		if s.Len() != 4 || !slices.Equal(s.Shape(), a.Shape[1:]) {
			t.Errorf("%s: %d rows of %v", name, s.Len(), s.Shape())
		}
		for _, rows := range []int{1, 3, 4, 9} {
			if got := readAll(t, s, rows); !slices.Equal(got, want) {
				t.Errorf("%s in blocks of %d: %v", name, rows, got)
			}
		}
	}
	s := open(t, writeNPY(t, "vector.npy", rows.Array{Shape: []int{3}, Data: sequence[float32](3)}), Options{})
	if s.Len() != 3 || !slices.Equal(s.Shape(), []int{1}) {
		t.Errorf("a vector is %d rows of %v, want 3 rows of one column", s.Len(), s.Shape())
	}
}

func TestSubset(t *testing.T) {
	for _, deflate := range []bool{false, true} {
		s := open(t, writeNPZ(t, deflate, map[string]rows.Array{
			"x":      {Shape: []int{100, 2}, Data: sequence[float32](200)},
			"y":      {Shape: []int{100}, Data: sequence[float64](100)},
			"labels": {Shape: []int{100}, Data: slices.Repeat([]int64{3, 1}, 50)},
		}), Options{})
		idx := rand.New(rand.NewPCG(1, 2)).Perm(100)[:30]
		sub, err := s.Subset(idx).Subset([]int{5, 6, 29}).Slice(Slice{End: 2, Ends: true})
		if err != nil || sub.Len() != 2 {
			t.Fatalf("%d rows of 2, %v", sub.Len(), err)
		}
		x := readAll(t, sub, 7)
		y, ok := sub.Targets, sub.Targets.Rows > 0
		for k, i := range idx[5:7] {
			if x[2*k] != float32(2*i) || x[2*k+1] != float32(2*i+1) {
				t.Errorf("row %d is %v", i, x[2*k:2*k+2])
			}
			if !ok || y.Data[k] != float32(i) {
				t.Errorf("target of row %d is %v", i, y.Data[k])
			}
			if sub.Labels[k] != []int{3, 1}[i%2] {
				t.Errorf("label of row %d is %d", i, sub.Labels[k])
			}
			if sub.Name(k) != s.Name(i) {
				t.Errorf("row %d is named %s", i, sub.Name(k))
			}
		}
		all, err := s.Subset(idx).All(context.Background())
		if err != nil || all.Rows != 30 || all.Cols != 2 || all.Data[10] != float32(2*idx[5]) {
			t.Errorf("all of a subset: %v, error %v", all, err)
		}
	}
}

func TestPixelArrays(t *testing.T) {
	rgb := pipeline(t, `{"image_mean": 0.5, "image_std": [0.5, 0.25, 1]}`)
	grey := pipeline(t, `{"do_rescale": false, "image_mean": [0], "image_std": [1], "pad_size": 4}`)
	for _, c := range []struct {
		name  string
		shape []int
		p     *preprocess.Pipeline
		l     string
		want  []int
		at    map[int]float32 // expected elements of row 1, whose pixels are 12, 13, …
	}{
		{"H×W×C", []int{2, 2, 2, 3}, rgb, "", []int{3, 2, 2}, map[int]float32{0: 2*12./255 - 1, 1: 2*15./255 - 1, 4: 4 * (13./255 - .5), 11: 23./255 - .5}},
		{"H×W×C, NHWC", []int{2, 2, 2, 3}, rgb, "nhwc", []int{2, 2, 3}, map[int]float32{0: 2*12./255 - 1, 1: 4 * (13./255 - .5), 3: 2*15./255 - 1}},
		{"C×H×W", []int{2, 3, 2, 2}, rgb, "", []int{3, 2, 2}, map[int]float32{0: 2*12./255 - 1, 1: 2*13./255 - 1, 4: 4 * (16./255 - .5)}},
		{"H×W", []int{2, 3, 4}, grey, "", []int{1, 4, 4}, map[int]float32{0: 12, 11: 23, 12: 0}},
		{"H×W, any channels", []int{2, 3, 4}, unscaled(t), "", []int{1, 3, 4}, map[int]float32{0: 12}},
		{"H×W as RGB", []int{2, 3, 4}, pipeline(t, `{"do_rescale": false, "do_convert_rgb": true, "do_flip_channel_order": true}`), "", []int{3, 3, 4}, map[int]float32{0: 12, 12: 12, 24: 12}},
		{"BGR", []int{2, 2, 2, 3}, pipeline(t, `{"do_rescale": false, "do_flip_channel_order": true, "image_mean": [1, 2, 3], "image_std": 1}`), "", []int{3, 2, 2}, map[int]float32{0: 13, 4: 11, 8: 9}},
		{"RGBA", []int{2, 3, 1, 4}, unscaled(t), "", []int{3, 3, 1}, map[int]float32{0: 12, 1: 16, 3: 13}},
	} {
		a := rows.Array{Shape: c.shape, Data: sequence[uint8](24)}
		s := open(t, writeNPZ(t, true, map[string]rows.Array{"images": a}), Options{Preprocess: c.p, Layout: c.l})
		if !slices.Equal(s.Shape(), c.want) {
			t.Errorf("%s: shape %v, want %v", c.name, s.Shape(), c.want)
			continue
		}
		got := readAll(t, s.Subset([]int{1, 0}), 2)
		for i, v := range c.at {
			if math.Abs(float64(got[i]-v)) > 1e-6 {
				t.Errorf("%s: element %d is %v, want %v", c.name, i, got[i], v)
			}
		}
		// Thumbnails have the order in which rows are requested.
		last, first := s.Len()-1, 0
		backward, err := s.Thumbnails(t.Context(), []int{last, first})
		forward, err2 := s.Thumbnails(t.Context(), []int{first, last})
		if err != nil || err2 != nil || backward[0] == nil || !reflect.DeepEqual(backward[0], forward[1]) || !reflect.DeepEqual(backward[1], forward[0]) || reflect.DeepEqual(backward[0], backward[1]) {
			t.Errorf("%s: thumbnails %v, errors %v, %v", c.name, backward, err, err2)
		}
	}
}

func TestNotFinite(t *testing.T) {
	for name, v := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1)} {
		x := sequence[float32](12)
		x[8] = float32(v)
		s := open(t, writeNPY(t, "x.npy", rows.Array{Shape: []int{4, 3}, Data: x}), Options{})
		_, err := s.All(context.Background())
		wantError(t, err, "row 2 of", name+" at index [2]")
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := open(t, writeNPY(t, "x.npy", rows.Array{Shape: []int{4, 3}, Data: sequence[float32](12)}), Options{})
	n := 0
	var last error
	for _, err := range s.Blocks(ctx, 1) {
		n++
		last = err
		cancel()
	}
	if n != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d blocks and error %v, want one block and then the context's error", n, last)
	}
}

func TestOpenErrors(t *testing.T) {
	floats := rows.Array{Shape: []int{2, 2}, Data: sequence[float32](4)}
	pixels := rows.Array{Shape: []int{1, 2, 2}, Data: sequence[uint8](4)}
	cut := writeNPY(t, "cut.npy", floats)
	if err := os.Truncate(cut, 130); err != nil {
		t.Fatal(err)
	}
	p := unscaled(t)
	for _, c := range []struct {
		path    string
		o       Options
		message string
	}{
		{filepath.Join(t.TempDir(), "none.npy"), Options{}, "no such file"},
		{writeFile(t, t.TempDir(), "x.onnx", ""), Options{}, "inputs are"},
		{writeFile(t, t.TempDir(), "x.npy", "hello world"), Options{}, "not a valid NumPy file"},
		{writeFile(t, t.TempDir(), "x.npz", "hello world"), Options{}, "not a valid NumPy file"},
		{cut, Options{}, "cut short"},
		{writeNPY(t, "x.npy", rows.Array{Shape: []int{}, Data: []float32{1}}), Options{}, "single number"},
		{writeNPY(t, "x.npy", rows.Array{Shape: []int{0, 3}, Data: []float32{}}), Options{}, "there are no rows"},
		{writeNPY(t, "x.npy", rows.Array{Shape: []int{3, 0}, Data: []float32{}}), Options{}, "rows of shape [0] are empty"},
		{writeNPY(t, "x.npy", pixels), Options{}, "images need a preprocessing file"},
		{writeNPY(t, "x.npy", floats), Options{Preprocess: p}, "save their pixels as uint8"},
		{writeNPZ(t, true, map[string]rows.Array{"x": floats, "images": floats}), Options{}, "it has both x and images, and either may be the inputs; remove one"},
		{writeNPY(t, "x.npy", floats), Options{Labels: true}, "labels come from the folders of images or of archive members, but there are no folders here"},
		{writeNPY(t, "x.npy", floats), Options{Targets: []string{"last"}}, "only a table"},
		{writeNPY(t, "x.npy", rows.Array{Shape: []int{1, 2, 2, 5}, Data: sequence[uint8](20)}), Options{Preprocess: p}, "shape [1 2 2 5] cannot be images; they must be n×height×width, or n×height×width×channels with 1, 3 or 4 channels"},
		{writeNPY(t, "x.npy", pixels), Options{Preprocess: pipeline(t, `{"do_rescale": false, "do_flip_channel_order": true}`)}, "three channels"},
		{writeNPY(t, "x.npy", pixels), Options{Preprocess: pipeline(t, `{"do_rescale": false, "pad_size": 1}`)}, "larger than pad_size"},
		{writeNPZ(t, false, map[string]rows.Array{"a": floats}), Options{}, `"x"; it holds "a"`},
		{writeNPZ(t, false, map[string]rows.Array{"x": floats, "y": {Shape: []int{3}, Data: sequence[float32](3)}}), Options{}, "3 targets for 2 inputs"},
		{writeNPZ(t, false, map[string]rows.Array{"x": floats, "labels": {Shape: []int{2}, Data: []float32{0, .5}}}), Options{}, "whole numbers"},
		{writeNPZ(t, false, map[string]rows.Array{"x": floats, "y": {Shape: []int{2}, Data: []float64{0, math.Inf(1)}}}), Options{}, "row 1: the target is +Inf; a target must be a finite number, or NaN if it is unknown"},
	} {
		_, err := Open(context.Background(), c.path, c.o)
		wantError(t, err, c.path, c.message)
	}
	_, err := Open(context.Background(), cut, Options{Layout: "nwhc"})
	wantError(t, err, `"nwhc"`, "use nchw or nhwc")
}

// TestBreak checks that temporary files are removed when a loop over blocks ends early.
func TestBreak(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := open(t, writeNPZ(t, true, map[string]rows.Array{"x": {Shape: []int{50, 2}, Data: sequence[float32](100)}}), Options{})
	backwards := make([]int, 50)
	for i := range backwards {
		backwards[i] = 49 - i
	}
	for b, err := range s.Subset(backwards).Blocks(context.Background(), 4) {
		if err != nil || b.Tensors[0].Data[0] != 98 {
			t.Fatalf("first row %v, error %v", b.Tensors[0].Data, err)
		}
		break
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v, error %v", left, err)
	}
}
