package ood

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// A classifier with a single logit z gives class 1 the probability
// 1/(1+exp(−z)). It is the classifier with the two logits 0 and z, which every
// method on logits can read.

// PairLogits turns the single logit of a classifier's rows, and of the network
// beside them, into two. Others stay as they are, and so do those that Validate
// refuses.
func (b Batch) PairLogits() Batch {
	if b.Logits.Cols == 1 && rows.Whole(b.Logits) == nil {
		b.Logits, b.Network = pairColumns(b.Logits), pairNetwork(b.Network)
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

// Paired is the training of a classifier with a single logit as that of one
// with two.
func (t Training) Paired() Training {
	if t.Regression || t.Logits.Cols != 1 {
		return t
	}
	t.Batch, t.Outliers = t.Batch.PairLogits(), t.Outliers.PairLogits()
	t.Last = t.Last.Paired()
	return t
}
