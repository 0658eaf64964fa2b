package atomicfile

import "errors"

// ErrLocked is the error of Lock if another process holds the folder.
var ErrLocked = errors.New("another process writes to it")

// Lock locks a folder until unlock is called or the process ends in any way. On a disk without
// locks it does nothing.
func Lock(dir string) (unlock func(), err error) { return lock(dir) }
