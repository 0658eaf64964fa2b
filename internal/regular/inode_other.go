//go:build !unix

package regular

import "io/fs"

// Number is not known here.
func Number(fs.FileInfo) string { return "" }
