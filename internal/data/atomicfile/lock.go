package atomicfile

import "errors"

// ErrLocked is the error that Lock returns if the folder is already locked, usually by
// another process.
var ErrLocked = errors.New("another process writes to it")

// Lock locks a folder until unlock is called or the process ends. It does nothing on file
// systems without locks.
func Lock(dir string) (unlock func(), err error) { return lock(dir) }
