// Package fit trains the networks of package heads inside ONNX Runtime.
//
// A training step (forward pass, loss, backward pass, Adam) is one ONNX graph, whose backward
// part comes from automatic differentiation. Weights and moments alternate between two sets of
// tensors: a step reads one and writes the other. One graph trains all networks of a
// train.Problem: its tensors have a leading model axis, so that a sweep over seeds, learning
// rates and weight decays costs little more than one run.
//
// A gradient penalty puts a gradient with respect to the inputs into that graph, and the
// backward part differentiates it again.
//
// Initial weights and biases are drawn from U(−1/√in, 1/√in), as in PyTorch's nn.Linear, or
// given. Each epoch visits every row once, in a new random order. If the batch size does not
// divide the number of rows, the last batch is smaller.
//
// If a problem has validation rows, a second graph evaluates all models on them every few
// epochs, and each model keeps the weights of its best evaluation.
package fit
