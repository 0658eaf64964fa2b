package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/explain"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
)

// maxShownText is the largest number of characters of a text that the report shows.
const maxShownText = 240

// look returns a Look that opens sources again. It shows no rows of a source that can no longer
// be read, or that holds features. Scores are not affected.
func (e *Engine) look(ctx context.Context, sources []source) (*audit.Look, error) {
	explainer, err := e.newExplainer(ctx)
	if err != nil {
		return nil, err
	}
	explained := 0
	return &audit.Look{Explains: explainer != nil, Rows: func(ctx context.Context, name string, rows []int) ([]audit.Shown, error) {
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
		images, err := set.Thumbnails(ctx, at)
		if err != nil {
			return nil, nil
		}
		for k, m := range images {
			if shown[k].Picture, err = report.Encode(m); err != nil {
				return nil, nil
			}
		}
		if explainer != nil {
			block, err := set.Block(ctx, at)
			if err != nil {
				return nil, inputs.InFile(sources[i].path, err)
			}
			for k := range shown {
				if err := explainRow(ctx, explainer, block.Slice(k, k+1), &shown[k]); err != nil {
					return nil, inputs.InFile(sources[i].path, err)
				}
				if explained++; e.Explaining != nil {
					e.Explaining(explained, audit.MaxWorst)
				}
			}
		}
		if images != nil {
			return shown, nil
		}
		columns, err := set.Cells(ctx, at)
		if err != nil {
			return nil, nil
		}
		for _, c := range columns {
			for k := range min(len(c.Texts), len(shown)) {
				text := []rune(strings.TrimSpace(shown[k].Text + " " + c.Texts[k]))
				shown[k].Text = string(text[:min(len(text), maxShownText)])
			}
		}
		return shown, nil
	}}, nil
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
	fitted, err := e.fittedSources(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(fitted) > 0:
		opened, err := e.rows.OpenRows(ctx, fitted[0].path, "", inputs.Slice{})
		if err == nil {
			x.Reference, err = explain.ReadReference(ctx, opened.Set, x.Seed)
		}
		if err != nil {
			return nil, inputs.InFile(fitted[0].path, err)
		}
	case b.Text == nil:
		var ok bool
		if b.Profile != nil {
			x.Reference, ok = b.Profile.Draw(explain.MaxReferences, x.Seed)
		}
		if !ok {
			e.note("note: scores are not attributed to the inputs: this takes rows of the fit to compare with")
			return nil, nil
		}
	}
	return x, nil
}

// explainRow says what raised the score of the only row of a block.
func explainRow(ctx context.Context, x *explain.Explainer, row ood.InputBlock, shown *audit.Shown) error {
	why, err := x.Explain(ctx, row)
	if err != nil {
		return err
	}
	if shown.Score = strings.Join(why.Reasons(), "; "); why.HeatMap != nil {
		shown.HeatMap, err = report.Encode(why.HeatMap)
	}
	return err
}
