// Package autodiff differentiates ONNX graphs in reverse mode. The gradient
// is appended to the same graph, made of the same operators, so it runs
// wherever the graph runs and can be differentiated again. A graph of an older
// operator set is raised before (onnx.Raise), so that rules know the newer forms of
// operators alone.
//
// An operator's gradient is a rule (the vector–Jacobian product), and the
// rules known are listed in one table. An operator that has none is an error
// where a gradient would have to pass through it, never a silent zero.
// Operators whose derivative is zero almost everywhere (comparisons, Sign,
// Floor, Shape, …) end a path.
//
// Static shapes are inferred where they can be, and used: a gradient over
// static shapes has no shape arithmetic left in it. Elsewhere the shapes are
// computed by the graph when it runs.
//
// See Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
// chapter 3.
package autodiff
