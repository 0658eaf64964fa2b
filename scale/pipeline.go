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

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/command"
)

// registerTypes registers the DoFn with Beam by name. Call it before beam.Init.
func registerTypes() { register.DoFn2x1[context.Context, string, error](&score{}) }

// score is the only step of the pipeline: it scores shards and writes their parts to a folder.
// It has no output. A runner may repeat a step, but parts of the same rows have the same name
// and the same bytes, so repeating is harmless.
type score struct {
	Options engine.Options
	Dir     string // the folder that relative paths are relative to
	Parts   string // folder or URL to which parts are written
	Run     string // expected content of the file runs.txt
}

// ProcessElement scores shards, given as a list of engine.Shard in JSON.
func (s *score) ProcessElement(ctx context.Context, list string) error {
	var shards []engine.Shard
	if err := json.Unmarshal([]byte(list), &shards); err != nil {
		return err
	}
	w, err := workerFor(s)
	if err == nil {
		err = w.score(ctx, s, shards)
	}
	if errors.Is(err, errOver) {
		return nil
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return w.recordFailure(ctx, s, engine.FailedName(shards[0]), err.Error())
}

// recordFailure writes the error of a shard next to the parts, for the program that started
// the audit. If ProcessElement returned it instead, the runner would stop the other shards and
// retry the same one.
func (w *worker) recordFailure(ctx context.Context, s *score, name, why string) error {
	return w.storage.put(ctx, s.Parts, name, bytes.NewBufferString(why))
}

// runFile is the file in the folder of parts with the token of the current run. A job
// continues after its program was killed, and ends once the audit is started again.
const runFile = "runs.txt"

// planFile is the file in the folder of parts that describes the audit they belong to.
const planFile = "run.json"

// errOver stops the scoring of a run that another has replaced.
var errOver = errors.New("the audit was started again elsewhere and continues there")

// checkCurrent returns errOver if the audit was started again after this run began, or is
// complete.
func (s *storage) checkCurrent(ctx context.Context, parts, token string) error {
	paths, release, err := s.localFiles(ctx, parts, runFile, func(string) bool { return true })
	if err != nil {
		return err
	}
	defer release()
	if len(paths) == 1 {
		content, err := os.ReadFile(paths[0])
		if err == nil && string(content) == token {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errOver
}

func (w *worker) score(ctx context.Context, s *score, shards []engine.Shard) error {
	if err := w.storage.checkCurrent(ctx, s.Parts, s.Run); err != nil {
		return err
	}
	from, to := shards[0].Number, shards[len(shards)-1].Number
	have, release, err := w.storage.localFiles(ctx, s.Parts, commonPrefix(from, to), func(name string) bool { return engine.StartsInShards(name, from, to) })
	if err != nil {
		return err
	}
	defer release()
	return w.Score(ctx, shards, have, func(name string, part io.WriterTo) error {
		if err := w.storage.checkCurrent(ctx, s.Parts, s.Run); err != nil {
			return err
		}
		return w.storage.put(ctx, s.Parts, name, part)
	}, func(name, why string) error { return w.recordFailure(ctx, s, name, why) })
}

// commonPrefix returns the longest common prefix of the names of parts of the shards with the
// numbers from and to.
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
	// Small shards are scored in groups of at most this many, with at most this many bytes.
	maxGroup      = 256
	maxGroupBytes = 1 << 18
)

// groupShards returns the elements of the pipeline: lists of shards as JSON.
func groupShards(shards []engine.Shard) (all []string, err error) {
	for len(shards) > 0 {
		n, size := 1, shards[0].Size
		for ; n < min(len(shards), maxGroup) && size+shards[n].Size <= maxGroupBytes; n++ {
			size += shards[n].Size
		}
		list, err := json.Marshal(shards[:n])
		if err != nil {
			return nil, err
		}
		all, shards = append(all, string(list)), shards[n:]
	}
	return all, nil
}

// worker scores shards. A process has one, whichever number of steps the runner starts in it.
type worker struct {
	*engine.Worker
	storage *storage
}

var (
	workersMu sync.Mutex
	workers   = map[string]*worker{} // by folder and options; only tests have more than one
)

// workerFor returns the worker of this process, and makes it first if there is none.
func workerFor(s *score) (*worker, error) {
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
	// The model is used after this element, so it does not get the element's context.
	if w.Worker, err = command.NewAuditWorker(context.Background(), s.Options, os.Stderr, w.storage); err != nil {
		if chdirErr != nil {
			err = fmt.Errorf("%w (the folder of relative paths is not on this machine: %v; give URLs, or paths on a disk that all machines share)", err, chdirErr)
		}
		return w, err
	}
	workers[key] = w
	return w, nil
}

// pipeline scores shards with Beam. It is the engine of an audit.
type pipeline struct {
	*storage
	args  []string
	dir   string   // local folder to which the audit is written
	cloud string   // URL to which the result is uploaded, or empty
	taken []string // names of the parts that were in cloud at the start
}

// newPipeline prepares an audit. If -o is a URL, it replaces the URL in the arguments by a
// local folder.
func newPipeline(ctx context.Context, s *storage, args []string) (*pipeline, error) {
	e := &pipeline{storage: s, args: args}
	for i, arg := range args {
		to := ""
		switch {
		case (arg == "-o" || arg == "--o") && i+1 < len(args):
			to, i = args[i+1], i+1
		case strings.HasPrefix(arg, "-o=") || strings.HasPrefix(arg, "--o="):
			_, to, _ = strings.Cut(arg, "=")
		default:
			continue
		}
		e.dir = to
		if !strings.Contains(to, "://") {
			continue
		}
		e.cloud = to
		var err error
		if e.dir, err = s.fetchAudit(ctx, to); err != nil {
			return nil, err
		}
		parts, err := os.ReadDir(filepath.Join(e.dir, "parts"))
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			e.taken = append(e.taken, p.Name())
		}
		args[i] = strings.Replace(args[i], to, e.dir, 1)
	}
	return e, nil
}

// Score runs the pipeline on shards and writes their parts.
func (e *pipeline) Score(ctx context.Context, o engine.Options, shards []engine.Shard, parts string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	to, err := filepath.Abs(parts)
	if err != nil {
		return err
	}
	if e.cloud != "" {
		to = joinURL(e.cloud, "parts")
	}
	token := rand.Text()
	if err := e.put(ctx, to, runFile, bytes.NewBufferString(token)); err != nil {
		return err
	}
	if e.cloud != "" {
		if err := e.beginParts(ctx, to, parts); err != nil {
			return err
		}
	}
	lists, err := groupShards(shards)
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &score{Options: o, Dir: dir, Parts: to, Run: token}, beam.Reshuffle(s, beam.CreateList(s, lists)))
	if err := beamx.Run(ctx, p); err != nil {
		return fmt.Errorf("the Beam runner failed: %w", err)
	}
	if err := e.checkCurrent(ctx, to, token); err != nil {
		return fmt.Errorf("%s: %w", e.dir, err)
	}
	if e.cloud == "" {
		return nil
	}
	return e.get(ctx, to, "", func(string) bool { return true }, parts)
}

// beginParts prepares the folder of parts in the cloud. It first removes failures of shards,
// and parts that no longer exist in the local folder. Then it uploads the plan, so that parts
// of another audit are never next to it.
func (e *pipeline) beginParts(ctx context.Context, to, parts string) error {
	if err := e.remove(ctx, to, func(name string) bool {
		_, gone := os.Stat(filepath.Join(parts, name))
		return strings.HasSuffix(name, ".txt") && name != runFile && engine.IsPartFile(name) || slices.Contains(e.taken, name) && errors.Is(gone, fs.ErrNotExist)
	}); err != nil {
		return err
	}
	note, err := os.ReadFile(filepath.Join(parts, planFile))
	if err != nil {
		return err
	}
	return e.put(ctx, to, planFile, bytes.NewBuffer(note))
}

// finish uploads the result if -o is a URL.
func (e *pipeline) finish(ctx context.Context) error {
	if e.cloud == "" {
		return nil
	}
	return e.publish(ctx, e.dir, e.cloud)
}

// withURL replaces the local folder in a text by the URL that the user gave.
func (e *pipeline) withURL(text string) string {
	if e.cloud == "" {
		return text
	}
	at, _, _ := strings.Cut(e.cloud, "?")
	return strings.ReplaceAll(text, e.dir, strings.TrimSuffix(at, "/"))
}

// urlWriter writes to standard error, with the URL in place of the local folder.
type urlWriter struct{ *pipeline }

func (w urlWriter) Write(p []byte) (int, error) {
	_, err := io.WriteString(os.Stderr, w.withURL(string(p)))
	return len(p), err
}
