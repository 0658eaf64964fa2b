package atomicfile

import "errors"

// ErrLocked is what Lock fails with where another process holds the folder.
var ErrLocked = errors.New("another process writes to it")

// Lock holds a folder until unlock is called or the process ends, however it does. Where
// the disk knows no locks it holds nothing.
func Lock(dir string) (unlock func(), err error) { return lock(dir) }
