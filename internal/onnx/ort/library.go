package ort

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// Library describes a libonnxruntime file.
type Library struct {
	Path    string
	Version string // for example "1.30.0"
	Source  string // Named, "ORT_LIB", "cache", "system", "installed with pip" or "installed with npm"
	GPU     bool   // whether its folder contains the CUDA provider
	// pin lists the published files of a library in the cache. It is nil for other
	// libraries.
	pin *pin
}

// Named is the Source of a library that [Options] names.
const Named = "named"

// Candidate is a library file that [Find] examined.
type Candidate struct {
	Path    string `json:"path"`
	Source  string `json:"source"`
	Version string `json:"version,omitempty"` // "" if the file could not be loaded
	Reason  string `json:"reason,omitempty"`  // why the file was not used
	Used    bool   `json:"used"`
}

// bindingAPI is the ORT_API_VERSION in the header that the Go binding was built with. The
// minor version of a library must be at least bindingAPI.
const bindingAPI = 29

// Find returns the library that [Open] would load without installing one, and the
// candidates that it examined. It searches o.Library, $ORT_LIB, the user's cache, and the
// system's library folders, in this order. In the system's folders, it takes the first
// library that is recent enough and, if o.Provider is "cuda", has the CUDA provider.
//
// In the cache, Find uses only files that a published package lists. It checks the SHA-256
// of each file before the file is loaded. It removes other files, so that the loader cannot
// load them.
//
// If o.Library or $ORT_LIB names a library that cannot be used, the error wraps
// [ErrLibrary], [ErrChecksum] or [ErrNoGPULibrary]. Other unusable libraries are skipped.
// If no library is left, the error wraps [ErrNotFound], or [ErrNoGPULibrary] if o.Provider
// is "cuda".
func Find(ctx context.Context, o Options) (Library, []Candidate, error) {
	provider, err := o.provider()
	if err != nil {
		return Library{}, nil, err
	}
	named, source := o.Library, Named
	if named == "" {
		named, source = os.Getenv("ORT_LIB"), "ORT_LIB"
	}
	if named != "" {
		return findNamed(named, source, provider, o.log())
	}
	s := &search{gpu: provider == "cuda", log: o.log()}
	order := []bool{true, false}
	if provider == "cpu" {
		order = []bool{false, true}
	}
	for _, gpu := range order {
		if err := ctx.Err(); err != nil {
			return Library{}, s.candidates, context.Cause(ctx)
		}
		if s.examineCache(gpu) {
			return s.found, s.candidates, nil
		}
	}
	for _, dir := range systemDirs() {
		for _, path := range librariesIn(dir) {
			if s.examineSystem(path) {
				return s.found, s.candidates, nil
			}
		}
	}
	if s.gpu {
		return Library{}, s.candidates, noGPULibrary("")
	}
	return Library{}, s.candidates, fmt.Errorf("%w: install or name one", ErrNotFound)
}

// findNamed examines the library that Options or $ORT_LIB names.
func findNamed(path, source, provider string, log *slog.Logger) (Library, []Candidate, error) {
	c := Candidate{Path: path, Source: source}
	p, err := pinOfNamed(path, log)
	lib := Library{Path: path}
	if err == nil {
		lib, err = inspect(path, p)
	}
	if err == nil && provider == "cuda" && !lib.GPU {
		err = noGPULibrary(path)
	}
	if err != nil {
		c.Reason = err.Error()
		c.Version = lib.Version
		if source != Named {
			err = fmt.Errorf("%s: %w", source, err)
		}
		return Library{}, []Candidate{c}, err
	}
	lib.Source = source
	c.Version, c.Used = lib.Version, true
	return lib, []Candidate{c}, nil
}

// pinOfNamed returns the pin of a named library if its file is in the cache. It returns nil
// for libraries in other folders.
func pinOfNamed(path string, log *slog.Logger) (*pin, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil // inspect will report the error
	}
	for _, gpu := range []bool{false, true} {
		dir, err := cacheDir(gpu)
		if err != nil {
			continue
		}
		if cacheFolder, err := filepath.EvalSymlinks(dir); err != nil || filepath.Dir(real) != cacheFolder {
			continue
		}
		p, err := verifyCache(pins, dir, gpu, log)
		return &p, err
	}
	return nil, nil
}

// search is the state of Find while it searches.
type search struct {
	gpu        bool // accept only libraries with the CUDA provider
	log        *slog.Logger
	found      Library
	candidates []Candidate
	resolved   []string // paths of examined files after links are resolved
}

// examineCache reports whether the cache contains a usable library.
func (s *search) examineCache(gpu bool) bool {
	dir, err := cacheDir(gpu)
	if err != nil {
		return false
	}
	main := filepath.Join(dir, libraryFile)
	if _, err := os.Stat(main); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	p, err := verifyCache(pins, dir, gpu, s.log)
	if err != nil {
		s.candidates = append(s.candidates, Candidate{Path: main, Source: "cache", Reason: err.Error()})
		return false
	}
	return s.examine(main, "cache", &p)
}

// examineSystem reports whether a file in a system folder is a usable library that was not
// examined before.
func (s *search) examineSystem(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || slices.Contains(s.resolved, real) {
		return false
	}
	s.resolved = append(s.resolved, real)
	return s.examine(path, "system", nil)
}

// examine adds a library to the candidates and reports whether it is usable.
func (s *search) examine(path, source string, p *pin) bool {
	lib, err := inspect(path, p)
	if err == nil && s.gpu && !lib.GPU {
		err = errors.New("no CUDA provider beside it")
	}
	c := Candidate{Path: path, Source: source, Version: lib.Version, Used: err == nil}
	if err != nil {
		c.Reason = err.Error()
	} else {
		lib.Source = source
		s.found = lib
	}
	s.candidates = append(s.candidates, c)
	return c.Used
}

// inspect loads a library without the Go binding, reads its version and unloads it. If p is
// nil, inspect looks for the CUDA provider. Otherwise, p tells whether the library has it.
func inspect(path string, p *pin) (Library, error) {
	lib := Library{Path: path, pin: p}
	abs, err := filepath.Abs(path)
	if err != nil {
		return lib, err
	}
	lib.Path = abs
	f, err := regularfile.Open(abs)
	if err != nil {
		return lib, fmt.Errorf("%w: %w", ErrLibrary, err)
	}
	f.Close()
	version, err := probe(abs)
	if err != nil {
		return lib, fmt.Errorf("%w: %s: %w", ErrLibrary, path, err)
	}
	lib.Version = version
	if api := apiVersion(version); api < bindingAPI {
		return lib, fmt.Errorf("%w: %s is ONNX Runtime %s, version 1.%d or newer is needed", ErrLibrary, path, version, bindingAPI)
	}
	if p != nil {
		lib.GPU = p.gpu
		return lib, nil
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return lib, fmt.Errorf("%w: %w", ErrLibrary, err)
	}
	for _, p := range []string{abs, real} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(p), cudaProviderFile)); err == nil {
			lib.GPU = true
		}
	}
	return lib, nil
}

// apiVersion returns the minor version of a library, for example 30 for "1.30.0". It
// returns 0 for an invalid version, and bindingAPI for a major version above 1.
func apiVersion(version string) int {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return 0
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	switch {
	case err1 != nil || err2 != nil || major < 1:
		return 0
	case major > 1:
		return bindingAPI
	}
	return minor
}

// cacheDir returns the folder in the user's cache that contains the installed library, with
// or without CUDA.
func cacheDir(gpu bool) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder to install libonnxruntime in: set XDG_CACHE_HOME or HOME, or name a library (%w)", err)
	}
	variant := "cpu"
	if gpu {
		variant = "gpu"
	}
	return filepath.Join(base, "attach", "onnxruntime", pinnedVersion, runtime.GOOS+"-"+runtime.GOARCH+"-"+variant), nil
}

// librariesIn returns the libonnxruntime files in a folder. A file without a version in its
// name comes first, and the others follow in descending order of their names.
func librariesIn(dir string) []string {
	var found []string
	for _, pattern := range libraryPatterns {
		m, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		slices.SortFunc(m, func(a, b string) int { return strings.Compare(b, a) })
		found = append(found, m...)
	}
	return found
}

// escapeGlob escapes the characters in a path that are special in a pattern for
// filepath.Glob.
func escapeGlob(dir string) string {
	if runtime.GOOS == "windows" {
		return dir // Windows uses the backslash as a path separator, not as an escape character
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// absoluteDirs returns the absolute paths of a search list. It drops relative ones, because
// they depend on the working directory.
func absoluteDirs(dirs []string) []string {
	var absolutes []string
	for _, d := range dirs {
		if filepath.IsAbs(d) {
			absolutes = append(absolutes, filepath.Clean(d))
		}
	}
	return absolutes
}
