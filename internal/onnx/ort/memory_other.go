//go:build !linux

package ort

// UnmapLarge does nothing. Only glibc needs it.
func UnmapLarge() {}
