package atomicfile

import (
	"errors"
	"path/filepath"
	"syscall"
)

// lock has a file that no other may open, which the system removes with its handle.
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
		return func() {}, nil // what is wrong with the folder is said by who writes to it
	}
	return func() { syscall.CloseHandle(h) }, nil
}
