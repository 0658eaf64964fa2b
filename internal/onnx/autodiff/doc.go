// Package autodiff differentiates ONNX graphs in reverse mode. It appends the gradient to the
// same graph, with standard operators, so the result runs on every runtime and can be
// differentiated again. Graphs of older operator sets must be converted first (onnx.Upgrade),
// because rules support only the newer forms of operators.
//
// An operator's gradient is a rule (the vector–Jacobian product), and one table lists all
// rules. If a gradient would have to pass through an operator without a rule, that is an error,
// never a silent zero. Operators whose derivative is zero almost everywhere (comparisons, Sign,
// Floor, Shape, …) end a path.
//
// Static shapes are inferred if possible: a gradient over static shapes contains no shape
// arithmetic. Other shapes are computed by the graph at run time.
//
// See Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, chapter 3.
package autodiff
