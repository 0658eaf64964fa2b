package engine

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/explain"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

const (
	// maxShownText is the largest number of characters of a text that the report shows.
	maxShownText = 240
	// maxShownColumns is the number of columns of a table that the report shows. It also shows
	// other columns that have an unusual value.
	maxShownColumns = 30
)

// look returns a Look that opens sources again. It shows no rows of a source that can no longer
// be read, or that holds features. Scores are not affected.
func (e *Engine) look(ctx context.Context, sources []source) (*audit.Look, error) {
	explainer, err := e.newExplainer(ctx)
	if err != nil {
		return nil, err
	}
	explained := 0
	look := &audit.Look{Explains: explainer != nil}
	look.Rows = func(ctx context.Context, name string, rows []int, features blas32.General, explain bool) ([]audit.Shown, error) {
		i := slices.IndexFunc(sources, func(s source) bool { return s.Name == name })
		defer e.rows.Quiet()() // the notes were already printed when the rows were scored
		opened, err := e.rows.OpenRows(ctx, sources[i].path, "", inputs.Slice{})
		if err != nil || opened.Set == nil {
			return nil, nil
		}
		set, n := opened.Set, opened.N
		_, step := e.Identity.Selected(n)
		at := make([]int, len(rows))
		for k, row := range rows {
			if at[k] = row * step; at[k] >= n {
				return nil, nil
			}
		}
		shown := make([]audit.Shown, len(rows))
		read := sync.OnceValues(func() (ood.InputBlock, error) { return set.Block(ctx, at) })
		if err := e.showInputs(ctx, set, at, shown, read); err != nil {
			return nil, nil
		}
		if e.scorer.Identity.Fitted != "" {
			if err := e.showNearest(ctx, features, shown); err != nil {
				return nil, err
			}
		}
		if !explain || explainer == nil {
			return shown, nil
		}
		block, err := read()
		for k := range shown {
			if err == nil {
				err = explainRow(ctx, explainer, block.Slice(k, k+1), &shown[k])
			}
			if err != nil {
				return nil, inputs.InFile(sources[i].path, err)
			}
			if explained++; e.Explaining != nil {
				e.Explaining(explained, look.Total)
			}
		}
		return shown, nil
	}
	return look, nil
}

// showInputs sets the pictures or the cells of some rows. The function read returns the rows.
func (e *Engine) showInputs(ctx context.Context, set *inputs.Set, at []int, shown []audit.Shown, read func() (ood.InputBlock, error)) error {
	images, err := set.Thumbnails(ctx, at)
	if err != nil {
		return err
	}
	for k, m := range images {
		if shown[k].Picture, err = report.Encode(m); err != nil {
			return err
		}
	}
	columns, err := set.Cells(ctx, at)
	if err != nil || columns == nil {
		return err
	}
	var reasons [][]schema.Reason
	if m := e.scorer.Matcher(); m != nil {
		block, err := read()
		if err != nil {
			return err
		}
		reasons = m.Reasons(m.Values(block))
	}
	for i, c := range columns {
		hasReason := func(list []schema.Reason) bool {
			return slices.ContainsFunc(list, func(r schema.Reason) bool { return r.Column == c.Name })
		}
		if i >= maxShownColumns && !slices.ContainsFunc(reasons, hasReason) {
			continue
		}
		for k := range shown {
			cell := audit.Cell{Column: c.Name}
			if c.Texts != nil {
				text := []rune(strings.TrimSpace(c.Texts[k]))
				cell.Text = string(text[:min(len(text), maxShownText)])
			} else if x := c.Numbers[k]; !math.IsNaN(x) && !math.IsInf(x, 0) {
				cell.Number = &x
			}
			cell.Unusual = reasons != nil && hasReason(reasons[k])
			shown[k].Cells = append(shown[k].Cells, cell)
		}
	}
	return nil
}

// showNearest sets the fit rows that are nearest to some rows, with their pictures.
func (e *Engine) showNearest(ctx context.Context, features blas32.General, shown []audit.Shown) error {
	nearest, keys, err := e.scorer.NearestFitRows(ctx, features)
	if err != nil {
		return err
	}
	first := 0
	for s, count := range e.fittedCounts {
		var at, places []int
		for k, row := range nearest {
			if first <= row && row < first+count {
				shown[k].Nearest, at, places = keys[k], append(at, row-first), append(places, k)
			}
		}
		first += count
		if len(at) == 0 || shown[places[0]].Picture == nil {
			continue
		}
		opened, err := e.rows.OpenRows(ctx, e.fitted[s].path, "", inputs.Slice{})
		if err != nil {
			return err
		}
		images, err := opened.Set.Thumbnails(ctx, at)
		if err != nil {
			return inputs.InFile(e.fitted[s].path, err)
		}
		for j, m := range images {
			if shown[places[j]].NearestPicture, err = report.Encode(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// newExplainer returns an Explainer, or nil if Options.Explain is not set. It also returns nil,
// and prints a note, if scores cannot be attributed. Normal rows to compare with come from the
// first file of Options.Fitted or, for tables, from the profile.
func (e *Engine) newExplainer(ctx context.Context) (*explain.Explainer, error) {
	if !e.Explain {
		return nil, nil
	}
	b := e.rows.Bundle
	if e.rows.FromFeatures() {
		return nil, modelrows.Usagef("Options.Explain needs the model, and rows are features")
	}
	if err := e.rows.OpenNetwork(ctx); err != nil {
		return nil, err
	}
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		return nil, err
	}
	x := &explain.Explainer{Net: e.rows.Net, Predictor: p}
	switch {
	case len(e.fitted) > 0:
		opened, err := e.rows.OpenRows(ctx, e.fitted[0].path, "", inputs.Slice{})
		if err == nil {
			x.Reference, err = explain.ReadReference(ctx, opened.Set, x.Seed)
		}
		if err != nil {
			return nil, inputs.InFile(e.fitted[0].path, err)
		}
	case b.Text == nil:
		var ok bool
		if b.Profile != nil {
			x.Reference, ok = b.Profile.Draw(explain.MaxReferences, x.Seed)
		}
		if !ok {
			e.note("note: scores are not attributed to the inputs: this takes normal rows to compare with; name rows of the fit with --fitted")
			return nil, nil
		}
	}
	return x, nil
}

// shownWords divides a text into words as report.Column.AddWords does, and returns the words of
// its first maxShownText characters.
func shownWords(text string, offsets [][2]int, shares []float64, unknown []bool) (words []audit.Word) {
	c := report.Column{Text: []string{text}}
	c.AddWords(0, offsets, shares, unknown)
	left := maxShownText
	for _, w := range c.Words[0] {
		if left -= utf8.RuneCountInString(w.Text); left < 0 {
			break
		}
		words = append(words, audit.Word(w))
	}
	return words
}

// explainRow says what raised the score of the only row of a block.
func explainRow(ctx context.Context, x *explain.Explainer, row ood.InputBlock, shown *audit.Shown) error {
	why, err := x.Explain(ctx, row)
	if err != nil {
		return err
	}
	shares := why.ColumnShares()
	for i := range shown.Cells {
		shown.Cells[i].Share = shares[shown.Cells[i].Column]
	}
	for k, t := range why.Tensors {
		if t.Offsets == nil {
			continue
		}
		text := row.Tensors[k].Strings[0]
		i := slices.IndexFunc(shown.Cells, func(c audit.Cell) bool {
			return c.Words == nil && c.Text != "" && strings.HasPrefix(strings.TrimSpace(text), c.Text)
		})
		if i >= 0 {
			shown.Cells[i].Words = shownWords(text, t.Offsets, why.Shares(k), why.Unknown[k])
		}
	}
	if shown.Explained = why.Reasons(); why.HeatMap != nil {
		shown.HeatMap, err = report.Encode(why.HeatMap)
	}
	return err
}
