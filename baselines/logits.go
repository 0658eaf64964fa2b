package baselines

import (
	"context"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// logitScore is a detector that looks at one row of logits at a time and
// learns nothing but their number.
type logitScore struct {
	width       int
	temperature float64 // of the softmax; 0 for the logits as they are
	row         func(z []float32, temperature float64) float64
}

// A single logit has a softmax of 1, whatever it is.
const leastLogits = 2

// fitLogits checks the parameters "temperature" and, if raw is set, "logits".
func fitLogits(ctx context.Context, t ood.Training, p ood.Params, raw bool, row func([]float32, float64) float64) (ood.Scorer, error) {
	r := p.Reader()
	s := logitScore{width: t.Logits.Cols, temperature: r.Positive("temperature", 1), row: row}
	if raw && r.Bool("logits", false) {
		s.temperature = 0
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.width < leastLogits {
		return nil, fmt.Errorf("%d logits a row, but at least %d are needed: one per class", s.width, leastLogits)
	}
	return s, nil
}

// Score implements ood.Scorer.
func (s logitScore) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if err := checkWidth(b.Logits, s.width, "logits"); err != nil {
		return nil, err
	}
	dst = scores(dst, b.Logits.Rows)
	for i := range dst {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		dst[i] = s.row(row(b.Logits, i), s.temperature)
	}
	return dst, nil
}

// State implements heads.Stater.
func (s logitScore) State() heads.State {
	return heads.State{Params: map[string]any{"width": float64(s.width), "temperature": s.temperature}}
}

// restoreLogits accepts a temperature of 0, the logits as they are, if raw is set.
func restoreLogits(st heads.State, raw bool, row func([]float32, float64) float64) (ood.Scorer, error) {
	width, err := whole(st, "width", leastLogits)
	if err != nil {
		return nil, err
	}
	temperature, err := st.Number("temperature")
	if err != nil {
		return nil, err
	}
	if !(temperature > 0 || raw && temperature == 0) || math.IsInf(temperature, 0) {
		return nil, fmt.Errorf("parameter %q must be positive, not %v", "temperature", temperature)
	}
	return logitScore{width, temperature, row}, nil
}
