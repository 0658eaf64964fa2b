package ort

import (
	"os"
	"path/filepath"
	"strings"
)

// File names of libonnxruntime on Windows.
const (
	libraryFile         = "onnxruntime.dll"
	cudaProviderFile    = "onnxruntime_providers_cuda.dll"
	libraryPathVariable = "PATH"
)

var libraryPatterns = []string{"onnxruntime.dll"}

// systemDirs lists the program's folder and the folders in PATH. It leaves out Windows' own
// folder, which contains an old library.
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
