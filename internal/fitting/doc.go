// Package fitting fits methods, scores rows with them and restores them from files. It
// checks rows, parameters and states first, so that a method sees only valid ones.
package fitting
