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

// UnmapLarge has the whole process give blocks of a megabyte or more back to the system
// when they are freed. Else glibc keeps those of sessions that are closed, in pieces that
// the next cannot use, so that memory grows with each.
func UnmapLarge() { C.unmapLarge() }
