// Package serve answers requests for predictions over the network: of images, texts
// or tensors it says what attach predict says of rows of a file, with p-values,
// intervals and flags, in the Open Inference Protocol, version 2, over REST and gRPC.
//
// A program mounts a Server beside its own routes, and registers it with its own gRPC
// server. Requests that come at once are run together.
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
	// Runtime says how networks are run.
	Runtime featurize.Runtime
	// Methods are a program's own, for files that hold one.
	Methods []ood.Method
	// MaxBatchSize is how many rows of several requests are run at once at most, 64
	// by default. A request with more is run alone, piece by piece.
	MaxBatchSize int
	// MaxQueueDelay is how long the first request of a batch waits for others. 0 is
	// not at all: requests that come while others are run make the next batch.
	MaxQueueDelay time.Duration
	// MaxQueueSize is how many requests wait for a model at most, 1024 by default;
	// others are refused.
	MaxQueueSize int
	// MaxBodySize is how many bytes a request has at most, 64 MiB by default. What
	// all requests hold at once, prepared images included, is at most 16 times that.
	MaxBodySize int64
	// Timeout is how long a request may take, from its first byte to its answer, 30 s
	// by default.
	Timeout time.Duration
	// AllowSignatureChange lets a reload change inputs, outputs, task and names of
	// classes. Without it such a file is not served, as one that cannot be opened is.
	AllowSignatureChange bool
	// Log gets what happens; nil discards.
	Log *slog.Logger
	// Tracing gets a span of each request for predictions, which belongs to the trace
	// that its traceparent names; nil is none.
	Tracing trace.TracerProvider
}

// Server answers the Open Inference Protocol, version 2, for files that were
// attached to networks. It is an http.Handler of REST, Register adds its gRPC
// service to a server, and Collector gives metrics. It is safe
// for concurrent use.
type Server struct {
	o     Options
	mux   *http.ServeMux
	calls sync.Pool    // of *call
	held  atomic.Int64 // bytes of all requests
	metrics
	tracer  trace.Tracer // or nil
	crowded throttle     // of logs of requests that found the queue full

	loading sync.Mutex // one file is opened at a time
	mu      sync.RWMutex
	entries []*entry // by name, and the latest version first
	closed  bool
}

// entry is a version of a model, as files come and go.
type entry struct {
	name, version string
	path          string // of a file, or of a folder with one
	metrics       modelMetrics

	mu      sync.Mutex
	current *model // nil while the first is opened
	seen    stamp  // of what was opened last, or could not be
}

// New makes a server without models.
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

// Load opens a file and its network, and serves them under a name and a version,
// "1" if that is empty; the version of a name that is largest as a number, or else
// last by its letters, is the one that requests without a version get. Path may be
// a folder with one file in it. Where the name and version are served already, what
// is at path takes their place, and requests on their way are answered by what they
// began with. The model must be where the file says, with the digest that it says.
func (s *Server) Load(ctx context.Context, name, version, path string) error {
	version = cmp.Or(version, "1")
	if name == "" || strings.ContainsAny(name+version, "/\\") {
		return fmt.Errorf("a model cannot be called %q, version %q: names are not empty and have no slashes", name, version)
	}
	e, isNew := s.entry(name, version)
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

// errSignature says why a reload is refused.
var errSignature = errors.New("clients would have to change")

var errClosed = errors.New("the server is closed")

// entry is the one of a name and version, which is made where there is none.
func (s *Server) entry(name, version string) (e *entry, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	i := slices.IndexFunc(s.entries, func(e *entry) bool { return e.name == name && e.version == version })
	if i >= 0 {
		return s.entries[i], false
	}
	e = &entry{name: name, version: version, metrics: s.metrics.of(name, version)}
	s.entries = append(slices.Clone(s.entries), e)
	slices.SortFunc(s.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.name, b.name), -cmp.Compare(number(a.version), number(b.version)), -cmp.Compare(a.version, b.version))
	})
	return e, true
}

// number is the number that a version is, or −1.
func number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return -1
	}
	return n
}

// load opens what is at path and puts it in place of what the entry has, whose
// signature it must have if anySignature is false.
func (s *Server) load(ctx context.Context, e *entry, path string, anySignature bool) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	began := time.Now()
	file, err := find(path)
	var seen stamp
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
		seen.add(b.Base.Path) // also where it is not there yet, so that its coming is noticed
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
	// What was seen of rows goes on counting where they are judged as before.
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

// find is the file at a path, or the only one in the folder there.
func find(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, err
	}
	files, err := filepath.Glob(filepath.Join(filepath.Clean(path), "*.attach"))
	switch {
	case err != nil:
		return path, err
	case len(files) == 0:
		return path, fmt.Errorf("%s: the folder has no file that ends in .attach", path)
	case len(files) > 1:
		return path, fmt.Errorf("%s: the folder has %d files that end in .attach; name one of them", path, len(files))
	}
	return files[0], nil
}

// stamp tells by and by whether files are others.
type stamp struct {
	paths []string
	infos []fs.FileInfo // nil of one that is not there
}

func (s *stamp) add(path string) {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	s.paths, s.infos = append(s.paths, path), append(s.infos, info)
}

// same says whether nothing changed.
func (s stamp) same(other stamp) bool {
	return slices.Equal(s.paths, other.paths) && slices.EqualFunc(s.infos, other.infos, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

// Reload opens all files anew. Those that cannot be opened are served as they were,
// and are among the errors.
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
		return nil // it is opened the first time
	}
	err := s.load(ctx, e, path, s.o.AllowSignatureChange)
	if err != nil {
		e.metrics.reloads("failed")
		s.o.Log.Error("model not reloaded; the one before is served", "model", e.name, "version", e.version, "error", err.Error())
		return err
	}
	e.metrics.reloads("done")
	return nil
}

// Watch looks every so often whether files or their models changed, and opens those
// anew that did, once they have stayed the same since it looked before. It returns
// when ctx ends. Files are best replaced by renaming others to their names.
func (s *Server) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	before := map[*entry]stamp{}
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
			file, _ := find(path)
			var now stamp
			now.add(file)
			if len(seen.paths) > 1 {
				now.add(seen.paths[1])
			}
			if last, known := before[e]; known && last.same(now) && !now.same(seen) {
				s.reload(ctx, e)
			}
			before[e] = now
		}
	}
}

// all are the entries there are.
func (s *Server) all() []*entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries
}

// find is the entry of a name and a version, or the latest.
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

// acquire holds the model of the entry until release.
func (e *entry) acquire() (*model, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		return nil, refuse(http.StatusServiceUnavailable, "the model %q is not loaded yet", e.name)
	}
	e.current.users++
	return e.current, nil
}

// room refuses a request that could not wait for the model.
func (e *entry) room() error {
	m, err := e.acquire()
	if err != nil {
		return err
	}
	defer e.release(m)
	return m.batcher.room()
}

// release closes a model that another took the place of, after its last request.
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

// ready says whether there are models, and all are loaded.
func (s *Server) ready() bool {
	all := s.all()
	return len(all) > 0 && !slices.ContainsFunc(all, func(e *entry) bool { return !e.ready() })
}

// Monitor is what watches the rows of a model for drift, from when it was loaded until
// a file with other calibration rows takes its place; a version that is empty is the
// latest. A program may save it, and restore it after Load.
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
		return nil, fmt.Errorf("the model %q has no calibrated detector, which drift is noticed by", name)
	}
	return m.monitor, nil
}

func (s *Server) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// versions are those of a model, the latest first.
func (s *Server) versions(name string) []string {
	var list []string
	for _, e := range s.all() {
		if e.name == name {
			list = append(list, e.version)
		}
	}
	return list
}

// Close frees the models once requests on their way are answered. Requests that
// come after it find no model.
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
