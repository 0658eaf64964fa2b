package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// Remote scores shards on other machines.
type Remote interface {
	// Score scores shards on other machines, each with a Worker that has these options. It
	// returns after the folder parts contains everything that the workers saved: parts and
	// reasons.
	Score(ctx context.Context, o Options, shards []Shard, parts string, progress Progress) error
	// Merger returns the machines that merge the parts of a large audit in the folder dir.
	Merger(dir string) (audit.Workers, error)
}

// Shard is a file or folder of an audit, or a piece of a large one. Number is its index among all
// shards of the audit, in the order of their names. Size is in bytes, Path may be a URL, and
// Have lists the ranges of rows that were scored before. Piece is the index of the piece among
// all Pieces of the file or folder.
type Shard struct {
	Number        int
	Path          string
	Size          int64
	Have          []audit.Range
	Piece, Pieces int
}

// scoreRemotely uses other machines to score the rows whose scores the folder lacks.
func (e *Engine) scoreRemotely(ctx context.Context, remote Remote, d *folder, progress Progress) error {
	var missing []Shard
	for i, s := range d.Shards {
		if d.complete(s.Name) {
			continue
		}
		n := pieces(s.Size)
		for piece := range n {
			missing = append(missing, Shard{i, s.path, s.Size / int64(n), d.have[s.Name], piece, n})
		}
	}
	if missing == nil {
		return nil
	}
	if err := os.MkdirAll(d.partsDir(), 0o777); err != nil {
		return explainMkdir(d.partsDir(), err)
	}
	err := remote.Score(ctx, e.withURLs(), missing, d.partsDir(), progress)
	excluded := map[string]error{}
	var failed []string // reasons why scoring of shards failed
	for _, s := range missing {
		if s.Piece > 0 { // all pieces share the names of reasons
			continue
		}
		readReason := func(name string) (reason string, exists bool) {
			content, readErr := os.ReadFile(filepath.Join(d.partsDir(), name))
			return string(content), readErr == nil
		}
		if reason, exists := readReason(FailedName(s)); exists {
			failed = append(failed, reason)
		} else if reason, exists := readReason(emptyName(s)); exists {
			excluded[audit.Name(s.Path)] = exclusionError{reason, inputs.ErrEmpty}
		} else if reason, exists := readReason(brokenName(s)); exists {
			excluded[audit.Name(s.Path)] = exclusionError{reason, nil}
		}
	}
	if n := len(failed); n > 1 && err == nil {
		err = fmt.Errorf("%s, and %d more could not be scored", failed[0], n-1)
	} else if n == 1 && err == nil {
		err = errors.New(failed[0])
	}
	done, openErr := openFolder(ctx, d.dir, d.run, d.note, false) // workers wrote the parts just now
	if openErr == nil {
		done.created, done.excluded = d.created, excluded
		*d = *done
	}
	return cmp.Or(err, openErr)
}

// exclusionError is the reason why a worker left out a shard. Its text was read from a
// file.
type exclusionError struct {
	text string
	kind error
}

func (e exclusionError) Error() string { return e.text }

func (e exclusionError) Unwrap() error { return e.kind }

// Worker scores shards for an audit that runs on another machine. It is safe for concurrent
// use.
type Worker struct {
	engine *Engine
	hint   func(error) error
	mutex  sync.Mutex
	opened map[string]*openShard // by path
}

// openShard is a shard that was fetched and opened. All pieces in a process share it.
type openShard struct {
	users   int // guarded by Worker.mutex
	mutex   sync.Mutex
	ready   bool   // whether rows, bad and err are set
	path    string // local path
	release func() // removes the local copy of a URL, or nil
	rows    auditedRows
	bad     bool // whether the shard is to be left out because of err
	err     error
}

// NewWorker returns a worker for an audit that runs on another machine. It loads the model
// when it opens the first file. The function hint adds advice to an error.
func NewWorker(ctx context.Context, o Options, storage Storage, note modelrows.Note, hint func(error) error) (*Worker, error) {
	e, err := Open(ctx, o, storage, nil, note)
	if err != nil {
		return nil, hint(err)
	}
	e.scorer.PartTime = 0 // no limit, so that workers that score the same rows write equal parts
	return &Worker{engine: e, hint: hint, opened: map[string]*openShard{}}, nil
}

// open opens a shard, unless it is open. The shard stays open after all users are done, until
// another shard is opened.
func (w *Worker) open(ctx context.Context, s Shard) (o *openShard, done func()) {
	w.mutex.Lock()
	if o = w.opened[s.Path]; o == nil {
		for path, other := range w.opened {
			if other.users > 0 {
				continue
			}
			if delete(w.opened, path); other.release != nil {
				other.release()
			}
		}
		o = &openShard{path: s.Path}
		w.opened[s.Path] = o
	}
	o.users++
	w.mutex.Unlock()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if !o.ready {
		o.err = nil
		if isURL(o.path) {
			if local, release, err := w.engine.storage.Fetch(ctx, s.Path); err != nil {
				o.err = err
			} else {
				o.path, o.release = local, release
			}
		}
		if o.err == nil {
			o.rows, o.bad, o.err = w.engine.openAudited(ctx, audit.Name(s.Path), o.path, s.Pieces, s.Have)
		}
		o.ready = ctx.Err() == nil
	}
	return o, func() {
		w.mutex.Lock()
		o.users--
		w.mutex.Unlock()
	}
}

// Place is a row of a shard. A part begins at a place.
type Place struct{ Shard, Row int }

// before reports whether p is before other.
func (p Place) before(other Place) bool {
	return p.Shard < other.Shard || p.Shard == other.Shard && p.Row < other.Row
}

// Score scores the rows of shards that are missing, and calls the function save with each
// part and its name. The function have returns the parts that were saved before and begin at a
// place from first up to but not including last. They exist until release is called. If a
// shard cannot be scored or is left out, Score calls saveReason with a file name and the
// reason, and scores the other shards. A piece of a shard must be the only one of the shards.
func (w *Worker) Score(ctx context.Context, shards []Shard, have func(first, last Place) (paths []string, release func(), err error), save func(name string, part *audit.Part) error, saveReason func(name, reason string) error) error {
	first, last := Place{shards[0].Number, 0}, Place{shards[len(shards)-1].Number + 1, 0}
	if s := shards[0]; s.Pieces > 1 {
		o, done := w.open(ctx, s)
		defer done()
		if o.err == nil {
			first, last = Place{s.Number, o.rows.bounds[s.Piece]}, Place{s.Number, o.rows.bounds[s.Piece+1]}
		}
	}
	paths, release, err := have(first, last)
	if err != nil {
		return err
	}
	defer release()
	ranges, numbers := map[string][]audit.Range{}, map[string]int{}
	for _, s := range shards {
		name := audit.Name(s.Path)
		ranges[name], numbers[name] = slices.Clone(s.Have), s.Number
	}
	for _, path := range paths {
		part, err := audit.OpenFile(path)
		if err != nil {
			return err
		}
		for _, r := range part.Ranges {
			ranges[r.Shard] = append(ranges[r.Shard], r)
		}
	}
	var saveErr error
	scoring := w.engine.scorer.Begin(func(p *audit.Part) error {
		saveErr = save(partName(numbers[p.First().Shard], p.First().Start), p)
		return saveErr
	})
	for _, s := range shards {
		bad, err := w.score(ctx, scoring, s, ranges[audit.Name(s.Path)])
		if err != nil && saveErr == nil && ctx.Err() == nil {
			switch {
			case bad && errors.Is(err, inputs.ErrEmpty):
				err = saveReason(emptyName(s), err.Error())
			case bad:
				err = saveReason(brokenName(s), err.Error())
			default:
				err = saveReason(FailedName(s), w.hint(err).Error())
			}
		}
		if err = cmp.Or(saveErr, err); err != nil {
			return err
		}
	}
	return scoring.Flush()
}

// score scores one shard. If the shard is to be left out, bad is true and err is the
// reason.
func (w *Worker) score(ctx context.Context, scoring *audit.Scoring, s Shard, have []audit.Range) (bad bool, err error) {
	o, done := w.open(ctx, s)
	defer done()
	if err = o.err; err == nil {
		err = o.rows.scoreRows(ctx, scoring, audit.Name(s.Path), o.path, have, o.rows.bounds[s.Piece], o.rows.bounds[s.Piece+1], func(int, int) {})
	}
	if err = w.engine.showURLs(err); err != nil && o.path != s.Path {
		err = fetchedError{err, o.path, s.Path}
	}
	return o.bad, err
}

// StartsBetween reports whether a file is a part that begins at a place from first up to but not
// including last.
func StartsBetween(name string, first, last Place) bool {
	at, ok := placeOf(name)
	return ok && !at.before(first) && at.before(last)
}

// placeOf returns the place at which the part with a file name begins.
func placeOf(name string) (at Place, ok bool) {
	shard, row, _ := strings.Cut(strings.TrimSuffix(name, ".parquet"), "-")
	number, err := strconv.Atoi(shard)
	start, rowErr := strconv.Atoi(row)
	return Place{number, start}, cmp.Or(err, rowErr) == nil && IsPartFile(name) && strings.HasSuffix(name, ".parquet")
}

// emptyName and brokenName return the name of the file with the reason why a shard is left
// out. A shard is empty if it has no rows, and broken if it cannot be read.
func emptyName(s Shard) string  { return fmt.Sprintf("%06d-empty.txt", s.Number) }
func brokenName(s Shard) string { return fmt.Sprintf("%06d-broken.txt", s.Number) }

// FailedName returns the name of the file with the reason why a shard could not be scored.
func FailedName(s Shard) string { return fmt.Sprintf("%06d-failed.txt", s.Number) }
