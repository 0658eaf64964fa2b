// Package ort finds or installs libonnxruntime and runs ONNX models with it, on the CPU or
// on CUDA.
//
// [Open] returns a [Runtime], and a Runtime creates a [Session] for a model. A session
// reads and writes [Tensor] values. [Find] reports which library Open would use and why.
// [Install] downloads a library. Callers must close tensors and sessions before their
// runtime.
//
// Only this package uses the Go binding of libonnxruntime, github.com/yalue/onnxruntime_go.
// ONNX Runtime has a binding of its own, github.com/microsoft/onnxruntime/go, without a release
// as of November 2026. It has counterparts of all that this package uses: sessions from bytes,
// tensors over pinned Go memory, texts, options of sessions and CUDA, and runs that a context
// ends. A move must mind three differences. Its Init fixes the log level, which this package
// sets. After its Shutdown, it cannot be opened again in the same process, as [Runtime] can. It
// returns errors with codes, so cleanError would change. Scalars would work.
package ort

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/yalue/onnxruntime_go"
)

// Options selects the library and configures sessions. With the zero value, Open finds or
// installs a library. It then uses CUDA if CUDA works, and the CPU otherwise.
type Options struct {
	Library   string       // path of libonnxruntime; "" searches $ORT_LIB, the user's cache and the system's folders, and then installs it
	NoInstall bool         // do not install a library
	Provider  string       // "auto" (default), "cpu" or "cuda"
	Device    int          // index of the CUDA device
	Threads   int          // threads within an operator; 0 means one per physical core, or GOMAXPROCS if that is less than the number of CPUs
	Log       *slog.Logger // nil discards messages; if the logger enables levels below debug, the runtime also logs to stderr
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

func (o Options) provider() (string, error) {
	switch o.Provider {
	case "":
		return "auto", nil
	case "auto", "cpu", "cuda":
		return o.Provider, nil
	}
	return "", fmt.Errorf("unknown provider %q: choose auto, cpu or cuda", o.Provider)
}

// Runtime is a loaded libonnxruntime and the provider that its sessions use. Several
// goroutines may call its methods.
type Runtime struct {
	lib      Library
	provider string
	opts     Options
	close    sync.Once
	cuda     func() error
	blas     func() *BLAS
}

// environment is the state of the binding. There is one per process. The library stays
// loaded after the last runtime is closed, because programs often open another runtime. It
// is unloaded only if a runtime with another library is opened.
var environment struct {
	sync.Mutex
	path string
	// file and sha256 describe the loaded library file. They are valid only if the library
	// is pinned; otherwise sha256 is "".
	file         fs.FileInfo
	sha256       string
	openRuntimes int
	warned       bool // whether the warning that CUDA does not work was printed
	// checkedCUDA is the path of the library whose CUDA provider was verified.
	checkedCUDA string
}

// Open finds a library, or installs one, and loads it. Several runtimes can be open at once
// if they use the same library.
//
// The error wraps [ErrNotFound], [ErrLibrary] or an error of [Install]. If CUDA was
// requested, it may also wrap [ErrNoGPULibrary], [ErrNoCUDA] or [ErrNoDevice].
func Open(ctx context.Context, o Options) (*Runtime, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	provider, err := o.provider()
	if err != nil {
		return nil, err
	}
	if o.Threads < 0 || o.Device < 0 {
		return nil, fmt.Errorf("threads (%d) and device (%d) cannot be negative", o.Threads, o.Device)
	}
	lib, _, err := Find(ctx, o)
	if errors.Is(err, ErrNotFound) && !o.NoInstall && provider != "cuda" {
		lib, err = Install(ctx, InstallOptions{Log: o.Log})
	}
	if err != nil {
		return nil, err
	}
	// The runtime logs hundreds of lines, so its log needs a level below debug.
	if err := acquire(lib, o.log().Enabled(ctx, slog.LevelDebug-4)); err != nil {
		return nil, err
	}
	r := &Runtime{lib: lib, provider: "cpu", opts: o}
	r.cuda = sync.OnceValue(r.tryCUDA)
	r.blas = sync.OnceValue(func() *BLAS { return &BLAS{r: r, sessions: map[operation]*Session{}} })
	if provider == "cuda" || provider == "auto" && lib.GPU {
		err := r.cuda()
		switch {
		case err == nil:
			r.provider = "cuda"
		case provider == "cuda":
			r.Close()
			return nil, err
		case firstWarning():
			o.log().Warn("running on the CPU", "reason", err)
		}
	}
	return r, nil
}

// firstWarning reports whether this is the first call, so that a warning is printed once
// per process.
func firstWarning() bool {
	environment.Lock()
	defer environment.Unlock()
	first := !environment.warned
	environment.warned = true
	return first
}

// isLoaded reports whether the environment has loaded this file with this checksum, and the
// file has not changed since. Such a file need not be hashed again, because the loader does
// not read it again.
func isLoaded(file fs.FileInfo, sha256 string) bool {
	environment.Lock()
	defer environment.Unlock()
	return environment.sha256 == sha256 && os.SameFile(environment.file, file) &&
		environment.file.Size() == file.Size() && environment.file.ModTime().Equal(file.ModTime())
}

// acquire loads a library into the process, or counts one more user of it if it is already
// loaded.
func acquire(lib Library, debug bool) error {
	path, err := filepath.EvalSymlinks(lib.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLibrary, err)
	}
	environment.Lock()
	defer environment.Unlock()
	if environment.path != "" && environment.path != path {
		if environment.openRuntimes > 0 {
			return fmt.Errorf("cannot load %s: this process already uses %s", path, environment.path)
		}
		environment.path, environment.sha256 = "", ""
		if err := onnxruntime_go.DestroyEnvironment(); err != nil {
			return fmt.Errorf("unload the previous library: %w", cleanError(err))
		}
	}
	if environment.path == "" {
		level := onnxruntime_go.WithLogLevelFatal()
		if debug {
			level = onnxruntime_go.WithLogLevelInfo()
		}
		// From version 1.29 on, published libraries send usage data to their vendor unless
		// this variable is set before they start. On Windows, DisableTelemetry below stops
		// this.
		if err := os.Setenv("ORT_DISABLE_TELEMETRY", "1"); err != nil {
			return fmt.Errorf("disable telemetry: %w", err)
		}
		onnxruntime_go.SetSharedLibraryPath(path)
		if err := onnxruntime_go.InitializeEnvironment(level); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrLibrary, path, cleanError(err))
		}
		if err := onnxruntime_go.DisableTelemetry(); err != nil {
			return cleanError(err)
		}
		environment.path = path
		if main, err := os.Lstat(path); err == nil && lib.pin != nil {
			environment.file, environment.sha256 = main, lib.pin.files[0].sha256
		}
	}
	environment.openRuntimes++
	return nil
}

// Close releases the runtime. The caller must first close its sessions and tensors. Further
// calls do nothing.
func (r *Runtime) Close() error {
	r.close.Do(func() {
		r.blas().close()
		environment.Lock()
		defer environment.Unlock()
		environment.openRuntimes--
	})
	return nil
}

// Library returns the library that the runtime uses.
func (r *Runtime) Library() Library { return r.lib }

// Provider returns the provider that sessions use: "cuda" or "cpu".
func (r *Runtime) Provider() string { return r.provider }

// Providers returns the providers that work with this library on this machine, fastest
// first.
func (r *Runtime) Providers() []string {
	if r.CUDA() == nil {
		return []string{"cuda", "cpu"}
	}
	return []string{"cpu"}
}

// CUDA returns nil if sessions can run on the CUDA device. Otherwise it returns an error
// that wraps [ErrNoGPULibrary], [ErrNoCUDA] or [ErrNoDevice].
func (r *Runtime) CUDA() error { return r.cuda() }

func (r *Runtime) newSessionOptions(provider string) (so *onnxruntime_go.SessionOptions, err error) {
	so, err = onnxruntime_go.NewSessionOptions()
	if err != nil {
		return nil, cleanError(err)
	}
	defer func() {
		if err != nil {
			so.Destroy()
			so, err = nil, cleanError(err)
		}
	}()
	// Idle threads of the runtime's pool spin while they wait for work. The usual gap
	// between two operators is below 50 µs. Longer spinning would only take cores away from
	// Go.
	if err = so.AddSessionConfigEntry("session.intra_op.spin_duration_us", "50"); err != nil {
		return so, err
	}
	threads := r.opts.Threads
	if threads == 0 && runtime.GOMAXPROCS(0) < runtime.NumCPU() {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads > 0 {
		if err = so.SetIntraOpNumThreads(threads); err != nil {
			return so, err
		}
	}
	if provider == "cuda" {
		err = appendCUDA(so, r.opts.Device)
	}
	return so, err
}
