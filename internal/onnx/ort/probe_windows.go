package ort

import (
	"errors"
	"syscall"
	"unsafe"
)

// probe loads an onnxruntime.dll, returns its version and unloads it.
func probe(path string) (string, error) {
	// Otherwise Windows would also search the working directory for the dependencies of this
	// library, and for CUDA's.
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
	// The start of the runtime's C API, which never changes: GetApi and GetVersionString.
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

// cudaDevices returns the number of devices of the NVIDIA driver, or −1 without a driver.
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

// preserveSignals only calls f, because libraries cannot replace signal handlers on Windows.
func preserveSignals(f func() error) error { return f() }
