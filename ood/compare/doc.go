// Package compare fits many methods to the same rows and measures them side by
// side on out-of-domain rows.
package compare
