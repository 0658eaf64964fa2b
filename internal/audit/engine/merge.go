package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// Finished holds finished audits of different files. They can be answered anew with other
// error rates, because these do not affect scores.
type Finished struct {
	folder
	dirs []string
	// Scores are the scores of all audits.
	Scores *audit.ScoreSet
}

// OpenFinished opens the finished audits in several folders. The function change sets options
// that do not affect scores.
func OpenFinished(dirs []string, change func(*audit.Identity), note modelrows.Note) (*Finished, error) {
	d := &Finished{folder: folder{note: note}, dirs: dirs}
	skipBad := false
	var sources [][]source // sources of each audit
	for _, from := range dirs {
		file, recorded, err := openFinished(from, note)
		if err != nil {
			return nil, err
		}
		d.files = append(d.files, file)
		d.Shards = append(d.Shards, recorded.Shards...)
		skipBad = skipBad || file.Reading.SkipBad
		sources = append(sources, recorded.Shards)
	}
	for _, file := range d.files {
		// An audit without --skip-bad had no bad input, so it can be merged with an audit that
		// skipped bad inputs.
		file.Reading.SkipBad = skipBad
		change(&file.Identity)
	}
	d.Identity = d.files[0].Identity
	var err error
	if d.Scores, err = audit.Join(d.files); err != nil {
		return nil, explainDamage(err)
	}
	if first, second, found := sameRows(d.files, sources); found {
		return nil, fmt.Errorf("these audits have rows of %s and of %s, which are the same file or a copy; audit each input once", first, second)
	}
	if names := d.Scores.SharedNames(); names != nil {
		note("note: these audits have different files named %s; if one is an earlier version of the other, audit only the newer one", display.List(names, 3))
	}
	slices.SortFunc(d.Shards, func(a, b source) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Modified.Compare(b.Modified), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Members, b.Members))
	})
	return d, nil
}

// ErrNoAudit reports that a folder does not hold a finished audit.
var ErrNoAudit = errors.New("there is no audit in it")

// openFinished opens the finished audit in a folder, and returns its file of scores and its
// run.json.
func openFinished(from string, note modelrows.Note) (*audit.File, run, error) {
	fail := func(format string, args ...any) (*audit.File, run, error) {
		return nil, run{}, fmt.Errorf(format, args...)
	}
	st, err := os.Stat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("%s: there is no such folder", from)
	case err == nil && !st.IsDir():
		return fail("%s: it is a file; name the folder that attach audit -o wrote", from)
	}
	input := &folder{dir: from}
	file, err := audit.OpenFile(input.scoresPath())
	_, planErr := os.Stat(input.planPath())
	const unfinished = "%s: its audit is not finished; run it again to continue"
	if errors.Is(err, fs.ErrNotExist) {
		if _, runErr := os.Stat(input.runPath()); planErr == nil || runErr == nil {
			return fail(unfinished, from)
		}
		return fail("%s: %w: no scores.parquet", from, ErrNoAudit)
	}
	if err != nil {
		return nil, run{}, explainDamage(err)
	}
	recorded, exists, err := readRun(input.runPath())
	switch {
	case err != nil:
		return fail("%w; audit it again", err)
	case !recorded.lists(file) && planErr == nil: // the audit was killed before run.json was renamed
		return fail(unfinished, from)
	case !exists:
		return fail("%s is missing, so it is unknown what was audited; audit it again", input.runPath())
	case !recorded.lists(file):
		return fail("%s does not list the files of %s; audit it again", input.runPath(), input.scoresPath())
	case planErr == nil:
		note("note: %s: an addition to its audit is not finished; the audit before it is used", from)
	}
	return file, recorded, nil
}

// Results returns the results of the audits, as of one audit. It changes no folder.
func (d *Finished) Results(ctx context.Context) (*audit.Audit, error) {
	dir, err := os.MkdirTemp("", "attach-audit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	a, err := d.Scores.Results(ctx, dir)
	return a, explainDamage(err)
}

// Write writes the audits to dir, as one audit. If there is one audit, dir may be its own
// folder. The results there are then replaced.
func (d *Finished) Write(ctx context.Context, dir string) (*audit.Audit, error) {
	d.dir = dir
	inPlace := false
	for _, from := range d.dirs {
		if resolvePath(from) != resolvePath(dir) {
			continue
		}
		if inPlace = len(d.dirs) == 1; !inPlace {
			return nil, modelrows.Usagef("Options.Dir %s is one of the audits to merge; write to another folder", dir)
		}
	}
	_, dirErr := os.Stat(dir)
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d.created = dirErr != nil
	if _, err := os.Stat(d.planPath()); err == nil && inPlace {
		return nil, fmt.Errorf("%s: an addition to its audit is not finished; run it again to continue, or write to another folder", dir)
	}
	if !inPlace {
		if err := d.checkFree(); err != nil {
			return nil, err
		}
	}
	if err := d.writePlan(ctx); err != nil {
		return nil, d.abandon(err)
	}
	a, err := d.finish(ctx, nil, 0, nil)
	if err != nil {
		return nil, d.abandon(explainDamage(err))
	}
	return a, nil
}

// explainDamage adds advice to an error about damaged scores.
func explainDamage(err error) error {
	if audit.Damaged(err) {
		return fmt.Errorf("%w; remove it, and audit its files again", err)
	}
	return err
}

// sameRows finds a file or folder that two audits have under different names. It finds
// sources with equal stamps and equal rows.
func sameRows(files []*audit.File, sources [][]source) (first, second string, found bool) {
	type key struct {
		Stamp
		digest uint64
	}
	type place struct {
		name  string
		audit int
	}
	known := map[key]place{}
	for i, file := range files {
		digests := map[string]uint64{}
		for _, r := range file.Ranges {
			digests[r.Shard] = r.Digest
		}
		for _, s := range sources[i] {
			digest, scored := digests[s.Name]
			if !scored {
				continue
			}
			id := key{s.Stamp, digest}
			if before, seen := known[id]; seen && before.audit != i {
				return min(before.name, s.Name), max(before.name, s.Name), true
			}
			known[id] = place{s.Name, i}
		}
	}
	return "", "", false
}

// checkFree returns an error if the folder contains an audit or other files. It
// ignores files of an earlier attempt at this merge that was killed.
func (d *folder) checkFree() error {
	plan, hasPlan, err := readRun(d.planPath())
	if err == nil && hasPlan && reflect.DeepEqual(plan, d.run) {
		return nil
	}
	before, exists, readErr := readRun(d.runPath())
	if err = cmp.Or(err, readErr); err != nil {
		return fmt.Errorf("%w; write to another folder", err)
	}
	_, partsErr := os.Stat(d.partsDir())
	_, scoresErr := os.Stat(d.scoresPath())
	_, reportErr := os.Stat(filepath.Join(d.dir, "report.html"))
	switch {
	case partsErr == nil, exists && (scoresErr == nil && reportErr == nil || !reflect.DeepEqual(before, d.run)):
		return fmt.Errorf("%s holds an audit; write to another folder", d.dir)
	case !exists:
		return d.checkForeignFiles()
	}
	return nil
}
