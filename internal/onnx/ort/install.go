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
	"strings"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// InstallOptions selects what to install.
type InstallOptions struct {
	GPU bool         // the build with the CUDA provider
	Log *slog.Logger // nil discards
}

// Install downloads the pinned libonnxruntime with pip or npm, checks it against its published
// SHA-256 and moves it into the user's cache. It prefers pip, whose package is a fifth of the
// size. It does not replace a valid library in the cache, but removes files beside it that the
// package does not list. If it fails or is cancelled, it leaves no files behind. Several
// processes may install at once.
//
// Install trusts the user's environment and the configuration in the home folder, which select
// pip or npm and the package source. It does not trust the working directory: the client runs
// in an empty temporary folder.
//
// Errors are [ErrUnsupported], [ErrChecksum], or an [*InstallError] with [ErrNoClient] or the
// last message of the client.
func Install(ctx context.Context, o InstallOptions) (Library, error) {
	dir, err := cacheDir(o.GPU)
	if err != nil {
		return Library{}, err
	}
	in := installer{pins: pins, dir: dir, gpu: o.GPU, log: Options{Log: o.Log}.log()}
	return in.install(ctx)
}

type installer struct {
	pins []pin
	dir  string // destination of the library
	gpu  bool
	log  *slog.Logger
}

func (in installer) install(ctx context.Context) (Library, error) {
	lib := Library{Path: filepath.Join(in.dir, libraryFile), Version: pinnedVersion, Source: "cache", GPU: in.gpu}
	if in.installed() {
		return lib, nil
	}
	parent := filepath.Dir(in.dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Library{}, fmt.Errorf("install libonnxruntime: %w", err)
	}
	removeStale(parent)
	var failed []error
	supported := false
	for _, c := range clients() {
		p, ok := pinFor(in.pins, c.source, in.gpu)
		if !ok {
			continue
		}
		supported = true
		err := in.installWith(ctx, parent, c, p)
		switch {
		case ctx.Err() != nil:
			return Library{}, context.Cause(ctx)
		case err == nil:
			in.log.Info("installed libonnxruntime", "path", lib.Path)
			lib.Source = "installed with " + c.source
			return lib, nil
		case errors.Is(err, ErrChecksum):
			return Library{}, err
		case errors.Is(err, ErrNoClient):
			continue
		}
		failed = append(failed, err)
	}
	if len(failed) > 0 {
		return Library{}, &InstallError{fmt.Errorf("install libonnxruntime: %w", joinErrors(failed))}
	}
	if ctx.Err() != nil {
		return Library{}, context.Cause(ctx)
	}
	if !supported {
		what := "library"
		if in.gpu {
			what = "library with CUDA"
		}
		return Library{}, fmt.Errorf("%w: no %s for %s/%s", ErrUnsupported, what, runtime.GOOS, runtime.GOARCH)
	}
	if in.gpu {
		return Library{}, &InstallError{fmt.Errorf("%w: pip is needed for the library with CUDA", ErrNoClient)}
	}
	return Library{}, &InstallError{fmt.Errorf("%w to install libonnxruntime with", ErrNoClient)}
}

func (in installer) installed() bool {
	if _, err := os.Stat(in.dir); err != nil {
		return false
	}
	p, err := verifyCache(in.pins, in.dir, in.gpu, in.log)
	return err == nil && p.verify(in.dir, p.files) == nil
}

// installWith installs with one client, through a temporary folder on the same file system.
func (in installer) installWith(ctx context.Context, parent string, c client, p pin) (err error) {
	tmp, err := os.MkdirTemp(parent, staleName+"*")
	if err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(tmp); err == nil {
			err = e
		}
	}()
	download, ready := filepath.Join(tmp, "download"), filepath.Join(tmp, "ready")
	for _, d := range []string{download, ready} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	argv := c.find(ctx, download)
	if argv == nil {
		return ErrNoClient
	}
	in.log.Info("installing libonnxruntime", "version", pinnedVersion, "with", strings.Join(argv, " "), "package", p.spec)
	if err := c.fetch(ctx, argv, p, download); err != nil {
		return err
	}
	if err := c.extract(ctx, download, ready, p.files); err != nil {
		return fmt.Errorf("%s: unpack %s: %w", c.source, p.spec, err)
	}
	for _, f := range p.files {
		sum, err := regularfile.SHA256(filepath.Join(ready, f.name))
		if err != nil {
			return err
		}
		if sum != f.sha256 {
			return fmt.Errorf("%w: %s in %s from %s has %s, published was %s: it is not used and nothing was installed",
				ErrChecksum, f.member, p.spec, c.source, sum, f.sha256)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return in.publish(ready, filepath.Join(tmp, "replaced"))
}

// publish moves the folder into place. Another process may have installed the library
// meanwhile, or the old folder may be damaged.
func (in installer) publish(ready, replaced string) error {
	var err error
	for range 3 {
		if err = os.Rename(ready, in.dir); err == nil {
			return nil
		}
		if in.installed() {
			return nil
		}
		if e := os.Rename(in.dir, replaced); e != nil && !errors.Is(e, os.ErrNotExist) {
			return e
		}
	}
	return err
}

const staleName = ".install-"

// removeStale removes temporary folders of killed processes.
func removeStale(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(escapeGlob(parent), staleName+"*"))
	for _, d := range dirs {
		if st, err := os.Stat(d); err == nil && time.Since(st.ModTime()) > 24*time.Hour {
			os.RemoveAll(d)
		}
	}
}

// verifyCache returns the pin of the library in a folder of the cache. It checks the SHA-256 of the
// files that are loaded with the library. Files of the CUDA provider have hundreds of megabytes
// and are checked only before they are loaded.
//
// Other files are removed from the folder, because the loader searches it first for the
// libraries' dependencies.
func verifyCache(pins []pin, dir string, gpu bool, log *slog.Logger) (p pin, err error) {
	err = ErrUnsupported
	for _, source := range []string{sourcePip, sourceNpm} {
		match, ok := pinFor(pins, source, gpu)
		if !ok {
			continue
		}
		if err = match.verify(dir, notLoaded(dir, match.mainFiles())); err == nil {
			return match, match.removeUnlisted(dir, log)
		}
	}
	return p, err
}

// mainFiles returns the files that are loaded with the library itself.
func (p pin) mainFiles() []pinnedFile {
	if p.gpu {
		return p.files[:1]
	}
	return p.files
}

// providerFiles returns the files that are loaded when a session uses CUDA.
func (p pin) providerFiles() []pinnedFile { return p.files[len(p.mainFiles()):] }

// notLoaded returns the files that this process has not loaded yet. It locks the environment, so
// the caller must not hold that lock.
func notLoaded(dir string, files []pinnedFile) []pinnedFile {
	return slices.DeleteFunc(slices.Clone(files), func(f pinnedFile) bool {
		info, err := os.Lstat(filepath.Join(dir, f.name))
		return err == nil && isLoaded(info, f.sha256)
	})
}

// verify checks files in a folder of the cache. It rejects links, because the loader would
// search the folder of the link's target.
func (p pin) verify(dir string, files []pinnedFile) error {
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: %s was altered since it was installed: it is a link", ErrChecksum, f.name)
		}
		sum, err := regularfile.SHA256(path)
		if err != nil {
			return err
		}
		if sum != f.sha256 {
			return fmt.Errorf("%w: %s was altered since it was installed", ErrChecksum, f.name)
		}
	}
	return nil
}

// removeUnlisted removes files from a folder of the cache that the package does not list.
func (p pin) removeUnlisted(dir string, log *slog.Logger) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.ContainsFunc(p.files, func(f pinnedFile) bool { return f.name == e.Name() }) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("%w: %q lies beside it, which the package does not list; remove it (%w)", ErrChecksum, e.Name(), err)
		}
		log.Warn("removed a file from the runtime's cache that its package does not list", "path", filepath.Join(dir, e.Name()))
	}
	return nil
}

// joinErrors joins several errors to one sentence.
func joinErrors(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return fmt.Errorf("%w; %w", errs[0], joinErrors(errs[1:]))
}
