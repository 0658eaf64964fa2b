// Package fit trains the networks of package heads inside ONNX Runtime.
//
// A training step (forward pass, loss, backward pass, Adam) is one ONNX graph. Automatic
// differentiation adds the backward pass. There are two sets of tensors for weights and
// moments. A step reads one set and writes the other, and they swap roles in the next step.
//
// One graph trains all networks of a train.Problem. For this, its tensors have a leading
// model axis. A sweep over seeds, learning rates and weight decays therefore costs little
// more than one run.
//
// If there is a gradient penalty, the graph contains a gradient with respect to its inputs.
// The backward pass then differentiates this gradient again.
//
// Initial weights and biases are drawn from U(−1/√in, 1/√in), as in PyTorch's nn.Linear,
// unless the problem gives them. Each epoch visits every row once, in a new random order.
// If the batch size does not divide the number of rows, the last batch is smaller.
//
// If a problem has validation rows, a second graph evaluates all models on them every few
// epochs. Each model keeps the weights of its best evaluation.
package fit
