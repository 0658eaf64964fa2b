// Package serve serves the predictions of .attach files over REST and gRPC, in the Open
// Inference Protocol, version 2. For images, texts or tensors it answers what attach predict
// prints for rows of a file: predictions, p-values, flags and intervals.
//
// A program mounts a Server beside its own routes and registers it with its own gRPC server.
// Rows of concurrent requests are batched.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/ood"
)

// Options configures a Server. The zero value works.
type Options struct {
	// Runtime configures how models are run.
	Runtime featurize.Runtime
	// Methods are the program's own detectors. They are needed to open files that contain one.
	Methods []ood.Method
	// MaxBatchSize is the maximum of rows that a batch of several requests has, 64 by default.
	// A request with more rows is run alone, in pieces of that size.
	MaxBatchSize int
	// MaxQueueDelay is how long the first request of a batch waits for others. If it is 0, a
	// request does not wait, and requests that arrive during a run make the next batch.
	MaxQueueDelay time.Duration
	// MaxQueueSize is the maximum of requests that wait for a model, 1024 by default. Further
	// requests are refused.
	MaxQueueSize int
	// MaxBodySize is the maximum size of a request's body in bytes, 64 MiB by default. All
	// requests together, with their prepared images, may use 16 times that.
	MaxBodySize int64
	// Timeout limits the time of a request, from its first byte to its answer. It is 30 s by
	// default.
	Timeout time.Duration
	// AllowSignatureChange allows a reload to change the inputs, outputs, task or class names.
	// Without it, such a reload fails and the previous file is still served.
	AllowSignatureChange bool
	// Log receives log records. If it is nil, they are discarded.
	Log *slog.Logger
	// Tracing receives a span for each request for predictions. The span belongs to the trace
	// that the request's traceparent names. If it is nil, there are no spans.
	Tracing trace.TracerProvider
}

// Server serves .attach files in the Open Inference Protocol, version 2. It is an http.Handler
// for REST. Register adds its gRPC service to a gRPC server, and Collector returns its
// metrics. It is safe for concurrent use.
type Server struct {
	o        Options
	mux      *http.ServeMux
	calls    sync.Pool    // of *call
	reserved atomic.Int64 // bytes that all requests have reserved
	metrics
	tracer   trace.Tracer // or nil
	refusals throttle     // of logs of status 429

	loading sync.Mutex // one file is opened at a time
	mu      sync.RWMutex
	entries []*entry // sorted by name, then latest version first
	closed  bool
}

// entry is a version of a served model. Its file can be replaced.
type entry struct {
	name, version string
	path          string // of a file, or of a folder with exactly one
	metrics       modelMetrics

	mu      sync.Mutex
	current *model    // nil while the first file is opened
	seen    fileState // state of the files at the last attempt to open them
}

// New returns a server without models.
func New(o Options) *Server {
	o.MaxBatchSize = cmp.Or(max(o.MaxBatchSize, 0), 64)
	o.MaxQueueSize = cmp.Or(max(o.MaxQueueSize, 0), 1024)
	o.MaxBodySize = cmp.Or(max(o.MaxBodySize, 0), 64<<20)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, metrics: newMetrics()}
	if o.Tracing != nil {
		s.tracer = o.Tracing.Tracer("github.com/attach-uncertainty/attach/featurize/serve")
	}
	s.calls.New = func() any { return s.newCall() }
	s.mux = s.routes()
	return s
}

// Load opens a .attach file and its model and serves them under a name and a version, which is
// "1" if empty. Path may be a folder with exactly one .attach file. The model must be at the
// path in the file and have the digest in the file.
//
// Requests without a version get the latest: the largest by number, or the last by text if
// versions are not numbers.
//
// If the name and version are already served, the new file replaces the old one. Requests in
// progress are finished with the old one.
func (s *Server) Load(ctx context.Context, name, version, path string) error {
	version = cmp.Or(version, "1")
	if name == "" || strings.ContainsAny(name+version, "/\\") {
		return fmt.Errorf("invalid model name %q or version %q: the name must not be empty, and neither may contain slashes", name, version)
	}
	e, isNew := s.addEntry(name, version)
	if e == nil {
		return errClosed
	}
	err := s.load(ctx, e, path, true)
	if err != nil && isNew {
		s.mu.Lock()
		s.entries = slices.DeleteFunc(s.entries, func(other *entry) bool { return other == e })
		s.mu.Unlock()
	}
	return err
}

// errSignature is why a reload is refused if inputs, outputs, task or class names change.
var errSignature = errors.New("this would change the interface for clients")

var errClosed = errors.New("the server is closed")

// addEntry returns the entry of a name and version, and adds it if there is none. It returns
// nil if the server is closed.
func (s *Server) addEntry(name, version string) (e *entry, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	i := slices.IndexFunc(s.entries, func(e *entry) bool { return e.name == name && e.version == version })
	if i >= 0 {
		return s.entries[i], false
	}
	e = &entry{name: name, version: version, metrics: s.metrics.forModel(name, version)}
	s.entries = append(slices.Clone(s.entries), e)
	slices.SortFunc(s.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.name, b.name), -cmp.Compare(versionNumber(a.version), versionNumber(b.version)), -cmp.Compare(a.version, b.version))
	})
	return e, true
}

// versionNumber returns the number of a version, or −1 if it is not a number.
func versionNumber(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return -1
	}
	return n
}

// load opens the file at path and replaces the entry's current model with it. If anySignature
// is false, it returns an error if the signature differs.
func (s *Server) load(ctx context.Context, e *entry, path string, anySignature bool) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	began := time.Now()
	file, err := findFile(path)
	var seen fileState
	seen.add(file)
	var b *attach.Bundle
	digest := ""
	if err == nil {
		digest, err = regularfile.SHA256(file)
	}
	if err == nil {
		b, err = attach.Open(file, s.o.Methods...)
	}
	var m *model
	if err == nil {
		seen.add(b.Base.Path) // even if it does not exist yet, so that Watch notices when it appears
		m, err = s.open(ctx, b)
	}
	if err == nil && !anySignature {
		e.mu.Lock()
		old := e.current
		e.mu.Unlock()
		if old == nil { // the server was closed
			m.close()
			return errClosed
		}
		if change := signatureChange(old, m); change != "" {
			m.close()
			err = fmt.Errorf("%s: %w: %s", file, errSignature, change)
		}
	}
	if err != nil {
		e.mu.Lock()
		e.seen = seen
		e.mu.Unlock()
		return fmt.Errorf("model %s, version %s: %w", e.name, e.version, err)
	}
	e.mu.Lock()
	if s.isClosed() {
		e.mu.Unlock()
		m.close()
		return errClosed
	}
	m.sha256 = digest
	old := e.current
	// Keep the evidence of drift if the calibration scores are the same.
	if old != nil && slices.Equal(old.bundle.Calibration.OOD, m.bundle.Calibration.OOD) {
		m.monitor = old.monitor
	}
	e.current, e.path, e.seen = m, path, seen
	unused := old != nil && old.users == 0
	e.mu.Unlock()
	if unused {
		old.close()
	}
	s.o.Log.Info("model loaded", "model", e.name, "version", e.version, "file", file, "file_sha256", digest, "model_sha256", m.net.Base("").SHA256, "seconds", time.Since(began).Seconds())
	return nil
}

// findFile returns the path of a file, or of the only .attach file in a folder.
func findFile(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, err
	}
	files, err := filepath.Glob(filepath.Join(filepath.Clean(path), "*.attach"))
	switch {
	case err != nil:
		return path, err
	case len(files) == 0:
		return path, fmt.Errorf("%s: the folder has no .attach file", path)
	case len(files) > 1:
		return path, fmt.Errorf("%s: the folder has %d .attach files: give the path of one", path, len(files))
	}
	return files[0], nil
}

// fileState records the identity, size and modification time of files.
type fileState struct {
	paths []string
	infos []fs.FileInfo // nil if the file does not exist
}

func (s *fileState) add(path string) {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	s.paths, s.infos = append(s.paths, path), append(s.infos, info)
}

// equal reports whether no file changed.
func (s fileState) equal(other fileState) bool {
	return slices.Equal(s.paths, other.paths) && slices.EqualFunc(s.infos, other.infos, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

// Reload opens all files again. It returns the errors of files that cannot be opened; their
// previous models are still served.
func (s *Server) Reload(ctx context.Context) error {
	var errs []error
	for _, e := range s.all() {
		errs = append(errs, s.reload(ctx, e))
	}
	return errors.Join(errs...)
}

func (s *Server) reload(ctx context.Context, e *entry) error {
	e.mu.Lock()
	path := e.path
	e.mu.Unlock()
	if path == "" {
		return nil // it is being opened for the first time
	}
	err := s.load(ctx, e, path, s.o.AllowSignatureChange)
	if err != nil {
		e.metrics.countReload("failed")
		s.o.Log.Error("model not reloaded; the previous one is still served", "model", e.name, "version", e.version, "error", err.Error())
		return err
	}
	e.metrics.countReload("done")
	return nil
}

// Watch checks at each interval whether a .attach file or its model changed. It reloads a
// changed file once its state is the same at two checks in a row, so that a file that is still
// being written is not opened. It returns when ctx ends. Replace files by renaming new ones to
// their paths.
func (s *Server) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	before := map[*entry]fileState{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, e := range s.all() {
			e.mu.Lock()
			path, seen, m := e.path, e.seen, e.current
			e.mu.Unlock()
			if m == nil {
				continue
			}
			file, _ := findFile(path)
			var now fileState
			now.add(file)
			if len(seen.paths) > 1 {
				now.add(seen.paths[1])
			}
			if last, known := before[e]; known && last.equal(now) && !now.equal(seen) {
				s.reload(ctx, e)
			}
			before[e] = now
		}
	}
}

// all returns the entries.
func (s *Server) all() []*entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries
}

// find returns the entry of a name and version. An empty version means the latest.
func (s *Server) find(name, version string) (*entry, error) {
	known := false
	for _, e := range s.all() {
		if e.name == name {
			if known = true; version == "" || e.version == version {
				return e, nil
			}
		}
	}
	if known {
		return nil, refuse(http.StatusNotFound, "the model %.100q has no version %.100q", name, version)
	}
	return nil, refuse(http.StatusNotFound, "there is no model %.100q", name)
}

// acquire returns the entry's current model and keeps it open until release.
func (e *entry) acquire() (*model, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		return nil, refuse(http.StatusServiceUnavailable, "the model %q is not loaded yet", e.name)
	}
	e.current.users++
	return e.current, nil
}

// checkRoom returns an error if the queue of the model is full.
func (e *entry) checkRoom() error {
	m, err := e.acquire()
	if err != nil {
		return err
	}
	defer e.release(m)
	return m.batcher.checkRoom()
}

// release ends the use of a model. It closes the model if the model was replaced and this was
// its last request.
func (e *entry) release(m *model) {
	e.mu.Lock()
	m.users--
	unused := m.users == 0 && m != e.current
	e.mu.Unlock()
	if unused {
		m.close()
	}
}

func (e *entry) ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current != nil
}

// ready reports whether there is at least one model and all are loaded.
func (s *Server) ready() bool {
	all := s.all()
	return len(all) > 0 && !slices.ContainsFunc(all, func(e *entry) bool { return !e.ready() })
}

// Monitor returns the drift monitor of a model. An empty version means the latest. The monitor
// counts rows since the model was loaded, and starts anew if a new file has other calibration
// scores. A program may save its state and restore it after Load.
func (s *Server) Monitor(name, version string) (*calibrate.Monitor, error) {
	e, err := s.find(name, version)
	if err != nil {
		return nil, err
	}
	m, err := e.acquire()
	if err != nil {
		return nil, err
	}
	defer e.release(m)
	if m.monitor == nil {
		return nil, fmt.Errorf("the model %q has no calibrated detector, which a drift monitor needs", name)
	}
	return m.monitor, nil
}

func (s *Server) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// versions returns the versions of a model, latest first.
func (s *Server) versions(name string) []string {
	var list []string
	for _, e := range s.all() {
		if e.name == name {
			list = append(list, e.version)
		}
	}
	return list
}

// Close frees the models once their requests are finished. Later requests find no model.
func (s *Server) Close() {
	s.mu.Lock()
	entries := s.entries
	s.entries, s.closed = nil, true
	s.mu.Unlock()
	for _, e := range entries {
		e.mu.Lock()
		m := e.current
		e.current = nil
		unused := m != nil && m.users == 0
		e.mu.Unlock()
		if unused {
			m.close()
		}
	}
}
