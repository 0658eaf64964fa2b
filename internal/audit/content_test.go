package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func contentRow(list []Content, i int) retainedRow {
	return retainedRow{Hash: fmt.Sprint(i), Content: list[i]}
}

// TestNearDuplicatePictures checks that pictures with small changes of brightness or little
// noise are near duplicates, and that pictures with larger changes are not.
func TestNearDuplicatePictures(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	picture := func(phase float64, change func(x, y int, v float64) float64) []float32 {
		var list []float32
		for c := range 3 {
			for y := range 48 {
				for x := range 48 {
					v := 128 + 60*math.Sin(float64(x)/9+phase)*math.Cos(float64(y)/(7+2*phase)+float64(c))
					list = append(list, float32(change(x, y, v)))
				}
			}
		}
		return list
	}
	unchanged := func(_, _ int, v float64) float64 { return v }
	original := picture(0, unchanged)
	for _, c := range []struct {
		name  string
		other []float32
		want  bool
	}{
		{"brighter", picture(0, func(_, _ int, v float64) float64 { return v + 3 }), true},
		{"noise", picture(0, func(_, _ int, v float64) float64 { return v + 8*r.NormFloat64() }), true},
		{"another place", picture(.5, unchanged), false},
		{"a corner", picture(0, func(x, y int, v float64) float64 {
			if x < 16 && y < 16 {
				return 255 - v
			}
			return v
		}), false},
		{"much darker", picture(0, func(_, _ int, v float64) float64 { return v / 2 }), false},
	} {
		for _, shape := range [][]int{{2, 3, 48, 48}, {2, 48, 144}} {
			list := Contents(ood.BlockOf(shape, append(append([]float32{}, original...), c.other...)))
			if got := contentRow(list, 0).nearDuplicateOf(contentRow(list, 1)); got != c.want {
				t.Errorf("%s, of shape %v: %v", c.name, shape, got)
			}
		}
	}
}

// TestNearDuplicateCells checks that rows of numbers are near duplicates only if they
// differ by rounding and have the same empty cells.
func TestNearDuplicateCells(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		other []float32
		want  bool
	}{
		{[]float32{2019, .25, nan, 0}, true}, {[]float32{2019, .250001, nan, 0}, true},
		{[]float32{2020, .25, nan, 0}, false}, {[]float32{2019, .25, 3, 0}, false}, {[]float32{2019, .25, nan, .001}, false}, {[]float32{2019, nan, nan, 0}, false},
	} {
		list := Contents(ood.BlockOf([]int{2, 4}, append([]float32{2019, .25, nan, 0}, c.other...)))
		if got := contentRow(list, 0).nearDuplicateOf(contentRow(list, 1)); got != c.want {
			t.Errorf("%v: %v", c.other, got)
		}
	}
}

// TestNearDuplicateTexts checks that texts are near duplicates if few of their characters
// differ, apart from case, spaces and punctuation. In rows of two texts, both must be
// similar.
func TestNearDuplicateTexts(t *testing.T) {
	long := strings.Repeat("all of this text is the same ", 100)
	for _, c := range []struct {
		a, b []string
		want bool
	}{
		{[]string{"What's my balance, please?"}, []string{"whats my balance  please"}, true},
		{[]string{"book a flight to paris"}, []string{"book a flight to rome"}, false},
		{[]string{"please book me a flight to paris"}, []string{"please book me a flight to parys"}, true},
		{[]string{"yes"}, []string{"yet"}, false},
		{[]string{""}, []string{"!"}, true},
		{[]string{"ja"}, []string{""}, false},
		{[]string{"a question", "an answer"}, []string{"a question", "another answer"}, false},
		{[]string{long}, []string{"x" + long}, true},
	} {
		block := ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{2, len(c.a)}, Strings: append(append([]string{}, c.a...), c.b...)}}}
		list := Contents(block)
		if got := contentRow(list, 0).nearDuplicateOf(contentRow(list, 1)); got != c.want {
			t.Errorf("%.40q and %.40q: %v", c.a, c.b, got)
		}
	}
}

// TestSimilarTexts checks similarTexts against a full table of Levenshtein distances.
func TestSimilarTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	word := func(n int) []rune {
		w := make([]rune, n)
		for i := range w {
			w[i] = 'a' + rune(r.IntN(3))
		}
		return w
	}
	similar := 0
	for range 3000 {
		a := word(r.IntN(40))
		b := append([]rune{}, a...)
		for range r.IntN(7) {
			if k := r.IntN(len(b) + 1); k < len(b) && r.IntN(2) == 0 {
				b = append(b[:k], b[k+1:]...)
			} else {
				b = append(b[:k], append(word(1), b[k:]...)...)
			}
		}
		table := make([][]int, len(a)+1)
		for i := range table {
			table[i] = make([]int, len(b)+1)
			for j := range table[i] {
				switch {
				case i == 0 || j == 0:
					table[i][j] = i + j
				default:
					table[i][j] = table[i-1][j-1]
					if a[i-1] != b[j-1] {
						table[i][j]++
					}
					table[i][j] = min(table[i][j], table[i-1][j]+1, table[i][j-1]+1)
				}
			}
		}
		want := table[len(a)][len(b)] <= max(len(a), len(b))/10
		if want {
			similar++
		}
		if got := similarTexts(a, b); got != want {
			t.Fatalf("%s and %s: %v, and they differ in %d", string(a), string(b), got, table[len(a)][len(b)])
		}
	}
	if similar < 100 {
		t.Errorf("only %d are alike", similar)
	}
}

// TestNearDuplicateFeatures checks that rows without content are near duplicates only if
// their features are almost equal.
func TestNearDuplicateFeatures(t *testing.T) {
	x := sample(2, 1, 0)
	y := x.Select([]int{0, 0, 1})
	y.Features.Data[y.Features.Stride] *= 1 + 1e-5
	list := hashes(y)
	row := func(i int) retainedRow {
		k := retainedRow{Hash: list[i].String()}
		k.Features = floatList(y.Features.Data[i*y.Features.Stride : (i+1)*y.Features.Stride])
		return k
	}
	if !row(0).nearDuplicateOf(row(1)) || row(0).nearDuplicateOf(row(2)) {
		t.Error("rounded features differ, or others are the same")
	}
}
