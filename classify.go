package attach

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// classify fills in what logits, if there are any, say of classes.
func (b *Bundle) classify(out []Prediction, logits blas32.General) {
	if logits.Cols == 0 {
		return
	}
	temperature := cmp.Or(b.Calibration.Temperature, 1)
	for i := range out {
		row := logits.Data[i*logits.Stride : i*logits.Stride+logits.Cols]
		class, confidence := mostLikely(row, temperature)
		if b.Base.Sigmoid {
			confidence = 1 / (1 + math.Exp(-float64(row[class])/temperature))
		}
		out[i].Class, out[i].Confidence = class, confidence
		if class < len(b.Base.Classes) {
			out[i].Name = b.Base.Classes[class]
		}
	}
}

// mostLikely is the class of largest probability and that probability.
func mostLikely(logits []float32, temperature float64) (class int, confidence float64) {
	for j, z := range logits {
		if z > logits[class] {
			class = j
		}
	}
	var sum float64
	for _, z := range logits {
		sum += math.Exp((float64(z) - float64(logits[class])) / temperature)
	}
	return class, 1 / sum
}
