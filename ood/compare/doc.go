// Package compare fits many methods to the same rows and measures them side by
// side, on out-of-domain rows or, to choose one without any, on rows made of
// in-domain ones.
package compare
