package ort

import (
	"os/signal"
	"syscall"
	"testing"
	"unsafe"
)

// handler returns the address of the handler that the kernel has for a signal.
func handler(t *testing.T, s syscall.Signal) uintptr {
	t.Helper()
	var action [32]uintptr // larger than the kernel's struct sigaction, which begins with the handler
	const maskBytes = 8
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&action)), maskBytes, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	return action[0]
}

func TestKeepSignals(t *testing.T) {
	const s = syscall.SIGUSR2
	before := handler(t, s)
	defer signal.Reset(s)
	err := preserveSignals(func() error {
		signal.Ignore(s)
		if handler(t, s) == before {
			t.Error("the handler did not change")
		}
		return syscall.EAGAIN
	})
	if err != syscall.EAGAIN {
		t.Errorf("got %v", err)
	}
	if after := handler(t, s); after != before {
		t.Errorf("handler %#x became %#x", before, after)
	}
}
