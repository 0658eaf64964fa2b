// Package double restates ONNX models in double precision.
//
// ONNX Runtime's CPU kernels of many operators (Conv, AveragePool, Erf, …)
// exist in single precision alone. Promote makes the real numbers of a model
// double: weights, constants, casts, inputs and outputs. Lower then replaces
// each node whose operator has no kernel in double precision by nodes whose
// operators have one. Between the two the model may be differentiated, so that
// what a gradient is made of is lowered with the rest.
//
// What is not known to be computed in double precision is an error that names
// the operator and its node, never a silent single precision.
package double
