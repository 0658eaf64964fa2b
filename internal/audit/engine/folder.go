package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/report"
)

// folder is the result folder of an audit. In a finished audit, it contains the files that
// audit.Finish writes. The files audit.json and report.html are computed from
// scores.parquet, and run.json lists what was audited.
//
// A running audit writes its parts to the subfolder parts. The run.json in this subfolder
// describes the audit of these parts. An earlier result stays until the new one is complete.
// The earlier scores.parquet is one of the files that are joined into the new result.
type folder struct {
	dir string
	run
	result   *audit.File // the earlier result, or nil
	files    []*audit.File
	have     map[string][]audit.Range // ranges in files, by shard
	excluded map[string]error         // reasons why shards are left out, by name
	created  bool                     // this run created the folder
	note     modelrows.Note
}

func (d *folder) add(f *audit.File) {
	if d.have == nil {
		d.have = map[string][]audit.Range{}
	}
	d.files = append(d.files, f)
	for _, r := range f.Ranges {
		d.have[r.Shard] = append(d.have[r.Shard], r)
	}
}

// exclude records that a shard is left out, and why.
func (d *folder) exclude(shard string, reason error) {
	if d.excluded == nil {
		d.excluded = map[string]error{}
	}
	d.excluded[shard] = reason
}

// exclusionNotes returns notes about the shards that are left out, with reasons.
func (d *folder) exclusionNotes() (notes []string) {
	const limit = 3 // number of reasons that are listed
	var empty, more []string
	for _, name := range slices.Sorted(maps.Keys(d.excluded)) {
		switch reason := d.excluded[name]; {
		case errors.Is(reason, inputs.ErrEmpty):
			empty = append(empty, name)
		case len(notes) < limit:
			notes = append(notes, fmt.Sprintf("left out a file that cannot be read: %v", reason))
		default:
			more = append(more, name)
		}
	}
	if n := len(more); n > 0 {
		notes = append(notes, fmt.Sprintf("left out %s more that cannot be read: %s", rows.Count(n, "file"), display.List(more, 3)))
	}
	if n := len(empty); n > 0 {
		notes = append(notes, fmt.Sprintf("left out %s without rows: %s", rows.Count(n, "file"), display.List(empty, 3)))
	}
	return notes
}

// run is the content of run.json.
type run struct {
	audit.Identity
	Shards []source `json:"shards"`
}

// ResultNames returns the names of the files of a finished audit.
func ResultNames() []string {
	return []string{audit.Scores, audit.Duplicates, "audit.json", "report.html", "run.json"}
}

func (d *folder) scoresPath() string { return filepath.Join(d.dir, audit.Scores) }
func (d *folder) partsDir() string   { return filepath.Join(d.dir, "parts") }
func (d *folder) runPath() string    { return filepath.Join(d.dir, "run.json") }
func (d *folder) planPath() string   { return filepath.Join(d.partsDir(), "run.json") }

// lockFolder creates a folder if necessary, and locks it until unlock is called.
func lockFolder(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, explainMkdir(dir, err)
	}
	unlock, err = atomicfile.Lock(dir)
	if errors.Is(err, atomicfile.ErrLocked) {
		err = fmt.Errorf("%s: another audit or merge is writing to it; wait for it, or write to another folder", dir)
	}
	return unlock, err
}

// explainMkdir replaces an error of os.MkdirAll if a file is in the way of the folder.
func explainMkdir(dir string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write to %s: it, or its parent, is not a folder", dir)
	}
	return err
}

// checkForeignFiles returns an error if the folder has files. It is called only if there is no
// run.json, so that no audit wrote them. Hidden files may stay, because they keep a folder in a
// repository or belong to the desktop. So may parts, which a killed audit can leave empty.
func (d *folder) checkForeignFiles() error {
	entries, err := os.ReadDir(d.dir)
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != filepath.Base(d.partsDir()) {
			return fmt.Errorf("%s has other files, such as %s, and holds no audit; write to a new or empty folder", d.dir, name)
		}
	}
	return err
}

// readRun reads a run.json, and reports whether it exists.
func readRun(path string) (r run, exists bool, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, true, err
	}
	if err := json.Unmarshal(content, &r); err != nil || r.Bundle == "" || r.Shards == nil {
		return r, true, fmt.Errorf("%s: it was not written by an audit", path)
	}
	return r, true, nil
}

// index returns the index of a source by name. Sources are sorted by name.
func (r run) index(name string) (number int, named bool) {
	return slices.BinarySearchFunc(r.Shards, name, func(s source, name string) int { return cmp.Compare(s.Name, name) })
}

// lists reports whether r lists all shards of a file of scores.
func (r run) lists(file *audit.File) bool {
	return !slices.ContainsFunc(file.Shards(), func(name string) bool {
		_, named := r.index(name)
		return !named
	})
}

// writePlan writes parts/run.json.
func (d *folder) writePlan(ctx context.Context) error {
	if err := os.MkdirAll(d.partsDir(), 0o777); err != nil {
		return explainMkdir(d.partsDir(), err)
	}
	return atomicfile.WriteFile(ctx, d.planPath(), func(w io.Writer) error { return audit.WriteJSON(w, d.run) })
}

// openFolder opens the result folder, and reuses results and parts that belong to this
// audit. If check is true, it reads all rows of the parts, to find damage. It returns an error if
// the folder holds a different audit.
func openFolder(ctx context.Context, dir string, planned run, note modelrows.Note, check bool) (*folder, error) {
	d := &folder{dir: dir, run: planned, note: note}
	before, finished, err := readRun(d.runPath())
	if err != nil {
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	plan, hasPlan, err := readRun(d.planPath())
	if err != nil {
		return nil, fmt.Errorf("%w; remove %s, or write to another folder", err, d.partsDir())
	}
	done, err := audit.OpenFile(d.scoresPath())
	switch {
	case err == nil:
		if !finished || hasPlan && !before.lists(done) && plan.lists(done) { // an earlier run was killed before it renamed run.json
			before, finished = plan, hasPlan
		}
		if err := d.resumeResult(ctx, done, before, finished); err != nil {
			return nil, err
		}
	case (finished || hasPlan) && audit.Damaged(err):
		return nil, d.explainDamagedScores(err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; write to another folder", err)
	case !finished && !hasPlan:
		if err := d.checkForeignFiles(); err != nil {
			return nil, err
		}
	}
	if hasPlan {
		err = d.resumeParts(ctx, plan, check)
	} else {
		err = d.removeParts() // without run.json, parts cannot be identified
	}
	if err == nil && d.hasMissing() {
		err = d.writePlan(ctx)
	}
	return d, err
}

// hasMissing reports whether any shard has rows to score.
func (d *folder) hasMissing() bool {
	return slices.ContainsFunc(d.Shards, func(s source) bool { return !d.complete(s.Name) })
}

// resumeResult reuses the result of a finished audit. Done is its file of scores, before is
// its run.json, and finished reports whether this run.json exists.
func (d *folder) resumeResult(ctx context.Context, done *audit.File, before run, finished bool) error {
	done.Identity = done.WithResultOptions(d.Identity)
	if err := d.checkIdentity(done.Identity); err != nil {
		return err
	}
	if !finished {
		return fmt.Errorf("%s is missing, so it is unknown what was audited; write to another folder", d.runPath())
	}
	if !before.lists(done) {
		return fmt.Errorf("%s does not list the files of %s; write to another folder", d.runPath(), d.scoresPath())
	}
	var remaining []source
	dropped := false
	names := done.Shards()
	for _, s := range before.Shards {
		if _, scored := slices.BinarySearch(names, s.Name); !scored {
			continue // it was left out
		}
		if i, here := d.index(s.Name); here {
			remaining = append(remaining, d.Shards[i])
		} else {
			dropped = true
		}
	}
	if dropped {
		return fmt.Errorf("%s holds another audit: it has %s, and the inputs are %s; write to another folder", d.dir, display.List(names, 3), display.List(sourceNames(d.Shards), 3))
	}
	if changed, how := before.changed(remaining); changed != nil {
		return fmt.Errorf("%s holds an audit of %s, which has changed since (%s); to audit it again, write to another folder, or remove %s", d.dir, display.List(changed, 3), how, d.scoresPath())
	}
	d.add(done)
	if d.result = done; !d.hasMissing() {
		return nil
	}
	// New parts will be joined with the earlier result, so it must not be damaged.
	if err := done.Check(ctx); audit.Damaged(err) {
		return d.explainDamagedScores(err)
	} else if err != nil {
		return err
	}
	return nil
}

// finished reports whether the folder has a result and no part to add to it.
func (d *folder) finished() bool { return d.result != nil && !d.hasParts() }

// hasParts reports whether the folder has parts in addition to the earlier result.
func (d *folder) hasParts() bool {
	return slices.ContainsFunc(d.files, func(f *audit.File) bool { return f != d.result })
}

// explainDamagedScores adds advice to an error about a damaged scores.parquet.
func (d *folder) explainDamagedScores(err error) error {
	return fmt.Errorf("%w; remove it, and run the same command to score all rows again", err)
}

// resumeParts reuses the parts of an unfinished audit. The argument before is the run.json
// of that audit. The function removes parts that are damaged, that belong to changed or
// dropped shards, or that are already in the result. It also removes parts of incomplete
// shards if SkipBad was not set before and is set now. It returns an error if the remaining
// parts were scored with different options.
func (d *folder) resumeParts(ctx context.Context, before run, check bool) error {
	partFiles, err := d.partNames()
	if err != nil {
		return err
	}
	var paths []string
	for _, name := range partFiles {
		path := filepath.Join(d.partsDir(), name)
		switch {
		case path == d.planPath():
		case filepath.Ext(path) == ".parquet":
			paths = append(paths, path)
		default:
			os.Remove(path) // an incomplete part, or the reason why a shard failed or was left out
		}
	}
	opened, errs := audit.OpenFiles(ctx, paths, check)
	var parts []*audit.File
	have := map[string][]audit.Range{}
	for i, err := range errs {
		if audit.Damaged(err) {
			d.note("note: %v; its rows are scored again", err)
			err = os.Remove(paths[i])
		} else if err == nil {
			parts = append(parts, opened[i])
		}
		if err != nil {
			return err
		}
	}
	parts, contained := splitContained(parts)
	for _, part := range contained {
		if err := os.Remove(part.Path()); err != nil {
			return err
		}
	}
	for _, part := range parts {
		for _, r := range part.Ranges {
			have[r.Shard] = append(have[r.Shard], r)
		}
	}
	if parts == nil {
		return nil
	}
	startedSources := slices.DeleteFunc(slices.Clone(d.Shards), func(s source) bool { return have[s.Name] == nil })
	stale := map[string]bool{} // names of shards to score again or to drop
	if d.result != nil {
		for _, name := range d.result.Shards() { // a run was killed before it removed these parts
			stale[name] = true
		}
	}
	changed, how := before.changed(startedSources)
	for _, name := range changed {
		stale[name] = true
	}
	var dropped []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		_, named := d.index(name)
		if !named && !stale[name] {
			dropped = append(dropped, name)
		}
		// Bad inputs are now left out, so the missing rows may get other numbers.
		renumbered := d.Identity.Reading.SkipBad && !before.Reading.SkipBad && len(audit.Gaps(name, have[name][0].Audited, have[name])) > 0
		stale[name] = stale[name] || !named || renumbered
	}
	if changed != nil {
		d.note("note: %s changed (%s); it is scored again", display.List(changed, 3), how)
	}
	if dropped != nil {
		d.note("note: %s is no longer among the inputs; its scores are left out", display.List(dropped, 3))
	}
	rescored := map[string]bool{}
	reusable := parts[:0]
	var stalePartFiles []*audit.File
	for _, part := range parts {
		if !slices.ContainsFunc(part.Shards(), func(name string) bool { return stale[name] }) {
			part.Identity = part.WithResultOptions(d.Identity)
			if difference := part.Differs(d.Identity); difference != nil {
				return fmt.Errorf("%s holds scores of an unfinished audit: %s; pass the same options to continue, or remove %s", d.partsDir(), labelSides(difference), d.partsDir())
			}
			reusable = append(reusable, part)
			continue
		}
		stalePartFiles = append(stalePartFiles, part)
		for _, name := range part.Shards() {
			if !stale[name] {
				rescored[name] = true
			}
		}
	}
	for _, part := range stalePartFiles {
		if err := os.Remove(part.Path()); err != nil {
			return err
		}
	}
	if n := len(rescored); n > 0 {
		d.note("note: rows of %s in the same parts are scored again", rows.Count(n, "other file"))
	}
	return d.renumber(reusable)
}

// renumber adds parts, and renames their files after the current numbers of their shards.
// Both the old and the new numbers are in the order of the names of the shards, so at least
// one new file name is always free.
func (d *folder) renumber(parts []*audit.File) error {
	for len(parts) > 0 {
		var blocked []*audit.File
		for _, part := range parts {
			to := d.partPath(part.Ranges[0])
			if to != part.Path() {
				if _, err := os.Lstat(to); err == nil {
					blocked = append(blocked, part)
					continue
				}
				if err := os.Rename(part.Path(), to); err != nil {
					return err
				}
				part = part.At(to)
			}
			d.add(part)
		}
		if len(blocked) == len(parts) { // an audit cannot have written these files
			return fmt.Errorf("%s: another part has its rows too; write to another folder", blocked[0].Path())
		}
		parts = blocked
	}
	return nil
}

// partNames returns the files in the parts folder that audits wrote.
func (d *folder) partNames() (names []string, err error) {
	entries, err := os.ReadDir(d.partsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if IsPartFile(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, explainMkdir(d.partsDir(), err)
}

// removeParts removes the parts, and temporary files that a killed process left.
func (d *folder) removeParts() error {
	names, err := d.partNames()
	for _, name := range names {
		err = cmp.Or(err, os.Remove(filepath.Join(d.partsDir(), name)))
	}
	os.Remove(d.partsDir()) // fails, as intended, if the folder has other files
	entries, readErr := os.ReadDir(d.dir)
	for _, e := range entries {
		if matched, _ := filepath.Match(".attach-*.tmp", e.Name()); matched { // a file, or a folder of scores
			err = cmp.Or(err, os.RemoveAll(filepath.Join(d.dir, e.Name())))
		}
	}
	return cmp.Or(err, readErr)
}

// fail adds to an error what remains of the audit. If there are no parts, it also removes
// what this run created.
func (d *folder) fail(err error) error {
	switch {
	case !d.hasParts():
		if d.result != nil {
			err = fmt.Errorf("%w; the audit in %s is unchanged", err, d.dir)
		}
		return d.abandon(err)
	case d.result != nil:
		return fmt.Errorf("%w; %s still holds the earlier audit", ResumableError{err}, d.dir)
	}
	return ResumableError{err}
}

// ResumableError is an error of an audit that can be resumed.
type ResumableError struct{ Err error }

func (e ResumableError) Error() string {
	if errors.Is(e.Err, inputs.ErrEmpty) { // the error already contains advice
		return e.Err.Error() + "; scored rows are kept"
	}
	return e.Err.Error() + "; " + ResumeAdvice
}

func (e ResumableError) Unwrap() error { return e.Err }

// ResumeAdvice is the advice that a ResumableError adds.
const ResumeAdvice = "scored rows are kept; run the same command to continue"

// abandon removes everything that this run created, and returns err.
func (d *folder) abandon(err error) error {
	if removeErr := d.removeParts(); removeErr != nil {
		return fmt.Errorf("%w; %w", err, removeErr)
	}
	if d.created {
		os.Remove(d.dir)
	}
	return err
}

// checkIdentity returns an error if the folder contains an audit with other options.
func (d *folder) checkIdentity(before audit.Identity) error {
	difference := before.Differs(d.Identity)
	if difference == nil {
		return nil
	}
	remedy := "write to another folder"
	if now := d.Identity; before.Reading.SkipBad && !now.Reading.SkipBad {
		now.Reading.SkipBad = true
		if other := before.Differs(now); other == nil {
			remedy = "pass Options.SkipBad too, or " + remedy
		} else {
			difference = other // SkipBad alone would not help
		}
	}
	return fmt.Errorf("%s holds another audit: %s; %s", d.dir, labelSides(difference), remedy)
}

// labelSides describes a difference. "There" is the value in the folder, and "here" the new
// value.
func labelSides(d *audit.Difference) string {
	return strings.Replace(strings.Replace(d.String(), "in one", "there", 1), "in the other", "here", 1)
}

// complete reports whether all rows of a shard were scored.
func (d *folder) complete(name string) bool {
	have := d.have[name]
	return have != nil && len(audit.Gaps(name, have[0].Audited, have)) == 0
}

// checkRowCount returns an error if the number of rows of a shard has changed since it was
// scored.
func checkRowCount(name string, n int, have []audit.Range) error {
	for _, r := range have {
		if r.Shard == name && r.Rows != n {
			return fmt.Errorf("%s: it has %d rows, and had %d when its audit began; write to another folder", name, n, r.Rows)
		}
	}
	return nil
}

// IsPartFile reports whether a file in the parts folder has a name that audits use.
func IsPartFile(name string) bool {
	for _, pattern := range []string{"[0-9][0-9][0-9][0-9][0-9][0-9]*-[0-9]*.parquet", "[0-9][0-9][0-9][0-9][0-9][0-9]*-failed.txt", "[0-9][0-9][0-9][0-9][0-9][0-9]*-broken.txt", "[0-9][0-9][0-9][0-9][0-9][0-9]*-empty.txt", ".attach-*.tmp", "runs*.txt", "run.json", "merge-*"} {
		if ok, _ := filepath.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// partName returns the name of the file for the part that begins at row start of a shard.
func partName(shard, start int) string { return fmt.Sprintf("%06d-%012d.parquet", shard, start) }

// partPath returns the path of the part that begins with a range.
func (d *folder) partPath(first audit.Range) string {
	number, _ := d.index(first.Shard)
	return filepath.Join(d.partsDir(), partName(number, first.Start))
}

// save writes a part to its file and adds it to the folder.
func (d *folder) save(ctx context.Context, p *audit.Part) error {
	path := d.partPath(p.First())
	err := atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		_, err := p.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	d.add(p.At(path))
	return nil
}

// finish writes the results and removes the parts. The options fileRows and workers are those of
// audit.Output.
func (d *folder) finish(ctx context.Context, look *audit.Look, fileRows int, workers audit.Workers) (*audit.Audit, error) {
	for i, s := range d.Shards {
		if reason := d.excluded[s.Name]; reason != nil {
			d.Shards[i].LeftOut = reason.Error()
		}
	}
	page := func(w io.Writer, a *audit.Audit) error { return report.Write(w, report.Audit(a)) }
	a, err := audit.Finish(ctx, d.files, audit.Output{Dir: d.dir, Look: look, Page: page, Note: d.run, FileRows: fileRows, Workers: workers})
	if err != nil {
		return nil, err
	}
	return a, d.removeParts()
}
