package command

import (
	"cmp"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// featuring is a call of attach features.
type featuring struct {
	table
	place
	reading
	path, x, y, out string
	rows            inputs.Slice
	task            attach.Task // of the model, once it is known
}

func featuresCommand() *cli.Command {
	f := &featuring{}
	f.Unhashed = true
	f.table = join(table{
		{name: "x", to: &f.x, needed: true, file: rowFile, usage: "INPUTS: rows to run the model on: " + inputKinds},
		{name: "y", to: &f.y, file: otherFile, usage: "FILE: their labels or targets, where --x does not hold them", never: []never{f.targeted()}},
		{name: "o", to: &f.out, needed: true, file: resultFile, must: ends(".npz"), usage: "FILE: .npz to write"},
	}, table{sliceOption("rows", "--x", &f.rows)}, f.rowOptions(&f.table, f.textless()),
		f.classNamesOption("; folders and targets of a table are numbered so", idle("for a regressor, which has no classes", f.regression)), f.modelOptions(), f.layersOption(), f.batchOption(batchStandard), f.runtimeOptions())
	f.table.of("folder-labels").unless(f.pickless(f.regression))
	return f.command(cli.Command{
		Name:      "features",
		Usage:     "write the features and logits of inputs, to go on from without the model",
		UsageText: "attach features MODEL.onnx --x INPUTS -o FEATURES.npz",
		Description: "The file holds `features` n×h, `logits` n×c, of earlier layers `layer_0` n×h0 and so on, `gaps` n×k of a model whose cells may be empty and, where they are known, `labels` n (of a regressor, " +
			"`targets` n×t). `attach fit` and `attach compare` take it without the model.",
	}, argument{name: "MODEL.onnx", to: &f.path}, f.begin, f.log, f.run)
}

func (f *featuring) regression() bool { return f.task == attach.Regression }

func (f *featuring) run(c *cli.Context) error {
	defer f.CloseModel()
	return atomicfile.WriteFile(c.Context, f.out, func(w io.Writer) error { return f.write(c.Context, w) })
}

func (f *featuring) write(ctx context.Context, w io.Writer) error {
	if err := f.OpenModel(ctx, f.path, f.Options); err != nil {
		return err
	}
	f.task = f.Model.Info().Task
	if err := cmp.Or(f.check(), f.CheckClasses(f.task), f.CheckClassNames(f.Inputs.Outputs)); err != nil {
		return err
	}
	set, err := f.OpenSet(ctx, f.x, f.y, f.rows, f.Classes)
	if err != nil {
		return err
	}
	if names := set.ClassNames; !f.regression() {
		if err := f.checkFolders(f.x, names); err != nil {
			return err
		}
		if f.Inputs.Classes == nil {
			noteFolders(f.stderr, len(names), f.Inputs.Outputs)
		}
	}
	b, err := f.features(ctx, f.x, set)
	if err != nil {
		return err
	}
	if f.regression() {
		b.Labels = nil
	}
	arrays := inputs.FeatureArrays(b)
	if y := set.Targets; b.Labels == nil && y.Rows > 0 {
		arrays["targets"] = rows.ArrayOf(y)
	}
	base := f.Model.Base(f.task)
	for name, so := range kindOf(&base) {
		if *so {
			arrays[name] = rows.Array{Shape: []int{1}, Data: []uint8{1}}
		}
	}
	return npy.WriteNPZ(w, arrays, false)
}
