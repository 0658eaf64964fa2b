package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// auditing is a call of attach audit.
type auditing struct {
	attachedFlags
	m      *attached // once prepare opened it
	shards inputList
	fitted inputList
	dir    string
	id     audit.Identity
	failIf []string
	gates  []gate
	engine Engine            // nil: this process scores
	urls   map[string]string // of files that it brought here, by their paths

	opening sync.Mutex // of shards, by which options are completed
}

// inputList are inputs that are named one after another.
type inputList []string

func (l *inputList) add(value string) error {
	*l = append(*l, value)
	return nil
}

func (l *inputList) paths() []string { return *l }

// auditCommand is of an audit that engine scores, or this process where it is nil.
func auditCommand(engine Engine) *cli.Command {
	f := &auditing{engine: engine}
	return f.command(f.run)
}

// command is attach audit, in the end of which run is called.
func (f *auditing) command(run func(*cli.Context) error) *cli.Command {
	f.id = audit.Identity{FDR: .1, Delta: .05}
	features, model := f.attachedOptions()
	features = slices.DeleteFunc(features, func(o *option) bool { return o.name == "rows" })
	noIntervals := unfit("for heads without intervals", func(b *attach.Bundle) bool { return len(b.Calibration.Quantiles) == 0 })
	asFeatures := idle("with --features", func() bool { return f.asFeatures })
	skip := model.find("skip-bad")
	skip.usage, skip.never = "leave out images that cannot be read, and files that are broken or have no rows, and name them", nil
	f.table = join(table{
		{name: "x", to: &f.shards, needed: true, file: rowFile, usage: "INPUTS: what to audit: " + inputKinds + ", a folder of such files, a pattern such as 'day-*.parquet', or @FILE with a name a line; repeat for more"},
		{name: "o", to: &f.dir, needed: true, usage: "DIR: folder to write scores.parquet, audit.json and report.html to; what is there of the same audit is gone on from"},
		{name: "every", to: &f.id.Every, must: atLeast(1), usage: "N: of each file or folder audit every N-th row alone", never: []never{asFeatures}},
		{name: "limit", to: &f.id.Limit, must: atLeast(1), usage: "N: of each file or folder audit so many rows at most"},
	}, f.promiseOptions(), features, table{
		{name: "fitted", to: &f.fitted, file: rowFile, usage: "INPUTS: rows that were fitted on: scores.parquet then says of each input which of these has nearly the same features; repeat for more"},
		{name: "alpha", to: &f.id.Alpha, must: share, usage: "SHARE: flag in-domain inputs one by one with at most this share by mistake, instead of what fit was given"},
		{name: "level", to: &f.id.Level, must: share, usage: "PROBABILITY: how likely an interval is to cover the target, instead of what fit was given", never: []never{noIntervals}},
	}, f.groupsOption(", to count discoveries by"), model)
	return f.table.command(cli.Command{
		Name:      "audit",
		Usage:     "find what does not belong in a large set of inputs",
		UsageText: "attach audit M.attach --x INPUTS -o DIR [--fdr .1]",
		Description: "Scores all inputs and writes to DIR scores.parquet, a row each; audit.json, what of them does not belong and how surely; and report.html, with the strangest shown. " +
			"Memory does not grow with the number of inputs. After an interruption the same command goes on where it was; `attach merge` makes one audit of several.\n\n" +
			"Discoveries are the inputs called outliers: at most a share --fdr of them is false, on average. Bounds hold for every threshold, folder and predicted class at once. Exact copies are counted, and each figure holds whether they are one input or several. docs/audit.md says what each promises, what breaks it, and what each key of audit.json is.\n\n" +
			"Figures for --fail-if: " + listOf(auditFigures()) + ". A bound between 0 and 1 on a number of inputs is a share of all.",
	}, argument{name: "M.attach", to: &f.path}, f.choose, f.fetch, func(c *cli.Context) error { return f.named(run(c)) })
}

// promiseOptions are those that scores do not depend on.
func (f *auditing) promiseOptions() table {
	return table{
		{name: "fdr", to: &f.id.FDR, must: share, usage: "SHARE: false discovery rate: at most this share of discoveries is false, on average"},
		{name: "delta", to: &f.id.Delta, must: share, usage: "PROBABILITY: how likely any bound is to be wrong"},
		{name: "conditional", to: &f.id.Conditional, usage: "promise --fdr for these very calibration rows, but for --delta, and not on average over such: fewer discoveries"},
		{name: "fail-if", to: &f.failIf, usage: "GATE: exit with status 3 if that is so, such as discoveries>0 or outliers_lower_bound>.01; repeat for more"},
	}
}

// choose is a step that reads the gates.
func (f *auditing) choose(*cli.Context) (err error) {
	f.gates, err = parseAuditGates(f.failIf)
	return err
}

// prepare opens the bundle and makes its scorer, until stop is called.
func (f *auditing) prepare(c *cli.Context) (scorer *audit.Scorer, stop func(), err error) {
	ctx := c.Context
	if f.m, err = f.open(c); err != nil {
		return nil, nil, err
	}
	f.m.inputs.SkipOdd, f.m.inputs.TargetOptional, f.m.unlabelled = true, true, true
	free, err := f.products(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop = func() { f.m.closeModel(); free() }
	if f.m.bundle.Detector == nil || len(f.m.bundle.Calibration.OOD) == 0 {
		err = fmt.Errorf("%s: it has no detector, or none that was calibrated, and an audit is of its scores", f.path)
	} else {
		scorer, err = f.scorer(ctx)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return scorer, stop, nil
}

func (f *auditing) run(c *cli.Context) error {
	ctx := c.Context
	scorer, stop, err := f.prepare(c)
	if err != nil {
		return err
	}
	defer stop()
	sources, err := f.expand(ctx, "--x", f.shards)
	if err != nil {
		return err
	}
	if err := f.apart(sources); err != nil {
		return err
	}
	_, before := os.Stat(f.dir)
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return notFolder(f.dir, err)
	}
	unlock, err := lockFolder(f.dir)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := openAuditFolder(ctx, f.dir, scorer.Identity, sources, f.m.stderr)
	if err != nil {
		if before != nil {
			os.Remove(f.dir) // unless something was written to it
		}
		return err
	}
	d.made = before != nil
	p := newProgress(f.m.stderr, "audit")
	defer p.end()
	score := f.score
	if f.engine != nil {
		score = f.elsewhere
	}
	if err := score(ctx, scorer, d, p); err != nil {
		p.end()
		return d.failed(err)
	}
	p.end()
	if d.files == nil {
		err := d.left[slices.Min(slices.Collect(maps.Keys(d.left)))]
		if n := len(d.left); n > 1 {
			err = fmt.Errorf("%w; nor can %s be read", err, rows.Count(n-1, "other file"))
		}
		return d.failed(err)
	}
	for _, note := range d.leftOut() {
		printf(f.m.stderr, "note: %s\n", note)
	}
	var paths []string
	for _, s := range sources {
		if paths = append(paths, s.path); !d.complete(s.Name) && d.left[s.Name] == nil {
			return d.failed(fmt.Errorf("%s: not all of its rows were scored, and no reason is known", s.Name))
		}
	}
	now, err := f.sources(ctx, paths)
	if err != nil {
		return d.failed(err)
	}
	if changed, how := changes(sources, now); changed != nil {
		return fmt.Errorf("%s changed while it was audited (%s); the same command scores it again, and what else was scored is kept", display.List(changed, 3), how)
	}
	a, err := d.finish(ctx, f.look(sources))
	if audit.Damaged(err) && d.finished() {
		return d.mend(err)
	} else if err != nil {
		return d.failed(err)
	}
	printAudit(c.App.Writer, a, f.dir)
	return checkAuditGates(f.gates, a)
}

// keptError is of an audit that may be gone on with.
type keptError struct{ error }

func (e keptError) Error() string {
	if errors.Is(e.error, inputs.ErrEmpty) { // it says what to do
		return e.error.Error() + "; what was scored before is kept"
	}
	return e.error.Error() + "; " + keptSo
}

func (e keptError) Unwrap() error { return e.error }

const keptSo = "what was scored before is kept, and the same command goes on from there"

func kept(err error) error { return keptError{err} }

// unread says what to do about a shard that cannot be read. If it is to be left out bad
// says so, and err why.
func (f *auditing) unread(err error) (bad bool, why error) {
	var usage *usageError
	switch {
	case err == nil:
		return false, nil
	case f.inputs.SkipBad && inputs.Broken(err) && !errors.As(err, &usage):
		return true, err
	case errors.Is(err, inputs.ErrEmpty):
		err = fmt.Errorf("%w; leave it out, or pass --skip-bad to go on without such files", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; let this user read it, or leave it out", err)
	case inputs.Broken(err) && !errors.As(err, &usage) && !errors.Is(err, preprocess.ErrImage) && !errors.Is(err, inputs.ErrNoInput): // of these a hint says so
		err = fmt.Errorf("%w; pass --skip-bad to go on without such files", err)
	}
	return false, err
}

// scorer is that of the bundle with the options.
func (f *auditing) scorer(ctx context.Context) (*audit.Scorer, error) {
	id := f.id
	fitted, err := f.local(ctx, f.fitted)
	if err != nil {
		return nil, err
	}
	if id.Fitted, err = digest(ctx, fitted); err != nil {
		return nil, err
	}
	if id.Bundle, err = regularfile.SHA256(f.path); err != nil {
		return nil, err
	}
	if f.m.raw != nil {
		sum := sha256.Sum256(f.m.raw)
		id.Preprocess = hex.EncodeToString(sum[:])
	}
	in := f.m.inputs
	id.Reading = audit.Reading{Features: f.asFeatures, Groups: in.Groups, Target: in.Targets, Text: in.Text, Ignore: in.Ignore, Classes: f.classes, Labels: in.Labels, SkipBad: in.SkipBad}
	if f.rowFlags.names != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", in.Classes))
		id.Reading.ClassNames = hex.EncodeToString(sum[:])
	}
	if f.weights != "" {
		if id.Reading.Weights, err = regularfile.SHA256(f.weights); err != nil {
			return nil, err
		}
	}
	s, err := audit.NewScorer(f.m.bundle, id)
	if err != nil {
		return nil, err
	}
	s.Fitted = func(ctx context.Context) (features blas32.General, keys []string, err error) {
		return f.fittedRows(ctx, fitted)
	}
	return s, nil
}

// expand are the files and folders that an option names, sorted by their names. None has
// rows of another.
func (f *auditing) expand(ctx context.Context, option string, list inputList) (sources []auditSource, err error) {
	var paths []string
	for _, written := range list {
		some, err := f.shardsOf(ctx, written)
		if err != nil {
			return nil, err
		}
		paths = append(paths, some...)
	}
	if sources, err = f.sources(ctx, paths); err != nil {
		return nil, err
	}
	return sources, once(option, sources)
}

// apart refuses a folder for results within inputs.
func (f *auditing) apart(sources []auditSource) error {
	names := map[string]string{} // by where they lie
	for _, s := range sources {
		names[s.places[0]] = s.Name
	}
	for _, name := range f.shards {
		if !isURL(name) {
			names[resolved(name)] = name
		}
	}
	for at := range above(resolved(f.dir)) {
		if name, within := names[at]; within {
			return usagef("-o %s lies in %s, which --x names; write to another folder", f.dir, name)
		}
	}
	return nil
}

// score scores what the folder lacks.
func (f *auditing) score(ctx context.Context, s *audit.Scorer, d *auditFolder, p *progress) (err error) {
	numbers := map[string]int{}
	for i, s := range d.shards {
		numbers[s.Name] = i
	}
	var unsaved error
	scoring := s.Begin(func(part *audit.Part) error {
		// What is scored is saved after an interruption too.
		unsaved = d.save(context.WithoutCancel(ctx), numbers[part.First().Shard], part)
		return unsaved
	})
	done := 0
	for i, one := range d.shards {
		if d.complete(one.Name) {
			continue
		}
		bad, err := f.scoreShard(ctx, scoring, one.Name, one.path, d.have[one.Name], func(r audit.Rows, at, rows int) {
			done += rows
			p.share((float64(i)+min(1, float64(at)/float64(r.Len)))/float64(len(d.shards)), p.rate(done)+inShards(i, len(d.shards)))
		})
		if bad {
			d.without(one.Name, err)
			continue
		}
		if err != nil && unsaved == nil {
			unsaved = scoring.Flush()
		}
		if err != nil {
			return cmp.Or(unsaved, err)
		}
	}
	return scoring.Flush()
}

// scoreShard scores what is lacking of a shard. It tells progress up to which row it came,
// and with how many more. If the shard is to be left out bad says so, and err why.
func (f *auditing) scoreShard(ctx context.Context, scoring *audit.Scoring, name, path string, have []audit.Range, progress func(r audit.Rows, at, rows int)) (bad bool, err error) {
	r, bad, err := f.audited(ctx, name, path)
	if err != nil {
		return bad, err
	}
	if err := unchanged(name, r.N, have); err != nil {
		return false, err
	}
	for _, gap := range audit.Gaps(name, r.Len, have) {
		at := gap[0]
		counted := func(rows int) {
			at += rows
			progress(r, at, rows)
		}
		if err := scoring.Rows(ctx, name, r, gap[0], gap[1], counted); err != nil {
			return false, inputs.InFile(path, err)
		}
	}
	return false, nil
}

func inShards(i, n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", file %d of %d", i+1, n)
}

// audited opens those rows of a shard that are audited. If bad ones are left out it reads
// them all before any is scored: a shard that breaks in the middle is left out as a whole,
// so that what is audited does not depend on where it breaks, nor on what was scored when.
func (f *auditing) audited(ctx context.Context, name, path string) (r audit.Rows, bad bool, err error) {
	f.opening.Lock()
	if err := f.m.openNet(ctx); err != nil {
		f.opening.Unlock()
		return r, false, err
	}
	r, check, err := f.shardRows(ctx, name, path, f.id)
	f.opening.Unlock()
	if err == nil && f.inputs.SkipBad {
		err = inputs.InFile(path, check(ctx))
	}
	bad, err = f.unread(err)
	return r, bad, err
}

// shardRows opens those rows of a shard that are audited, and check reads them all.
func (f *auditing) shardRows(ctx context.Context, name, path string, id audit.Identity) (r audit.Rows, check func(context.Context) error, err error) {
	opened, err := f.m.openRows(ctx, path, "", inputs.Slice{})
	if err != nil {
		return r, nil, err
	}
	r.N = opened.n
	count, step := id.Selected(r.N)
	r.Len = count
	if opened.set == nil {
		r.Name = func(i int) (string, string, int) {
			key, folder := audit.Key(name, "", i)
			return key, folder, i
		}
		r.Batches = func(ctx context.Context, from int) iter.Seq2[audit.Batch, error] {
			return func(yield func(audit.Batch, error) bool) {
				rest := opened
				if from > 0 || count < opened.n {
					var err error
					if rest, err = f.m.precomputed(ctx, path, "", inputs.Slice{Start: from, End: count, Ends: true}); err != nil {
						yield(audit.Batch{}, err)
						return
					}
				}
				for batch, err := range rest.blocks(true) {
					if !yield(audit.Batch{Rows: batch}, err) {
						return
					}
				}
			}
		}
		check = func(ctx context.Context) error {
			for _, err := range r.Batches(ctx, 0) {
				if err != nil {
					return err
				}
			}
			return nil
		}
		return r, check, nil
	}
	set := opened.set
	if step > 1 {
		idx := make([]int, count)
		for i := range idx {
			idx[i] = i * step
		}
		set = set.Subset(idx)
	} else if set, err = set.Slice(inputs.Slice{End: count, Ends: true}); err != nil {
		return r, nil, err
	}
	isTable := inputs.IsTable(path)
	r.Name = func(i int) (string, string, int) {
		file := ""
		if !isTable {
			file = set.File(i)
		}
		key, folder := audit.Key(name, file, set.Row(i))
		return key, folder, set.Row(i)
	}
	r.Batches = func(ctx context.Context, from int) iter.Seq2[audit.Batch, error] {
		return func(yield func(audit.Batch, error) bool) {
			rest, err := set.Slice(inputs.Slice{Start: from})
			if err != nil {
				yield(audit.Batch{}, err)
				return
			}
			var seen passed
			blocks := seen.through(rest.Blocks(ctx, rest.BlockRows()))
			of := &attachedRows{n: rest.Len(), batches: f.m.net.Rows(ctx, blocks), known: knownOf(rest, f.m.classes, f.m.bundle.Base)}
			for batch, err := range of.blocks(true) {
				b := audit.Batch{Rows: batch}
				if err == nil {
					b.Contents = seen.take(batch.Len())
				}
				if !yield(b, err) {
					return
				}
			}
		}
	}
	return r, func(ctx context.Context) error { return set.Check(ctx, set.BlockRows()) }, nil
}

// passed is what rows hold that went to the network and did not come back yet.
type passed struct {
	mutex    sync.Mutex
	contents []audit.Content
}

// through looks at the rows of blocks that pass.
func (p *passed) through(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range blocks {
			if err == nil {
				contents := audit.Contents(b)
				p.mutex.Lock()
				p.contents = append(p.contents, contents...)
				p.mutex.Unlock()
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// take is what the next n rows hold.
func (p *passed) take(n int) []audit.Content {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	list := p.contents[:n:n]
	p.contents = p.contents[n:]
	return list
}

// snippet is how many letters of a text are shown.
const snippet = 240

// look opens shards again to show rows of them. What cannot be read any more is not
// shown: it was scored.
func (f *auditing) look(sources []auditSource) func(ctx context.Context, name string, rows []int) []audit.Shown {
	return func(ctx context.Context, name string, rows []int) []audit.Shown {
		i := slices.IndexFunc(sources, func(s auditSource) bool { return s.Name == name })
		stderr := f.m.stderr
		f.m.stderr = io.Discard // notes were said when the shard was scored
		defer func() { f.m.stderr = stderr }()
		opened, err := f.m.openRows(ctx, sources[i].path, "", inputs.Slice{})
		if err != nil || opened.set == nil {
			return nil
		}
		_, step := f.id.Selected(opened.n)
		at := make([]int, len(rows))
		for k, row := range rows {
			if at[k] = row * step; at[k] >= opened.n {
				return nil
			}
		}
		shown := make([]audit.Shown, len(rows))
		images, err := opened.set.Thumbnails(ctx, at)
		if err != nil {
			return nil
		}
		for k, m := range images {
			if shown[k].Picture, err = report.Encode(m); err != nil {
				return nil
			}
		}
		if images != nil {
			return shown
		}
		columns, err := opened.set.Cells(ctx, at)
		if err != nil {
			return nil
		}
		for _, c := range columns {
			for k := range min(len(c.Texts), len(shown)) {
				text := []rune(strings.TrimSpace(shown[k].Text + " " + c.Texts[k]))
				shown[k].Text = string(text[:min(len(text), snippet)])
			}
		}
		return shown
	}
}

// printAudit says in a few lines what was found.
func printAudit(w io.Writer, a *audit.Audit, dir string) {
	printf(w, "%s audited in %s, %s\n", rows.Count(a.Inputs, "input"), a.Of(), rows.Count(a.Calibration, "calibration row"))
	for _, says := range a.Cautions() {
		printf(w, "warning: %s\n", says)
	}
	if c := a.Copies; c != nil {
		printf(w, "copies        %s of these are exact copies of another, and %s differ: each figure is the more careful of two, with all counted and with copies counted once\n", display.Count(c.Repeated), display.Count(c.Distinct))
	}
	falsely := ""
	if a.Discoveries > 0 {
		falsely = fmt.Sprintf("; with probability %g at most %.3g %% of these are false", 1-a.Delta, 100*a.FDP)
	}
	printf(w, "outliers      %s at least, with probability %g\n", display.Count(a.Outliers), 1-a.Delta)
	printf(w, "discoveries   %s at a false discovery rate of %g%s\n", display.Count(a.Discoveries), a.FDR, falsely)
	shift := fmt.Sprintf("%.3g", a.Shift.Higher)
	if a.Shift.Higher == 0 {
		shift = "1e-300"
	}
	printf(w, "shift         p is at most %s %s\n", shift, a.Shifted())
	for _, of := range a.Intervals {
		name, covered := "", ""
		if len(a.Intervals) > 1 {
			name = " of " + of.Name
		}
		if of.Known > 0 {
			covered = fmt.Sprintf("; %.3g %% of %s are within their intervals, asked for %.3g %%", 100*float64(of.Covered)/float64(of.Known), rows.Count(of.Known, "target"), 100*a.Level)
		}
		printf(w, "intervals%s   %s stand out by their width%s\n", name, display.Count(of.Wide), covered)
	}
	if a.LikeFitted != nil {
		printf(w, "like fitted   %s with nearly the same features as a row of --fitted\n", display.Count(*a.LikeFitted))
	}
	for _, g := range a.Gaps {
		printf(w, "note: %v\n", g)
	}
	if a.Unnamed() {
		printf(w, "note: there are more outliers than discoveries: the rest cannot be told, one by one, from inputs like the calibration rows; the report has the highest scores first\n")
	} else if a.TooFew() {
		printf(w, "note: %s\n", a.FewRows())
	}
	printf(w, "%s\n", filepath.Join(dir, "report.html"))
}
