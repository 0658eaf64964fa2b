//go:build !unix && !windows

package atomicfile

// lock does nothing, because WebAssembly has no file locks.
func lock(string) (unlock func(), err error) { return func() {}, nil }
