package command

import (
	"context"
	"iter"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/explain"
	"github.com/attach-uncertainty/attach/ood"
)

// explainer attributes the scores of flagged rows to their inputs.
type explainer struct {
	explain.Explainer
	left   int              // number of rows that may still be explained
	blocks []ood.InputBlock // blocks of rows that were read and not taken yet
	next   int              // row of blocks[0] that is taken next
}

// newExplainer returns an explainer, or nil with the reason why scores cannot be attributed.
// Normal rows come from --fitted or, for tables, from the profile.
func (f *predictFlags) newExplainer(ctx context.Context, m *openedBundle, p *attach.Predictor, known *fittedRows) (*explainer, string, error) {
	if m.Bundle.Detector == nil {
		return nil, "M.attach has no detector", nil
	}
	e := &explainer{Explainer: explain.Explainer{Net: m.Net, Predictor: p, Seed: f.predict.Seed}, left: f.explainRows}
	switch {
	case known != nil && known.set != nil:
		var err error
		if e.Reference, err = explain.ReadReference(ctx, known.set, f.predict.Seed); err != nil {
			return nil, "", inputs.InFile(f.fitted, err)
		}
	case m.Bundle.Text == nil:
		var ok bool
		if e.Reference, ok = m.Bundle.Profile.Draw(explain.MaxReferences, f.predict.Seed); !ok {
			return nil, "it takes normal rows to compare with; pass --fitted", nil
		}
	}
	return e, "", nil
}

// observe returns the same blocks, and keeps them until their rows are taken.
func (e *explainer) observe(blocks iter.Seq2[attach.Rows, error]) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for r, err := range blocks {
			if x, ok := r.Inputs.(ood.InputBlock); ok && err == nil {
				e.blocks = append(e.blocks, x)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// take attributes the score of the next row if the row is flagged and fewer rows than allowed
// were explained. Otherwise it returns nil.
func (e *explainer) take(ctx context.Context, flagged bool) (*explain.Explanation, error) {
	for len(e.blocks) > 0 && e.next == e.blocks[0].Len() {
		e.blocks, e.next = e.blocks[1:], 0
	}
	if len(e.blocks) == 0 {
		return nil, nil
	}
	row := e.blocks[0].Slice(e.next, e.next+1)
	e.next++
	if !flagged || e.left == 0 {
		return nil, nil
	}
	e.left--
	return e.Explain(ctx, row)
}

// explainMissing explains flagged rows that take did not explain, at most limit of them.
func (e *explainer) explainMissing(ctx context.Context, set *inputs.Set, worst flaggedRows, limit int, p *progress) error {
	for i := range worst {
		if worst[i].explanation != nil || limit == 0 {
			continue
		}
		limit--
		row, err := set.Block(ctx, []int{worst[i].row})
		if err == nil {
			worst[i].explanation, err = e.Explain(ctx, row)
		}
		if err != nil {
			return err
		}
		worst[i].addReasons(worst[i].explanation.Reasons())
		p.set(i+1, len(worst))
	}
	return nil
}
