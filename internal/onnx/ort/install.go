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
	GPU bool         // install the build with the CUDA provider
	Log *slog.Logger // nil discards messages
}

// Install downloads the pinned libonnxruntime with pip or npm, checks it against its
// published SHA-256 and moves it into the user's cache. It prefers pip, because pip's
// package is only a fifth of the size of npm's. Several processes may install at once.
//
// Install keeps a valid library that is already in the cache, but removes files beside it
// that the package does not list. If Install fails or is cancelled, it leaves no files
// behind.
//
// Install trusts the user's environment and the configuration in the home folder. These
// select pip or npm and the package source. Install does not trust the working directory,
// so the client runs in an empty temporary folder.
//
// The error wraps [ErrUnsupported] or [ErrChecksum], or it is an [*InstallError] that wraps
// [ErrNoClient] or contains the client's last message. It can also be an error of the file
// system, or the cause of a cancellation.
func Install(ctx context.Context, o InstallOptions) (Library, error) {
	dir, err := cacheDir(o.GPU)
	if err != nil {
		return Library{}, err
	}
	in := installer{pins: pins, dir: dir, gpu: o.GPU, log: Options{Log: o.Log}.log()}
	return in.install(ctx)
}

// installer installs a pinned library into the folder dir.
type installer struct {
	pins []pin
	dir  string // folder that will contain the library
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
		build := "library"
		if in.gpu {
			build = "library with CUDA"
		}
		return Library{}, fmt.Errorf("%w: no %s for %s/%s", ErrUnsupported, build, runtime.GOOS, runtime.GOARCH)
	}
	if in.gpu {
		return Library{}, &InstallError{fmt.Errorf("%w: pip is needed for the library with CUDA", ErrNoClient)}
	}
	return Library{}, &InstallError{fmt.Errorf("%w to install libonnxruntime with", ErrNoClient)}
}

// installed reports whether the library's folder contains a valid library.
func (in installer) installed() bool {
	if _, err := os.Stat(in.dir); err != nil {
		return false
	}
	p, err := verifyCache(in.pins, in.dir, in.gpu, in.log)
	return err == nil && p.verify(in.dir, p.files) == nil
}

// installWith downloads, checks and publishes a package with one client. Its temporary
// folder is below parent, on the same file system as the destination, so that a rename
// publishes the files at once.
func (in installer) installWith(ctx context.Context, parent string, c client, p pin) (err error) {
	tmp, err := os.MkdirTemp(parent, tempPrefix+"*")
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

// publish renames the folder ready to the library's folder. If another process has
// installed a valid library meanwhile, publish keeps that one. If the library's folder is
// damaged, publish first moves it to replaced.
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

// tempPrefix is the prefix of the names of temporary folders.
const tempPrefix = ".install-"

// removeStale removes temporary folders that killed processes left more than a day ago.
func removeStale(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(escapeGlob(parent), tempPrefix+"*"))
	for _, d := range dirs {
		if st, err := os.Stat(d); err == nil && time.Since(st.ModTime()) > 24*time.Hour {
			os.RemoveAll(d)
		}
	}
}

// verifyCache returns the pin of the library in the cache folder dir. It checks the SHA-256
// of the files that are loaded with the library. The files of the CUDA provider have
// hundreds of megabytes, so they are checked only before they are loaded.
//
// verifyCache removes files that the package does not list, because the loader searches
// this folder first for the dependencies of the library.
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

// mainFiles returns the files that are loaded together with the library. The first is the
// library.
func (p pin) mainFiles() []pinnedFile {
	if p.gpu {
		return p.files[:1]
	}
	return p.files
}

// providerFiles returns the files that are loaded only when a session uses CUDA.
func (p pin) providerFiles() []pinnedFile { return p.files[len(p.mainFiles()):] }

// notLoaded returns the files that this process has not loaded yet. It locks the
// environment, so the caller must not hold that lock.
func notLoaded(dir string, files []pinnedFile) []pinnedFile {
	return slices.DeleteFunc(slices.Clone(files), func(f pinnedFile) bool {
		info, err := os.Lstat(filepath.Join(dir, f.name))
		return err == nil && isLoaded(info, f.sha256)
	})
}

// verify checks the SHA-256 of files in a folder of the cache. It rejects symbolic links,
// because the loader would search the folder of the link's target for dependencies.
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

// removeUnlisted removes the files in a folder of the cache that the package does not list.
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

// joinErrors joins several errors to one, on one line.
func joinErrors(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return fmt.Errorf("%w; %w", errs[0], joinErrors(errs[1:]))
}
