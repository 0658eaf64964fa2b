package ort

import "path/filepath"

// absolute keeps the absolute paths of a search list: what is relative to the working directory is not the system's.
func absolute(dirs []string) []string {
	var kept []string
	for _, d := range dirs {
		if filepath.IsAbs(d) {
			kept = append(kept, filepath.Clean(d))
		}
	}
	return kept
}
