// Package heads holds what is attached to a trained network, as values of
// ood.Method: orthonormal certificates, which score how far a row of features is
// from those seen in training (epistemic uncertainty), simultaneous quantile
// regression, which predicts any quantile of the target (aleatoric uncertainty),
// and detectors that are fused of others. All lists them, and attach.MethodByName
// has them by name.
//
// They work on rows of features as gonum blas32.General, row-major, and need
// neither the network nor a C compiler. Package heads/fit
// trains their networks in ONNX Runtime.
//
// Large products go through blas32 and blas64, whose implementation a program
// may replace with blas32.Use and blas64.Use.
//
// Reference: Tagasovska & Lopez-Paz (2019), Single-Model Uncertainties for
// Deep Learning.
package heads
