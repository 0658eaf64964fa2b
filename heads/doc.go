// Package heads contains attach's own methods, as values of ood.Method. Orthonormal
// certificates score how far a row of features is from the training rows (epistemic
// uncertainty). Simultaneous quantile regression predicts any quantile of the target
// (aleatoric uncertainty). Fused detectors combine others. All lists the methods, and
// attach.MethodByName finds one by name.
//
// They use rows of features as gonum blas32.General, row-major, and need neither the network
// nor a C compiler. Package heads/fit trains their networks in ONNX Runtime.
//
// Large products use blas32 and blas64, whose implementation a program can replace with
// blas32.Use and blas64.Use.
//
// Reference: Tagasovska & Lopez-Paz (2019), Single-Model Uncertainties for
// Deep Learning.
package heads
