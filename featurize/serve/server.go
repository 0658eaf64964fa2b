// Package serve serves the predictions of .attach files over REST and gRPC, with version 2
// of the Open Inference Protocol. The inputs are images, texts or tensors. The outputs
// include predictions, prediction sets, intervals, scores, p-values and flags. They have
// the same values as the output of the command attach predict.
//
// A program can mount a Server in addition to its own HTTP routes, and register it with its
// own gRPC server. The Server joins the rows of concurrent requests into batches. A program that
// is told to stop calls Drain, waits until load balancers have noticed it, and then shuts its
// HTTP and gRPC servers down.
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

// Options configures a Server. The zero value is valid.
type Options struct {
	// Runtime configures how models are run.
	Runtime featurize.Runtime
	// Methods lists the program's own detectors. They are needed to open .attach files that
	// contain such a detector.
	Methods []ood.Method
	// MaxBatchSize is the maximum number of rows in a batch of several requests. The
	// default is 64. A request with more rows is run separately, in blocks of that size.
	MaxBatchSize int
	// MaxQueueDelay is how long the first request of a batch waits for more requests. If it
	// is 0, the request does not wait. Requests that arrive during a run form the next
	// batch.
	MaxQueueDelay time.Duration
	// MaxQueueSize is the maximum number of requests that wait for a model. The default is
	// 1024. If the queue is full, further requests are rejected.
	MaxQueueSize int
	// MaxBodySize is the maximum size of a request's body in bytes. The default is 64 MiB.
	// All requests together, including their prepared images, may use 16 times as much
	// memory.
	MaxBodySize int64
	// Timeout limits the time from the first byte of a request to its response. The default
	// is 30 s.
	Timeout time.Duration
	// Adapt, if not nil, adapts the intervals of regressors and the prediction sets of classifiers
	// to the true targets of earlier rows: see Adaptation. Its Alpha must be 0, because the .attach
	// file has the level. If its Window is 0, the window of "aci" and "dtaci" is 20/(1−level)
	// scores. Adapt cannot serve files without calibrated intervals or sets, and files that are
	// calibrated by group or with weights.
	Adapt *calibrate.AdaptiveOptions
	// MaxPending is the number of most recent rows of a model that can wait for their targets.
	// The default is 100,000.
	MaxPending int
	// PendingTimeout is how long a row can wait for its targets. If it is 0, there is no such
	// limit.
	PendingTimeout time.Duration
	// Restore, if not nil, restores what an earlier process learned. Load calls it once for each
	// model, before the first request for it: rows of earlier requests would be lost. monitor or
	// adaptation is nil if the model has none. If Restore returns an error, Load fails.
	Restore func(name, version string, monitor *calibrate.Monitor, adaptation *Adaptation) error
	// AllowSignatureChange allows a reload to change inputs, outputs, the task or class
	// names. If it is not set, such a reload fails and the previous file is still served.
	AllowSignatureChange bool
	// AllowToken, if not nil, decides by its bearer token whether a request is answered. A request
	// without a token has the empty one. Requests about health, and reflection, need no token.
	// OpenTokens returns such a function for a file of tokens.
	AllowToken func(token string) bool
	// Log receives log records. If Log is nil, the records are discarded.
	Log *slog.Logger
	// Tracing receives a span for each request for predictions. The span belongs to the
	// trace in the request's traceparent header. If Tracing is nil, no spans are created.
	Tracing trace.TracerProvider
}

// Server serves .attach files with version 2 of the Open Inference Protocol. It is an
// http.Handler for REST. Register adds the gRPC service to a gRPC server, and Collector
// returns the metrics. A Server is safe for concurrent use.
type Server struct {
	opts     Options
	mux      *http.ServeMux
	calls    sync.Pool    // pool of *call
	reserved atomic.Int64 // total number of bytes that requests have reserved
	metrics
	tracer        trace.Tracer // nil without tracing
	logThrottle   throttle     // limits log messages about status 429
	tokenThrottle throttle     // limits log messages about requests without a token

	drainOnce sync.Once
	draining  chan struct{} // closed by Drain

	loadMu  sync.Mutex // held while a file is opened, so that only one is opened at a time
	mu      sync.RWMutex
	entries []*entry // sorted by name, and by version with the latest first
	closed  bool
	changed chan struct{} // closed and replaced when a model is added, loaded or removed
}

// entry is one version of a served model. Its .attach file can be replaced.
type entry struct {
	name, version string
	path          string // path of a .attach file, or of a folder with exactly one
	metrics       modelMetrics

	mu        sync.Mutex
	current   *model    // nil while the first file is being opened
	lastState fileState // state of the files when they were last opened, even if that failed
}

// New returns a server without models.
func New(o Options) *Server {
	o.MaxBatchSize = cmp.Or(max(o.MaxBatchSize, 0), 64)
	o.MaxQueueSize = cmp.Or(max(o.MaxQueueSize, 0), 1024)
	o.MaxBodySize = cmp.Or(max(o.MaxBodySize, 0), 64<<20)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	o.MaxPending = cmp.Or(max(o.MaxPending, 0), 100_000)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, metrics: newMetrics(), draining: make(chan struct{}), changed: make(chan struct{})}
	if o.Tracing != nil {
		s.tracer = o.Tracing.Tracer("github.com/attach-uncertainty/attach/featurize/serve")
	}
	s.calls.New = func() any { return s.newCall() }
	s.mux = s.routes()
	return s
}

// Load opens a .attach file and its model, and serves them under a name and a version. An
// empty version means "1". Path may be a folder that contains exactly one .attach file. The
// model must be at the path that the .attach file stores, and must have the stored digest.
//
// If a request has no version, it gets the latest one. Versions are ordered by number.
// Versions that are not numbers are ordered as text and count as older than all numbers.
//
// If the name and the version are already served, the new file replaces the old one.
// Requests in progress still use the old one.
func (s *Server) Load(ctx context.Context, name, version, path string) error {
	version = cmp.Or(version, "1")
	if name == "" || strings.ContainsAny(name+version, "/\\") {
		return fmt.Errorf("invalid model name %q or version %q: the name must not be empty, and neither may contain slashes", name, version)
	}
	e, isNew := s.addEntry(name, version)
	if e == nil {
		return errClosed
	}
	if isNew {
		s.announce()
	}
	err := s.load(ctx, e, path, true)
	if err != nil && isNew {
		s.mu.Lock()
		s.entries = slices.DeleteFunc(slices.Clone(s.entries), func(other *entry) bool { return other == e })
		s.mu.Unlock()
	}
	s.announce()
	return err
}

// errSignature means that a reload would change inputs, outputs, the task or class names.
var errSignature = errors.New("this would change the interface for clients")

var errClosed = errors.New("the server is closed")

// addEntry returns the entry for a name and a version. If there is none, it adds an empty
// entry. It returns nil if the server is closed.
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

// versionNumber converts a version to a number. It returns −1 if the version is not a
// number.
func versionNumber(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return -1
	}
	return n
}

// load opens the file at path and makes it the entry's current model. If anySignature is
// false, load returns an error if the signature would change.
func (s *Server) load(ctx context.Context, e *entry, path string, anySignature bool) error {
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	start := time.Now()
	file, err := findFile(path)
	var files fileState
	files.add(file)
	var bundle *attach.Bundle
	digest := ""
	if err == nil {
		digest, err = regularfile.SHA256(file)
	}
	if err == nil {
		bundle, err = attach.Open(file, s.opts.Methods...)
	}
	var m *model
	if err == nil {
		files.add(bundle.Base.Path) // recorded even if it does not exist yet, so that Watch notices when it appears
		m, err = s.open(ctx, e, bundle)
	}
	e.mu.Lock()
	old := e.current // it changes only under loadMu, or when Close removes it
	e.mu.Unlock()
	if err == nil && anySignature && old == nil && s.opts.Restore != nil {
		if err = s.opts.Restore(e.name, e.version, m.monitor.state(), m.adapt); err != nil {
			m.close()
		}
	}
	if err == nil && !anySignature {
		if old == nil { // Close has removed the old model
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
		e.lastState = files
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
	old = e.current
	// If the calibration scores have not changed, the new model keeps the evidence of drift
	// so far.
	if old != nil && old.monitor != nil && m.monitor != nil && slices.Equal(old.bundle.Calibration.OOD, m.bundle.Calibration.OOD) {
		m.monitor = old.monitor
	}
	if old != nil && old.adapt != nil {
		if m.adapt.sameAs(old.adapt) {
			m.adapt = old.adapt
		} else {
			m.adapt.log.Warn("adaptive intervals start again, and rows that wait for targets are forgotten: the new file has another model or other calibration rows")
		}
	}
	e.current, e.path, e.lastState = m, path, files
	unused := old != nil && old.users == 0
	e.mu.Unlock()
	if unused {
		old.close()
	}
	s.opts.Log.Info("model loaded", "model", e.name, "version", e.version, "file", file, "file_sha256", digest, "model_sha256", m.attached.Base("").SHA256, "seconds", time.Since(start).Seconds())
	return nil
}

// findFile returns the path of a .attach file. If path is a folder, it returns the only
// .attach file in it.
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

// add records the current state of the file at path.
func (s *fileState) add(path string) {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	s.paths, s.infos = append(s.paths, path), append(s.infos, info)
}

// equal reports whether the files have not changed between the states s and other.
func (s fileState) equal(other fileState) bool {
	return slices.Equal(s.paths, other.paths) && slices.EqualFunc(s.infos, other.infos, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

// Reload opens all files again. If a file cannot be opened, its previous model is still
// served, and Reload returns the error.
func (s *Server) Reload(ctx context.Context) error {
	var errs []error
	for _, e := range s.allEntries() {
		errs = append(errs, s.reload(ctx, e))
	}
	return errors.Join(errs...)
}

// reload opens the file of an entry again.
func (s *Server) reload(ctx context.Context, e *entry) error {
	e.mu.Lock()
	path := e.path
	e.mu.Unlock()
	if path == "" {
		return nil // the file is being opened for the first time
	}
	err := s.load(ctx, e, path, s.opts.AllowSignatureChange)
	if err != nil {
		e.metrics.countReload("failed")
		s.opts.Log.Error("model not reloaded; the previous one is still served", "model", e.name, "version", e.version, "error", err.Error())
		return err
	}
	e.metrics.countReload("done")
	return nil
}

// Watch checks at regular intervals whether a .attach file or its model has changed. It
// reloads a changed file when two checks in a row find the same state, so that it does not
// read a file that is still being written. Watch returns when ctx ends. To replace a file
// safely, write a new file and rename it to the path.
func (s *Server) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	previousStates := map[*entry]fileState{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, e := range s.allEntries() {
			e.mu.Lock()
			path, lastState, m := e.path, e.lastState, e.current
			e.mu.Unlock()
			if m == nil {
				continue
			}
			file, _ := findFile(path)
			var now fileState
			now.add(file)
			if len(lastState.paths) > 1 {
				now.add(lastState.paths[1])
			}
			if previous, known := previousStates[e]; known && previous.equal(now) && !now.equal(lastState) {
				s.reload(ctx, e)
			}
			previousStates[e] = now
		}
	}
}

// allEntries returns the entries of all models. The caller must not change them.
func (s *Server) allEntries() []*entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries
}

// find returns the entry for a name and a version. An empty version means the latest
// version.
func (s *Server) find(name, version string) (*entry, error) {
	known := false
	for _, e := range s.allEntries() {
		if e.name == name {
			if known = true; version == "" || e.version == version {
				return e, nil
			}
		}
	}
	if known {
		return nil, statusErrorf(http.StatusNotFound, "the model %.100q has no version %.100q", name, version)
	}
	return nil, statusErrorf(http.StatusNotFound, "there is no model %.100q", name)
}

// acquire returns the entry's current model and keeps it open until the caller calls
// release.
func (e *entry) acquire() (*model, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		return nil, statusErrorf(http.StatusServiceUnavailable, "the model %q is not loaded yet", e.name)
	}
	e.current.users++
	return e.current, nil
}

// checkRoom returns an error if the model's queue is full.
func (e *entry) checkRoom() error {
	m, err := e.acquire()
	if err != nil {
		return err
	}
	defer e.release(m)
	return m.batcher.checkRoom()
}

// release ends the use of a model. If the model has been replaced or removed and no other
// request uses it, release closes it.
func (e *entry) release(m *model) {
	e.mu.Lock()
	m.users--
	unused := m.users == 0 && m != e.current
	e.mu.Unlock()
	if unused {
		m.close()
	}
}

// isLoaded reports whether the model is loaded.
func (e *entry) isLoaded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current != nil
}

// Monitor returns the drift monitor of a model. An empty version means the latest version.
// The monitor counts rows since the model was loaded. If a reload changes the calibration
// scores, a new monitor starts. A program can save the state of the monitor, and the next process
// restores it by Options.Restore.
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
	return m.monitor.Monitor, nil
}

// Adaptation returns the Adaptation of a model's intervals. An empty version means the latest
// version. It starts when the model is loaded, and again if a reload changes the model or the
// calibration scores. A program can save its state, and the next process restores it by
// Options.Restore.
func (s *Server) Adaptation(name, version string) (*Adaptation, error) {
	e, err := s.find(name, version)
	if err != nil {
		return nil, err
	}
	m, err := e.acquire()
	if err != nil {
		return nil, err
	}
	defer e.release(m)
	if m.adapt == nil {
		return nil, badRequestf("the model %q does not adapt its intervals, so it takes no targets", name)
	}
	return m.adapt, nil
}

func (s *Server) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// versions returns the versions of a model, with the latest first.
func (s *Server) versions(name string) []string {
	var list []string
	for _, e := range s.allEntries() {
		if e.name == name {
			list = append(list, e.version)
		}
	}
	return list
}

// Close removes all models, and frees each of them when its last request has finished.
// Later requests get an error.
func (s *Server) Close() {
	s.mu.Lock()
	entries := s.entries
	s.entries, s.closed = nil, true
	s.mu.Unlock()
	s.announce()
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
