// Package autodiff differentiates ONNX graphs in reverse mode. It appends the gradient to
// the same graph, with standard operators. Therefore the result runs on every runtime and
// can be differentiated again. Callers must first convert graphs of older operator sets
// with onnx.Upgrade, because rules support only the newer forms of operators.
//
// Each operator has a rule for its gradient, the vector–Jacobian product, and the tables in
// rules.go list all rules. If a gradient would have to pass through an operator without a
// rule, Gradient returns an error and never a silent zero. Some operators have a derivative
// that is zero almost everywhere, for example comparisons, Sign, Floor and Shape. Gradients
// stop there.
//
// The package infers the shapes of tensors if possible, so that gradients with these shapes
// need no shape arithmetic. Otherwise, the graph computes shapes at run time.
//
// For the method, see Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
// chapter 3.
package autodiff
