package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/command"
)

// registerTypes registers the DoFns with Beam by name. Call it before beam.Init.
func registerTypes() {
	register.DoFn3x1[context.Context, string, func(int, string), error](&scoreFn{})
	register.DoFn4x1[context.Context, int, func(*string) bool, func(int, string), error](&combineFn{})
	register.Emitter2[int, string]()
	register.Iter1[string]()
	registerMergeTypes()
}

// scoreFn is the first step of the pipeline. It scores shards and writes their parts to a
// folder. A runner may repeat a step. This is harmless because parts of the same rows have the
// same name and the same bytes. The output is the group of the parts, as combineFn gets it.
type scoreFn struct {
	Options engine.Options
	Dir     string // base folder of relative paths
	Parts   string // folder or URL of the parts
	Run     string // token of this run, the expected content of runFile
}

// task is an element of the pipeline, as JSON: shards to score, and the group of their parts.
type task struct {
	Shards []engine.Shard
	Group  int
}

// ProcessElement scores the shards of a task.
func (s *scoreFn) ProcessElement(ctx context.Context, element string, emit func(group int, parts string)) error {
	var t task
	if err := json.Unmarshal([]byte(element), &t); err != nil {
		return err
	}
	begun := time.Now()
	defer func() { countPiece(ctx, time.Since(begun)) }()
	w, err := workerFor(s)
	if err == nil {
		err = w.score(ctx, s, t.Shards)
	}
	scored := fmt.Sprintf("piece %d of %d of %s", t.Shards[0].Piece+1, t.Shards[0].Pieces, t.Shards[0].Path)
	if n := len(t.Shards); n > 1 {
		scored = fmt.Sprintf("%d files from %s on", n, t.Shards[0].Path)
	}
	log.Infof(ctx, "worker %d took %.1f s for %s", os.Getpid(), time.Since(begun).Seconds(), scored)
	if errors.Is(err, errReplaced) {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		err = w.recordFailure(ctx, s, engine.FailedName(t.Shards[0]), err.Error())
	}
	emit(t.Group, "")
	return err
}

// recordFailure writes the error of a shard to the folder of parts, where the program that
// started the audit finds it. If ProcessElement returned the error, the runner would stop
// the other shards and retry this one.
func (w *worker) recordFailure(ctx context.Context, s *scoreFn, name, reason string) error {
	count(ctx, failedMetric, 1)
	return w.storage.put(ctx, s.Parts, name, bytes.NewBufferString(reason))
}

// runFile is a file in the folder of parts. It holds the token of the current run. A job
// that outlives its program stops when a new run replaces the token.
const runFile = "runs.txt"

// scoredFile is a file in the folder of parts. It holds the token of the last run whose shards
// were all scored.
const scoredFile = "runs-scored.txt"

// planFile is a file in the folder of parts. It describes the audit of these parts.
const planFile = "run.json"

// errReplaced ends the scoring of a run that a newer run replaced.
var errReplaced = errors.New("the audit was started again elsewhere and continues there")

// checkCurrent returns errReplaced if a newer run replaced this one, or if the audit is
// complete.
func (s *storage) checkCurrent(ctx context.Context, parts, token string) error {
	current, _, err := s.progress(ctx, parts, token)
	if err == nil && !current {
		err = errReplaced
	}
	return err
}

// progress reports whether a run is the current one, and whether all of its shards were scored.
func (s *storage) progress(ctx context.Context, parts, token string) (current, scored bool, err error) {
	paths, release, err := s.localFiles(ctx, parts, "runs", func(name string) bool { return name == runFile || name == scoredFile })
	if err != nil {
		return false, false, err
	}
	defer release()
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, false, err
		}
		if err == nil && string(content) == token {
			current, scored = current || filepath.Base(path) == runFile, scored || filepath.Base(path) == scoredFile
		}
	}
	return current, scored, nil
}

func (w *worker) score(ctx context.Context, s *scoreFn, shards []engine.Shard) error {
	current, scored, err := w.storage.progress(ctx, s.Parts, s.Run)
	switch {
	case err != nil:
		return err
	case !current:
		return errReplaced
	case scored: // the runner repeats the job while parts are combined
		return nil
	}
	have := func(first, last engine.Place) (paths []string, release func(), err error) {
		prefix := commonPrefix(shards[0].Number, shards[len(shards)-1].Number)
		return w.storage.localFiles(ctx, s.Parts, prefix, func(name string) bool { return engine.StartsBetween(name, first, last) })
	}
	return w.Score(ctx, shards, have, func(name string, part *audit.Part) error {
		if err := w.storage.checkCurrent(ctx, s.Parts, s.Run); err != nil {
			return err
		}
		counted := &countedPart{WriterTo: part}
		if err := w.storage.put(ctx, s.Parts, name, counted); err != nil {
			return err
		}
		count(ctx, rowsMetric, int64(part.Rows()))
		count(ctx, bytesMetric, counted.written)
		return nil
	}, func(name, reason string) error { return w.recordFailure(ctx, s, name, reason) })
}

// commonPrefix returns a common prefix of the names of all parts whose shard numbers are in
// the range [from, to].
func commonPrefix(from, to int) string {
	a, b := fmt.Sprintf("%06d", from), fmt.Sprintf("%06d", to)
	for n := range a {
		if len(a) != len(b) || a[n] != b[n] {
			return a[:n]
		}
	}
	return a
}

const (
	// Small shards form groups. A group of several shards has at most maxGroup shards and
	// maxGroupBytes bytes in total.
	maxGroup      = 256
	maxGroupBytes = 1 << 18
)

// groupShards groups small shards and returns a task for each group, as JSON. The tasks are the
// elements of the pipeline. The result starts holds the number of the first shard of each task.
func groupShards(shards []engine.Shard) (tasks []string, starts []int, err error) {
	for len(shards) > 0 {
		n, size := 1, shards[0].Size
		for ; n < min(len(shards), maxGroup) && size+shards[n].Size <= maxGroupBytes; n++ {
			size += shards[n].Size
		}
		t, err := json.Marshal(task{shards[:n], len(tasks) / fanIn})
		if err != nil {
			return nil, nil, err
		}
		tasks, starts, shards = append(tasks, string(t)), append(starts, shards[0].Number), shards[n:]
	}
	return tasks, starts, nil
}

// worker scores shards. All steps in one process share a worker.
type worker struct {
	*engine.Worker
	storage *storage
}

var (
	workersMu sync.Mutex
	workers   = map[string]*worker{} // keyed by folder and options; only tests have more than one
)

// workerFor returns the worker for this process. It creates the worker on first use.
func workerFor(s *scoreFn) (*worker, error) {
	workersMu.Lock()
	defer workersMu.Unlock()
	options, err := json.Marshal(s.Options)
	if err != nil {
		return nil, err
	}
	key := s.Dir + "\n" + string(options)
	if w := workers[key]; w != nil {
		return w, nil
	}
	chdirErr := os.Chdir(s.Dir)
	w := &worker{storage: newStorage()}
	// The model outlives this element, so it must not use the element's context.
	if w.Worker, err = command.NewAuditWorker(context.Background(), s.Options, os.Stderr, w.storage); err != nil {
		if chdirErr != nil {
			err = fmt.Errorf("%w (the folder of relative paths is not on this machine: %v; give URLs, or paths on a disk that all machines share)", err, chdirErr)
		}
		return w, err
	}
	workers[key] = w
	return w, nil
}

// pipeline scores the shards of an audit with Beam. It implements engine.Remote.
type pipeline struct {
	*storage
	args         []string
	dir          string   // local output folder
	cloud        string   // URL to which the result is uploaded; may be empty
	initialParts []string // names of the parts in cloud at the start
	partial      []string // local copies of parts that have only a header
	merged       bool     // whether workers wrote the scores and the copies to cloud
	log          io.Writer
	alone        bool // whether workers run in this process only; Beam changes the flags that say so
}

// newPipeline prepares an audit. If -o is a URL, it downloads an audit that exists at this
// URL to a local folder, and replaces the URL in the arguments with this folder.
func newPipeline(ctx context.Context, s *storage, args []string) (*pipeline, error) {
	e := &pipeline{storage: s, args: args, log: io.Discard, alone: inThisProcess()}
	for i, arg := range args {
		output := ""
		switch {
		case (arg == "-o" || arg == "--o") && i+1 < len(args):
			output, i = args[i+1], i+1
		case strings.HasPrefix(arg, "-o=") || strings.HasPrefix(arg, "--o="):
			_, output, _ = strings.Cut(arg, "=")
		default:
			continue
		}
		e.dir = output
		if !strings.Contains(output, "://") {
			continue
		}
		e.cloud = output
		var err error
		if e.dir, err = s.fetchAudit(ctx, output); err != nil {
			return nil, err
		}
		parts, err := os.ReadDir(filepath.Join(e.dir, "parts"))
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			e.initialParts = append(e.initialParts, p.Name())
		}
		args[i] = strings.Replace(args[i], output, e.dir, 1)
	}
	return e, nil
}

// Score runs the pipeline on shards and stores their parts in the folder localParts.
func (e *pipeline) Score(ctx context.Context, o engine.Options, shards []engine.Shard, localParts string, progress engine.Progress) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	partsFolder, err := filepath.Abs(localParts)
	if err != nil {
		return err
	}
	if e.cloud != "" {
		partsFolder = joinURL(e.cloud, "parts")
	}
	token := rand.Text()
	if err := e.put(ctx, partsFolder, runFile, bytes.NewBufferString(token)); err != nil {
		return err
	}
	if e.cloud != "" {
		if err := e.beginParts(ctx, partsFolder, localParts); err != nil {
			return err
		}
	}
	tasks, starts, err := groupShards(shards)
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	parts := beam.ParDo(s, &scoreFn{Options: o, Dir: dir, Parts: partsFolder, Run: token}, beam.Reshuffle(s, beam.CreateList(s, tasks)))
	for _, groups := range levels(starts) {
		parts = beam.ParDo(s, &combineFn{Parts: partsFolder, Run: token, Starts: groups}, beam.GroupByKey(s, parts))
	}
	if err := e.runJob(ctx, p, shards, partsFolder, progress); err != nil {
		return err
	}
	if err := e.checkCurrent(ctx, partsFolder, token); err != nil {
		return fmt.Errorf("%s: %w", e.dir, err)
	}
	if e.cloud == "" {
		return nil
	}
	e.partial, err = e.getHeaders(ctx, partsFolder, localParts)
	return err
}

// Merger returns the workers, which merge large audits.
func (e *pipeline) Merger(dir string) (audit.Workers, error) {
	if e.cloud != "" {
		return mergeWorkers{sharedFolder{e.storage, e.cloud}, e}, nil
	}
	dir, err := filepath.Abs(dir)
	return mergeWorkers{sharedFolder{e.storage, dir}, e}, err
}

// runJob runs a pipeline that scores shards, and reports its progress.
func (e *pipeline) runJob(ctx context.Context, p *beam.Pipeline, shards []engine.Shard, parts string, progress engine.Progress) error {
	watchCtx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { e.watch(watchCtx, shards, parts, progress) })
	result, err := beamx.RunWithMetrics(ctx, p)
	stop()
	watching.Wait()
	if err != nil {
		return fmt.Errorf("the Beam runner failed: %w", err)
	}
	fmt.Fprintf(e.log, "all workers: %v\n", sumMetrics(result.Metrics()))
	return nil
}

// beginParts prepares the folder of parts in the cloud. It removes recorded failures, and
// parts that no longer exist in the local folder. Only then does it upload the plan, so the
// plan never describes parts of another audit.
func (e *pipeline) beginParts(ctx context.Context, cloudParts, parts string) error {
	if err := e.remove(ctx, cloudParts, func(name string) bool {
		_, statErr := os.Stat(filepath.Join(parts, name))
		return strings.HasSuffix(name, ".txt") && name != runFile && engine.IsPartFile(name) || slices.Contains(e.initialParts, name) && errors.Is(statErr, fs.ErrNotExist)
	}); err != nil {
		return err
	}
	plan, err := os.ReadFile(filepath.Join(parts, planFile))
	if err != nil {
		return err
	}
	return e.put(ctx, cloudParts, planFile, bytes.NewBuffer(plan))
}

// finish uploads the result if -o is a URL.
func (e *pipeline) finish(ctx context.Context) error {
	if e.cloud == "" {
		return nil
	}
	return e.publish(ctx, e.dir, e.cloud, e.merged)
}

// withURL replaces the local output folder in a text with the URL that the user gave.
func (e *pipeline) withURL(text string) string {
	if e.cloud == "" {
		return text
	}
	baseURL, _, _ := strings.Cut(e.cloud, "?")
	return strings.ReplaceAll(text, e.dir, strings.TrimSuffix(baseURL, "/"))
}

// urlWriter writes to standard error and replaces the local folder with the URL.
type urlWriter struct{ *pipeline }

func (w urlWriter) Write(p []byte) (int, error) {
	_, err := io.WriteString(os.Stderr, w.withURL(string(p)))
	return len(p), err
}
