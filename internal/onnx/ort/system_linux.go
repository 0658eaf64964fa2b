package ort

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// These constants name the files of libonnxruntime, and the variable that the loader reads,
// on Linux.
const (
	libraryFile         = "libonnxruntime.so"
	cudaProviderFile    = "libonnxruntime_providers_cuda.so"
	libraryPathVariable = "LD_LIBRARY_PATH"
)

var libraryPatterns = []string{"libonnxruntime.so", "libonnxruntime.so.*"}

// systemDirs returns the folders that the loader searches.
func systemDirs() []string {
	dirs := absoluteDirs(filepath.SplitList(os.Getenv(libraryPathVariable)))
	dirs = append(dirs, "/usr/local/lib", "/usr/local/lib64")
	dirs = append(dirs, loaderConfig("/etc/ld.so.conf", 4)...)
	return append(dirs, "/usr/lib", "/usr/lib64", "/lib", "/lib64")
}

// loaderConfig returns the folders that are listed in an ld.so.conf file and in the files
// that it includes.
func loaderConfig(path string, depth int) []string {
	f, err := os.Open(path)
	if err != nil || depth == 0 {
		return nil
	}
	defer f.Close()
	var dirs []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && words[0] == "include":
			for _, pattern := range words[1:] {
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(filepath.Dir(path), pattern)
				}
				files, _ := filepath.Glob(pattern)
				for _, p := range files {
					dirs = append(dirs, loaderConfig(p, depth-1)...)
				}
			}
		case len(words) == 1:
			dirs = append(dirs, absoluteDirs(words)...)
		}
	}
	return dirs
}
