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
// the folder parts, each whole, and run.json says what they are of; in the end there
// are the three results, of which scores.parquet holds all that others follow from.
type auditFolder struct {
	dir   string
	id    audit.Identity
	files []*audit.File
	have  map[string][]audit.Range // of files, by shard
	made  bool                     // the folder was not there
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
	Shards []string `json:"shards"`
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

// openAuditFolder takes up what is in the folder of this audit.
func openAuditFolder(ctx context.Context, dir string, id audit.Identity, shards []shard) (*auditFolder, error) {
	d := &auditFolder{dir: dir, id: id}
	run := auditRun{Identity: id}
	for _, s := range shards {
		run.Shards = append(run.Shards, s.name)
	}
	done, err := audit.OpenFile(d.scores())
	switch {
	case err == nil:
		done.Asked(id)
		if err := d.same(auditRun{done.Identity, done.Shards()}, run); err != nil {
			return nil, err
		}
		d.add(done)
		return d, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	content, err := os.ReadFile(d.note())
	if errors.Is(err, fs.ErrNotExist) {
		err = d.stray()
	} else if err == nil {
		err = d.take(content, run)
	}
	if err != nil {
		return nil, err
	}
	if len(d.files) == 0 { // nothing was scored that belongs to what is noted
		if err := atomicfile.WriteFile(ctx, d.note(), func(w io.Writer) error { return writeJSON(w, run) }); err != nil {
			return nil, err
		}
	}
	return d, notFolder(d.parts(), os.MkdirAll(d.parts(), 0o777))
}

// take takes up the parts of an audit that is noted.
func (d *auditFolder) take(note []byte, run auditRun) error {
	names, err := d.written()
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(d.parts(), name)
		if filepath.Ext(path) != ".parquet" {
			os.Remove(path) // of a part that was not completed
			continue
		}
		part, err := audit.OpenFile(path)
		if err != nil {
			return fmt.Errorf("%w; remove it to have its rows scored again", err)
		}
		d.add(part)
	}
	if d.files == nil {
		return nil
	}
	var before auditRun
	if err := json.Unmarshal(note, &before); err != nil {
		return fmt.Errorf("%s: it is not what an audit wrote: %w; write to another folder", d.note(), err)
	}
	before.FDR, before.Delta, before.Conditional = d.id.FDR, d.id.Delta, d.id.Conditional
	if err := d.same(before, run); err != nil {
		return err
	}
	for _, part := range d.files {
		part.Asked(d.id)
		why := part.Differs(d.id)
		for _, name := range part.Shards() {
			if why == "" && !slices.Contains(run.Shards, name) {
				why = "it is of " + name + ", which is not audited here"
			}
		}
		if why != "" {
			return fmt.Errorf("%s: %s; write to another folder", part.Path(), why)
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

// clear removes what there is beside results.
func (d *auditFolder) clear() error {
	names, err := d.written()
	for _, name := range names {
		err = cmp.Or(err, os.Remove(filepath.Join(d.parts(), name)))
	}
	os.Remove(d.parts()) // unless it holds what is another's
	if gone := os.Remove(d.note()); !errors.Is(gone, fs.ErrNotExist) {
		err = cmp.Or(err, gone)
	}
	return cmp.Or(err, d.sweep())
}

// abandon leaves nothing behind where nothing was scored.
func (d *auditFolder) abandon() error {
	err := d.clear()
	if d.made {
		os.Remove(d.dir)
	}
	return err
}

// same refuses to go on with another audit.
func (d *auditFolder) same(before, now auditRun) error {
	why := before.Differs(now.Identity)
	if why == "" && !slices.Equal(before.Shards, now.Shards) {
		why = "it is of " + firstOf(before.Shards) + ", and here are " + firstOf(now.Shards)
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
	path := filepath.Join(d.parts(), partName(shard, p.Range().Start))
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

// sweep removes what a kill left of results that were not completed.
func (d *auditFolder) sweep() error {
	left, err := filepath.Glob(filepath.Join(d.dir, ".attach-*.tmp"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
