package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// Remote scores shards on other machines.
type Remote interface {
	// Score scores shards on other machines, each with a Worker that has these options. It
	// returns after the folder parts contains everything that the workers saved: parts and
	// reasons.
	Score(ctx context.Context, o Options, shards []Shard, parts string) error
}

// Shard is a file or folder of an audit. Number is its index among all shards of the audit,
// in the order of their names. Size is in bytes, Path may be a URL, and Have lists the
// ranges of rows that were scored before.
type Shard struct {
	Number int
	Path   string
	Size   int64
	Have   []audit.Range
}

// scoreRemotely uses other machines to score the rows whose scores the folder lacks.
func (e *Engine) scoreRemotely(ctx context.Context, remote Remote, d *folder) error {
	var missing []Shard
	for i, s := range d.Shards {
		if !d.complete(s.Name) {
			missing = append(missing, Shard{i, s.path, s.Size, d.have[s.Name]})
		}
	}
	if missing == nil {
		return nil
	}
	if err := os.MkdirAll(d.partsDir(), 0o777); err != nil {
		return explainMkdir(d.partsDir(), err)
	}
	err := remote.Score(ctx, e.withURLs(), missing, d.partsDir())
	excluded := map[string]error{}
	var failed []string // reasons why scoring of shards failed
	for _, s := range missing {
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
	done, openErr := openFolder(ctx, d.dir, d.run, d.note)
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
}

// NewWorker returns a worker for an audit that runs on another machine. It loads the model
// when it opens the first file. The function hint adds advice to an error.
func NewWorker(ctx context.Context, o Options, storage Storage, note modelrows.Note, hint func(error) error) (*Worker, error) {
	e, err := Open(ctx, o, storage, nil, note)
	if err != nil {
		return nil, hint(err)
	}
	e.scorer.PartTime = 0 // no limit, so that workers that score the same rows write equal parts
	return &Worker{e, hint}, nil
}

// Score scores the rows of shards that are missing, and calls the function save with each
// part and its name. The argument have lists files with rows that were scored before. If a
// shard cannot be scored or is left out, Score calls saveReason with a file name and the
// reason, and scores the other shards.
func (w *Worker) Score(ctx context.Context, shards []Shard, have []string, save func(name string, part io.WriterTo) error, saveReason func(name, reason string) error) error {
	ranges, numbers := map[string][]audit.Range{}, map[string]int{}
	for _, s := range shards {
		name := audit.Name(s.Path)
		ranges[name], numbers[name] = slices.Clone(s.Have), s.Number
	}
	for _, path := range have {
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
	path := s.Path
	if isURL(path) {
		var release func()
		if path, release, err = w.engine.storage.Fetch(ctx, path); err != nil {
			return false, err
		}
		defer release()
	}
	bad, err = w.engine.scoreShard(ctx, scoring, audit.Name(s.Path), path, have, func(audit.Rows, int, int) {})
	if err = w.engine.showURLs(err); err != nil && path != s.Path {
		err = fetchedError{err, path, s.Path}
	}
	return bad, err
}

// StartsInShards reports whether a file is a part that begins with a shard in the range
// [from, to] of shard numbers.
func StartsInShards(name string, from, to int) bool {
	number, err := strconv.Atoi(name[:max(0, strings.IndexByte(name, '-'))])
	return err == nil && from <= number && number <= to && IsPartFile(name) && strings.HasSuffix(name, ".parquet")
}

// emptyName and brokenName return the name of the file with the reason why a shard is left
// out. A shard is empty if it has no rows, and broken if it cannot be read.
func emptyName(s Shard) string  { return fmt.Sprintf("%06d-empty.txt", s.Number) }
func brokenName(s Shard) string { return fmt.Sprintf("%06d-broken.txt", s.Number) }

// FailedName returns the name of the file with the reason why a shard could not be scored.
func FailedName(s Shard) string { return fmt.Sprintf("%06d-failed.txt", s.Number) }
