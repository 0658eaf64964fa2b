package explain

import (
	"image/color"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// TestExplanationString checks how columns, words and regions are named, with their shares of
// the sum of all positive attributions.
func TestExplanationString(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		tensors []featurize.TensorAttribution
		want    string
	}{
		{[]featurize.TensorAttribution{{Values: []float64{1, -5, 3}, Labels: []string{"a", "b", "c"}}}, "score: 75 % c, 25 % a"},
		{[]featurize.TensorAttribution{{Values: []float64{6, 2, 1.9, 1.8, 0.1}, Labels: []string{"a", "b", "c", "d", "e"}}}, "score: 51 % a, 17 % b, 16 % c"},
		{[]featurize.TensorAttribution{{Values: []float64{99.5, 0.5}, Labels: []string{"a", "b"}}}, "score: 100 % a"},
		{[]featurize.TensorAttribution{{Name: "x", Values: []float64{1, 0}}, {Name: "y", Values: []float64{0, 1}}}, "score: 50 % x[0], 50 % y[1]"},
		{[]featurize.TensorAttribution{{Values: []float64{7, inf}, Labels: []string{"a", "b"}}}, "score: 100 % b"},
		{[]featurize.TensorAttribution{{Values: []float64{1, 2}, Labels: []string{"so", "odd"}, Offsets: [][2]int{{0, 2}, {3, 6}}}}, `score: 67 % "odd", 33 % "so"`},
		{[]featurize.TensorAttribution{{Shape: []int{2, 3}, Patch: 4, Values: []float64{0, 0, 0, 0, 0, 2}}}, "score: 100 % pixels x 8–11 y 4–7"},
		{[]featurize.TensorAttribution{{Values: []float64{-1, 0}, Labels: []string{"a", "b"}}}, ""},
	} {
		if got := (&Explanation{Attribution: featurize.Attribution{Tensors: c.tensors}}).String(); got != c.want {
			t.Errorf("%v: %q, want %q", c.tensors, got, c.want)
		}
	}
}

// TestUnknownWords checks which words are named as unknown, and in which order.
func TestUnknownWords(t *testing.T) {
	l := schema.NewLearner(schema.LearnOptions{Texts: []string{"poem"}})
	l.Add(ood.InputBlock{Tensors: []ood.Tensor{{Name: "poem", Shape: []int{2}, Strings: []string{"the owl", "the cat"}}}})
	few := l.Profile()
	many := l.Profile()
	for i := range many.Columns {
		if w := many.Columns[i].Words; w != nil {
			w.Least = 5 // as if there were more words than a profile knows
		}
	}
	words := func(labels ...string) featurize.TensorAttribution {
		a := featurize.TensorAttribution{Name: "poem", Labels: labels, Offsets: make([][2]int, len(labels))}
		for i := range labels {
			a.Values = append(a.Values, float64(i))
		}
		return a
	}
	for _, c := range []struct {
		profile *schema.Profile
		tensor  featurize.TensorAttribution
		want    string
	}{
		{few, words("The", "mimsy", "owl", "borogoves,", "mimsy"), `new words: "borogoves,", "mimsy"`},
		{few, words("a", "b", "c", "d"), `new words: "d", "c", "b" and 1 more`},
		{few, words("the", "cat"), ""},
		{few, featurize.TensorAttribution{Name: "poem", Labels: []string{"new column"}, Values: []float64{1}}, ""},
		{many, words("mimsy"), `rare words: "mimsy"`},
	} {
		x := &Explanation{Attribution: featurize.Attribution{Tensors: []featurize.TensorAttribution{c.tensor}}}
		x.findUnknownWords(c.profile)
		if got := x.unknownWords(); got != c.want {
			t.Errorf("%q: %q, want %q", c.tensor.Labels, got, c.want)
		}
	}
}

// TestHeatMap checks that only the patch that raised the score is coloured, in both layouts.
func TestHeatMap(t *testing.T) {
	a := featurize.TensorAttribution{Shape: []int{1, 2}, Patch: 2, Values: []float64{-1, 3}}
	for layout, shape := range map[string][]int{"nchw": {1, 1, 2, 3}, "nhwc": {1, 2, 3, 1}} {
		m := heatMap(ood.Tensor{Shape: shape, Data: []float32{0, 1, 0, 0, 0, 0}}, layout, a)
		for at, want := range map[[2]int]color.RGBA{{0, 0}: {0, 0, 0, 255}, {1, 0}: {255, 255, 255, 255}, {2, 0}: {156, 71, 19, 255}} {
			if got := m.At(at[0], at[1]); got != want {
				t.Errorf("%s: pixel %v is %v, want %v", layout, at, got, want)
			}
		}
	}
}
