package attach

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/ood"
)

// classify sets the class, its name and the confidence of each prediction from the logits.
// Without logits it does nothing.
func (b *Bundle) classify(out []Prediction, logits blas32.General) {
	if logits.Cols == 0 {
		return
	}
	temperature := cmp.Or(b.Calibration.Temperature, 1)
	for i := range out {
		row := rows.Row(logits, i)
		p := softmax.New(row, temperature)
		class, confidence := p.Top, p.Largest()
		if shift := b.Calibration.LabelShift; shift != nil {
			adjusted := shift.Logits(row, temperature)
			confidence = softmax.New(adjusted, 1).Of(adjusted[class], 1)
		}
		if b.Base.Sigmoid {
			confidence = 1 / (1 + math.Exp(-float64(row[class])/temperature))
		}
		out[i].Class, out[i].Confidence = class, confidence
		if class < len(b.Base.Classes) {
			out[i].Name = b.Base.Classes[class]
		}
	}
}

// pairLogits replaces the single logit z of a binary classifier by the two logits 0 and z,
// because all methods expect a logit for each class. It returns other batches unchanged.
func (b Base) pairLogits(batch ood.Batch) ood.Batch {
	if b.Task == Classification {
		return binarylogit.Batch(batch)
	}
	return batch
}
