package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// addHint adds advice to an error of a library, because a library does not know the flags.
// It replaces the names of options by those of flags, and adds the first hint that applies.
// If a hint is about one flag, it applies only if useful reports true for the flag; has reports
// whether the command has a flag. An error about the library's options becomes a usage error.
func addHint(err error, has, useful func(flag string) bool) error {
	if errors.As(err, &modelrows.UsageError{}) {
		return usagef("%s", flagNames.Replace(err.Error()))
	}
	if flagNames.Replace(err.Error()) != err.Error() {
		err = flagError{err}
	}
	width := (*batchparts.WidthError)(nil)
	tooFew := (*rows.TooFewRowsError)(nil)
	install := (*ort.InstallError)(nil)
	noLayer := (*featurize.NoLinearLayerError)(nil)
	layer := (*batchparts.LayerError)(nil)
	columns := (*inputs.ColumnsError)(nil)
	text := (*inputs.TextColumnsError)(nil)
	label := (*inputs.LabelError)(nil)
	doubtful := (*inputs.DoubtError)(nil)
	classNameErr := (*inputs.ClassNameError)(nil)
	tooMany := errors.As(err, &columns) && columns.Have > columns.Takes
	kind := filekind.Kind("")
	known, notAttach := errors.As(err, &kind), errors.Is(err, attach.ErrDamaged)
	if known && notAttach && kind == filekind.ONNX {
		model, _, _ := strings.Cut(err.Error(), ": not a .attach file")
		if i := strings.LastIndex(model, ": "); i >= 0 {
			model = model[i+2:] // the server names its model before the file
		}
		return fmt.Errorf("%s is an ONNX model, not a .attach file; fit one first: attach fit %[1]s --x INPUTS -o %s.attach", model, strings.TrimSuffix(model, ".onnx"))
	}
	for _, h := range []struct {
		helps      bool
		flag, hint string
	}{
		{errors.Is(err, inputs.ErrPreprocess), "preprocess", "pass --preprocess FILE, in the format of Hugging Face's preprocessor_config.json"},
		{tooMany && columns.Columns == nil, "target", "if one is the target, name it with --target"},
		{tooMany && columns.Columns == nil, "", "remove the others"},
		{tooMany && useful("target"), "", "name the target with --target, and other columns to leave out with --ignore"},
		{tooMany, "", "leave columns out with --ignore"},
		{errors.As(err, &classNameErr), "class-names", "if it is the name of a class, pass the names of all classes, in the order of the model's outputs, with --class-names"},
		{errors.Is(err, inputs.ErrNoFeatures), "task", "to run a model on its rows, give MODEL.onnx"},
		{errors.As(err, &label), "keep-classes", "if it was trained on some of the classes, name these with --keep-classes, in the order of its outputs"},
		{errors.As(err, &doubtful), "", "or leave the column out with --ignore, if it is not an input"},
		{errors.As(err, &text), "text", "name the column with --text"},
		{notAttach && kind.Rows() && has("x"), "", "give the .attach file first and rows with --x; `attach fit` makes a .attach file"},
		{notAttach && (kind.Rows() || kind == filekind.Empty || kind == filekind.JSON), "", "`attach fit` makes a .attach file from a model and rows"},
		{known && !notAttach && kind == filekind.Attach, "", "give the model that it was fitted with; `attach inspect` shows its path"},
		{known && !notAttach && kind.Rows(), "", "give the model first, and rows with a flag"},
		{errors.Is(err, engine.ErrNoAudit) && has("x"), "", "to audit its files, give the .attach file first and the folder with --x"},
		{errors.Is(err, attach.ErrNoModel), "model", "or pass its path with --model"},
		{errors.Is(err, attach.ErrWrongModel) && has("model"), "", "pass the right model with --model, or fit again"},
		{errors.Is(err, attach.ErrWrongModel), "", "put the right model there, or fit again"},
		{errors.Is(err, preprocess.ErrImage), "skip-bad", "pass --skip-bad to leave out images that cannot be read"},
		{errors.Is(err, inputs.ErrNoInput), "skip-bad", "pass --skip-bad to leave out samples without an input"},
		{isNeedError(err, ood.Needs{Logits: true}), "weights", "pass --weights to compute them from the features"},
		{isNeedError(err, ood.Needs{Weights: true}), "weights", "pass them with --weights"},
		{isNeedError(err, ood.Needs{Layers: true}), "", "do not pass --layers 0, or write the features again with `attach features`"},
		{errors.As(err, &tooFew), "", "give more rows"},
		{errors.As(err, &noLayer), "feature-tensor", "name a tensor with --feature-tensor"},
		{errors.Is(err, ood.ErrNotDifferentiable), "wrt", "name the input with --wrt"},
		{errors.Is(err, ood.ErrNotDifferentiable), "feature-tensor", "use another tensor as the features with --feature-tensor"},
		{errors.As(err, &layer), "", "pass --layers 0 to fit without earlier layers"},
		{errors.As(err, &install), "", "pass it with --ort-lib"},
		{errors.Is(err, ort.ErrNoGPULibrary) && !errors.Is(err, ort.ErrUnsupported), "", "run `attach runtime install --gpu`"},
		{errors.Is(err, ort.ErrNoGPULibrary), "", "pass --provider cpu"},
		{errors.Is(err, ort.ErrUnsupported), "ort-lib", "pass a library of your own with --ort-lib"},
		{errors.Is(err, ort.ErrNoCUDA) || errors.Is(err, ort.ErrNoDevice), "", "pass --provider cpu"},
		{errors.As(err, &width) && width.Part == "features" && has("from-features"), "", "`attach inspect` names the tensor of the fit, and `attach features --feature-tensor` writes it"},
		{errors.As(err, &width) && width.Part == "earlier layers", "", "write the same number with --layers"},
	} {
		if h.helps && (h.flag == "" || useful(h.flag)) {
			return fmt.Errorf("%w; %s", err, h.hint)
		}
	}
	return err
}

// always reports that a command has every flag, or that every flag is useful.
func always(string) bool { return true }

// flagNames replaces the names of a library's options with the names of flags.
var flagNames = strings.NewReplacer("FitOptions.TargetRows", "--target-rows", "FitOptions.TargetLogits", "--shift label", "FitOptions.IntervalFit", "--interval-rows", "FitOptions.IntervalScore", "--interval-score", "Options.Inputs", "--x", "Options.Dir", "-o", "Options.Fitted", "--fitted", "Options.FromFeatures", "--from-features", "Options.Model", "--model",
	"Options.Groups", "--groups", "Options.FolderLabels", "--folder-labels", "Options.KeepClasses", "--keep-classes", "Options.ClassNames", "--class-names", "Options.Preprocess", "--preprocess", "Options.SkipBad", "--skip-bad")

// flagError is an error of a library with the names of flags instead of options.
type flagError struct{ error }

func (e flagError) Error() string { return flagNames.Replace(e.error.Error()) }

func (e flagError) Unwrap() error { return e.error }

// isNeedError reports whether a method was refused because the rows or the model lack what
// need describes.
func isNeedError(err error, need ood.Needs) bool {
	var e *ood.NeedError
	return errors.As(err, &e) && e.Need == need
}
