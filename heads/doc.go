// Package heads contains attach's own methods, as values of ood.Method. Orthonormal
// certificates score how far a row of features is from the training rows (epistemic
// uncertainty). Simultaneous quantile regression predicts any quantile of the target
// (aleatoric uncertainty). Fused detectors combine the scores of several detectors. All
// lists the methods, and attach.MethodByName finds a method by name.
//
// The methods read rows of features as a row-major blas32.General of gonum. They do not
// need the model or a C compiler. Package heads/fit trains their networks in ONNX Runtime.
//
// Large matrix products use blas32 and blas64. A program can replace their implementation
// with blas32.Use and blas64.Use.
//
// Reference: Tagasovska & Lopez-Paz (2019), Single-Model Uncertainties for
// Deep Learning.
package heads
