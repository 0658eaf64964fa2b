// Package modelrows opens rows, either as inputs of a model or as rows to predict with a
// .attach file. Rows to predict can have labels, targets and groups. They are inputs, which
// a model turns into features, or precomputed features. The package never prints and does
// not depend on flags.
package modelrows
