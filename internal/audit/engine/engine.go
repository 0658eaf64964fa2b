package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// Progress reports the progress of an audit. It gets the number of rows scored, a description
// of the place that was reached, which may be empty, and the fraction of the audit that is done.
// The number and the fraction are 0 if they are not known.
type Progress func(scored int, place string, fraction float64)

// Engine audits inputs with a .attach file.
type Engine struct {
	Options
	storage       Storage // nil if there are no URLs
	note          modelrows.Note
	rows          *modelrows.Attached
	opening       sync.Mutex // guards rows, because opening a file changes the options in rows
	scorer        *audit.Scorer
	unlabelled    bool     // whether a note named a file whose labels do not fit the model
	closeProducts func()   // closes the ONNX Runtime session for matrix products
	fitted        []source // files of Options.Fitted, fetched if they are URLs
	fittedCounts  []int    // number of fit rows of each of these files, after they were read
	// Explaining reports how many rows were explained, and how many there are. It may be nil.
	Explaining func(done, total int)
}

// Open opens the .attach file that o names. The model and the inputs are opened later. The
// caller must call Close. Argument storage is nil if there are no URLs. If checkBundle is
// not nil, Open calls it to check that the options suit the .attach file.
func Open(ctx context.Context, o Options, storage Storage, checkBundle func(*attach.Bundle) error, note modelrows.Note) (*Engine, error) {
	o, err := o.fetchFiles(ctx, storage)
	if err != nil {
		return nil, err
	}
	e := &Engine{Options: o, storage: storage, note: note}
	if e.rows, err = modelrows.Open(o.Options, o.Run, checkBundle, note); err != nil {
		return nil, o.showURLs(err)
	}
	e.rows.Inputs.SkipOdd, e.rows.Inputs.TargetOptional, e.rows.Unlabelled = true, true, true
	if e.closeProducts, err = ort.Products(ctx, ort.Options(o.Run.Runtime)); err != nil {
		return nil, err
	}
	if err := e.prepare(ctx); err != nil {
		e.Close()
		return nil, o.showURLs(err)
	}
	return e, nil
}

// Close closes the model and the session for matrix products.
func (e *Engine) Close() {
	e.rows.CloseModel()
	e.closeProducts()
}

// prepare creates the scorer.
func (e *Engine) prepare(ctx context.Context) error {
	b := e.rows.Bundle
	if b.Detector == nil || len(b.Calibration.OOD) == 0 {
		return fmt.Errorf("%s: it has no calibrated detector, and an audit needs its scores", e.Bundle)
	}
	if b.Calibration.Weights != nil {
		return fmt.Errorf("%s: its calibration rows have weights, and an audit needs p-values without weights; fit without FitOptions.TargetRows", e.Bundle)
	}
	var err error
	if e.fitted, err = e.fittedSources(ctx); err != nil {
		return err
	}
	id := e.Identity
	id.Reading = audit.Reading{FromFeatures: e.FromFeatures, Groups: e.Groups, Target: e.Target, Text: e.Text, Ignore: e.Ignore, KeepClasses: e.KeepClasses, FolderLabels: e.FolderLabels, SkipBad: e.SkipBad}
	if id.Fitted, err = shardsDigest(ctx, e.fitted); err != nil {
		return err
	}
	for _, file := range []struct {
		path string
		sum  *string
	}{{e.Bundle, &id.Bundle}, {e.Preprocess, &id.Preprocess}, {e.Weights, &id.Reading.Weights}} {
		if file.path == "" {
			continue
		}
		if *file.sum, err = regularfile.SHA256(file.path); err != nil {
			return err
		}
	}
	if e.ClassNames != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", b.Base.Classes))
		id.Reading.ClassNames = hex.EncodeToString(sum[:])
	}
	if e.scorer, err = audit.NewScorer(b, id); err != nil {
		return err
	}
	e.scorer.Fitted = func(ctx context.Context) (features blas32.General, keys []string, err error) {
		return e.fittedRows(ctx, e.fitted)
	}
	return nil
}

// Run scores the rows that are missing in the result folder, and writes the result. It
// scores them on the machines of remote, or on this machine if remote is nil.
func (e *Engine) Run(ctx context.Context, remote Remote, progress Progress) (*audit.Audit, error) {
	a, err := e.run(ctx, remote, progress)
	return a, e.showURLs(err)
}

func (e *Engine) run(ctx context.Context, remote Remote, progress Progress) (*audit.Audit, error) {
	sources, err := e.find(ctx, "Options.Inputs", e.Inputs)
	if err != nil {
		return nil, err
	}
	if err := e.checkDir(sources); err != nil {
		return nil, err
	}
	_, dirErr := os.Stat(e.Dir)
	unlock, err := lockFolder(e.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, err := openFolder(ctx, e.Dir, run{e.scorer.Identity, sources}, e.note, true)
	if err != nil {
		if dirErr != nil {
			os.Remove(e.Dir) // fails, as intended, if the folder is not empty
		}
		return nil, err
	}
	d.created = dirErr != nil
	look, err := e.look(ctx, sources) // before rows are scored, so that an error comes early
	if err != nil {
		return nil, d.fail(err)
	}
	if remote != nil {
		err = e.scoreRemotely(ctx, remote, d, progress)
	} else {
		err = e.score(ctx, d, progress)
	}
	if err != nil {
		return nil, d.fail(err)
	}
	if d.files == nil {
		err := d.excluded[slices.Min(slices.Collect(maps.Keys(d.excluded)))]
		if n := len(d.excluded); n > 1 {
			err = fmt.Errorf("%w; %s cannot be read either", err, rows.Count(n-1, "other file"))
		}
		return nil, d.fail(err)
	}
	for _, note := range d.exclusionNotes() {
		e.note("note: %s", note)
	}
	var paths []string
	for _, s := range sources {
		if paths = append(paths, s.path); !d.complete(s.Name) && d.excluded[s.Name] == nil {
			return nil, d.fail(fmt.Errorf("%s: some of its rows were not scored, for an unknown reason", s.Name))
		}
	}
	now, err := e.sources(ctx, paths)
	if err != nil {
		return nil, d.fail(err)
	}
	if changed, how := d.changed(now); changed != nil {
		return nil, fmt.Errorf("%s changed during the audit (%s); run the same command to score it again; other scores are kept", display.List(changed, 3), how)
	}
	var workers audit.Workers
	if remote != nil {
		if workers, err = remote.Merger(d.dir); err != nil {
			return nil, d.fail(err)
		}
	}
	a, err := d.finish(ctx, look, e.FileRows, workers)
	if audit.Damaged(err) && d.finished() {
		return nil, d.explainDamagedScores(err)
	} else if err != nil {
		return nil, d.fail(err)
	}
	return a, nil
}

// score scores the rows that are missing in the folder, on this machine.
func (e *Engine) score(ctx context.Context, d *folder, progress Progress) (err error) {
	var saveErr error
	scoring := e.scorer.Begin(func(part *audit.Part) error {
		// Save scored rows even after an interruption.
		saveErr = d.save(context.WithoutCancel(ctx), part)
		return saveErr
	})
	done := 0
	for i, s := range d.Shards {
		if d.complete(s.Name) {
			continue
		}
		r, bad, err := e.openAudited(ctx, s.Name, s.path, pieces(s.Size), d.have[s.Name])
		if bad {
			d.exclude(s.Name, err)
			continue
		}
		place := ""
		if n := len(d.Shards); n > 1 {
			place = fmt.Sprintf("file %d of %d", i+1, n)
		}
		if err == nil {
			err = r.scoreRows(ctx, scoring, s.Name, s.path, d.have[s.Name], 0, r.Len, func(at, rows int) {
				done += rows
				progress(done, place, (float64(i)+min(1, float64(at)/float64(r.Len)))/float64(len(d.Shards)))
			})
		}
		if err != nil && saveErr == nil {
			saveErr = scoring.Flush()
		}
		if err != nil {
			return cmp.Or(saveErr, err)
		}
	}
	return scoring.Flush()
}
