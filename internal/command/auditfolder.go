package command

import (
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
}

// auditRun is what run.json holds.
type auditRun struct {
	audit.Identity
	Shards []string `json:"shards"`
}

func (d *auditFolder) scores() string { return filepath.Join(d.dir, audit.Scores) }
func (d *auditFolder) parts() string  { return filepath.Join(d.dir, "parts") }
func (d *auditFolder) note() string   { return filepath.Join(d.dir, "run.json") }

// openAuditFolder takes up what is in the folder of this audit.
func openAuditFolder(ctx context.Context, dir string, id audit.Identity, shards []shard) (*auditFolder, error) {
	d := &auditFolder{dir: dir, id: id}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
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
		d.files = []*audit.File{done}
		return d, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	content, err := os.ReadFile(d.note())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = atomicfile.WriteFile(ctx, d.note(), func(w io.Writer) error { return writeJSON(w, run) })
	case err == nil:
		var before auditRun
		if err := json.Unmarshal(content, &before); err != nil {
			return nil, fmt.Errorf("%s: it is not what an audit wrote: %w; write to another folder", d.note(), err)
		}
		before.FDR, before.Delta, before.Conditional = id.FDR, id.Delta, id.Conditional
		err = d.same(before, run)
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.parts(), 0o777); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.parts())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(d.parts(), e.Name())
		if filepath.Ext(path) != ".parquet" {
			os.Remove(path) // of a part that was not completed
			continue
		}
		part, err := audit.OpenFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w; remove it to have its rows scored again", err)
		}
		part.Asked(id)
		if why := part.Differs(id); why != "" {
			return nil, fmt.Errorf("%s: %s; write to another folder", path, why)
		}
		d.files = append(d.files, part)
	}
	return d, nil
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

// ranges are the rows that were scored.
func (d *auditFolder) ranges() (all []audit.Range) {
	for _, f := range d.files {
		all = append(all, f.Ranges...)
	}
	return all
}

// complete says that all rows of a shard were scored.
func (d *auditFolder) complete(name string) bool {
	have := d.ranges()
	for _, r := range have {
		if r.Shard == name {
			return len(audit.Gaps(name, r.Of, have)) == 0
		}
	}
	return false
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
	d.files = append(d.files, f)
	return nil
}

// finish writes the results, and removes what went into them.
func (d *auditFolder) finish(ctx context.Context, look func(ctx context.Context, shard string, rows []int) []audit.Shown) (*audit.Audit, error) {
	a, err := audit.Finish(ctx, d.files, d.dir, look, func(w io.Writer, a *audit.Audit) error { return report.Write(w, report.Audit(a)) })
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(d.parts()); err != nil {
		return nil, err
	}
	if err := os.Remove(d.note()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return a, d.sweep()
}

// sweep removes what a kill left of results that were not completed.
func (d *auditFolder) sweep() error {
	left, err := filepath.Glob(filepath.Join(d.dir, ".attach-*.tmp"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
