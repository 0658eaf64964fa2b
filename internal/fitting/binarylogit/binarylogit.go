// Package binarylogit turns a binary classifier with a single logit z, which gives
// class 1 the probability 1/(1+exp(−z)), into one with the two logits 0 and z. Every
// method on logits can read that.
package binarylogit

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Batch turns the single logit of a classifier's rows, and of the network beside
// them, into two. Others stay as they are, and so do those that Validate refuses.
func Batch(b ood.Batch) ood.Batch {
	if b.Logits.Cols == 1 && rows.Whole(b.Logits) == nil {
		b.Logits = columns(b.Logits)
		if b.Network != nil {
			b.Network = pairedNetwork{b.Network}
		}
	}
	return b
}

func columns(z blas32.General) blas32.General {
	pair := rows.New(z.Rows, 2)
	for i := range z.Rows {
		pair.Data[2*i+1] = z.Data[i*z.Stride]
	}
	return pair
}

// Training is the training of a classifier with a single logit as that of one
// with two.
func Training(t ood.Training) ood.Training {
	if t.Regression || t.Logits.Cols != 1 {
		return t
	}
	t.Batch, t.Outliers, t.Last = Batch(t.Batch), Batch(t.Outliers), Last(t.Last)
	return t
}

// Last is the last layer that makes these two logits, of nil nil. One whose
// numbers are not whole stays as it is.
func Last(l *ood.Linear) *ood.Linear {
	if l == nil || l.Weight.Rows != 1 || rows.Whole(l.Weight) != nil {
		return l
	}
	w := rows.New(2, l.Weight.Cols)
	copy(rows.Row(w, 1), l.Weight.Data)
	return &ood.Linear{Weight: w, Bias: append([]float32{0}, l.Bias...)}
}
