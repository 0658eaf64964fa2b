// Package binarylogit converts a binary classifier with a single logit z to one with the
// two logits 0 and z. The single logit gives class 1 the probability 1/(1+exp(−z)), and so
// do the two logits. Methods that need several logits can then be used.
package binarylogit

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Batch converts the single logit of each row to two logits, and the network of the batch
// in the same way. It returns a batch unchanged if the number of logits is not 1, or if the
// matrix is invalid, which Validate reports later.
func Batch(b ood.Batch) ood.Batch {
	if b.Logits.Cols == 1 && rows.Whole(b.Logits) == nil {
		b.Logits = toPair(b.Logits)
		if b.Network != nil {
			b.Network = pairedNetwork{b.Network}
		}
	}
	return b
}

// toPair returns the logits 0 and z of each row.
func toPair(z blas32.General) blas32.General {
	pair := rows.New(z.Rows, 2)
	for i := range z.Rows {
		pair.Data[2*i+1] = z.Data[i*z.Stride]
	}
	return pair
}

// Training converts the training data of a classifier with a single logit to training data
// with two logits. It returns other training data unchanged.
func Training(t ood.Training) ood.Training {
	if t.Regression || t.Logits.Cols != 1 {
		return t
	}
	t.Batch, t.Outliers, t.Last = Batch(t.Batch), Batch(t.Outliers), Last(t.Last)
	return t
}

// Last converts the last layer to one that computes the two logits. It returns l unchanged
// if l is nil, has several outputs, or has an invalid matrix.
func Last(l *ood.Linear) *ood.Linear {
	if l == nil || l.Weight.Rows != 1 || rows.Whole(l.Weight) != nil {
		return l
	}
	w := rows.New(2, l.Weight.Cols)
	copy(rows.Row(w, 1), l.Weight.Data)
	return &ood.Linear{Weight: w, Bias: append([]float32{0}, l.Bias...)}
}
