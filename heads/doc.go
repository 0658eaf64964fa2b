// Package heads holds what is attached to a trained network: orthonormal
// certificates, which score how far a row of features is from those seen in
// training (epistemic uncertainty), and simultaneous quantile regression,
// which predicts any quantile of the target (aleatoric uncertainty).
//
// A fit returns the fitted head; an unfitted one cannot exist. Heads work on
// rows of features as gonum blas32.General, row-major, and need neither the
// network nor a C compiler. Training is behind the interface Trainer, which
// package heads/fit implements in ONNX Runtime.
//
// Large products go through blas32 and blas64, whose implementation a program
// may replace with blas32.Use and blas64.Use.
//
// Errors that come with data are returned. Functions panic, as gonum does, if
// a caller passes matrices whose shapes do not fit together.
//
// Reference: Tagasovska & Lopez-Paz (2019), Single-Model Uncertainties for
// Deep Learning.
package heads
