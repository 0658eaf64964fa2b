//go:build !unix

package regularfile

import "io/fs"

// Number is not known here.
func Number(fs.FileInfo) string { return "" }
