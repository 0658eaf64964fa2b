//go:build !linux

package ort

// UnmapLarge is of use where the C library is glibc.
func UnmapLarge() {}
