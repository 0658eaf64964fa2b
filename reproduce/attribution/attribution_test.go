package attribution

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
)

// TestRanks checks the probabilities of ranks, also for equal values.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		values       []float64
		places       []int
		first, three float64
	}{
		{[]float64{3, 2, 1, 0}, []int{0}, 1, 1},
		{[]float64{3, 2, 1, 0}, []int{1, 3}, 0, 1},
		{[]float64{3, 2, 1, 0}, []int{3}, 0, 0},
		{[]float64{1, 1, 1, 1}, []int{2}, .25, .75},
		{[]float64{1, 1, 1, 1}, []int{0, 2}, .5, 1},
		{[]float64{9, 1, 1, 1, 1}, []int{2}, 0, .5},
	} {
		if first, three := ranks(c.values, c.places); math.Abs(first-c.first) > 1e-12 || math.Abs(three-c.three) > 1e-12 {
			t.Errorf("%v at %v: %v and %v, want %v and %v", c.values, c.places, first, three, c.first, c.three)
		}
	}
}

// TestPlants checks that exactly the named places of a row change.
func TestPlants(t *testing.T) {
	x := blas32.General{Rows: 20, Cols: 3, Stride: 3, Data: make([]float32, 60)}
	for i := range x.Data {
		x.Data[i] = float32(i)
	}
	for _, fault := range []string{"shift", "extreme", "swap"} {
		f := plantCells(x, x, fault, 1)
		for i, places := range f.places {
			row := f.rows.Slice(i, i+1).Tensors[0].Data
			intact := (places[0] + 1) % 3
			first := row[intact] - float32(intact) // the number of the row, times 3
			for j, v := range row {
				if wrong := v != first+float32(j); wrong && j != places[0] {
					t.Errorf("%s: row %v changed outside %v", fault, row, places)
				}
			}
			if fault == "shift" && f.suspicion[i][places[0]] != slices.Max(f.suspicion[i]) {
				t.Errorf("%s: z-scores %v", fault, f.suspicion[i])
			}
		}
	}
	image := func(v float32) ood.InputBlock {
		data := make([]float32, 2*8*16)
		for i := range data {
			data[i] = v
		}
		return ood.BlockOf([]int{2, 1, 8, 16}, data)
	}
	f := pastePatches(image(0), image(0), image(1), "nchw", 1)
	for i, places := range f.places {
		changed := 0
		for pixel, v := range f.rows.Slice(i, i+1).Tensors[0].Data {
			place := pixel/16/2*8 + pixel%16/2
			if v != 0 {
				changed++
			}
			if v != 0 && (!slices.Contains(places, place) || f.suspicion[i][place] <= 0) {
				t.Errorf("image %d: pixel %d changed outside of %v", i, pixel, places)
			}
		}
		if changed != 16 {
			t.Errorf("image %d: %d pixels changed, want 4×4", i, changed)
		}
	}
	f = insertWords([]string{"play a song", "a b"}, []string{"play a song"}, 1)
	words, at := strings.Fields(f.rows.Tensors[0].Strings[0]), f.places[0][0]
	if !slices.Contains(foreignWords(), words[at]) || !slices.Equal(slices.Delete(words, at, at+1), []string{"play", "a", "song"}) || f.suspicion[0][at] != 0 || slices.Min(f.suspicion[0]) != -2 {
		t.Errorf("the words are %v, the fault at %d, rarities %v", words, at, f.suspicion[0])
	}
}

// TestRankByWords checks that new words come first, and then words by their attribution.
func TestRankByWords(t *testing.T) {
	a := featurize.Attribution{Tensors: []featurize.TensorAttribution{{Labels: []string{"play", "kayak", "song", "viking"}, Values: []float64{9, -2, 3, 1}}}}
	got := rankByWords("new", []string{"Play a song"}).values(0, a)
	if !(got[3] > got[1] && got[1] > got[0] && got[0] > got[2]) {
		t.Errorf("values %v", got)
	}
}
