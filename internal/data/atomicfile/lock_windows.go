package atomicfile

import (
	"errors"
	"path/filepath"
	"syscall"
)

// lock opens a lock file exclusively. Windows deletes the file when its handle is closed.
func lock(dir string) (unlock func(), err error) {
	const (
		deleteOnClose    = 0x04000000
		sharingViolation = syscall.Errno(32)
	)
	name, err := syscall.UTF16PtrFromString(filepath.Join(dir, ".attach-lock"))
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_HIDDEN|deleteOnClose, 0)
	switch {
	case errors.Is(err, sharingViolation):
		return nil, ErrLocked
	case err != nil:
		return func() {}, nil // a later write to the folder will report the error
	}
	return func() { syscall.CloseHandle(h) }, nil
}
