//go:build !windows

package ort

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// These first two functions of ONNX Runtime's C API never change.
typedef struct {
	const void *(*GetApi)(uint32_t version);
	const char *(*GetVersionString)(void);
} attach_api_base;

// attach_probe loads a library, reads its version and unloads it. It returns NULL and sets
// version, or returns an error. The caller must free both.
static char *attach_probe(const char *path, char **version) {
	*version = NULL;
	void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (lib == NULL) {
		const char *why = dlerror();
		return strdup(why ? why : "cannot be loaded");
	}
	char *problem = NULL;
	const attach_api_base *(*base)(void) = (const attach_api_base *(*)(void))dlsym(lib, "OrtGetApiBase");
	if (base == NULL) {
		problem = strdup("has no OrtGetApiBase, so it is another library");
	} else {
		*version = strdup(base()->GetVersionString());
	}
	dlclose(lib);
	return problem;
}

// attach_cuda_devices returns the number of devices that the NVIDIA driver reports, or -1
// if there is no driver.
static int attach_cuda_devices(const char *driver) {
	void *lib = dlopen(driver, RTLD_LAZY | RTLD_LOCAL);
	if (lib == NULL) return -1;
	int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(lib, "cuInit");
	int (*count)(int *) = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	int n = 0;
	if (init == NULL || count == NULL || init(0) != 0 || count(&n) != 0) n = 0;
	return n;
}

static int attach_loads(const char *name) {
	return dlopen(name, RTLD_LAZY | RTLD_LOCAL) != NULL;
}

#define ATTACH_SIGNALS 65

static struct sigaction attach_saved[ATTACH_SIGNALS];
static int attach_known[ATTACH_SIGNALS];

static void attach_save_signals(void) {
	for (int s = 1; s < ATTACH_SIGNALS; s++) attach_known[s] = sigaction(s, NULL, &attach_saved[s]) == 0;
}

static void attach_restore_signals(void) {
	for (int s = 1; s < ATTACH_SIGNALS; s++) {
		struct sigaction now;
		if (attach_known[s] && sigaction(s, NULL, &now) == 0 && now.sa_sigaction != attach_saved[s].sa_sigaction)
			sigaction(s, &attach_saved[s], NULL);
	}
}
*/
import "C"

import (
	"errors"
	"strings"
	"unsafe"
)

// probe loads a libonnxruntime, reads its version and unloads it.
func probe(path string) (string, error) {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var version *C.char
	problem := C.attach_probe(p, &version)
	defer C.free(unsafe.Pointer(version))
	defer C.free(unsafe.Pointer(problem))
	if problem != nil {
		return "", errors.New(strings.TrimPrefix(strings.TrimSpace(C.GoString(problem)), path+": "))
	}
	return C.GoString(version), nil
}

// cudaDevices returns the number of devices that the NVIDIA driver reports, or −1 if there
// is no driver.
func cudaDevices() int {
	name := C.CString("libcuda.so.1")
	defer C.free(unsafe.Pointer(name))
	return int(C.attach_cuda_devices(name))
}

// hasCuDNN reports whether the loader finds cuDNN.
func hasCuDNN() bool {
	for _, s := range []string{"libcudnn.so.9", "libcudnn.so"} {
		name := C.CString(s)
		ok := C.attach_loads(name) != 0
		C.free(unsafe.Pointer(name))
		if ok {
			return true
		}
	}
	return false
}

// preserveSignals calls f and then restores the signal handlers from before. CUDA's
// libraries install handlers that crash a Go program on Ctrl-C. Calls must not overlap,
// because they share the saved handlers.
func preserveSignals(f func() error) error {
	C.attach_save_signals()
	defer C.attach_restore_signals()
	return f()
}
