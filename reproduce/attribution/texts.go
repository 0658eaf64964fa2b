package attribution

import (
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/networks"
	"github.com/attach-uncertainty/attach/schema"
)

// textSet is a text classifier and its data set.
type textSet struct {
	model            string // folder below the folder of models
	fit, train, test string // CSV files; the detector is fitted on the rows of fit
	label            string // the column of the label
}

// texts puts a foreign word into each text.
func (m *measurement) texts(ctx context.Context) error {
	data, models := m.plan.Data, m.plan.Models
	for _, s := range []textSet{
		{networks.Texts, filepath.Join(data, "clinc150", "val.csv"), filepath.Join(data, "clinc150", "train.csv"), filepath.Join(data, "clinc150", "test.csv"), "intent"},
		{"banking_bert", filepath.Join(models, "banking_bert", "val.csv"), filepath.Join(data, "banking77", "train.csv"), filepath.Join(data, "banking77", "test.csv"), "category"},
	} {
		if _, err := os.Stat(s.fit); err != nil {
			fmt.Fprintf(m.plan.Stdout, "%s is left out: there is no %s\n", s.model, s.fit)
			continue
		}
		if err := m.textSet(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.model, err)
		}
	}
	return nil
}

func (m *measurement) textSet(ctx context.Context, s textSet) error {
	model, batches, err := m.plan.ReadTextFiles(ctx, s.model, []string{s.fit}, s.label, func(float64) {})
	if err != nil {
		return err
	}
	defer model.Close()
	info := model.Info()
	o := attach.FitOptions{Base: model.Base(attach.Classification), Text: info.Text, Batch: batches[0], Last: model.Last(), Trainer: m.plan.Trainer}
	a, p, err := m.fit(ctx, o)
	if err != nil {
		return err
	}
	defer a.Close()
	var read [3][]string
	for i, file := range []string{s.train, s.test, s.fit} {
		if read[i], err = readColumn(file); err != nil {
			return err
		}
	}
	f := insertWords(read[0], read[1], m.plan.Seed)
	f.set = s.model + " " + p.Bundle().Detector.Method
	f.rankings = []ranking{rankByWords("new, fit", read[2]), rankByWords("new, train", read[0])}
	return m.measure(ctx, a, p, ood.InputBlock{}, f, "replacement")
}

// rankByWords returns the ranking of attach predict --explain: words that a profile of the texts
// does not know come first. Otherwise, words are ranked by their attribution.
func rankByWords(name string, texts []string) ranking {
	l := schema.NewLearner(schema.LearnOptions{Texts: []string{"text"}})
	l.Add(ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{len(texts)}, Strings: texts}}})
	columns := l.Profile().Columns
	words := columns[slices.IndexFunc(columns, func(c schema.Column) bool { return c.Words != nil })].Words
	return ranking{name, func(_ int, a featurize.Attribution) []float64 {
		t := a.Tensors[0]
		values := slices.Clone(t.Values)
		difference := 1 + slices.Max(values) - slices.Min(values)
		for i, word := range t.Labels {
			if words.RowsWith(word) == 0 {
				values[i] += difference
			}
		}
		return values
	}}
}

// readColumn returns the first column of a CSV file, without its header.
func readColumn(path string) (list []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range records[1:] {
		list = append(list, r[0])
	}
	return list, nil
}

// foreignWords returns words that the texts of the data sets lack.
func foreignWords() []string {
	return strings.Fields("photosynthesis quarterback glacier saxophone parliament mitochondria volcano sonnet dinosaur cathedral asteroid viking enzyme samurai pharaoh kayak origami feudalism")
}

// insertWords puts a foreign word into each text, at a random place. The baseline is the rarity
// of a word: minus the number of texts that have it.
func insertWords(fit, test []string, seed uint64) faulty {
	rng := rand.New(rand.NewPCG(seed, 7))
	count := map[string]int{}
	for _, text := range fit {
		for _, w := range strings.Fields(text) {
			count[plain(w)]++
		}
	}
	f := faulty{fault: "word", baseline: "rarity"}
	foreign := foreignWords()
	var texts []string
	for _, i := range rng.Perm(len(test)) { // all, because few texts with one foreign word are flagged
		words := strings.Fields(test[i])
		at := rng.IntN(len(words) + 1)
		words = slices.Insert(words, at, foreign[rng.IntN(len(foreign))])
		rarity := make([]float64, len(words))
		for j, w := range words {
			rarity[j] = -float64(count[plain(w)])
		}
		texts = append(texts, strings.Join(words, " "))
		f.places, f.suspicion = append(f.places, []int{at}), append(f.suspicion, rarity)
	}
	f.rows = ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{len(texts)}, Strings: texts}}}
	return f
}

// plain removes what makes a common word look rare: punctuation and capital letters.
func plain(word string) string { return strings.ToLower(strings.Trim(word, ".,;:?!\"'()")) }
