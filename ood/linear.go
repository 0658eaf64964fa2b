package ood

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// Linear is the network's last layer: logits = φ·Weightᵀ + Bias.
type Linear struct {
	Weight blas32.General // c×h
	Bias   []float32      // c
}

// check says what is wrong with a layer on h features; c is the number of
// logits, or 0.
func (l *Linear) check(h, c int) error {
	switch w := l.Weight; {
	case w.Cols != h:
		return fmt.Errorf("the last layer's weights are for %d features, and the rows have %d", w.Cols, h)
	case c > 0 && w.Rows != c:
		return fmt.Errorf("the last layer has %d outputs, and the rows have %d logits", w.Rows, c)
	case len(l.Bias) > 0 && len(l.Bias) != w.Rows:
		return fmt.Errorf("the last layer has %d biases for %d outputs", len(l.Bias), w.Rows)
	}
	for i, b := range l.Bias {
		if !rows.Finite(b) {
			return fmt.Errorf("bias %d of the last layer is %v", i, b)
		}
	}
	return rows.CheckFinite("the last layer's weights", l.Weight)
}

// Logits are features·Weightᵀ + Bias, n×c, of features n×h.
func (l *Linear) Logits(features blas32.General) blas32.General {
	c := l.Weight.Rows
	z := rows.New(features.Rows, c)
	for i := range z.Rows {
		copy(z.Data[i*c:], l.Bias)
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, features, l.Weight, 1, z)
	return z
}
