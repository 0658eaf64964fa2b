// Package evidence says how much counts of rows tell: intervals of shares, and
// tests of what calibration promises, also of streams.
package evidence
