//go:build unix

package regularfile

import (
	"fmt"
	"io/fs"
	"syscall"
)

// Number is what a disk calls a file by, whatever its names are, or empty where that is
// not known.
func Number(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(s.Dev, s.Ino)
}
