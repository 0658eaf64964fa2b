// Package audit finds inputs that do not belong in a large data set, and wrong labels, with
// guarantees on the whole list. It is what the command attach audit runs.
//
// [Run] scores files and folders with a .attach file and writes a folder of results. [Open]
// answers anew from such folders, with other error rates, without the model and the inputs.
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/audit/result"
	"github.com/attach-uncertainty/attach/featurize"
	scores "github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// Options configures Run. Bundle, Inputs and Dir are required.
type Options struct {
	// Bundle is the path of the .attach file, and Model the path of its model if that has moved.
	Bundle string
	Model  string
	// Inputs names what to audit, and Fitted the rows of the fit. Each name is a file of rows, a
	// folder, a pattern such as day-*.parquet, or @FILE with a name per line. With Fitted, the
	// results name the fit rows that are nearly equal to an input, and those nearest to the
	// highest scores.
	Inputs, Fitted []string
	// Dir is the folder of the results, new or empty. Run continues an unfinished audit in it.
	Dir string

	// FDR is the false discovery rate: on average, at most this fraction of discoveries is
	// false. The default is 0.1. If Conditional is set, the rate holds for this calibration set
	// with probability 1-Delta, and not on average over calibration sets.
	FDR         float64
	Conditional bool
	// Delta is the largest probability that any of the bounds is wrong. The default is 0.05.
	Delta float64
	// Alpha is the false-alarm rate of the flags of single inputs, and Level the coverage of a
	// regressor's intervals. If they are 0, the values of the fit hold.
	Alpha, Level float64
	// LabelErrors finds wrong labels, or wrong targets of a regressor, unless it is empty. It names
	// the calibration rows that a label is compared with: all rows ("all"), the rows of its class
	// ("class"), or the rows of all classes with similar scores ("cluster"). LabelNoise is the
	// largest fraction of calibration rows whose own label may be wrong.
	LabelErrors string
	LabelNoise  float64

	// Every audits only every Every-th row of each file or folder, and Limit at most Limit rows.
	Every, Limit int
	// Explain attributes the highest scores to columns, regions of images or words. Images need
	// Fitted.
	Explain bool

	// FromFeatures reads features and logits, and does not run the model. Weights is the path of
	// the last layer, which computes logits if the file of features has none.
	FromFeatures bool
	Weights      string
	// Target, Text and Ignore are names of columns: the targets or labels, the texts, and columns
	// that are no inputs. Groups is the column or array that names each row's group.
	Target, Text, Ignore []string
	Groups               string
	// FolderLabels takes labels from the sub-folders of images. KeepClasses keeps only rows with
	// these labels; output i of the model is for the i-th of them.
	FolderLabels bool
	KeepClasses  []int
	// ClassNames is the path of a file of names of classes, or names separated by commas.
	// Preprocess is the path of a file that says how images are prepared.
	ClassNames, Preprocess string
	// SkipBad leaves out images and files that cannot be read, instead of stopping.
	SkipBad bool

	// Run says how the model runs, such as the provider and the number of threads.
	Run featurize.Options
	// Progress is called after each batch with the fraction of the work that is done. Note is
	// called with what a user should know. Both may be nil.
	Progress func(fraction float64)
	Note     func(text string)
}

// Run audits inputs and writes the results to Options.Dir: audit.json, scores.parquet,
// duplicates.parquet, report.html and run.json. After an interruption, the same call continues,
// and the result is the same to the byte.
//
// If an option is wrong or a file cannot be read, it returns an error. Scored rows are kept.
func Run(ctx context.Context, o Options) (*result.Audit, error) {
	if o.FDR == 0 {
		o.FDR = .1
	}
	if o.Delta == 0 {
		o.Delta = .05
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	e, err := engine.Open(ctx, o.engineOptions(), nil, o.checkBundle, noteTo(o.Note))
	if err != nil {
		return nil, err
	}
	defer e.Close()
	a, err := e.Run(ctx, nil, func(_ int, _ string, fraction float64) {
		if o.Progress != nil {
			o.Progress(fraction)
		}
	})
	if err != nil {
		return nil, err
	}
	return &a.Audit, nil
}

// noteTo returns a function that formats a note and passes it to say, which may be nil.
func noteTo(say func(text string)) modelrows.Note {
	return func(format string, args ...any) {
		if say != nil {
			say(fmt.Sprintf(format, args...))
		}
	}
}

// check returns an error if an option that needs no file is wrong.
func (o *Options) check() error {
	for _, required := range []struct {
		name    string
		missing bool
	}{{"Bundle", o.Bundle == ""}, {"Inputs", len(o.Inputs) == 0}, {"Dir", o.Dir == ""}} {
		if required.missing {
			return fmt.Errorf("audit: Options.%s is missing", required.name)
		}
	}
	if err := checkRates("Options", o.Alpha == 0, result.Settings{FDR: o.FDR, Delta: o.Delta, Alpha: o.Alpha, LabelNoise: o.LabelNoise}); err != nil {
		return err
	}
	if !(o.Level >= 0 && o.Level < 1) {
		return fmt.Errorf("audit: Options.Level is %g; it must be above 0 and below 1", o.Level)
	}
	if o.LabelErrors != "" && !slices.Contains(scores.LabelErrorChoices(), o.LabelErrors) {
		return fmt.Errorf("audit: Options.LabelErrors is %q; it must be one of %s", o.LabelErrors, strings.Join(scores.LabelErrorChoices(), ", "))
	}
	if o.LabelNoise > 0 && o.LabelErrors == "" {
		return errors.New("audit: Options.LabelNoise has no effect without Options.LabelErrors")
	}
	if o.Every < 0 || o.Limit < 0 {
		return fmt.Errorf("audit: Options.Every is %d and Options.Limit is %d; neither may be negative", o.Every, o.Limit)
	}
	return nil
}

// checkBundle returns an error if an option has no effect with this .attach file.
func (o *Options) checkBundle(b *attach.Bundle) error {
	features, why := o.FromFeatures, "with Options.FromFeatures"
	if b.Base.SHA256 == "" {
		features, why = true, fmt.Sprintf("because %s was fitted on features, without a model", o.Bundle)
	}
	for _, option := range []struct {
		name string
		idle bool
		why  string
	}{
		{"Level", o.Level != 0 && len(b.Calibration.Quantiles) == 0, fmt.Sprintf("because %s has no intervals", o.Bundle)},
		{"Weights", o.Weights != "" && !features, "because the model runs"},
		{"Model", o.Model != "" && features, why},
		{"Target", len(o.Target) > 0 && features, why},
		{"Text", len(o.Text) > 0 && features, why},
		{"Ignore", len(o.Ignore) > 0 && features, why},
		{"FolderLabels", o.FolderLabels && features, why},
		{"KeepClasses", len(o.KeepClasses) > 0 && features, why},
		{"Preprocess", o.Preprocess != "" && features, why},
	} {
		if option.idle {
			return fmt.Errorf("audit: Options.%s has no effect %s; leave it out", option.name, option.why)
		}
	}
	return nil
}

// checkRates returns an error if an error rate is not a fraction. LabelNoise may be 0, and so may
// Alpha if it has a default.
func checkRates(in string, defaultAlpha bool, s result.Settings) error {
	for _, rate := range []struct {
		name  string
		value float64
		zero  bool // whether 0 is allowed
	}{{"FDR", s.FDR, false}, {"Delta", s.Delta, false}, {"Alpha", s.Alpha, defaultAlpha}, {"LabelNoise", s.LabelNoise, true}} {
		if rate.zero && rate.value == 0 {
			continue
		}
		if !(rate.value > 0 && rate.value < 1) {
			return fmt.Errorf("audit: %s.%s is %g; it must be above 0 and below 1", in, rate.name, rate.value)
		}
	}
	return nil
}

// engineOptions returns the options of the engine.
func (o *Options) engineOptions() engine.Options {
	return engine.Options{
		Identity: scores.Identity{FDR: o.FDR, Conditional: o.Conditional, Delta: o.Delta, Alpha: o.Alpha, Level: o.Level, LabelErrorsBy: o.LabelErrors, LabelNoise: o.LabelNoise, Every: o.Every, Limit: o.Limit},
		Options: modelrows.Options{
			ReadOptions: modelrows.ReadOptions{
				Target: o.Target, Text: o.Text, Ignore: o.Ignore, Groups: o.Groups, FolderLabels: o.FolderLabels, SkipBad: o.SkipBad,
				KeepClasses: o.KeepClasses, Preprocess: o.Preprocess, ClassNames: o.ClassNames,
			},
			Bundle: o.Bundle, Model: o.Model, FromFeatures: o.FromFeatures, Weights: o.Weights,
		},
		Run: o.Run, Inputs: o.Inputs, Fitted: o.Fitted, Dir: o.Dir, Explain: o.Explain,
	}
}
