// Package modelrows opens rows: as inputs of a model, or as rows to predict with a .attach
// file. The latter come with their labels, targets and groups; they are inputs that a model
// turns into features, or precomputed features. The package never prints and does not depend on
// flags.
package modelrows
