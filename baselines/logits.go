package baselines

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// logitScore is a detector that scores a row only by its logits. It has no fitted
// parameters.
type logitScore struct {
	// Temperature is the temperature of the softmax. 0 means logits without a softmax.
	Temperature float64 `state:"temperature,least=0"`
	logitForm
}

// logitForm is a function of a row of logits and a temperature, in two forms: on numbers
// and on graph tensors.
type logitForm struct {
	row   func(z []float32, temperature float64) float64
	graph func(z graph.Tensor, temperature float64) graph.Tensor
}

// logitMethod completes the description of a method that scores a row of logits with a
// function. The functions row and nodes compute the same score, on numbers and on graph
// tensors. They get the temperature 0 if the parameter "logits" is set, or if the method
// has no parameter "temperature".
func logitMethod(s ood.Method, row func(z []float32, temperature float64) float64, nodes func(z graph.Tensor, temperature float64) graph.Tensor) ood.Method {
	form := logitForm{row, nodes}
	s.Needs = ood.Needs{Logits: true}
	s.Fit = func(_ context.Context, _ ood.Training, p ood.Params) (any, error) {
		temperature, _ := p["temperature"].(float64)
		if p["logits"] == true {
			temperature = 0
		}
		return &logitScore{temperature, form}, nil
	}
	s.New = func() any { return &logitScore{logitForm: form} }
	return s
}

func (s *logitScore) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = s.row(row(b.Logits, i), s.Temperature)
	}
	return nil
}

func (s *logitScore) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	return s.graph(b.Logits.Double(), s.Temperature), nil
}
