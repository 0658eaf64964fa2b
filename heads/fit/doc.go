// Package fit trains the networks of package heads inside ONNX Runtime.
//
// A training step (forward pass, loss, backward pass, Adam) is one ONNX
// graph, whose backward part is made by automatic differentiation. Weights and
// moments go back and forth between two sets of tensors: a step reads one and
// writes the other. All networks of a train.Problem are trained by the same
// graph: its tensors have a leading model axis, so a sweep over seeds,
// learning rates and weight decays costs little more than one run.
//
// A gradient penalty puts a gradient by the inputs into that graph, and the
// backward part differentiates it a second time.
//
// Networks begin with weights and biases drawn from U(−1/√in, 1/√in), as
// PyTorch's nn.Linear does, or with the layers given, and see the rows in an
// order that is drawn anew for each epoch. Every row is seen once an epoch: where
// the batch size does not divide the number of rows, the last batch is smaller.
//
// Where a problem has validation rows, a second graph evaluates all models on
// them every few epochs, and each keeps the weights of its best evaluation.
package fit
