package ort

import (
	"os"
	"path/filepath"
	"strings"
)

// These constants name the files of libonnxruntime, and the variable that the loader reads,
// on Windows.
const (
	libraryFile         = "onnxruntime.dll"
	cudaProviderFile    = "onnxruntime_providers_cuda.dll"
	libraryPathVariable = "PATH"
)

var libraryPatterns = []string{"onnxruntime.dll"}

// systemDirs returns the program's folder and the folders in PATH, without Windows' own
// folders, because these contain an old libonnxruntime.
func systemDirs() []string {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	root := strings.ToLower(filepath.Clean(os.Getenv("SystemRoot")))
	for _, d := range absoluteDirs(filepath.SplitList(os.Getenv(libraryPathVariable))) {
		if lower := strings.ToLower(d); lower == root || strings.HasPrefix(lower, root+`\`) {
			continue
		}
		dirs = append(dirs, d)
	}
	return dirs
}
