// Package fitting fits methods, scores rows with them and restores them from files. It
// checks rows, parameters and states before it calls a method, so that methods only get
// valid data.
package fitting
