package baselines

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach/ood"
)

// softmax is a softmax at some temperature in a form that keeps its precision
// where one class has nearly all of the mass.
type softmax struct {
	top    int     // index of the largest logit
	max    float64 // the largest logit divided by the temperature
	excess float64 // Σ exp(z/T − max) over all but the top
}

func newSoftmax(z []float32, temperature float64) softmax {
	var s softmax
	for j, v := range z {
		if v > z[s.top] {
			s.top = j
		}
	}
	s.max = float64(z[s.top]) / temperature
	for j, v := range z {
		if j != s.top {
			s.excess += math.Exp(float64(v)/temperature - s.max)
		}
	}
	return s
}

// largest is the largest probability.
func (s softmax) largest() float64 { return 1 / (1 + s.excess) }

// of is the probability of a class with logit z.
func (s softmax) of(z float32, temperature float64) float64 {
	return math.Exp(float64(z)/temperature-s.max) / (1 + s.excess)
}

// logitScore is a detector that looks at one row of logits at a time and
// learns nothing.
type logitScore struct {
	// Temperature is that of the softmax; 0 for the logits as they are.
	Temperature float64 `state:"temperature,least=0"`
	row         func(z []float32, temperature float64) float64
}

// logitMethod completes the description of a method that scores with a function
// of a row of logits and a temperature, which is 0 where the parameter "logits"
// is set.
func logitMethod(s ood.Method, row func(z []float32, temperature float64) float64) ood.Method {
	s.Needs = ood.NeedLogits
	s.Fit = func(_ context.Context, _ ood.Training, p ood.Values) (ood.Fitted, error) {
		temperature := 0.
		if p.Has("temperature") && !(p.Has("logits") && p.Bool("logits")) {
			temperature = p.Float("temperature")
		}
		return &logitScore{temperature, row}, nil
	}
	s.New = func() ood.Fitted { return &logitScore{row: row} }
	return s
}

// Score implements ood.Fitted.
func (s *logitScore) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = s.row(row(b.Logits, i), s.Temperature)
	}
	return nil
}
