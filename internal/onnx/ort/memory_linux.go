package ort

/*
#include <malloc.h>

static void unmapLarge(void) {
#ifdef M_MMAP_THRESHOLD // only glibc defines it
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}
*/
import "C"

// UnmapLarge makes glibc return freed blocks of 1 MiB or more to the operating system, in
// the whole process. Otherwise glibc keeps the memory of closed sessions in fragments that
// the next session cannot use, so memory grows with each session.
func UnmapLarge() { C.unmapLarge() }
