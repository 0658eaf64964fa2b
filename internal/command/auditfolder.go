package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/report"
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
	for _, name := range []string{"audit.json", "report.html"} {
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
	if err := json.Unmarshal(content, &run); err != nil {
		return run, fmt.Errorf("%s: it is not what an audit wrote: %w; write to another folder", d.note(), err)
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
	before, noNote := d.noted()
	begun := !errors.Is(noNote, fs.ErrNotExist)
	done, err := audit.OpenFile(d.scores())
	switch {
	case err == nil:
		return d, d.again(ctx, done, before, noNote, run)
	case begun && audit.Damaged(err):
		return nil, d.mend(err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	if !begun {
		if err = d.stray(); err == nil {
			err = d.clear() // of parts it is not known what they are of
		}
	} else {
		err = d.take(ctx, before, noNote, run)
	}
	if err == nil {
		err = d.begin(ctx, run)
	}
	if err != nil {
		return nil, err
	}
	return d, notFolder(d.parts(), os.MkdirAll(d.parts(), 0o777))
}

// again takes up an audit that is finished.
func (d *auditFolder) again(ctx context.Context, done *audit.File, before auditRun, noNote error, run auditRun) error {
	done.Asked(d.id)
	if err := d.same(done.Identity, done.Shards(), run); err != nil {
		return err
	}
	if errors.Is(noNote, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there any more, which said what was audited; write to another folder", d.note())
	}
	if noNote != nil {
		return noNote
	}
	if changed, how := changes(before.Shards, run.Shards); changed != nil {
		return fmt.Errorf("%s holds the audit of %s before it changed (%s); to audit it anew, write to another folder, or remove %s", d.dir, firstOf(changed), how, d.scores())
	}
	d.add(done)
	return d.begin(ctx, run)
}

// finished says that the results of the audit are there.
func (d *auditFolder) finished() bool { return len(d.files) == 1 && d.files[0].Path() == d.scores() }

// mend says what to do about scores.parquet that is damaged.
func (d *auditFolder) mend(err error) error {
	return fmt.Errorf("%w; remove it, and the same command scores all again", err)
}

// take takes up the parts of an audit that is noted, but for those that are damaged or
// of what changed since.
func (d *auditFolder) take(ctx context.Context, before auditRun, noNote error, run auditRun) error {
	written, err := d.written()
	if err != nil {
		return err
	}
	var parts []*audit.File
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
		} else {
			parts = append(parts, part)
		}
		if err != nil {
			return err
		}
	}
	if parts == nil {
		return nil
	}
	if noNote != nil {
		return noNote
	}
	before.FDR, before.Delta, before.Conditional = d.id.FDR, d.id.Delta, d.id.Conditional
	if err := d.same(before.Identity, sourceNames(before.Shards), run); err != nil {
		return err
	}
	scored, is := map[string]bool{}, map[string]bool{} // is: audited here, and as it was
	for _, part := range parts {
		for _, name := range part.Shards() {
			scored[name] = true
		}
	}
	var begun []auditSource
	for _, s := range run.Shards {
		if is[s.Name] = true; scored[s.Name] {
			begun = append(begun, s)
		}
	}
	changed, how := changes(before.Shards, begun)
	if changed != nil {
		printf(d.stderr, "note: %s changed (%s); what was scored of it is scored again\n", firstOf(changed), how)
	}
	for _, name := range changed {
		is[name] = false
	}
	for _, part := range parts {
		part.Asked(d.id)
		why, stale := part.Differs(d.id), false
		for _, name := range part.Shards() {
			as, known := is[name]
			if stale = stale || !as; why == "" && !known {
				why = "it is of " + name + ", which is not audited here"
			}
		}
		switch {
		case why != "":
			return fmt.Errorf("%s: %s; write to another folder", part.Path(), why)
		case stale:
			if err := os.Remove(part.Path()); err != nil {
				return err
			}
		default:
			d.add(part)
		}
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
func (d *auditFolder) same(before audit.Identity, shards []string, now auditRun) error {
	why := before.Differs(now.Identity)
	if here := sourceNames(now.Shards); why == "" && !slices.Equal(shards, here) {
		why = "it is of " + firstOf(shards) + ", and here are " + firstOf(here)
	} else if why != "" {
		why = strings.Replace(strings.Replace(why, "in one", "there", 1), "in the other", "here", 1)
	}
	if why == "" {
		return nil
	}
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
	for _, pattern := range []string{"[0-9][0-9][0-9][0-9][0-9][0-9]*-[0-9]*.parquet", "[0-9][0-9][0-9][0-9][0-9][0-9]*-failed.txt", ".attach-*.tmp", "runs.txt"} {
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
	f, err := audit.OpenFile(path)
	if err != nil {
		return err
	}
	f.Asked(d.id)
	d.add(f)
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
