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

// folder is the result folder of an audit. A finished audit has the four files that
// audit.Finish writes: audit.json and report.html follow from scores.parquet, and run.json
// lists what was audited.
//
// A running audit writes its parts to the subfolder parts, where run.json lists what they
// belong to. An earlier result stays until the new one is complete, and its scores.parquet is
// one of the files that are joined to the new one.
type folder struct {
	dir string
	run
	whole *audit.File // the earlier result, or nil
	files []*audit.File
	have  map[string][]audit.Range // ranges of files, by shard
	left  map[string]error         // reasons why shards are left out
	made  bool                     // the folder is new
	say   modelrows.Note
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

// without leaves out a shard.
func (d *folder) without(shard string, why error) {
	if d.left == nil {
		d.left = map[string]error{}
	}
	d.left[shard] = why
}

// leftOut returns notes on the shards that are left out, with reasons.
func (d *folder) leftOut() (notes []string) {
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

func (d *folder) scores() string { return filepath.Join(d.dir, audit.Scores) }
func (d *folder) parts() string  { return filepath.Join(d.dir, "parts") }
func (d *folder) note() string   { return filepath.Join(d.dir, "run.json") }
func (d *folder) plan() string   { return filepath.Join(d.parts(), "run.json") }

// hold creates a folder if necessary, and locks it until unlock is called.
func hold(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, notFolder(dir, err)
	}
	unlock, err = atomicfile.Lock(dir)
	if errors.Is(err, atomicfile.ErrLocked) {
		err = fmt.Errorf("%s: another audit or merge is writing to it; wait for it, or write to another folder", dir)
	}
	return unlock, err
}

// notFolder explains why a folder cannot be created.
func notFolder(dir string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write to %s: it, or its parent, is not a folder", dir)
	}
	return err
}

// stray returns an error if the folder has result files without a run.json: an audit did not
// write them, and would replace them.
func (d *folder) stray() error {
	for _, name := range []string{audit.Scores, "audit.json", "report.html"} {
		path := filepath.Join(d.dir, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s would be replaced, and no audit that goes on here wrote it; write to another folder", path)
		}
	}
	return nil
}

// noted reads a run.json. There reports whether it exists.
func noted(path string) (r run, there bool, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, true, err
	}
	if err := json.Unmarshal(content, &r); err != nil || r.Bundle == "" || r.Shards == nil {
		return r, true, fmt.Errorf("%s: it is not what an audit wrote", path)
	}
	return r, true, nil
}

// number is the index of a source by name. Sources are sorted by name.
func (r run) number(name string) (number int, named bool) {
	return slices.BinarySearchFunc(r.Shards, name, func(s source, name string) int { return cmp.Compare(s.Name, name) })
}

// names reports whether a run lists all shards of a file of scores.
func (r run) names(file *audit.File) bool {
	return !slices.ContainsFunc(file.Shards(), func(name string) bool {
		_, named := r.number(name)
		return !named
	})
}

// begin writes parts/run.json.
func (d *folder) begin(ctx context.Context) error {
	if err := os.MkdirAll(d.parts(), 0o777); err != nil {
		return notFolder(d.parts(), err)
	}
	return atomicfile.WriteFile(ctx, d.plan(), func(w io.Writer) error { return audit.WriteJSON(w, d.run) })
}

// openFolder opens the folder and takes over what is there of this audit.
func openFolder(ctx context.Context, dir string, of run, say modelrows.Note) (*folder, error) {
	d := &folder{dir: dir, run: of, say: say}
	before, finished, err := noted(d.note())
	if err != nil {
		return nil, fmt.Errorf("%w; write to another folder", err)
	}
	plan, begun, err := noted(d.plan())
	if err != nil {
		return nil, fmt.Errorf("%w; remove %s, or write to another folder", err, d.parts())
	}
	done, err := audit.OpenFile(d.scores())
	switch {
	case err == nil:
		if !finished || begun && !before.names(done) && plan.names(done) { // killed before run.json was renamed
			before, finished = plan, begun
		}
		if err := d.again(ctx, done, before, finished); err != nil {
			return nil, err
		}
	case (finished || begun) && audit.Damaged(err):
		return nil, d.mend(err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; write to another folder", err)
	case !finished && !begun:
		if err := d.stray(); err != nil {
			return nil, err
		}
	}
	if begun {
		err = d.take(ctx, plan)
	} else {
		err = d.clear() // without run.json, nobody knows what the parts are
	}
	if err == nil && d.lacks() {
		err = d.begin(ctx)
	}
	return d, err
}

// lacks reports whether there are shards to score.
func (d *folder) lacks() bool {
	return slices.ContainsFunc(d.Shards, func(s source) bool { return !d.complete(s.Name) })
}

// again takes over the result of a finished audit. Before is its run.json.
func (d *folder) again(ctx context.Context, done *audit.File, before run, finished bool) error {
	done.Identity = done.Asked(d.Identity)
	if err := d.same(done.Identity); err != nil {
		return err
	}
	if !finished {
		return fmt.Errorf("%s is not there any more, which said what was audited; write to another folder", d.note())
	}
	if !before.names(done) {
		return fmt.Errorf("%s does not say what %s is of; write to another folder", d.note(), d.scores())
	}
	var still []source
	gone := false
	names := done.Shards()
	for _, s := range before.Shards {
		if _, scored := slices.BinarySearch(names, s.Name); !scored {
			continue // left out
		}
		if i, here := d.number(s.Name); here {
			still = append(still, d.Shards[i])
		} else {
			gone = true
		}
	}
	if gone {
		return fmt.Errorf("%s holds another audit: it is of %s, and here are %s; write to another folder", d.dir, display.List(names, 3), display.List(sourceNames(d.Shards), 3))
	}
	if changed, how := before.changes(still); changed != nil {
		return fmt.Errorf("%s holds the audit of %s before it changed (%s); to audit it anew, write to another folder, or remove %s", d.dir, display.List(changed, 3), how, d.scores())
	}
	d.add(done)
	if d.whole = done; !d.lacks() {
		return nil
	}
	// A damaged file could not be joined with new parts.
	if err := done.Check(ctx); audit.Damaged(err) {
		return d.mend(err)
	} else if err != nil {
		return err
	}
	return nil
}

// finished reports whether the result is there and nothing was added.
func (d *folder) finished() bool { return d.whole != nil && !d.scored() }

// scored reports whether there are parts beside the earlier result.
func (d *folder) scored() bool {
	return slices.ContainsFunc(d.files, func(f *audit.File) bool { return f != d.whole })
}

// mend adds what to do about a damaged scores.parquet.
func (d *folder) mend(err error) error {
	return fmt.Errorf("%w; remove it, and the same command scores all again", err)
}

// take takes over the parts of an audit; before is their run.json. It removes parts that are
// damaged, that belong to changed or dropped shards, or that are in the result already.
func (d *folder) take(ctx context.Context, before run) error {
	written, err := d.written()
	if err != nil {
		return err
	}
	var parts []*audit.File
	have := map[string][]audit.Range{}
	for _, name := range written {
		path := filepath.Join(d.parts(), name)
		if path == d.plan() {
			continue
		}
		if filepath.Ext(path) != ".parquet" {
			os.Remove(path) // an incomplete part
			continue
		}
		part, err := audit.OpenFile(path)
		if err == nil {
			err = part.Check(ctx)
		}
		if audit.Damaged(err) {
			d.say("note: %v; its rows are scored again", err)
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
	begun := slices.DeleteFunc(slices.Clone(d.Shards), func(s source) bool { return have[s.Name] == nil })
	stale := map[string]bool{} // shards
	if d.whole != nil {
		for _, name := range d.whole.Shards() { // killed before they were removed
			stale[name] = true
		}
	}
	changed, how := before.changes(begun)
	for _, name := range changed {
		stale[name] = true
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		_, named := d.number(name)
		if !named && !stale[name] {
			gone = append(gone, name)
		}
		// Bad inputs are now left out, so later rows have other numbers.
		fewer := d.Identity.Reading.SkipBad && !before.Reading.SkipBad && len(audit.Gaps(name, have[name][0].Of, have[name])) > 0
		stale[name] = stale[name] || !named || fewer
	}
	if changed != nil {
		d.say("note: %s changed (%s); what was scored of it is scored again", display.List(changed, 3), how)
	}
	if gone != nil {
		d.say("note: %s is not named any more; what was scored of it is left out", display.List(gone, 3))
	}
	beside := map[string]bool{}
	good := parts[:0]
	var old []*audit.File
	for _, part := range parts {
		if !slices.ContainsFunc(part.Shards(), func(name string) bool { return stale[name] }) {
			part.Identity = part.Asked(d.Identity)
			if why := part.Differs(d.Identity); why != "" {
				return fmt.Errorf("%s holds what an audit that is not finished scored: %s; pass the same options to go on, or remove %s", d.parts(), sided(why), d.parts())
			}
			good = append(good, part)
			continue
		}
		old = append(old, part)
		for _, name := range part.Shards() {
			if !stale[name] {
				beside[name] = true
			}
		}
	}
	for _, part := range old {
		if err := os.Remove(part.Path()); err != nil {
			return err
		}
	}
	if n := len(beside); n > 0 {
		d.say("note: what was scored of %s in the same part is scored again", rows.Count(n, "other file"))
	}
	return d.renumber(good)
}

// renumber adds parts, and renames their files by the present numbers of their shards. Shards
// are in the order of their names, so some part can always take a name that is free.
func (d *folder) renumber(parts []*audit.File) error {
	for len(parts) > 0 {
		var left []*audit.File
		for _, part := range parts {
			to := d.part(part.Ranges[0])
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

// written returns the files in the folder of parts that audits wrote.
func (d *folder) written() (names []string, err error) {
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

// clear removes parts, and incomplete results that a kill left.
func (d *folder) clear() error {
	names, err := d.written()
	for _, name := range names {
		err = cmp.Or(err, os.Remove(filepath.Join(d.parts(), name)))
	}
	os.Remove(d.parts()) // fails if it has other files
	entries, unread := os.ReadDir(d.dir)
	for _, e := range entries {
		if left, _ := filepath.Match(".attach-*.tmp", e.Name()); left {
			err = cmp.Or(err, os.Remove(filepath.Join(d.dir, e.Name())))
		}
	}
	return cmp.Or(err, unread)
}

// failed adds what is left after an error. If nothing was scored, it removes the folder.
func (d *folder) failed(err error) error {
	switch {
	case !d.scored():
		if d.whole != nil {
			err = fmt.Errorf("%w; the audit in %s is as it was", err, d.dir)
		}
		return d.abandon(err)
	case d.whole != nil:
		return fmt.Errorf("%w; until then %s holds the audit as it was", KeptError{err}, d.dir)
	}
	return KeptError{err}
}

// KeptError is an error of an audit that can be resumed.
type KeptError struct{ Err error }

func (e KeptError) Error() string {
	if errors.Is(e.Err, inputs.ErrEmpty) { // its text says what to do
		return e.Err.Error() + "; what was scored before is kept"
	}
	return e.Err.Error() + "; " + KeptSo
}

func (e KeptError) Unwrap() error { return e.Err }

// KeptSo is the advice of a KeptError.
const KeptSo = "what was scored before is kept, and the same command goes on from there"

// abandon removes what was begun after an error, which it returns.
func (d *folder) abandon(err error) error {
	if left := d.clear(); left != nil {
		return fmt.Errorf("%w; %w", err, left)
	}
	if d.made {
		os.Remove(d.dir)
	}
	return err
}

// same returns an error if the folder holds another audit.
func (d *folder) same(before audit.Identity) error {
	why := before.Differs(d.Identity)
	if why == "" {
		return nil
	}
	mend := "write to another folder"
	if now := d.Identity; before.Reading.SkipBad && !now.Reading.SkipBad {
		now.Reading.SkipBad = true
		if differs := before.Differs(now); differs == "" {
			mend = "pass Options.SkipBad too, or " + mend
		} else {
			why = differs // no option mends it
		}
	}
	return fmt.Errorf("%s holds another audit: %s; %s", d.dir, sided(why), mend)
}

// sided tells which value of a difference is in the folder, and which is new.
func sided(why string) string {
	return strings.Replace(strings.Replace(why, "in one", "there", 1), "in the other", "here", 1)
}

// complete reports whether all rows of a shard were scored.
func (d *folder) complete(name string) bool {
	have := d.have[name]
	return have != nil && len(audit.Gaps(name, have[0].Of, have)) == 0
}

// unchanged returns an error if the number of rows of a shard has changed.
func unchanged(name string, n int, have []audit.Range) error {
	for _, r := range have {
		if r.Shard == name && r.Rows != n {
			return fmt.Errorf("%s: it has %d rows and had %d when its audit began; write to another folder", name, n, r.Rows)
		}
	}
	return nil
}

// OfParts reports whether an audit wrote a file in the folder of parts, by its name.
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

// part is the path of the part that begins with a range.
func (d *folder) part(first audit.Range) string {
	number, _ := d.number(first.Shard)
	return filepath.Join(d.parts(), partName(number, first.Start))
}

// save writes a part.
func (d *folder) save(ctx context.Context, p *audit.Part) error {
	path := d.part(p.First())
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

// finish writes the results, and removes the parts.
func (d *folder) finish(ctx context.Context, look func(ctx context.Context, shard string, rows []int) []audit.Shown) (*audit.Audit, error) {
	for i, s := range d.Shards {
		if why := d.left[s.Name]; why != nil {
			d.Shards[i].LeftOut = why.Error()
		}
	}
	page := func(w io.Writer, a *audit.Audit) error { return report.Write(w, report.Audit(a)) }
	a, err := audit.Finish(ctx, d.files, d.dir, look, page, d.run)
	if err != nil {
		return nil, err
	}
	return a, d.clear()
}
