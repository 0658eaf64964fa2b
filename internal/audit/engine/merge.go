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

// Merge merges the audits in several folders into one audit, and writes it to dir.
func Merge(ctx context.Context, audits []string, dir string, note modelrows.Note) (*audit.Audit, error) {
	d := &folder{dir: dir}
	var resultOptions audit.Identity
	var sources [][]source // sources of each audit
	for _, from := range audits {
		if resolvePath(from) == resolvePath(dir) {
			return nil, modelrows.Usagef("Options.Dir %s is one of the audits to merge; write to another folder", dir)
		}
		if st, err := os.Stat(from); err == nil && !st.IsDir() {
			return nil, fmt.Errorf("%s: it is a file; name the folder that attach audit -o wrote", from)
		}
		input := &folder{dir: from}
		file, err := audit.OpenFile(input.scoresPath())
		_, planErr := os.Stat(input.planPath())
		unfinished := fmt.Errorf("%s: its audit is not finished; run it again to continue", from)
		if errors.Is(err, fs.ErrNotExist) {
			if _, runErr := os.Stat(input.runPath()); planErr == nil || runErr == nil {
				return nil, unfinished
			}
			return nil, fmt.Errorf("%s: there is no audit in it: no scores.parquet", from)
		}
		if err != nil {
			return nil, explainDamage(err)
		}
		recorded, exists, err := readRun(input.runPath())
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w; audit it again", err)
		case !recorded.lists(file) && planErr == nil: // the audit was killed before run.json was renamed
			return nil, unfinished
		case !exists:
			return nil, fmt.Errorf("%s is missing, so it is unknown what was audited; audit it again", input.runPath())
		case !recorded.lists(file):
			return nil, fmt.Errorf("%s does not list the files of %s; audit it again", input.runPath(), input.scoresPath())
		case planErr == nil:
			note("note: %s: an addition to its audit is not finished; the audit before it is merged", from)
		}
		d.files = append(d.files, file)
		d.Shards = append(d.Shards, recorded.Shards...)
		resultOptions.Reading.SkipBad = resultOptions.Reading.SkipBad || file.Reading.SkipBad
		sources = append(sources, recorded.Shards)
	}
	// An audit without --skip-bad had no bad input, so it can be merged with an audit that
	// skipped bad inputs.
	for _, file := range d.files {
		resultOptions.FDR, resultOptions.Delta, resultOptions.Conditional = file.FDR, file.Delta, file.Conditional
		file.Identity = file.WithResultOptions(resultOptions)
	}
	d.Identity = d.files[0].Identity
	joined, err := audit.Join(d.files)
	if err != nil {
		return nil, explainDamage(err)
	}
	if first, second, found := sameRows(d.files, sources); found {
		return nil, fmt.Errorf("these audits have rows of %s and of %s, which are the same file or a copy; audit each input once", first, second)
	}
	if names := joined.SharedNames(); names != nil {
		note("note: these audits have different files named %s; if one is an earlier version of the other, audit only the newer one", display.List(names, 3))
	}
	slices.SortFunc(d.Shards, func(a, b source) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Modified.Compare(b.Modified), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Members, b.Members))
	})
	_, dirErr := os.Stat(dir)
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d.created = dirErr != nil
	if err := d.checkFree(); err != nil {
		return nil, err
	}
	if err := d.writePlan(ctx); err != nil {
		return nil, d.abandon(err)
	}
	a, err := d.finish(ctx, nil)
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

// checkFree returns an error if the folder contains an audit or other result files. It
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
