package bundle

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// A classifier with a single logit z gives class 1 the probability
// 1/(1+exp(−z)). It is the classifier with the two logits 0 and z, which every
// method on logits can read.

// pairLogits turns the single logit of a classifier's rows into two.
func pairLogits(task Task, b ood.Batch) ood.Batch {
	if task == Classification && b.Logits.Cols == 1 {
		b.Logits = pairColumns(b.Logits)
	}
	return b
}

func pairColumns(z blas32.General) blas32.General {
	pair := blas32.General{Rows: z.Rows, Cols: 2, Stride: 2, Data: make([]float32, 2*z.Rows)}
	for i := range z.Rows {
		pair.Data[2*i+1] = z.Data[i*z.Stride]
	}
	return pair
}

// pairLast is the last layer that makes these two logits.
func pairLast(task Task, last *ood.Linear) *ood.Linear {
	if task != Classification || last == nil || last.Weight.Rows != 1 {
		return last
	}
	h := last.Weight.Cols
	w := blas32.General{Rows: 2, Cols: h, Stride: h, Data: make([]float32, 2*h)}
	copy(w.Data[h:], last.Weight.Data[:h])
	return &ood.Linear{Weight: w, Bias: append([]float32{0}, last.Bias...)}
}
