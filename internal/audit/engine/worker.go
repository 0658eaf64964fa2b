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

// Remote has shards scored on other machines.
type Remote interface {
	// Score has shards scored by Workers of the options. What these save and say lies in the
	// folder parts afterwards.
	Score(ctx context.Context, o Options, shards []Shard, parts string) error
}

// Shard is a file or folder of an audit: its number, its path or URL, how many bytes it has,
// and which of its rows were scored before.
type Shard struct {
	Number int
	Path   string
	Size   int64
	Have   []audit.Range
}

// elsewhere has what the folder lacks scored on other machines.
func (e *Engine) elsewhere(ctx context.Context, remote Remote, d *folder) error {
	var lacking []Shard
	for i, s := range d.Shards {
		if !d.complete(s.Name) {
			lacking = append(lacking, Shard{i, s.path, s.Size, d.have[s.Name]})
		}
	}
	if lacking == nil {
		return nil
	}
	if err := os.MkdirAll(d.parts(), 0o777); err != nil {
		return notFolder(d.parts(), err)
	}
	err := remote.Score(ctx, e.asked(), lacking, d.parts())
	left := map[string]error{}
	var failed []string // why shards could not be scored
	for _, s := range lacking {
		said := func(name string) (why string, there bool) {
			content, unfound := os.ReadFile(filepath.Join(d.parts(), name))
			return string(content), unfound == nil
		}
		if why, is := said(FailedName(s)); is {
			failed = append(failed, why)
		} else if why, is := said(emptyName(s)); is {
			left[audit.Name(s.Path)] = leftError{why, inputs.ErrEmpty}
		} else if why, is := said(brokenName(s)); is {
			left[audit.Name(s.Path)] = leftError{why, nil}
		}
	}
	if n := len(failed); n > 1 && err == nil {
		err = fmt.Errorf("%s, and %d more could not be scored", failed[0], n-1)
	} else if n == 1 && err == nil {
		err = errors.New(failed[0])
	}
	done, unread := openFolder(ctx, d.dir, d.run, d.say)
	if unread == nil {
		done.made, done.left = d.made, left
		*d = *done
	}
	return cmp.Or(err, unread)
}

// leftError is why a worker left out a shard.
type leftError struct {
	says string
	is   error
}

func (e leftError) Error() string { return e.says }

func (e leftError) Unwrap() error { return e.is }

// Worker scores shards of an audit that runs elsewhere. It is safe for concurrent use.
type Worker struct {
	e    *Engine
	hint func(error) error
}

// NewWorker is a worker of an audit that is asked for elsewhere. The network is loaded with
// the first file. Hint says what to do about an error.
func NewWorker(ctx context.Context, o Options, storage Storage, note modelrows.Note, hint func(error) error) (*Worker, error) {
	e, err := Open(ctx, o, storage, nil, note)
	if err != nil {
		return nil, hint(err)
	}
	e.scorer.PartTime = 0 // several that score the same write the same parts
	return &Worker{e, hint}, nil
}

// Score scores what is lacking of shards, of which the files at have were scored, and
// has every part saved under its name. Of a shard that cannot be scored, or is left out,
// it says why, in a text to be put beside the parts under a name, and scores the others.
func (w *Worker) Score(ctx context.Context, shards []Shard, have []string, save func(name string, part io.WriterTo) error, say func(name, why string) error) error {
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
	var unsaved error
	scoring := w.e.scorer.Begin(func(p *audit.Part) error {
		unsaved = save(partName(numbers[p.First().Shard], p.First().Start), p)
		return unsaved
	})
	for _, s := range shards {
		bad, err := w.score(ctx, scoring, s, ranges[audit.Name(s.Path)])
		if err != nil && unsaved == nil && ctx.Err() == nil {
			switch {
			case bad && errors.Is(err, inputs.ErrEmpty):
				err = say(emptyName(s), err.Error())
			case bad:
				err = say(brokenName(s), err.Error())
			default:
				err = say(FailedName(s), w.hint(err).Error())
			}
		}
		if err = cmp.Or(unsaved, err); err != nil {
			return err
		}
	}
	return scoring.Flush()
}

// score scores a shard. If the shard is to be left out bad says so, and err why.
func (w *Worker) score(ctx context.Context, scoring *audit.Scoring, s Shard, have []audit.Range) (bad bool, err error) {
	path := s.Path
	if isURL(path) {
		var release func()
		if path, release, err = w.e.storage.Fetch(ctx, path); err != nil {
			return false, err
		}
		defer release()
	}
	bad, err = w.e.scoreShard(ctx, scoring, audit.Name(s.Path), path, have, func(audit.Rows, int, int) {})
	if err = w.e.named(err); err != nil && path != s.Path {
		err = fetchedError{err, path, s.Path}
	}
	return bad, err
}

// PartsOf says whether a file is a part that begins with one of the shards from one to
// another, by their numbers.
func PartsOf(name string, from, to int) bool {
	number, err := strconv.Atoi(name[:max(0, strings.IndexByte(name, '-'))])
	return err == nil && from <= number && number <= to && OfParts(name) && strings.HasSuffix(name, ".parquet")
}

// emptyName and brokenName are what the files are called that say why a shard is left out.
func emptyName(s Shard) string  { return fmt.Sprintf("%06d-empty.txt", s.Number) }
func brokenName(s Shard) string { return fmt.Sprintf("%06d-broken.txt", s.Number) }

// FailedName is what the file is called that says why a shard could not be scored.
func FailedName(s Shard) string { return fmt.Sprintf("%06d-failed.txt", s.Number) }
