// Package hypothesis computes confidence intervals for fractions and tests the guarantees of
// calibration, on a fixed set of rows and on streams.
package hypothesis
