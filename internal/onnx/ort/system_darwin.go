package ort

import (
	"os"
	"path/filepath"
)

// These constants name the files of libonnxruntime, and the variable that the loader reads,
// on macOS.
const (
	libraryFile         = "libonnxruntime.dylib"
	cudaProviderFile    = "libonnxruntime_providers_cuda.dylib"
	libraryPathVariable = "DYLD_LIBRARY_PATH"
)

var libraryPatterns = []string{"libonnxruntime.dylib", "libonnxruntime.*.dylib"}

// systemDirs returns the folders that the loader, Homebrew and MacPorts use.
func systemDirs() []string {
	dirs := absoluteDirs(filepath.SplitList(os.Getenv(libraryPathVariable)))
	return append(dirs, "/opt/homebrew/lib", "/usr/local/lib", "/opt/local/lib", "/usr/lib")
}
