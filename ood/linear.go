package ood

import "gonum.org/v1/gonum/blas/blas32"

// Linear is the last layer of a model with h features φ and c outputs: logits = φ·Weightᵀ +
// Bias.
type Linear struct {
	Weight blas32.General // c×h: one row for each output
	Bias   []float32      // one for each output
}
