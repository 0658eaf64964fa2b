package ort

/*
#include <malloc.h>

static void unmapLarge(void) {
#ifdef M_MMAP_THRESHOLD // of glibc
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}
*/
import "C"

// UnmapLarge makes glibc return freed blocks of a megabyte or more to the system, in the whole
// process. Otherwise glibc keeps the memory of closed sessions in fragments that the next
// session cannot use, and memory grows with each session.
func UnmapLarge() { C.unmapLarge() }
