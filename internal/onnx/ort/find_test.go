package ort_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// isolatedLibrary returns the path of a libonnxruntime that works, and hides all libraries
// from Find. It skips the test if that is impossible.
func isolatedLibrary(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("arranges the folders of Linux")
	}
	r := orttest.Open(t)
	path := r.Library().Path
	r.Close()
	t.Setenv("ORT_LIB", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("LD_LIBRARY_PATH", "")
	if _, _, err := ort.Find(context.Background(), ort.Options{}); !errors.Is(err, ort.ErrNotFound) {
		t.Skip("this machine's system folders hold a libonnxruntime")
	}
	return path
}

func linkLibrary(t *testing.T, old string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.Symlink(old, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// compileLibrary compiles C source to a shared library and returns its path.
func compileLibrary(t *testing.T, source string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	path := filepath.Join(t.TempDir(), "libonnxruntime.so")
	cmd := exec.Command(cc, "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler: %v: %s", err, out)
	}
	return path
}

const oldLibrary = `
static const void *get(unsigned v) { return 0; }
static const char *version(void) { return "1.16.3"; }
static struct { const void *(*get)(unsigned); const char *(*version)(void); } base = {get, version};
const void *OrtGetApiBase(void) { return &base; }
`

func find(t *testing.T, o ort.Options) (ort.Library, []ort.Candidate) {
	t.Helper()
	lib, seen, err := ort.Find(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(seen); n == 0 || !seen[n-1].Used || seen[n-1].Path != lib.Path || seen[n-1].Reason != "" {
		t.Fatalf("the last candidate is not the one used: %+v", seen)
	}
	return lib, seen
}

func TestFindOrder(t *testing.T) {
	good := isolatedLibrary(t)
	system, variable, flag := linkLibrary(t, good), linkLibrary(t, good), linkLibrary(t, good)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(system))
	if lib, _ := find(t, ort.Options{}); lib.Path != system || lib.Source != "system" || lib.Version == "" || lib.GPU {
		t.Errorf("system: got %+v", lib)
	}
	t.Setenv("ORT_LIB", variable)
	if lib, _ := find(t, ort.Options{}); lib.Path != variable || lib.Source != "ORT_LIB" {
		t.Errorf("ORT_LIB: got %+v", lib)
	}
	if lib, _ := find(t, ort.Options{Library: flag}); lib.Path != flag || lib.Source != ort.Named {
		t.Errorf("named: got %+v", lib)
	}
}

// TestFindCache checks that Find prefers the cache to the system's folders, unless a file
// in the cache was modified.
func TestFindCache(t *testing.T) {
	good := isolatedLibrary(t)
	system := linkLibrary(t, good)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(system))
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "attach", "onnxruntime", "1.30.0", runtime.GOOS+"-"+runtime.GOARCH+"-cpu")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cached := filepath.Join(dir, "libonnxruntime.so")
	if err := os.WriteFile(cached, []byte("altered"), 0o600); err != nil {
		t.Fatal(err)
	}
	lib, seen := find(t, ort.Options{})
	if lib.Path != system || len(seen) != 2 || seen[0].Path != cached || !strings.Contains(seen[0].Reason, "altered") {
		t.Errorf("altered: got %+v", seen)
	}
	os.Remove(cached)
	copyFile(t, good, cached)
	lib, seen = find(t, ort.Options{})
	if lib.Path == system {
		t.Skipf("the library at hand is not a published one: %s", seen[0].Reason)
	}
	if lib.Path != cached || lib.Source != "cache" || len(seen) != 1 {
		t.Errorf("cached: got %+v", seen)
	}
}

func TestFindSkipsUnusable(t *testing.T) {
	good := isolatedLibrary(t)
	text := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := compileLibrary(t, "int nothing(void) { return 0; }")
	old := compileLibrary(t, oldLibrary)
	last := linkLibrary(t, good)
	oldLink := linkLibrary(t, old) // a second link to a file is not examined again
	var dirs []string
	for _, p := range []string{text, other, old, oldLink, last} {
		dirs = append(dirs, filepath.Dir(p))
	}
	t.Setenv("LD_LIBRARY_PATH", strings.Join(append([]string{"relative"}, dirs...), ":"))
	lib, seen := find(t, ort.Options{})
	if lib.Path != last {
		t.Errorf("got %+v", lib)
	}
	want := []struct{ path, reason, version string }{{text, "file too short", ""}, {other, "another library", ""}, {old, "1.16.3", "1.16.3"}, {last, "", lib.Version}}
	if len(seen) != len(want) {
		t.Fatalf("got %+v", seen)
	}
	for i, w := range want {
		if seen[i].Path != w.path || !strings.Contains(seen[i].Reason, w.reason) || seen[i].Version != w.version {
			t.Errorf("candidate %d: got %+v, want %+v", i, seen[i], w)
		}
	}
}

func TestNamedLibraryErrors(t *testing.T) {
	isolatedLibrary(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte(strings.Repeat("no library ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, contains string }{
		{"text", text, "invalid ELF header"},
		{"absent", filepath.Join(dir, "absent.so"), "no such file"},
		{"folder", dir, "is a folder"},
		{"another library", compileLibrary(t, "int nothing(void) { return 0; }"), "another library"},
		{"old", compileLibrary(t, oldLibrary), "1.16.3, version 1.29 or newer is needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, variable := range []bool{false, true} {
				o, source := ort.Options{Library: c.path}, ort.ErrLibrary.Error()
				if variable {
					o, source = ort.Options{}, "ORT_LIB: "
					t.Setenv("ORT_LIB", c.path)
				}
				_, err := ort.Open(context.Background(), o)
				if !errors.Is(err, ort.ErrLibrary) || !strings.Contains(err.Error(), c.contains) || !strings.HasPrefix(err.Error(), source) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestNoCacheFolder(t *testing.T) {
	isolatedLibrary(t)
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	_, err := ort.Install(context.Background(), ort.InstallOptions{})
	if err == nil || !strings.Contains(err.Error(), "XDG_CACHE_HOME") {
		t.Errorf("got %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	good := isolatedLibrary(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name     string
		ctx      context.Context
		o        ort.Options
		is       error
		contains string
	}{
		{"provider", context.Background(), ort.Options{Library: good, Provider: "tpu"}, nil, `unknown provider "tpu": choose auto, cpu or cuda`},
		{"threads", context.Background(), ort.Options{Library: good, Threads: -1}, nil, "negative"},
		{"cancelled", ctx, ort.Options{Library: good}, context.Canceled, ""},
		{"nothing there", context.Background(), ort.Options{NoInstall: true}, ort.ErrNotFound, "install or name one"},
		{"cuda, nothing there", context.Background(), ort.Options{Provider: "cuda"}, ort.ErrNoGPULibrary, "none was found"},
		{"cuda, CPU library", context.Background(), ort.Options{Library: good, Provider: "cuda"}, ort.ErrNoGPULibrary, good},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOARCH != "amd64" && c.is == ort.ErrNoGPULibrary {
				t.Skip("no CUDA library is published")
			}
			r, err := ort.Open(c.ctx, c.o)
			if err == nil {
				r.Close()
				t.Fatal("no error")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.contains) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCUDAFallsBack checks that sessions run on the CPU, with one warning, if the library's
// CUDA provider does not work. If CUDA was requested, Open must return an error instead.
func TestCUDAFallsBack(t *testing.T) {
	good := isolatedLibrary(t)
	ort.ResetWarning()
	lib := linkLibrary(t, good)
	if err := os.WriteFile(filepath.Join(filepath.Dir(lib), "libonnxruntime_providers_cuda.so"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	o := ort.Options{Library: lib, Log: slog.New(slog.NewTextHandler(io.Writer(&log), nil))}
	for range 2 {
		r, err := ort.Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Library().GPU || r.Provider() != "cpu" || !slices.Equal(r.Providers(), []string{"cpu"}) {
			t.Errorf("%+v runs on %s of %s", r.Library(), r.Provider(), r.Providers())
		}
		r.Close()
	}
	if n := strings.Count(log.String(), "running on the CPU"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
	o.Provider = "cuda"
	if _, err := ort.Open(context.Background(), o); !errors.Is(err, ort.ErrNoDevice) && !errors.Is(err, ort.ErrNoCUDA) {
		t.Errorf("got %v", err)
	}
}

// TestAutoWithoutCUDA checks that a library without CUDA gives no warning if CUDA was not
// requested.
func TestAutoWithoutCUDA(t *testing.T) {
	good := isolatedLibrary(t)
	var log strings.Builder
	r, err := ort.Open(context.Background(), ort.Options{Library: good, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Library().GPU {
		t.Skip("the library at hand has the CUDA provider")
	}
	if log.Len() > 0 || r.Provider() != "cpu" {
		t.Errorf("on %s: %s", r.Provider(), log.String())
	}
}

// TestTwoRuntimes checks that two runtimes can share a library, and that another library
// can be loaded only after both are closed.
func TestTwoRuntimes(t *testing.T) {
	good := isolatedLibrary(t)
	other := filepath.Join(t.TempDir(), "copy.so")
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, b, 0o700); err != nil {
		t.Fatal(err)
	}
	open := func(path string) (*ort.Runtime, error) {
		return ort.Open(context.Background(), ort.Options{Library: path, Provider: "cpu"})
	}
	for range 2 {
		first, err := open(good)
		if err != nil {
			t.Fatal(err)
		}
		second, err := open(linkLibrary(t, good))
		if err != nil {
			t.Fatal(err)
		}
		first.Close()
		if _, err := open(other); err == nil || !strings.Contains(err.Error(), "already uses") {
			t.Errorf("got %v", err)
		}
		second.Close()
		third, err := open(other)
		if err != nil {
			t.Fatal(err)
		}
		s, err := third.NewSession(context.Background(), unary("Neg", pb.TensorProto_FLOAT, -1), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := tensor(t, []int64{1}, []float32{2})
		out, err := s.Run(context.Background(), []*ort.Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Float32s()[0] != -2 {
			t.Errorf("got %v", out[0].Float32s())
		}
		out[0].Close()
		x.Close()
		s.Close()
		third.Close()
	}
}

// TestFindPlanted checks that Find uses only listed files in the cache. It must neither
// load an unlisted library nor use it as the CUDA provider, whatever its name is.
func TestFindPlanted(t *testing.T) {
	good := isolatedLibrary(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "attach", "onnxruntime", "1.30.0", runtime.GOOS+"-"+runtime.GOARCH+"-cpu")
	cached := filepath.Join(dir, "libonnxruntime.so")
	copyFile(t, good, cached)
	if _, seen := find(t, ort.Options{}); len(seen) != 1 {
		t.Skipf("the library at hand is not a published one: %s", seen[0].Reason)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	planted := compileLibrary(t, `#include <stdio.h>
__attribute__((constructor)) static void run(void) { fclose(fopen("`+ran+`", "w")); }`)
	for _, name := range []string{"libonnxruntime_providers_cuda.so", "libonnxruntime_providers_shared.so", "libgcc_s.so.1", "glibc-hwcaps/x86-64-v3/libstdc++.so.6"} {
		for _, named := range []string{"", cached, linkLibrary(t, cached)} {
			copyFile(t, planted, filepath.Join(dir, filepath.FromSlash(name)))
			r, err := ort.Open(t.Context(), ort.Options{Library: named, NoInstall: true})
			if err != nil {
				t.Fatal(err)
			}
			if r.Library().GPU || r.Provider() != "cpu" {
				t.Errorf("%s: %+v on %s", name, r.Library(), r.Provider())
			}
			if leftovers, err := os.ReadDir(dir); err != nil || len(leftovers) != 1 {
				t.Errorf("%s: %v was left", name, leftovers)
			}
			r.Close()
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a planted library was loaded")
	}

	// A link to the library must be rejected, because the loader would follow it to another
	// folder.
	beside := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.Rename(cached, beside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(beside, cached); err != nil {
		t.Fatal(err)
	}
	if _, seen, err := ort.Find(t.Context(), ort.Options{}); !errors.Is(err, ort.ErrNotFound) || !strings.Contains(seen[0].Reason, "it is a link") {
		t.Errorf("%+v, %v", seen, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, content, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}
