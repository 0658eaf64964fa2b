// Package driver fits methods, scores rows with what they fitted, and restores it:
// it checks rows, parameters and states, so that a method sees none that it cannot
// take.
package driver
