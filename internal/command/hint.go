package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// hinted says what to do about an error of a library, which knows no flags: the
// first that helps and whose flag, if it names one, useful says could still be
// given.
func hinted(err error, useful func(flag string) bool) error {
	if errors.As(err, &modelrows.UsageError{}) {
		return usagef("%s", inFlags.Replace(err.Error()))
	}
	if inFlags.Replace(err.Error()) != err.Error() {
		err = flagError{err}
	}
	width := (*batchparts.WidthError)(nil)
	few := (*rows.TooFewRowsError)(nil)
	install := (*ort.InstallError)(nil)
	noLayer := (*featurize.NoLinearLayerError)(nil)
	layer := (*batchparts.LayerError)(nil)
	columns := (*inputs.ColumnsError)(nil)
	text := (*inputs.TextColumnsError)(nil)
	doubt := (*inputs.DoubtError)(nil)
	named := (*inputs.ClassNameError)(nil)
	tooMany := errors.As(err, &columns) && columns.Have > columns.Takes
	kind := filekind.Kind("")
	known, notAttach := errors.As(err, &kind), errors.Is(err, attach.ErrDamaged)
	for _, h := range []struct {
		helps      bool
		flag, hint string
	}{
		{errors.Is(err, inputs.ErrPreprocess), "preprocess", "name the preprocessing file with --preprocess: it has the keys of Hugging Face's preprocessor_config.json"},
		{tooMany && columns.Columns == nil, "target", "if one is the target, name it with --target"},
		{tooMany && columns.Columns == nil, "", "give those alone"},
		{tooMany && useful("target"), "", "name the target with --target, and leave others out with --ignore"},
		{tooMany, "", "leave others out with --ignore"},
		{errors.As(err, &named), "class-names", "if it names a class, give the names of all classes, in the order of the model's outputs, with --class-names"},
		{errors.As(err, &doubt), "", "or leave the column out with --ignore, if it is no input"},
		{errors.As(err, &text), "text", "name it with --text"},
		{notAttach && kind == filekind.ONNX, "", "make one of it and rows with `attach fit` first"},
		{notAttach && kind.Rows(), "", "name a .attach file first, and rows with --x; `attach fit` makes one of a model and rows"},
		{notAttach && (kind == filekind.Empty || kind == filekind.JSON), "", "`attach fit` makes one of a model and rows"},
		{known && !notAttach && kind == filekind.Attach, "", "name the model that it was fitted with; `attach inspect` says which"},
		{known && !notAttach && kind.Rows(), "", "name a model, and rows with a flag"},
		{errors.Is(err, attach.ErrNoModel), "model", "say where it is with --model"},
		{errors.Is(err, attach.ErrWrongModel), "", "name the right one with --model or fit anew"},
		{errors.Is(err, preprocess.ErrImage), "skip-bad", "pass --skip-bad to go on without such images"},
		{errors.Is(err, inputs.ErrNoInput), "skip-bad", "pass --skip-bad to go on without such samples"},
		{lacks(err, ood.Needs{Logits: true}), "weights", "--weights makes them of features"},
		{lacks(err, ood.Needs{Weights: true}), "weights", "--weights names them"},
		{lacks(err, ood.Needs{Layers: true}), "", "read them from the network, not with --layers 0, or write the features anew with `attach features`"},
		{errors.As(err, &few), "", "give more rows"},
		{errors.As(err, &noLayer), "feature-tensor", "--feature-tensor takes its name"},
		{errors.Is(err, ood.ErrNotDifferentiable), "wrt", "--wrt names it"},
		{errors.Is(err, ood.ErrNotDifferentiable), "feature-tensor", "--feature-tensor names another tensor as the features"},
		{errors.As(err, &layer), "", "with --layers 0 no earlier layers are read or fitted on"},
		{errors.As(err, &install), "", "pass it with --ort-lib"},
		{errors.Is(err, ort.ErrNoGPULibrary) && !errors.Is(err, ort.ErrUnsupported), "", "run `attach runtime install --gpu`"},
		{errors.Is(err, ort.ErrNoGPULibrary), "", "use --provider cpu"},
		{errors.Is(err, ort.ErrUnsupported), "ort-lib", "name one of your own with --ort-lib"},
		{errors.Is(err, ort.ErrNoCUDA) || errors.Is(err, ort.ErrNoDevice), "", "use --provider cpu"},
		{errors.As(err, &width) && width.Part == "earlier layers", "", "write as many with --layers"},
	} {
		if h.helps && (h.flag == "" || useful(h.flag)) {
			return fmt.Errorf("%w; %s", err, h.hint)
		}
	}
	return err
}

// inFlags names flags in place of the options of a library.
var inFlags = strings.NewReplacer("Options.Inputs", "--x", "Options.Dir", "-o", "Options.Fitted", "--fitted", "Options.Features", "--from-features", "Options.Model", "--model",
	"Options.Groups", "--groups", "Options.Labels", "--folder-labels", "Options.Classes", "--keep-classes", "Options.ClassNames", "--class-names", "Options.Preprocess", "--preprocess", "Options.SkipBad", "--skip-bad")

// flagError is an error of a library in which inFlags did so.
type flagError struct{ error }

func (e flagError) Error() string { return inFlags.Replace(e.error.Error()) }

func (e flagError) Unwrap() error { return e.error }

// lacks says whether a method was refused for want of a need.
func lacks(err error, need ood.Needs) bool {
	var e *ood.NeedError
	return errors.As(err, &e) && e.Need == need
}
