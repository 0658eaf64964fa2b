package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/ood"
)

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
	s.Fit = func(_ context.Context, _ ood.Training, p ood.Params) (any, error) {
		temperature, _ := p["temperature"].(float64)
		if p["logits"] == true {
			temperature = 0
		}
		return &logitScore{temperature, row}, nil
	}
	s.New = func() any { return &logitScore{row: row} }
	return s
}

// Score implements ood.Detector.
func (s *logitScore) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = s.row(row(b.Logits, i), s.Temperature)
	}
	return nil
}
