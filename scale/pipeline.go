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

// registered tells Beam of what it runs by name; it is to be called before beam.Init.
func registered() { register.DoFn2x1[context.Context, string, error](&score{}) }

// score is the whole of the pipeline: it scores shards and puts their parts into a
// folder. Nothing comes out of it, so that what a runner does twice is there once:
// parts of the same rows have the same name and the same bytes.
type score struct {
	Options engine.Options
	Dir     string // that paths among them are of
	Parts   string // folder or URL
	Run     string // what the file turn is to hold
}

// ProcessElement scores shards, which are a list of engine.Shard as JSON.
func (s *score) ProcessElement(ctx context.Context, list string) error {
	var shards []engine.Shard
	if err := json.Unmarshal([]byte(list), &shards); err != nil {
		return err
	}
	w, err := session(s)
	if err == nil {
		err = w.score(ctx, s, shards)
	}
	if errors.Is(err, errOver) {
		return nil
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return w.say(ctx, s, engine.FailedName(shards[0]), err.Error())
}

// say leaves what is wrong with a shard beside the parts, for the one who asked: a
// runner would stop the other shards and try the same again.
func (w *worker) say(ctx context.Context, s *score, name, why string) error {
	return w.storage.put(ctx, s.Parts, name, bytes.NewBufferString(why))
}

// turn is the file among the parts that says whose turn it is: a job whose program was
// killed goes on by itself, and ends when the audit is begun again.
const turn = "runs.txt"

// plan is the file among the parts that says what they are of.
const plan = "run.json"

// errOver ends what is scored for a program that is no more.
var errOver = errors.New("the audit was begun again elsewhere meanwhile, and goes on there")

// current returns errOver where the audit was begun again since, or is done.
func (s *storage) current(ctx context.Context, parts, of string) error {
	paths, release, err := s.have(ctx, parts, turn, func(string) bool { return true })
	if err != nil {
		return err
	}
	defer release()
	if len(paths) == 1 {
		content, err := os.ReadFile(paths[0])
		if err == nil && string(content) == of {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errOver
}

func (w *worker) score(ctx context.Context, s *score, shards []engine.Shard) error {
	if err := w.storage.current(ctx, s.Parts, s.Run); err != nil {
		return err
	}
	from, to := shards[0].Number, shards[len(shards)-1].Number
	have, release, err := w.storage.have(ctx, s.Parts, common(from, to), func(name string) bool { return engine.StartsInShards(name, from, to) })
	if err != nil {
		return err
	}
	defer release()
	return w.Score(ctx, shards, have, func(name string, part io.WriterTo) error {
		if err := w.storage.current(ctx, s.Parts, s.Run); err != nil {
			return err
		}
		return w.storage.put(ctx, s.Parts, name, part)
	}, func(name, why string) error { return w.say(ctx, s, name, why) })
}

// common is what names of parts of shards from one number to another begin with.
func common(from, to int) string {
	a, b := fmt.Sprintf("%06d", from), fmt.Sprintf("%06d", to)
	for n := range a {
		if len(a) != len(b) || a[n] != b[n] {
			return a[:n]
		}
	}
	return a
}

const (
	// Small shards are scored together: so many, or of so many bytes.
	mostTogether  = 256
	bytesTogether = 1 << 18
)

// elements are lists of shards, as JSON.
func elements(shards []engine.Shard) (all []string, err error) {
	for len(shards) > 0 {
		n, size := 1, shards[0].Size
		for ; n < min(len(shards), mostTogether) && size+shards[n].Size <= bytesTogether; n++ {
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

// worker is what a process holds once, whatever the runner starts in it.
type worker struct {
	*engine.Worker
	storage *storage
}

var (
	sessions sync.Mutex
	held     = map[string]*worker{} // by what it was made for: one in a process, but in tests
)

// session is the worker of this process, or what is wrong with it.
func session(s *score) (*worker, error) {
	sessions.Lock()
	defer sessions.Unlock()
	options, err := json.Marshal(s.Options)
	if err != nil {
		return nil, err
	}
	key := s.Dir + "\n" + string(options)
	if w := held[key]; w != nil {
		return w, nil
	}
	elsewhere := os.Chdir(s.Dir)
	w := &worker{storage: newStorage()}
	// The network outlives the element that it is loaded for.
	if w.Worker, err = command.NewAuditWorker(context.Background(), s.Options, os.Stderr, w.storage); err != nil {
		if elsewhere != nil {
			err = fmt.Errorf("%w (the folder that paths are of is not on this machine: %v; name files by URLs, or on disks that all machines share)", err, elsewhere)
		}
		return w, err
	}
	held[key] = w
	return w, nil
}

// pipeline has shards scored by Beam.
type pipeline struct {
	*storage
	args  []string
	dir   string   // where the audit is written to
	cloud string   // URL that it is brought to, or empty
	taken []string // files of parts that were there
}

// newPipeline prepares for an audit with arguments, in which a folder stands for the
// URL of -o.
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
		if e.dir, err = s.audit(ctx, to); err != nil {
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

// Score runs the pipeline on shards.
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
		to = under(e.cloud, "parts")
	}
	token := rand.Text()
	if err := e.put(ctx, to, turn, bytes.NewBufferString(token)); err != nil {
		return err
	}
	if e.cloud != "" {
		if err := e.begin(ctx, to, parts); err != nil {
			return err
		}
	}
	lists, err := elements(shards)
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &score{Options: o, Dir: dir, Parts: to, Run: token}, beam.Reshuffle(s, beam.CreateList(s, lists)))
	if err := beamx.Run(ctx, p); err != nil {
		return fmt.Errorf("the runner gave up: %w", err)
	}
	if err := e.current(ctx, to, token); err != nil {
		return fmt.Errorf("%s: %w", e.dir, err)
	}
	if e.cloud == "" {
		return nil
	}
	return e.get(ctx, to, "", func(string) bool { return true }, parts)
}

// begin makes the folder of parts in the cloud what it is here, without what is said of
// shards, and brings there what says of which audit they are, in that order.
func (e *pipeline) begin(ctx context.Context, to, parts string) error {
	if err := e.remove(ctx, to, func(name string) bool {
		_, gone := os.Stat(filepath.Join(parts, name))
		return strings.HasSuffix(name, ".txt") && name != turn && engine.IsPartFile(name) || slices.Contains(e.taken, name) && errors.Is(gone, fs.ErrNotExist)
	}); err != nil {
		return err
	}
	note, err := os.ReadFile(filepath.Join(parts, plan))
	if err != nil {
		return err
	}
	return e.put(ctx, to, plan, bytes.NewBuffer(note))
}

// finish brings what was written to where it belongs.
func (e *pipeline) finish(ctx context.Context) error {
	if e.cloud == "" {
		return nil
	}
	return e.bring(ctx, e.dir, e.cloud)
}

// named is a text with the URL in place of the folder that stands for it.
func (e *pipeline) named(text string) string {
	if e.cloud == "" {
		return text
	}
	at, _, _ := strings.Cut(e.cloud, "?")
	return strings.ReplaceAll(text, e.dir, strings.TrimSuffix(at, "/"))
}

// naming writes to standard error what names the URL.
type naming struct{ *pipeline }

func (n naming) Write(p []byte) (int, error) {
	_, err := io.WriteString(os.Stderr, n.named(string(p)))
	return len(p), err
}
