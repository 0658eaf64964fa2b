package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/attach-uncertainty/attach/audit/result"
	scores "github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
)

// Finished holds the finished audits in several folders, as one audit. The folders stay as they
// are.
type Finished struct {
	finished *engine.Finished
	results  *scores.Audit // nil until they are computed
}

// Open opens the folders of finished audits, which must have audited different files with the
// same .attach file. If change is not nil, it may set other error rates: FDR, Delta,
// Conditional, Alpha and LabelNoise. Other settings decide the scores, so changes to them have no
// effect.
//
// Choose error rates before you look at results. If you try several and keep the one that you
// like, the false discovery rate does not hold. The bounds do.
func Open(dirs []string, change func(*result.Settings), note func(text string)) (*Finished, error) {
	if len(dirs) == 0 {
		return nil, errors.New("audit: Open needs the folder of a finished audit")
	}
	var wrong error
	finished, err := engine.OpenFinished(dirs, func(id *scores.Identity) {
		if change == nil {
			return
		}
		changed := *id
		change((*result.Settings)(&changed))
		if err := checkChanged(result.Settings(changed)); err != nil {
			wrong = err
			return
		}
		*id = id.WithResultOptions(changed)
	}, noteTo(note))
	if err = cmp.Or(wrong, err); err != nil {
		return nil, err
	}
	return &Finished{finished: finished}, nil
}

// checkChanged returns an error if the settings of a finished audit cannot be answered.
func checkChanged(s result.Settings) error {
	if s.LabelNoise > 0 && s.LabelErrorsBy == "" {
		return errors.New("audit: Settings.LabelNoise has no effect, because labels were not checked")
	}
	return checkRates("Settings", false, s)
}

// Results returns the results, as of one audit of all files.
func (f *Finished) Results(ctx context.Context) (*result.Audit, error) {
	if err := f.compute(ctx); err != nil {
		return nil, err
	}
	return &f.results.Audit, nil
}

func (f *Finished) compute(ctx context.Context) (err error) {
	if f.results == nil {
		f.results, err = f.finished.Results(ctx)
	}
	return err
}

// Write writes the results to a folder, as one audit of all files, with the same bytes.
func (f *Finished) Write(ctx context.Context, dir string) (*result.Audit, error) {
	a, err := f.finished.Write(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &a.Audit, nil
}

// Columns returns the names of the values that Rows yields for each input: the columns of
// scores.parquet without the sketch, and the reasons of the highest scores.
func (f *Finished) Columns() []string {
	names, _ := f.finished.Scores.ListedColumns()
	return names
}

// Rows yields the selected inputs, each with a string, int, float64 or bool for each of Columns.
// Memory does not grow with the number of inputs, unless Selection.Top is large.
func (f *Finished) Rows(ctx context.Context, s result.Selection) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		err := f.list(ctx, s, func(row []any) error {
			if !yield(row, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

func (f *Finished) list(ctx context.Context, s result.Selection, use func(row []any) error) error {
	if s.Top < 0 {
		return fmt.Errorf("audit: Selection.Top is %d; it must not be negative", s.Top)
	}
	if err := f.compute(ctx); err != nil {
		return err
	}
	return f.finished.Scores.List(ctx, f.results, s, use)
}

// errStop ends List when the caller of Rows stops.
var errStop = errors.New("stop")
