package command

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

	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// auditFolder is where an audit is written to. While it runs, files of parts lie in
// the folder parts, each whole; in the end there are the three results, of which
// scores.parquet holds all that others follow from. Run.json says what was audited.
type auditFolder struct {
	dir    string
	id     audit.Identity
	shards []auditSource
	files  []*audit.File
	have   map[string][]audit.Range // of files, by shard
	left   map[string]error         // why shards are left out
	made   bool                     // the folder was not there
	stderr io.Writer
}

func (d *auditFolder) add(f *audit.File) {
	if d.have == nil {
		d.have = map[string][]audit.Range{}
	}
	d.files = append(d.files, f)
	for _, r := range f.Ranges {
		d.have[r.Shard] = append(d.have[r.Shard], r)
	}
}

// without leaves out a shard.
func (d *auditFolder) without(shard string, why error) {
	if d.left == nil {
		d.left = map[string]error{}
	}
	d.left[shard] = why
}

// leftOut says which shards are left out, and why.
func (d *auditFolder) leftOut() (notes []string) {
	const most = 3 // reasons
	var empty, more []string
	for _, name := range slices.Sorted(maps.Keys(d.left)) {
		switch why := d.left[name]; {
		case errors.Is(why, inputs.ErrEmpty):
			empty = append(empty, name)
		case len(notes) < most:
			notes = append(notes, fmt.Sprintf("left out a file that cannot be read: %v", why))
		default:
			more = append(more, name)
		}
	}
	if n := len(more); n > 0 {
		notes = append(notes, fmt.Sprintf("left out %s more that cannot be read: %s", rows.Count(n, "file"), firstOf(more)))
	}
	if n := len(empty); n > 0 {
		notes = append(notes, fmt.Sprintf("left out %s without rows: %s", rows.Count(n, "file"), firstOf(empty)))
	}
	return notes
}

// auditRun is what run.json holds.
type auditRun struct {
	audit.Identity
	Shards []auditSource `json:"shards"`
}

func (d *auditFolder) scores() string { return filepath.Join(d.dir, audit.Scores) }
func (d *auditFolder) parts() string  { return filepath.Join(d.dir, "parts") }
func (d *auditFolder) note() string   { return filepath.Join(d.dir, "run.json") }

// lockFolder keeps others from writing to a folder until unlock is called.
func lockFolder(dir string) (unlock func(), err error) {
	unlock, err = atomicfile.Lock(dir)
	if errors.Is(err, atomicfile.ErrLocked) {
		err = fmt.Errorf("%s: another audit or merge is writing to it; wait for it, or write to another folder", dir)
	}
	return unlock, err
}

// notFolder says what is wrong where a folder cannot be made.
func notFolder(dir string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write to %s: it, or what it lies in, is no folder", dir)
	}
	return err
}

// stray refuses a folder with results that no audit goes on from: they are another's.
func (d *auditFolder) stray() error {
	for _, name := range []string{audit.Scores, "audit.json", "report.html"} {
		path := filepath.Join(d.dir, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s would be replaced, and no audit that goes on here wrote it; write to another folder", path)
		}
	}
	return nil
}

// noted is what run.json says.
func (d *auditFolder) noted() (run auditRun, err error) {
	content, err := os.ReadFile(d.note())
	if err != nil {
		return run, err
	}
	if err := json.Unmarshal(content, &run); err != nil || run.Bundle == "" || run.Shards == nil {
		return run, fmt.Errorf("%s: it is not what an audit wrote", d.note())
	}
	return run, nil
}

// begin notes what is audited.
func (d *auditFolder) begin(ctx context.Context, run auditRun) error {
	return atomicfile.WriteFile(ctx, d.note(), func(w io.Writer) error { return writeJSON(w, run) })
}

// openAuditFolder takes up what is in the folder of this audit.
func openAuditFolder(ctx context.Context, dir string, id audit.Identity, shards []auditSource, stderr io.Writer) (*auditFolder, error) {
	d := &auditFolder{dir: dir, id: id, shards: shards, stderr: stderr}
	run := auditRun{id, shards}
	before, err := d.noted()
	begun := !errors.Is(err, fs.ErrNotExist)
	if begun && err != nil {
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	done, err := audit.OpenFile(d.scores())
	switch {
	case err == nil:
		if more, err := d.again(ctx, done, before, begun, run); err != nil || !more {
			return d, err
		}
	case begun && audit.Damaged(err):
		return nil, d.mend(err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	if begun {
		err = d.take(ctx, before, run)
	} else if err = d.stray(); err == nil {
		err = d.clear() // of parts it is not known what they are of
	}
	if err == nil {
		err = d.begin(ctx, run)
	}
	if err != nil {
		return nil, err
	}
	return d, notFolder(d.parts(), os.MkdirAll(d.parts(), 0o777))
}

// again takes up an audit that is finished. Where more is audited now its scores become
// a part of those.
func (d *auditFolder) again(ctx context.Context, done *audit.File, before auditRun, begun bool, run auditRun) (more bool, err error) {
	done.Identity = done.Asked(d.id)
	if err := d.same(done.Identity); err != nil {
		return false, err
	}
	if !begun {
		return false, fmt.Errorf("%s is not there any more, which said what was audited; write to another folder", d.note())
	}
	is := map[string]auditSource{}
	for _, s := range run.Shards {
		is[s.Name] = s
	}
	var still []auditSource
	gone := false
	names := done.Shards()
	scored := func(s auditSource) bool {
		_, has := slices.BinarySearch(names, s.Name)
		return has
	}
	for _, s := range before.Shards {
		now, here := is[s.Name]
		if here {
			still = append(still, now)
			delete(is, s.Name)
		}
		gone = gone || !here && scored(s)
	}
	if gone {
		return false, fmt.Errorf("%s holds another audit: it is of %s, and here are %s; write to another folder", d.dir, firstOf(sourceNames(before.Shards)), firstOf(sourceNames(run.Shards)))
	}
	if changed, how := changes(before.Shards, still); changed != nil {
		return false, fmt.Errorf("%s holds the audit of %s before it changed (%s); to audit it anew, write to another folder, or remove %s", d.dir, firstOf(changed), how, d.scores())
	}
	if !slices.ContainsFunc(run.Shards, func(s auditSource) bool { return !scored(s) }) {
		d.add(done)
		return false, d.begin(ctx, run)
	}
	if err := cmp.Or(d.clear(), os.MkdirAll(d.parts(), 0o777)); err != nil {
		return false, notFolder(d.parts(), err)
	}
	return true, os.Rename(d.scores(), filepath.Join(d.parts(), partName(0, 0)))
}

// finished says that the results of the audit are there.
func (d *auditFolder) finished() bool { return len(d.files) == 1 && d.files[0].Path() == d.scores() }

// mend says what to do about scores.parquet that is damaged.
func (d *auditFolder) mend(err error) error {
	return fmt.Errorf("%w; remove it, and the same command scores all again", err)
}

// take takes up the parts of an audit that is noted, but for those that are damaged, or
// of what changed since or is not audited any more.
func (d *auditFolder) take(ctx context.Context, before, run auditRun) error {
	written, err := d.written()
	if err != nil {
		return err
	}
	var parts []*audit.File
	have := map[string][]audit.Range{}
	for _, name := range written {
		path := filepath.Join(d.parts(), name)
		if filepath.Ext(path) != ".parquet" {
			os.Remove(path) // of a part that was not completed
			continue
		}
		part, err := audit.OpenFile(path)
		if err == nil {
			err = part.Check(ctx)
		}
		if audit.Damaged(err) {
			printf(d.stderr, "note: %v; its rows are scored again\n", err)
			err = os.Remove(path)
		} else if err == nil {
			parts = append(parts, part)
			for _, r := range part.Ranges {
				have[r.Shard] = append(have[r.Shard], r)
			}
		}
		if err != nil {
			return err
		}
	}
	if parts == nil {
		return nil
	}
	if err := d.same(before.Asked(d.id)); err != nil {
		return err
	}
	number := map[string]int{}
	var begun []auditSource
	for i, s := range run.Shards {
		if number[s.Name] = i; have[s.Name] != nil {
			begun = append(begun, s)
		}
	}
	stale := map[string]bool{} // shards
	changed, how := changes(before.Shards, begun)
	for _, name := range changed {
		stale[name] = true
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		_, named := number[name]
		if !named {
			gone = append(gone, name)
		}
		// What is bad is left out now, so that others are the rows from there on.
		fewer := d.id.Reading.SkipBad && !before.Reading.SkipBad && len(audit.Gaps(name, have[name][0].Of, have[name])) > 0
		stale[name] = stale[name] || !named || fewer
	}
	if changed != nil {
		printf(d.stderr, "note: %s changed (%s); what was scored of it is scored again\n", firstOf(changed), how)
	}
	if gone != nil {
		printf(d.stderr, "note: %s is not named any more; what was scored of it is left out\n", firstOf(gone))
	}
	beside := map[string]bool{}
	good := parts[:0]
	for _, part := range parts {
		part.Identity = part.Asked(d.id)
		if why := part.Differs(d.id); why != "" {
			return fmt.Errorf("%s: %s; write to another folder", part.Path(), why)
		}
		if !slices.ContainsFunc(part.Shards(), func(name string) bool { return stale[name] }) {
			good = append(good, part)
			continue
		}
		for _, name := range part.Shards() {
			if !stale[name] {
				beside[name] = true
			}
		}
		if err := os.Remove(part.Path()); err != nil {
			return err
		}
	}
	if n := len(beside); n > 0 {
		printf(d.stderr, "note: what was scored of %s in the same part is scored again\n", rows.Count(n, "other file"))
	}
	return d.renumber(good, number)
}

// renumber adds parts, called as these shards are numbered. Shards are in the order of
// their names, so that some part can always be renamed to what no other is called.
func (d *auditFolder) renumber(parts []*audit.File, number map[string]int) error {
	for len(parts) > 0 {
		var left []*audit.File
		for _, part := range parts {
			to := filepath.Join(d.parts(), partName(number[part.Ranges[0].Shard], part.Ranges[0].Start))
			if to != part.Path() {
				if _, err := os.Lstat(to); err == nil {
					left = append(left, part)
					continue
				}
				if err := os.Rename(part.Path(), to); err != nil {
					return err
				}
				part = part.At(to)
			}
			d.add(part)
		}
		if len(left) == len(parts) { // no audit wrote them
			return fmt.Errorf("%s: its rows are in another part too; write to another folder", left[0].Path())
		}
		parts = left
	}
	return nil
}

// written are the files in the folder of parts that audits wrote; others are left alone.
func (d *auditFolder) written() (names []string, err error) {
	entries, err := os.ReadDir(d.parts())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if OfParts(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, notFolder(d.parts(), err)
}

// clear removes parts, and what a kill left of results that were not completed.
func (d *auditFolder) clear() error {
	names, err := d.written()
	for _, name := range names {
		err = cmp.Or(err, os.Remove(filepath.Join(d.parts(), name)))
	}
	os.Remove(d.parts()) // unless it holds what is another's
	entries, unread := os.ReadDir(d.dir)
	for _, e := range entries {
		if left, _ := filepath.Match(".attach-*.tmp", e.Name()); left {
			err = cmp.Or(err, os.Remove(filepath.Join(d.dir, e.Name())))
		}
	}
	return cmp.Or(err, unread)
}

// abandon leaves nothing behind where nothing was scored.
func (d *auditFolder) abandon() error {
	err := cmp.Or(d.clear(), os.Remove(d.note()))
	if d.made {
		os.Remove(d.dir)
	}
	return err
}

// same refuses to go on with another audit.
func (d *auditFolder) same(before audit.Identity) error {
	why := before.Differs(d.id)
	if why == "" {
		return nil
	}
	why = strings.Replace(strings.Replace(why, "in one", "there", 1), "in the other", "here", 1)
	return fmt.Errorf("%s holds another audit: %s; write to another folder", d.dir, why)
}

// firstOf are the first of a list.
func firstOf(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// complete says that all rows of a shard were scored.
func (d *auditFolder) complete(name string) bool {
	have := d.have[name]
	return have != nil && len(audit.Gaps(name, have[0].Of, have)) == 0
}

// unchanged refuses a shard that has more or fewer rows than when it was begun.
func unchanged(name string, n int, have []audit.Range) error {
	for _, r := range have {
		if r.Shard == name && r.Rows != n {
			return fmt.Errorf("%s: it has %d rows and had %d when its audit began; write to another folder", name, n, r.Rows)
		}
	}
	return nil
}

// OfParts says that a file in the folder of parts is one that an audit wrote.
func OfParts(name string) bool {
	for _, pattern := range []string{"[0-9][0-9][0-9][0-9][0-9][0-9]*-[0-9]*.parquet", "[0-9][0-9][0-9][0-9][0-9][0-9]*-failed.txt", "[0-9][0-9][0-9][0-9][0-9][0-9]*-broken.txt", "[0-9][0-9][0-9][0-9][0-9][0-9]*-empty.txt", ".attach-*.tmp", "runs.txt", "run.json"} {
		if ok, _ := filepath.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// partName is the name of a part of a shard.
func partName(shard, start int) string { return fmt.Sprintf("%06d-%012d.parquet", shard, start) }

// save writes a part.
func (d *auditFolder) save(ctx context.Context, shard int, p *audit.Part) error {
	path := filepath.Join(d.parts(), partName(shard, p.First().Start))
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

// finish writes the results, and removes what went into them.
func (d *auditFolder) finish(ctx context.Context, look func(ctx context.Context, shard string, rows []int) []audit.Shown) (*audit.Audit, error) {
	a, err := audit.Finish(ctx, d.files, d.dir, look, func(w io.Writer, a *audit.Audit) error { return report.Write(w, report.Audit(a)) })
	if err != nil {
		return nil, err
	}
	return a, d.clear()
}
