package attach

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

func (out *Prediction) classify(logits blas32.General, temperature float64, sigmoid bool) {
	if logits.Cols == 0 {
		return
	}
	if temperature == 0 {
		temperature = 1
	}
	out.Class = make([]int, out.N)
	out.Confidence = make([]float64, out.N)
	for i := range out.N {
		row := logits.Data[i*logits.Stride : i*logits.Stride+logits.Cols]
		out.Class[i], out.Confidence[i] = mostLikely(row, temperature)
		if sigmoid {
			out.Confidence[i] = 1 / (1 + math.Exp(-float64(row[out.Class[i]])/temperature))
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
