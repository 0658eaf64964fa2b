package ort

import (
	"errors"
	"syscall"
	"unsafe"
)

// probe loads an onnxruntime.dll, reads its version and unloads it.
func probe(path string) (string, error) {
	// Remove the working directory from the folders that Windows searches for the
	// dependencies of this library, including CUDA's.
	syscall.NewLazyDLL("kernel32.dll").NewProc("SetDllDirectoryW").Call(uintptr(unsafe.Pointer(new(uint16))))
	lib, err := syscall.LoadLibrary(path)
	if err != nil {
		return "", err
	}
	defer syscall.FreeLibrary(lib)
	proc, err := syscall.GetProcAddress(lib, "OrtGetApiBase")
	if err != nil {
		return "", errors.New("has no OrtGetApiBase, so it is another library")
	}
	// The C API of the runtime starts with two functions that never change: GetApi and
	// GetVersionString.
	base, _, _ := syscall.SyscallN(proc)
	if base == 0 {
		return "", errors.New("its OrtGetApiBase returns NULL")
	}
	functions := *(*[2]uintptr)(pointer(base))
	s, _, _ := syscall.SyscallN(functions[1])
	if s == 0 {
		return "", errors.New("it does not report a version")
	}
	var version []byte
	for p := s; len(version) < 64; p++ {
		c := *(*byte)(pointer(p))
		if c == 0 {
			break
		}
		version = append(version, c)
	}
	return string(version), nil
}

// pointer converts an address outside Go's heap to a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// cudaDevices returns the number of devices that the NVIDIA driver reports, or −1 if there
// is no driver.
func cudaDevices() int {
	driver := syscall.NewLazyDLL("nvcuda.dll")
	if driver.Load() != nil {
		return -1
	}
	var n int32
	if r, _, _ := driver.NewProc("cuInit").Call(0); r != 0 {
		return 0
	}
	if r, _, _ := driver.NewProc("cuDeviceGetCount").Call(uintptr(unsafe.Pointer(&n))); r != 0 {
		return 0
	}
	return int(n)
}

// hasCuDNN reports whether the loader finds cuDNN.
func hasCuDNN() bool {
	return syscall.NewLazyDLL("cudnn64_9.dll").Load() == nil
}

// preserveSignals only calls f, because libraries on Windows cannot replace signal
// handlers.
func preserveSignals(f func() error) error { return f() }
