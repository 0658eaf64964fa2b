package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/display"
)

// merging is a call of attach merge.
type merging struct {
	table
	audits inputList
	dir    string
	failIf []string
	gates  []gate
}

func mergeCommand() *cli.Command {
	f := &merging{}
	f.table = table{
		{name: "o", to: &f.dir, needed: true, usage: "DIR: folder to write scores.parquet, audit.json and report.html to"},
		{name: "fail-if", to: &f.failIf, usage: "GATE: exit with status 3 if that is so, as of `attach audit`; repeat for more"},
	}
	choose := func(*cli.Context) (err error) {
		f.gates, err = parseAuditGates(f.failIf)
		return err
	}
	return f.command(cli.Command{
		Name:        "merge",
		Usage:       "make one audit of several",
		UsageText:   "attach merge DIR… -o DIR",
		Description: "Makes of audits of different files with the same M.attach and the same options the audit of all of them, to the byte what `attach audit` of all at once would have written.",
	}, argument{name: "DIR…", list: (*[]string)(&f.audits)}, choose, f.run)
}

func (f *merging) run(c *cli.Context) error {
	d := &auditFolder{dir: f.dir}
	var run auditRun
	var skip audit.Identity
	var sources [][]auditSource // of each
	for _, dir := range f.audits {
		if sameFile(dir, f.dir) {
			return usagef("-o %s is one of the audits to merge; write to another folder", f.dir)
		}
		if st, err := os.Stat(dir); err == nil && !st.IsDir() {
			return fmt.Errorf("%s: it is a file; name the folder that attach audit -o wrote", dir)
		}
		one := &auditFolder{dir: dir}
		file, err := audit.OpenFile(one.scores())
		_, begun := os.Stat(one.plan())
		unfinished := fmt.Errorf("%s: its audit is not finished; run it again, and it goes on where it was", dir)
		if errors.Is(err, fs.ErrNotExist) {
			if _, removed := os.Stat(one.note()); begun == nil || removed == nil {
				return unfinished
			}
			return fmt.Errorf("%s: there is no audit in it: no scores.parquet", dir)
		}
		if err != nil {
			return spoilt(err)
		}
		noted, there, err := noted(one.note())
		switch {
		case err != nil:
			return fmt.Errorf("%w; audit it again", err)
		case !noted.names(file) && begun == nil: // a kill came before run.json had its name
			return unfinished
		case !there:
			return fmt.Errorf("%s is not there any more, which said what was audited; audit it again", one.note())
		case !noted.names(file):
			return fmt.Errorf("%s does not say what %s is of; audit it again", one.note(), one.scores())
		case begun == nil:
			printf(c.App.ErrWriter, "note: %s: an addition to its audit is not finished; the audit before it is merged\n", dir)
		}
		d.files = append(d.files, file)
		run.Shards = append(run.Shards, noted.Shards...)
		skip.Reading.SkipBad = skip.Reading.SkipBad || file.Reading.SkipBad
		sources = append(sources, noted.Shards)
	}
	// What was read without leaving anything out has nothing that is left out.
	for _, file := range d.files {
		skip.FDR, skip.Delta, skip.Conditional = file.FDR, file.Delta, file.Conditional
		file.Identity = file.Asked(skip)
	}
	run.Identity = d.files[0].Identity
	whole, err := audit.Join(d.files)
	if err != nil {
		return spoilt(err)
	}
	if one, other, found := sameRows(d.files, sources); found {
		return fmt.Errorf("these audits have rows of %s and of %s, which are one file or a copy of it; each input is to be audited once", one, other)
	}
	if names := whole.Namesakes(); names != nil {
		printf(c.App.ErrWriter, "note: these audits have different files that are called %s; if one is another after it changed, audit it once\n", display.List(names, 3))
	}
	slices.SortFunc(run.Shards, func(a, b auditSource) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Modified.Compare(b.Modified), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Members, b.Members))
	})
	_, before := os.Stat(f.dir)
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return notFolder(f.dir, err)
	}
	unlock, err := lockFolder(f.dir)
	if err != nil {
		return err
	}
	defer unlock()
	d.id, d.shards, d.made = run.Identity, run.Shards, before != nil
	if err := d.free(); err != nil {
		return err
	}
	if err := d.begin(c.Context); err != nil {
		return d.abandon(err)
	}
	a, err := d.finish(c.Context, nil)
	if err != nil {
		return d.abandon(spoilt(err))
	}
	printAudit(c.App.Writer, a, f.dir)
	return checkAuditGates(f.gates, a)
}

// spoilt says what to do about scores that are damaged.
func spoilt(err error) error {
	if audit.Damaged(err) {
		return fmt.Errorf("%w; remove it, and audit again what it was of", err)
	}
	return err
}

// sameRows finds a file or folder of one audit that is one of another by another name: both
// look the same from outside, and their rows are.
func sameRows(files []*audit.File, sources [][]auditSource) (one, other string, found bool) {
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
			of := key{s.Stamp, digest}
			if before, is := known[of]; is && before.audit != i {
				return min(before.name, s.Name), max(before.name, s.Name), true
			}
			known[of] = place{s.Name, i}
		}
	}
	return "", "", false
}

// free refuses a folder that holds an audit or what is another's, but not what this
// merge left when it was killed.
func (d *auditFolder) free() error {
	plan, begun, err := noted(d.plan())
	if err == nil && begun && reflect.DeepEqual(plan, d.run()) {
		return nil
	}
	before, there, unread := noted(d.note())
	if err = cmp.Or(err, unread); err != nil {
		return fmt.Errorf("%w; write to another folder", err)
	}
	_, parts := os.Stat(d.parts())
	_, scored := os.Stat(d.scores())
	_, shown := os.Stat(filepath.Join(d.dir, "report.html"))
	switch {
	case parts == nil, there && (scored == nil && shown == nil || !reflect.DeepEqual(before, d.run())):
		return fmt.Errorf("%s holds an audit; write to another folder", d.dir)
	case !there:
		return d.stray()
	}
	return nil
}
