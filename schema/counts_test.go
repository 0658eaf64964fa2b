package schema_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
	. "github.com/attach-uncertainty/attach/schema"
)

// mixedBlock returns n rows with two columns of numbers, which have ties, gaps and infinite
// values, and a column of categories.
func mixedBlock(rng *rand.Rand, n int, scale float64) ood.InputBlock {
	numbers, texts := make([]float32, 2*n), make([]string, n)
	for i := range n {
		numbers[2*i] = float32(math.Round(3 * scale * rng.NormFloat64()))
		numbers[2*i+1] = float32(scale * math.Exp(rng.NormFloat64()))
		switch rng.IntN(40) {
		case 0:
			numbers[2*i] = float32(math.NaN())
		case 1:
			numbers[2*i+1] = float32(math.Inf(1))
		}
		texts[i] = []string{"", "a", "b", "c", "d"}[rng.IntN(5)]
		if scale > 1 && rng.IntN(3) == 0 {
			texts[i] = string(rune('α' + rng.IntN(20)))
		}
	}
	return ood.InputBlock{Tensors: []ood.Tensor{
		{Name: "x", Shape: []int{n, 2}, Data: numbers},
		{Name: "t", Shape: []int{n, 1}, Strings: texts},
	}}
}

func learn(t *testing.T, b ood.InputBlock) *Profile {
	t.Helper()
	l := NewLearner(LearnOptions{Columns: []string{"count", "price", "grade"}})
	l.Add(b)
	return l.Profile()
}

// TestCountsMerge checks that counts of parts add up to the counts of all rows, in any order
// of the parts and after they were stored as JSON.
func TestCountsMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	p := learn(t, mixedBlock(rng, 400, 1))
	m, b := p.Matcher(), mixedBlock(rng, 500, 40)
	whole, values := p.NewCounts(), m.Values(b)
	whole.Add(m, values)
	if whole.Unusual == 0 || whole.Columns[0].OutOfRange == 0 || whole.Columns[2].NewCategories == 0 {
		t.Fatalf("%+v has no reasons", whole)
	}
	var parts []*Counts
	for from := 0; from < values.Len(); {
		to := min(from+1+rng.IntN(60), values.Len())
		part := p.NewCounts()
		part.Add(m, values.Slice(from, to))
		parts, from = append(parts, part), to
	}
	for range 3 {
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		sum := p.NewCounts()
		for _, part := range parts {
			stored, restored := encode(t, part), new(Counts)
			if err := json.Unmarshal(stored, restored); err != nil {
				t.Fatal(err)
			}
			if err := restored.Check(p); err != nil {
				t.Fatal(err)
			}
			sum.Merge(restored)
		}
		if !reflect.DeepEqual(sum, whole) {
			t.Fatalf("parts add up to\n%+v\nbut all rows have\n%+v", sum, whole)
		}
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSignsOfZero checks that the examples do not depend on which of 0 and -0 comes first.
func TestSignsOfZero(t *testing.T) {
	l := NewLearner(LearnOptions{})
	l.Add(ood.InputBlock{Tensors: []ood.Tensor{{Name: "x", Shape: []int{3, 1}, Data: []float32{10, 11, 12}}}})
	p := l.Profile()
	examples := func(x ...float32) []string {
		c := p.NewCounts()
		c.Add(p.Matcher(), p.Matcher().Values(ood.InputBlock{Tensors: []ood.Tensor{{Name: "x", Shape: []int{len(x), 1}, Data: x}}}))
		return c.Columns[0].Examples
	}
	minus := float32(math.Copysign(0, -1))
	if a, b := examples(0, minus, 99), examples(minus, 0, 99); !slices.Equal(a, b) || len(a) != 2 {
		t.Errorf("%q and %q", a, b)
	}
}

// TestCountsSlots checks the slots of numbers against a direct count.
func TestCountsSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	p := learn(t, mixedBlock(rng, 300, 1))
	m, b := p.Matcher(), mixedBlock(rng, 700, 1.5)
	counts := p.NewCounts()
	counts.Add(m, m.Values(b))
	for j := range 2 {
		for i, q := range p.Columns[j].Quantiles {
			var below, equal int
			for row := range b.Len() {
				switch x := float64(b.Tensors[0].Data[2*row+j]); {
				case x < q.Value:
					below++
				case x == q.Value:
					equal++
				}
			}
			got := 0
			for _, n := range counts.Columns[j].Slots[:2*i+1] {
				got += n
			}
			if got != below || counts.Columns[j].Slots[2*i+1] != equal {
				t.Errorf("column %d, quantile %d: %d below and %d equal, want %d and %d", j, i, got, counts.Columns[j].Slots[2*i+1], below, equal)
			}
		}
	}
}

// TestCountsCheck checks that counts are refused if no rows can have them.
func TestCountsCheck(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	p := learn(t, mixedBlock(rng, 300, 1))
	for name, spoil := range map[string]func(c *Counts){
		"more unusual rows than rows":  func(c *Counts) { c.Unusual = c.Rows + 1 },
		"a missing column":             func(c *Counts) { c.Columns = c.Columns[1:] },
		"a missing slot":               func(c *Counts) { c.Columns[0].Slots = c.Columns[0].Slots[1:] },
		"too many numbers":             func(c *Counts) { c.Columns[0].Slots[0] = c.Rows },
		"a negative slot":              func(c *Counts) { c.Columns[0].Slots[2] = -1 },
		"too many categories":          func(c *Counts) { c.Columns[2].Unknown = c.Rows },
		"more rows than all":           func(c *Counts) { c.Columns[1].Present = c.Rows + 1 },
		"too many gaps":                func(c *Counts) { c.Columns[1].NewGaps = c.Columns[1].Empty + 1 },
		"huge counts of reasons":       func(c *Counts) { c.Columns[0].NewGaps, c.Columns[0].OutOfRange = 1<<62, 1<<62 },
		"an example that is no number": func(c *Counts) { c.Columns[0].Examples = []string{"\x1b[31m"} },
	} {
		c := p.NewCounts()
		c.Add(p.Matcher(), p.Matcher().Values(mixedBlock(rng, 100, 1)))
		if err := c.Check(p); err != nil {
			t.Fatal(err)
		}
		if spoil(c); c.Check(p) == nil {
			t.Errorf("counts with %s are accepted", name)
		}
	}
}

// TestNumbers checks that a column without a number has NaN.
func TestNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 4))
	b := mixedBlock(rng, 20, 1)
	m := learn(t, b).Matcher()
	got := m.Values(b).Slice(5, 9).Numbers(2)
	want := slices.Concat(b.Tensors[0].Data[14:16], []float32{float32(math.NaN())})
	if len(got) != 3 || !equalBits(got, want) {
		t.Errorf("row 7 has the numbers %v, want %v", got, want)
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}
