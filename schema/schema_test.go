package schema

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

// table returns a block with the columns a, b, c and the categories of cut. Column b has empty
// cells, c is heavy-tailed.
func table(rng *rand.Rand, n int) ood.InputBlock {
	x := ood.Tensor{Name: "x", Shape: []int{n, 3}}
	cut := ood.Tensor{Name: "cut", Shape: []int{n, 1}}
	for range n {
		b := float32(100 + 10*rng.NormFloat64())
		if rng.Float64() < 0.1 {
			b = float32(math.NaN())
		}
		x.Data = append(x.Data, float32(10*rng.Float64()), b, float32(math.Exp(2*rng.NormFloat64())))
		cut.Strings = append(cut.Strings, []string{"fair", "good", "ideal"}[rng.IntN(3)])
	}
	return ood.InputBlock{Tensors: []ood.Tensor{x, cut}}
}

func learn(blocks ...ood.InputBlock) *Profile {
	l := NewLearner(LearnOptions{Columns: []string{"a", "b", "c", "cut"}})
	for _, b := range blocks {
		l.Add(b)
	}
	return l.Profile()
}

// TestProfile checks the profile of a table against values that NumPy's definitions give.
func TestProfile(t *testing.T) {
	x := ood.Tensor{Name: "x", Shape: []int{10, 1}, Data: []float32{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}
	kind := ood.Tensor{Name: "kind", Shape: []int{10, 1}, Strings: []string{"u", "u", "u", "u", "u", "v", "v", "", "w", "v"}}
	p := NewLearner(LearnOptions{})
	p.Add(ood.InputBlock{Tensors: []ood.Tensor{x, kind}})
	got, err := p.Profile().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"name":"x"`, `"max":9,"tails":[1,`, `{"value":5,"below":5,"at_most":6}`,
		`"name":"kind"`, `"empty":1`, `"categories":[{"value":"u","rows":5}]`, `"other_rows":4,"singles":1`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	again, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := again.Encode(); !bytes.Equal(b, got) {
		t.Errorf("%s, want %s", b, got)
	}
	for _, old := range []string{`"rows":10`, `"at_most":6`, `"kind":"number"`, `"limit":`} {
		broken := strings.Replace(string(got), old, strings.Replace(old, `:`, `:-`, 1), 1)
		if _, err := Decode([]byte(broken)); err == nil {
			t.Errorf("no error for %s", broken)
		}
	}
}

// TestReasons checks that planted cells are found, and only they.
func TestReasons(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := learn(table(rng, 2000), table(rng, 3000))
	b := table(rng, 4)
	b.Tensors[0].Data[0] = 212
	b.Tensors[0].Data[3*1+2] = float32(math.NaN())
	b.Tensors[1].Strings[2] = "superb"
	var got []string
	for i, list := range p.Matcher().Reasons(p.Matcher().Values(b)) {
		for _, r := range list {
			got = append(got, fmt.Sprintf("%d: %v", i, r))
		}
	}
	low, high := p.Columns[0].Range(p.Limit)
	want := fmt.Sprintf("[0: a = 212 (fit rows: %.4g to %.4g) 1: c is empty 2: cut = \"superb\" (new category)]", p.Columns[0].Min, p.Columns[0].Max)
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	if low < -1 || low > 0.1 || high < 9.9 || high > 11 {
		t.Errorf("a from 0 to 10 has the range %v to %v", low, high)
	}
}

// TestRate checks the guaranteed rates on fresh rows: of reasons by row, and of changed columns
// by batch.
func TestRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var unusual, rows, changed, batches int
	var expected float64
	for range 60 {
		p := learn(table(rng, 1000))
		for range 10 {
			c := p.NewChecker(false)
			c.Add(table(rng, 200))
			s := c.Summary()
			unusual, rows, expected, batches = unusual+s.Unusual, rows+s.Rows, expected+s.Expected, batches+1
			if s.Changed > 0 {
				changed++
			}
		}
	}
	if float64(unusual) > 1.2*expected || unusual == 0 {
		t.Errorf("%d of %d rows are unusual, at most %.0f are expected", unusual, rows, expected)
	}
	if changed > 12 { // 6 are expected at most, and batches of one fit depend on each other
		t.Errorf("columns changed in %d of %d batches", changed, batches)
	}
}

// TestRateOfRareValues checks the rate of reasons on fresh rows of tables in which categories
// or empty cells are rare in most columns. It is a mean over fits, as the guarantee is.
func TestRateOfRareValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	const columns = 20
	// 300 places, of which half have fewer than one row in a fit of 200 rows.
	place := func() string { return fmt.Sprint(int(300 * math.Pow(rng.Float64(), 2))) }
	for name, cell := range map[string]func() (x float32, s string){
		"categories": func() (float32, string) { return 0, place() },
		"gaps": func() (float32, string) {
			if rng.Float64() < 1.0/200 {
				return float32(math.NaN()), "a"
			}
			return 0, "a"
		},
	} {
		block := func(n int) ood.InputBlock {
			x := ood.Tensor{Name: "x", Shape: []int{n, columns}}
			kind := ood.Tensor{Name: "kind", Shape: []int{n, 1}}
			for range n {
				_, s := cell()
				kind.Strings = append(kind.Strings, s)
				for range columns {
					v, _ := cell()
					x.Data = append(x.Data, v)
				}
			}
			return ood.InputBlock{Tensors: []ood.Tensor{x, kind}}
		}
		var unusual int
		var expected float64
		for range 200 {
			p := learn(block(200))
			c := p.NewChecker(false)
			c.Add(block(200))
			s := c.Summary()
			unusual, expected = unusual+s.Unusual, expected+s.Expected
		}
		if float64(unusual) > 1.1*expected {
			t.Errorf("%s: %d rows are unusual, at most %.0f are expected", name, unusual, expected)
		}
	}
}

// TestRateOfManyCategories checks the rate of changed columns if chance decides which
// categories are frequent enough to be listed, and new rows are many more than fit rows.
func TestRateOfManyCategories(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	block := func(n int) ood.InputBlock {
		kind := ood.Tensor{Name: "kind", Shape: []int{n, 1}}
		for range n {
			kind.Strings = append(kind.Strings, fmt.Sprint(rng.IntN(80)))
		}
		return ood.InputBlock{Tensors: []ood.Tensor{kind}}
	}
	const runs = 1500
	changed := 0
	for range runs {
		c := learn(block(100)).NewChecker(false)
		c.Add(block(2000))
		changed += c.Summary().Changed
	}
	if changed > runs/100 {
		t.Errorf("the column changed in %d of %d batches", changed, runs)
	}
}

// TestSummary checks that changes of whole columns are found and named.
func TestSummary(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	p := learn(table(rng, 5000))
	for _, c := range []struct {
		name   string
		change func(b ood.InputBlock)
		want   string // part of the lines
	}{
		{"same", func(ood.InputBlock) {}, ""},
		{"unit", func(b ood.InputBlock) { each(b, func(row []float32) { row[1] *= 1000 }) }, "b: outside"},
		{"unit", func(b ood.InputBlock) { each(b, func(row []float32) { row[1] *= 1000 }) }, "times as large: another unit?"},
		{"small", func(b ood.InputBlock) { each(b, func(row []float32) { row[2] /= 10 }) }, "times smaller: another unit?"},
		{"swapped", func(b ood.InputBlock) { each(b, func(row []float32) { row[0], row[2] = row[2], row[0] }) }, "the values look like those of c: are the columns swapped?"},
		{"emptied", func(b ood.InputBlock) { each(b, func(row []float32) { row[0] = float32(math.NaN()) }) }, "a: empty in 500 of 500 rows, in 0 of the 5,000 rows fitted on"},
		{"more gaps", func(b ood.InputBlock) { each(b, func(row []float32) { row[1] = float32(math.NaN()) }) }, "b: empty in 100 % of the rows"},
		{"recoded", func(b ood.InputBlock) { recode(b, "good", "GOOD") }, `cut: new categories in`},
		{"merged", func(b ood.InputBlock) { recode(b, "good", "fair") }, `category "good" in 0 % of the rows`},
		{"constant", func(b ood.InputBlock) { each(b, func(row []float32) { row[0] = 5 }) }, "a: "},
	} {
		b := table(rng, 500)
		c.change(b)
		k := p.NewChecker(false)
		k.Add(b)
		var lines []string
		for _, column := range k.Summary().Columns {
			lines = append(lines, column.String())
		}
		got := strings.Join(lines, "\n")
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func each(b ood.InputBlock, change func(row []float32)) {
	for i := range b.Len() {
		change(b.Tensors[0].Data[3*i : 3*i+3])
	}
}

func recode(b ood.InputBlock, from, to string) {
	for i, s := range b.Tensors[1].Strings {
		if s == from {
			b.Tensors[1].Strings[i] = to
		}
	}
}

// TestQuantileTest checks the p-value of a quantile against a simulation of both samples.
func TestQuantileTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const n, m, runs = 40, 15, 40_000
	small := 0
	for range runs {
		fit, sorted := make([]float32, n), make([]float32, m)
		for i := range fit {
			fit[i] = float32(rng.IntN(12)) // many equal values
		}
		for i := range sorted {
			sorted[i] = float32(rng.IntN(12))
		}
		k := sample{limit: n}
		k.add([]cells{{numbers: fit}}, n)
		column := Column{}
		column.setNumbers(columnState{numbers: n}, k.sorted(0))
		q := column.Quantiles[len(column.Quantiles)/2]
		k = sample{limit: m}
		k.add([]cells{{numbers: sorted}}, m)
		below, atMost := ranksIn(k.sorted(0), float32(q.Value))
		if compareQuantile(q, n, below, atMost, m) <= 0.01 {
			small++
		}
	}
	// Four one-sided tests at 1 % each; equal values make them conservative.
	if small > runs*4/100 {
		t.Errorf("%d of %d p-values are at most 0.01", small, runs)
	}
}

// TestMeasures checks the measures of images and texts.
func TestMeasures(t *testing.T) {
	image := func(v ...float32) ood.InputBlock { // images of 1×2 pixels with three channels; the recorded height of each is its first value
		n := len(v)
		x := ood.Tensor{Name: "x", Shape: []int{n, 3, 1, 2}}
		for _, v := range v {
			x.Data = append(x.Data, v, v+2, v, v+2, v+1, v+3)
		}
		return ood.InputBlock{Tensors: []ood.Tensor{x}, Measures: []ood.Measure{{Name: "image height", Values: v}}}
	}
	l := NewLearner(LearnOptions{Layout: "nchw"})
	l.Add(image(1, 2, 3))
	l.Add(image(4))
	var got []string
	for _, c := range l.Profile().Columns {
		got = append(got, fmt.Sprintf("%s %.4g-%.4g", c.Name, c.Min, c.Max))
	}
	if want := "[image mean 2.333-5.333 image deviation 1.106-1.106 image colour 1-1 image height 1-4]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	m := l.Profile().Matcher()
	reasons := m.Reasons(m.Values(image(2, 900)))
	if len(reasons) != 2 || reasons[0] != nil || !strings.Contains(fmt.Sprint(reasons[1]), "image height = 900") {
		t.Errorf("reasons %v", reasons)
	}
	text := ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{2}, Strings: []string{"two words!", "Ωμ 12"}}}}
	l = NewLearner(LearnOptions{Texts: []string{"review"}})
	l.Add(text)
	got = nil
	for _, c := range l.Profile().Columns {
		got = append(got, fmt.Sprintf("%s %.4g-%.4g", c.Name, c.Min, c.Max))
	}
	if want := "[review characters 5-10 review words 2-2 review characters that are no letters 0.1-0.4 review letters outside ASCII 0-0.4 review unknown words 1-1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestDraw checks that drawn rows have the distribution of the columns.
func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	b, ok := learn(table(rng, 4000)).Draw(4000, 1)
	if !ok || b.Check() != nil {
		t.Fatalf("drawn %v, %v", ok, b.Check())
	}
	var sum, gaps float64
	for i := range b.Len() {
		sum += float64(b.Tensors[0].Data[3*i]) / 4000
		if x := b.Tensors[0].Data[3*i+1]; x != x {
			gaps++
		}
	}
	categories := map[string]int{}
	for _, s := range b.Tensors[1].Strings {
		categories[s]++
	}
	if math.Abs(sum-5) > 0.5 || math.Abs(gaps-400) > 80 || len(categories) != 3 || math.Abs(float64(categories["good"])-1333) > 150 {
		t.Errorf("mean %v, %v gaps, categories %v", sum, gaps, categories)
	}
}

// TestSmallShiftIsNoSwap checks that similar columns with a small shift are not called swapped,
// although a sample of their rows fits both columns.
func TestSmallShiftIsNoSwap(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	normal := func(n int, shift float64) ood.InputBlock {
		x := ood.Tensor{Name: "x", Shape: []int{n, 3}, Data: make([]float32, 3*n)}
		for i := range x.Data {
			x.Data[i] = float32(rng.NormFloat64() + shift)
		}
		return ood.InputBlock{Tensors: []ood.Tensor{x}}
	}
	l := NewLearner(LearnOptions{})
	l.Add(normal(5000, 0))
	p := l.Profile()
	m, counts := p.Matcher(), p.NewCounts()
	counts.Add(m, m.Values(normal(20_000, 0.1)))
	k := sample{limit: 300}
	k.add(m.Values(normal(300, 0.1)).columns, 300)
	s := p.Summary(counts, k.sorted)
	if s.Changed != 3 || strings.Contains(fmt.Sprint(s.Columns), "swapped") {
		t.Errorf("%d changed columns: %v", s.Changed, s.Columns)
	}
}
