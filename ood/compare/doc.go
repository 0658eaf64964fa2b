// Package compare fits many detectors to the same rows and measures how well each one separates
// out-of-distribution rows from in-distribution rows.
package compare
