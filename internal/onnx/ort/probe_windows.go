package ort

import (
	"errors"
	"syscall"
	"unsafe"
)

// probe returns the version of an onnxruntime.dll, which is unloaded again.
func probe(path string) (string, error) {
	// Windows would also look for the libraries that this one asks for, and for CUDA's, in the folder in which the user stands.
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
	// The head of the runtime's C API, which never changes: GetApi and GetVersionString.
	base, _, _ := syscall.SyscallN(proc)
	if base == 0 {
		return "", errors.New("its OrtGetApiBase returns nothing")
	}
	functions := *(*[2]uintptr)(pointer(base))
	s, _, _ := syscall.SyscallN(functions[1])
	if s == 0 {
		return "", errors.New("it tells no version")
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

// pointer turns an address outside Go's heap into a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// cudaDevices returns how many devices the NVIDIA driver sees, −1 without a driver.
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

func hasCuDNN() bool {
	return syscall.NewLazyDLL("cudnn64_9.dll").Load() == nil
}

// keepSignals just calls f: Windows has no handlers that a library could take over.
func keepSignals(f func() error) error { return f() }
