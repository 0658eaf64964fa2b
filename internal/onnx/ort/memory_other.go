//go:build !linux

package ort

// UnmapLarge does nothing, because only glibc keeps freed memory in this way.
func UnmapLarge() {}
