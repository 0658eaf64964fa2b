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

// Library is a libonnxruntime.
type Library struct {
	Path    string
	Version string // such as "1.30.0"
	Source  string // Named, "ORT_LIB", "cache", "system", or "installed with npm" or pip
	GPU     bool   // has the CUDA provider beside it
	// pin lists the files of a library in the cache. It is nil for another library.
	pin *pin
}

// Named is the source of a library that [Options] name.
const Named = "named"

// Candidate is a file that [Find] looked at.
type Candidate struct {
	Path    string `json:"path"`
	Source  string `json:"source"`
	Version string `json:"version,omitempty"` // "" if it could not be loaded
	Reason  string `json:"reason,omitempty"`  // why it was passed over
	Used    bool   `json:"used"`
}

// bindingAPI is ORT_API_VERSION of the binding's header. A library offers the APIs up to its minor version number.
const bindingAPI = 29

// Find returns the library that [Open] would load without installing one, and what it looked at up to there: the one named by
// o.Library, else by $ORT_LIB, else the user cache's, else the first in the system's library folders that is recent enough.
//
// Only what a package lists counts in the cache: a file is checked against its sha256 before it is loaded, and other files are
// removed, so that the loader cannot take them.
//
// A library that was named but cannot be used is an error ([ErrLibrary]), the others are passed over. If none is left the error is
// [ErrNotFound], or [ErrNoGPULibrary] where o.Provider is "cuda".
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
			return Library{}, s.seen, context.Cause(ctx)
		}
		if s.cache(gpu) {
			return s.found, s.seen, nil
		}
	}
	for _, dir := range systemDirs() {
		for _, path := range librariesIn(dir) {
			if s.system(path) {
				return s.found, s.seen, nil
			}
		}
	}
	if s.gpu {
		return Library{}, s.seen, noGPULibrary("")
	}
	return Library{}, s.seen, fmt.Errorf("%w: install or name one", ErrNotFound)
}

func findNamed(path, source, provider string, log *slog.Logger) (Library, []Candidate, error) {
	c := Candidate{Path: path, Source: source}
	p, err := pinNamed(path, log)
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

// pinNamed is the pin of a library that was named and lies in the cache, and nil for any other: its folder is its owner's.
func pinNamed(path string, log *slog.Logger) (*pin, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil // inspect says what is wrong
	}
	for _, gpu := range []bool{false, true} {
		dir, err := cacheDir(gpu)
		if err != nil {
			continue
		}
		if of, err := filepath.EvalSymlinks(dir); err != nil || filepath.Dir(real) != of {
			continue
		}
		p, err := cached(pins, dir, gpu, log)
		return &p, err
	}
	return nil, nil
}

// search collects candidates.
type search struct {
	gpu   bool // only a library with the CUDA provider will do
	log   *slog.Logger
	found Library
	seen  []Candidate
	real  []string // resolved paths of what was seen
}

func (s *search) cache(gpu bool) bool {
	dir, err := cacheDir(gpu)
	if err != nil {
		return false
	}
	main := filepath.Join(dir, libraryFile)
	if _, err := os.Stat(main); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	p, err := cached(pins, dir, gpu, s.log)
	if err != nil {
		s.seen = append(s.seen, Candidate{Path: main, Source: "cache", Reason: err.Error()})
		return false
	}
	return s.consider(main, "cache", &p)
}

func (s *search) system(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || slices.Contains(s.real, real) {
		return false
	}
	s.real = append(s.real, real)
	return s.consider(path, "system", nil)
}

func (s *search) consider(path, source string, p *pin) bool {
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
	s.seen = append(s.seen, c)
	return c.Used
}

// inspect loads a library apart from the binding and asks for its version. Its pin, if it has one, says whether CUDA's provider
// is beside it.
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

// apiVersion returns 30 for "1.30.0", 0 for what is no such version.
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

// cacheDir is where a pinned library lies once it is installed.
func cacheDir(gpu bool) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder to install libonnxruntime in: set XDG_CACHE_HOME or HOME, or name a library (%w)", err)
	}
	variant := "cpu"
	if gpu {
		variant = "gpu"
	}
	return filepath.Join(base, "attach", "onnxruntime", pinnedVersion, runtime.GOOS+"-"+runtime.GOARCH+"-"+variant), nil
}

// librariesIn lists the libonnxruntime in a folder, plain name first, then by descending version.
func librariesIn(dir string) []string {
	var found []string
	for _, pattern := range libraryPatterns {
		m, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		slices.SortFunc(m, func(a, b string) int { return strings.Compare(b, a) })
		found = append(found, m...)
	}
	return found
}

func escapeGlob(dir string) string {
	if runtime.GOOS == "windows" {
		return dir // there a backslash separates folders, and what it cannot match is passed over
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

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
