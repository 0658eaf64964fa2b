package command

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

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
)

// Engine scores audits in other processes, or on other machines.
type Engine interface {
	Storage
	// Score has shards scored by AuditWorkers. Their files of scores lie in the folder
	// parts afterwards.
	Score(ctx context.Context, shards []AuditShard, parts string) error
}

// Storage is where files lie that URLs name.
type Storage interface {
	// Shards are the files and folders that a URL stands for.
	Shards(ctx context.Context, url string) ([]string, error)
	// Fetch brings the file or folder of a URL to this machine, under its own name,
	// until release is called or the process ends.
	Fetch(ctx context.Context, url string) (path string, release func(), err error)
	// Stamps are those of the files and folders of URLs, which name no patterns.
	Stamps(ctx context.Context, urls []string) ([]Stamp, error)
}

// AuditShard is a shard of an audit: its number, its path or URL, how many bytes it has,
// and which of its rows were scored before.
type AuditShard struct {
	Number int
	Path   string
	Size   int64
	Have   []audit.Range
}

// RunAudit is as Run with "audit" before args, but that engine scores.
func RunAudit(ctx context.Context, args []string, stdout, stderr io.Writer, engine Engine) int {
	stdout, stderr = onTerminal(stdout), onTerminal(stderr)
	defer closeTerminals(stdout, stderr)
	app := newApp(nil, stdout, stderr)
	app.Commands = []*cli.Command{auditCommand(engine)}
	return status(ctx, run(ctx, app, append([]string{"audit"}, args...)), stderr)
}

func isURL(name string) bool { return strings.Contains(name, "://") }

// fetch is a step that brings what options name by URLs to this machine; rows are left
// where they are.
func (f *auditing) fetch(c *cli.Context) error {
	if f.engine == nil {
		return nil
	}
	names := []*string{&f.path}
	for _, o := range f.table {
		if to, is := o.to.(*string); is && o.file == otherFile {
			names = append(names, to)
		}
	}
	for _, name := range names {
		if !isURL(*name) {
			continue
		}
		path, _, err := f.engine.Fetch(c.Context, *name)
		if err != nil {
			return err
		}
		if f.urls == nil {
			f.urls = map[string]string{}
		}
		*name, f.urls[path] = path, *name
	}
	return nil
}

// fetchedError is of a file that was brought here, and names its URL.
type fetchedError struct {
	error
	path, url string
}

func (e fetchedError) Error() string { return strings.ReplaceAll(e.error.Error(), e.path, e.url) }

func (e fetchedError) Unwrap() error { return e.error }

// named has an error name URLs in place of what was brought here.
func (f *auditing) named(err error) error {
	if err == nil {
		return nil
	}
	if url := f.urls[f.path]; url != "" && f.moved == "" && errors.Is(err, attach.ErrNoModel) {
		return usagef("%s: the network that it was fitted for is not on this machine; name the network's URL with --model", url)
	}
	for path, url := range f.urls {
		err = fetchedError{err, path, url}
	}
	return err
}

// shardsOf are the files and folders that a name stands for.
func (f *auditing) shardsOf(ctx context.Context, written string) ([]string, error) {
	if f.engine != nil && isURL(written) {
		return f.engine.Shards(ctx, written)
	}
	return inputs.Shards(written)
}

// elsewhere has the engine score what the folder lacks.
func (f *auditing) elsewhere(ctx context.Context, _ *audit.Scorer, d *auditFolder, _ *progress) error {
	var lacking []AuditShard
	for i, s := range d.shards {
		if !d.complete(s.Name) {
			lacking = append(lacking, AuditShard{i, s.path, s.Size, d.have[s.Name]})
		}
	}
	if lacking == nil {
		return nil
	}
	if err := os.MkdirAll(d.parts(), 0o777); err != nil {
		return notFolder(d.parts(), err)
	}
	err := f.engine.Score(ctx, lacking, d.parts())
	left := map[string]error{}
	for _, s := range lacking {
		if says, unfound := os.ReadFile(filepath.Join(d.parts(), emptyName(s))); unfound == nil {
			left[audit.Name(s.Path)] = leftError{string(says), inputs.ErrEmpty}
		} else if says, unfound := os.ReadFile(filepath.Join(d.parts(), brokenName(s))); unfound == nil {
			left[audit.Name(s.Path)] = leftError{string(says), nil}
		}
	}
	done, unread := openAuditFolder(ctx, d.dir, d.id, d.shards, d.stderr)
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

// AuditWorker scores shards of an audit for an engine. It is safe for concurrent use.
type AuditWorker struct {
	f       *auditing
	scorer  *audit.Scorer
	storage Storage
}

// storing is a Storage without an engine.
type storing struct{ Storage }

// Score is not called: a worker scores by itself.
func (storing) Score(context.Context, []AuditShard, string) error { return nil }

// NewAuditWorker takes the arguments of attach audit. The network is loaded with the
// first shard.
func NewAuditWorker(ctx context.Context, args []string, stderr io.Writer, storage Storage) (*AuditWorker, error) {
	w := &AuditWorker{f: &auditing{engine: storing{storage}}, storage: storage}
	app := newApp(nil, io.Discard, onTerminal(stderr))
	app.Commands = []*cli.Command{w.f.command(func(c *cli.Context) (err error) {
		w.scorer, _, err = w.f.prepare(c)
		return err
	})}
	if err := run(ctx, app, append([]string{"audit"}, args...)); err != nil {
		return nil, err
	}
	w.scorer.PartTime = 0 // several that score the same write the same parts
	return w, nil
}

// Score scores what is lacking of shards, of which the files at have were scored, and
// has every part saved under its name. Of a shard that cannot be scored, or is left out,
// it says why, in a text to be put beside the parts under a name, and scores the others.
func (w *AuditWorker) Score(ctx context.Context, shards []AuditShard, have []string, save func(name string, part io.WriterTo) error, say func(name, why string) error) error {
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
	scoring := w.scorer.Begin(func(p *audit.Part) error {
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
				err = say(FailedName(s), hinted(err, w.f.table.useful).Error())
			}
		}
		if err = cmp.Or(unsaved, err); err != nil {
			return err
		}
	}
	return scoring.Flush()
}

// score scores a shard. If the shard is to be left out bad says so, and err why.
func (w *AuditWorker) score(ctx context.Context, scoring *audit.Scoring, s AuditShard, have []audit.Range) (bad bool, err error) {
	path := s.Path
	if isURL(path) {
		var release func()
		if path, release, err = w.storage.Fetch(ctx, path); err != nil {
			return false, err
		}
		defer release()
	}
	bad, err = w.f.scoreShard(ctx, scoring, audit.Name(s.Path), path, have, func(audit.Rows, int, int) {})
	if err = w.f.named(err); err != nil && path != s.Path {
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
func emptyName(s AuditShard) string  { return fmt.Sprintf("%06d-empty.txt", s.Number) }
func brokenName(s AuditShard) string { return fmt.Sprintf("%06d-broken.txt", s.Number) }

// FailedName is what the file is called that says why a shard could not be scored.
func FailedName(s AuditShard) string { return fmt.Sprintf("%06d-failed.txt", s.Number) }
