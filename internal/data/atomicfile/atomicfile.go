// Package atomicfile replaces files atomically. At any time, even after a crash, a file has
// either its complete old content or its complete new content. New content is written to a
// temporary file in the same folder, synced to disk, and then renamed.
package atomicfile

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// ErrAborted is wrapped by the error that Commit returns after Abort.
var ErrAborted = errors.New("writing was aborted before the file was complete")

// File is a file that is being written until Commit or Abort is called. Abort does nothing
// after Commit, so callers can defer it. Another goroutine may call Abort.
type File struct {
	f      *os.File
	path   string
	direct bool // whether path is a pipe or a device, which is written without a temporary file

	unwatch func() bool
	mu      sync.Mutex
	done    bool
	aborted bool
}

// Create starts a new file, which Commit will put at path. A pipe or device that exists at
// path, such as /dev/stdout, is written directly. If path is a symbolic link, its target is
// replaced and the link stays. When ctx ends, the file is aborted, even while its writer is
// blocked.
func Create(ctx context.Context, path string) (*File, error) {
	if path == "" {
		return nil, errors.New("the name of the output file is empty")
	}
	target, err := follow(path)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(target); err == nil {
		switch {
		case info.IsDir():
			return nil, fmt.Errorf("cannot write %s: it is a folder; name a file in it", path)
		case !info.Mode().IsRegular():
			f, err := os.OpenFile(target, os.O_WRONLY, 0)
			if err != nil {
				return nil, writeError(path, err)
			}
			return abortOnDone(ctx, &File{f: f, path: path, direct: true}), nil
		}
		mode = info.Mode().Perm()
	}
	f, err := temporary(target, mode)
	if err != nil {
		return nil, createError(path, err)
	}
	return abortOnDone(ctx, &File{f: f, path: target}), nil
}

func abortOnDone(ctx context.Context, f *File) *File {
	f.mu.Lock() // if ctx has already ended, Abort waits here until unwatch is set
	defer f.mu.Unlock()
	f.unwatch = context.AfterFunc(ctx, f.Abort)
	return f
}

// follow returns path or, if path is a symbolic link, its target, which may not exist yet.
func follow(path string) (string, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target, nil
	}
	// /dev/stdout may be a link to a pipe, which has no path of its own.
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	target := path
	for range 40 {
		to, err := os.Readlink(target)
		if err != nil {
			return target, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(target), to)
		}
		target = to
	}
	return "", fmt.Errorf("cannot write %s: it is a link that leads in a circle", path)
}

// temporary creates a temporary file in the folder of target. Unlike os.CreateTemp, it
// requests the given mode and lets the umask restrict it.
func temporary(target string, mode fs.FileMode) (*os.File, error) {
	dir := filepath.Dir(target)
	for try := 0; ; try++ {
		// The temporary name does not contain the target's name, which may already have the
		// maximum length.
		name := filepath.Join(dir, ".attach-"+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) && try < 100 {
			continue
		}
		return f, err
	}
}

// Write writes p at the current position of the file.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	if err != nil {
		err = writeError(f.path, err)
	}
	return n, err
}

// Seek sets the position of the next Write. It fails if the destination is a pipe.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	return f.f.Seek(offset, whence)
}

// Retarget changes the path at which Commit puts the file. It must be on the same disk.
func (f *File) Retarget(path string) { f.path = path }

// Commit syncs the content to disk and renames the temporary file to its final name. If
// either step fails, Commit removes the temporary file and keeps the old content.
func (f *File) Commit() error { return Commit(f) }

// Commit commits several files together. It syncs all of them to disk before it renames the
// first. A full disk or a cancelled context therefore leaves all old files in place. Commit
// renames the files in the given order. If a rename fails, only the files before it are
// replaced.
func Commit(files ...*File) (err error) {
	for _, f := range files {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.aborted {
			err = cmp.Or(err, writeError(f.path, ErrAborted))
		}
	}
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f *File) bool { return f.done })
	for _, f := range files {
		f.done = true
		f.unwatch()
		var closed error
		if !f.direct {
			closed = f.f.Sync()
		}
		if closed = errors.Join(closed, f.f.Close()); closed != nil {
			err = cmp.Or(err, writeError(f.path, closed))
		}
	}
	var folders []string
	for _, f := range files {
		if f.direct {
			continue
		}
		if err == nil {
			if err = os.Rename(f.f.Name(), f.path); err == nil {
				folders = append(folders, filepath.Dir(f.path))
				continue
			}
			err = writeError(f.path, err)
		}
		os.Remove(f.f.Name())
	}
	for _, dir := range slices.Compact(folders) {
		syncFolder(dir)
	}
	return err
}

// Abort discards the new content and keeps the old file.
func (f *File) Abort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return
	}
	f.done, f.aborted = true, true
	f.unwatch()
	f.f.Close()
	if !f.direct {
		os.Remove(f.f.Name())
	}
}

// WriteFile passes a buffered writer to write, and commits the written content to path. If
// write fails or ctx ends, WriteFile removes the temporary file and returns the error.
func WriteFile(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := Prepare(ctx, path, write)
	if err != nil {
		return err
	}
	return interrupted(ctx, path, f.Commit())
}

// Prepare is like WriteFile, but the caller commits or aborts the file.
func Prepare(ctx context.Context, path string, write func(io.Writer) error) (*File, error) {
	f, err := Create(ctx, path)
	if err != nil {
		return nil, interrupted(ctx, path, err)
	}
	buffered := bufio.NewWriterSize(f, 1<<16)
	if err = write(buffered); err == nil {
		err = cmp.Or(buffered.Flush(), ctx.Err())
	}
	if err != nil {
		f.Abort()
		return nil, interrupted(ctx, path, err)
	}
	return f, nil
}

// interrupted returns err. If err is not nil and ctx has ended, it returns the reason why
// ctx ended instead.
func interrupted(ctx context.Context, path string, err error) error {
	if err != nil && ctx.Err() != nil {
		return writeError(path, context.Cause(ctx))
	}
	return err
}

// syncFolder makes a rename durable on systems that can sync folders. It ignores errors
// because the file is complete in any case.
func syncFolder(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	_ = d.Sync()
}

// createError explains why no file can be created at path.
func createError(path string, err error) error {
	dir := filepath.Dir(path)
	info, statErr := os.Stat(dir)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("cannot write %s: the folder %s does not exist", path, dir)
	case statErr == nil && !info.IsDir():
		return fmt.Errorf("cannot write %s: %s is not a folder", path, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot write %s: no permission to create files in %s (%w)", path, dir, fs.ErrPermission)
	}
	return writeError(path, err)
}

// writeError adds path to err. It drops the name of the temporary file, which means nothing
// to the user.
func writeError(path string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	} else if failed, ok := errors.AsType[*os.LinkError](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("cannot write %s: %w", path, err)
}
