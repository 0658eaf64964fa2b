package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func texts(list ...string) ood.InputBlock {
	return ood.InputBlock{Tensors: []ood.Tensor{{Name: "review", Shape: []int{len(list)}, Strings: list}}}
}

func learnTexts(blocks ...ood.InputBlock) *Profile {
	l := NewLearner(LearnOptions{Texts: []string{"review"}})
	for _, b := range blocks {
		l.Add(b)
	}
	return l.Profile()
}

// wordColumn returns the column of unknown words.
func wordColumn(p *Profile) *Column {
	return &p.Columns[slices.IndexFunc(p.Columns, func(c Column) bool { return c.Quantity == unknownWords })]
}

// draw returns texts of words whose frequencies follow Zipf's law.
func draw(rng *rand.Rand, n int) ood.InputBlock {
	zipf := rand.NewZipf(rng, 1.3, 3, 1<<20)
	list := make([]string, n)
	for i := range list {
		var words []string
		for range 1 + rng.IntN(12) {
			words = append(words, strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(zipf.Uint64())))
		}
		list[i] = strings.Join(words, " ")
	}
	return texts(list...)
}

// TestWords checks how texts are divided into words, and what a profile knows about them.
func TestWords(t *testing.T) {
	p := learnTexts(texts("The owl, the cat.", "the owl …", "THE 12 cats"), texts("the Ωμέγα (42) owl!", ""))
	w := wordColumn(p).Words
	// the: 4, owl: 3, cat, cats, …, ωμέγα: 1, a number of two digits: 2
	if w.Rows != 5 || w.Len() != 7 || w.Distinct != 7 || w.Total != 13 || w.Unknown != 4 || w.Least != 1 || w.UnknownFraction() != 4./13 {
		t.Errorf("words %+v", *w)
	}
	for word, want := range map[string]int{"the": 4, "The.": 4, "owl": 2, "cat": 1, "ΩΜΈΓΑ": 1, "77": 2, "777": 0, "…": 1, "...": 0, "borogoves": 0, "": 0} {
		if got := w.RowsWith(word); got != want {
			t.Errorf("%q is in %d rows, want %d", word, got, want)
		}
	}
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("owl")) {
		t.Errorf("%s has a word in clear", content)
	}
	again, err := Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	values := again.Matcher().Values(texts("the mimsy borogoves", "cat cat dog", " "))
	if got := values.columns[4].numbers; !slices.Equal(got, []float32{2. / 3, 1. / 2, 0}) {
		t.Errorf("unknown words %v", got)
	}
}

// TestWordsOfOldProfiles checks that a profile without words is read, and compares none.
func TestWordsOfOldProfiles(t *testing.T) {
	p := learnTexts(draw(rand.New(rand.NewPCG(1, 1)), 100))
	p.Columns = p.Columns[:4]
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte(`"words":`)) {
		t.Errorf("%s has words, which older versions cannot read", content)
	}
	if p, err = Decode(content); err != nil {
		t.Fatal(err)
	}
	if got := p.Matcher().Values(texts("mimsy")); len(got.columns) != 4 || got.columns[3].numbers == nil {
		t.Errorf("values %v", got)
	}
}

// TestWordsRefused checks that words which no fit writes are refused.
func TestWordsRefused(t *testing.T) {
	good := learnTexts(draw(rand.New(rand.NewPCG(1, 2)), 100))
	for name, damage := range map[string]func(c *Column, w *Words){
		"another quantity":  func(c *Column, w *Words) { c.Quantity = "words" },
		"other rows":        func(c *Column, w *Words) { w.Rows-- },
		"no rows":           func(c *Column, w *Words) { c.Sampled, c.Quantiles, *w = 0, nil, Words{Least: 1, Known: []byte{}} },
		"fewer words":       func(c *Column, w *Words) { w.Total = w.Distinct - 1 },
		"too many words":    func(c *Column, w *Words) { w.Total = maxTextWords*w.Rows + 1 },
		"more unknown":      func(c *Column, w *Words) { w.Unknown = w.Total + 1 },
		"negative":          func(c *Column, w *Words) { w.Unknown = -1 },
		"a byte":            func(c *Column, w *Words) { w.Known = append(w.Known, 0) },
		"a word too few":    func(c *Column, w *Words) { w.Known = w.Known[4:] },
		"least is 0":        func(c *Column, w *Words) { w.Distinct, w.Total, w.Least = w.Distinct+1, w.Total+1, 0 },
		"least is 2":        func(c *Column, w *Words) { w.Least = 2 },
		"order":             func(c *Column, w *Words) { copy(w.Known, w.Known[4:8]) },
		"a frequent word":   func(c *Column, w *Words) { w.Known[0] |= 15 },
		"a rare known word": func(c *Column, w *Words) { w.Distinct, w.Total, w.Least = w.Distinct+1, w.Total+1, 50 },
	} {
		content, err := good.Encode()
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(content)
		if err != nil {
			t.Fatal(err)
		}
		c := wordColumn(p)
		damage(c, c.Words)
		if content, err = json.Marshal(p); err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(content); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestUnknownWordsOfFitRows checks the quantiles of the fit rows: each row is compared with a
// profile of all other rows.
func TestUnknownWordsOfFitRows(t *testing.T) {
	all := draw(rand.New(rand.NewPCG(3, 4)), 200).Tensors[0].Strings
	var want []float32
	unknown := 0.
	for i, text := range all {
		others := learnTexts(texts(slices.Delete(slices.Clone(all), i, i+1)...))
		x := wordColumn(others).Words.unknown([]string{text})[0]
		want, unknown = append(want, x), unknown+float64(x)*float64(len(wordsOf(text)))
	}
	slices.Sort(want)
	got := wordColumn(learnTexts(texts(all...)))
	for _, q := range got.Quantiles {
		below, _ := slices.BinarySearch(want, float32(q.Value))
		if q.Below != below || q.AtMost <= below || want[q.AtMost-1] != float32(q.Value) {
			t.Errorf("quantile %+v, want %d below", q, below)
		}
	}
	if got.Max != float64(want[len(want)-1]) || got.Words.Unknown != int(unknown+0.5) || got.Words.Unknown == 0 {
		t.Errorf("at most %v and %d words are unknown, want %v and %v", got.Max, got.Words.Unknown, want[len(want)-1], unknown)
	}
}

// TestTooManyWords checks what a profile knows if it cannot know all words, and if it counts only
// some of the rows.
func TestTooManyWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	block := draw(rng, 30_000)
	rows := map[uint32]int{}
	for _, text := range block.Tensors[0].Strings {
		for _, h := range wordsOf(text) {
			rows[h]++
		}
	}
	w := wordColumn(learnTexts(block)).Words
	if err := learnTexts(block).Check(); err != nil {
		t.Error(err)
	}
	if w.Least < 2 || w.Distinct != len(rows) || w.Len() > maxWords || w.Len() < maxWords/2 {
		t.Errorf("%d of %d words known, least %d", w.Len(), w.Distinct, w.Least)
	}
	unknown := 0
	for h, n := range rows {
		if _, known := w.level(h); known != (n >= w.Least) {
			t.Fatalf("a word of %d rows is known: %t; least %d", n, known, w.Least)
		}
		if n <= w.Least {
			unknown += n
		}
	}
	if w.Unknown != unknown {
		t.Errorf("%d words would be unknown, want %d", w.Unknown, unknown)
	}
	many := make([]ood.InputBlock, 4)
	for i := range many {
		many[i] = block
	}
	p := learnTexts(many...)
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if w = wordColumn(p).Words; w.Rows > maxSampled || w.Rows < maxSampled/4 {
		t.Errorf("%d of %d rows are counted", w.Rows, p.Rows)
	}
	if least := 2 / float64(p.Rows+1); p.Rate <= least {
		t.Errorf("the rate %v ignores that a part of the rows is counted", p.Rate)
	}
}

// TestRateOfUnknownWords checks the rates of reasons and of changed columns on new texts.
func TestRateOfUnknownWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var unusual, changed, batches int
	var expected float64
	for range 60 {
		p := learnTexts(draw(rng, 500))
		for range 5 {
			c := p.NewChecker(false)
			c.Add(draw(rng, 2000))
			s := c.Summary()
			unusual, expected, batches = unusual+s.Unusual, expected+s.Expected, batches+1
			if s.Changed > 0 {
				changed++
			}
		}
	}
	if float64(unusual) > 1.2*expected || unusual == 0 {
		t.Errorf("%d rows are unusual, at most %.0f are expected", unusual, expected)
	}
	if changed > 6 { // 3 are expected at most, and batches of one fit depend on each other
		t.Errorf("columns changed in %d of %d batches", changed, batches)
	}
}

// TestNewWords checks that texts of unknown words are a changed column, and that no unit is
// suspected.
func TestNewWords(t *testing.T) {
	// Each text has unknown words: a twentieth of its words in the fit, and later a half.
	block := func(n, unknown, first int) ood.InputBlock {
		list := make([]string, n)
		for i := range list {
			for k := range 20 {
				word := "w" + strings.Repeat("x", k)
				if k < unknown {
					word += strings.Repeat("y", first+i)
				}
				list[i] += " " + word
			}
		}
		return texts(list...)
	}
	c := learnTexts(block(500, 1, 1)).NewChecker(false)
	c.Add(block(50, 10, 1000))
	columns := c.Summary().Columns
	k := slices.IndexFunc(columns, func(s ColumnSummary) bool { return s.Column == "review unknown words" })
	if k < 0 || !strings.Contains(columns[k].Change, "% of the values are at most 0.05, but 100 % in the fit rows") {
		t.Errorf("columns %v", columns)
	}
}
