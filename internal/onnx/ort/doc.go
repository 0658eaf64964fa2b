// Package ort finds or installs libonnxruntime and runs ONNX models with it, on the CPU or on CUDA.
//
// [Open] gives a [Runtime], which makes a [Session] of a model; a session reads and writes a [Tensor]. [Find] says which library
// would be used and why, [Install] fetches one. Runtimes, sessions and tensors are closed by their makers: tensors and sessions
// first.
//
// This is the one package that knows the binding to libonnxruntime.
package ort
