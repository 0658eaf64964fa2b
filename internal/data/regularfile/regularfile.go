// Package regularfile opens only regular files. It returns errors for pipes, devices and other
// files that have no known length or may block.
package regularfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
)

var (
	// ErrFolder is the cause of the error that Open returns for a folder.
	ErrFolder = errors.New("it is a folder; name a file in it")
	// ErrSpecial is the cause of the error that Open returns for a pipe, a device or a
	// socket.
	ErrSpecial = errors.New("it is not a regular file; copy its content to one")
)

// Open opens a regular file for reading. Errors are *fs.PathError.
func Open(path string) (*os.File, error) { return open(path, os.Stat, os.Open) }

// OpenIn opens a regular file inside dir for reading. It returns an error for a link that
// leads out of dir.
func OpenIn(dir *os.Root, name string) (*os.File, error) { return open(name, dir.Stat, dir.Open) }

// open checks that a file is regular before it opens the file. Opening a pipe would wait
// for a writer and take data from its reader.
func open(name string, stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error)) (*os.File, error) {
	info, err := stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrFolder}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrSpecial}
	}
	return open(name)
}

// ReadFile returns the content of a regular file.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// SHA256 returns the SHA-256 digest of a regular file in lower-case hex digits.
func SHA256(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
