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

// featuresFlags holds the flags of attach features.
type featuresFlags struct {
	table
	modelFlags
	rowReader
	path, x, y, out string
	rows            inputs.Slice
	task            attach.Task // task that the model is opened with, or the model's once it is open
}

func featuresCommand() *cli.Command {
	f := &featuresFlags{}
	f.Unhashed = true
	f.table = join(table{
		{name: "x", dest: &f.x, required: true, file: rowFile, usage: "INPUTS: rows to run the model on; see `attach help inputs`"},
		{name: "y", dest: &f.y, file: otherFile, usage: "FILE: labels or targets of --x, if --x does not hold them", conflicts: []conflict{f.targetConflict()}},
		sliceOption("rows", "--x", &f.rows),
	}.inGroup(groupData), f.rowOptions(&f.table, f.noTokenizer()),
		f.classNamesOption("; labels are numbered in this order", conflict{when: f.regression, reason: "is for classifiers, and the model is a regressor; leave it out"}), table{
			{name: "o", dest: &f.out, required: true, file: resultFile, rule: hasExtension(".npz"), group: groupOutput, usage: "FILE: .npz file to write"},
		}, table{{name: "task", dest: (*string)(&f.task), choices: tasks(), group: groupModel, usage: "TASK: classification or regression, if the model's graph does not tell"}}, f.modelOptions(), f.layersOption(), f.batchOption(defaultBatch), f.runtimeOptions())
	f.table.pick("folder-labels").withConflicts(f.folderLabelsConflict(f.regression))
	return f.command(cli.Command{
		Name:        "features",
		Usage:       "write a model's features and logits, to work on without the model",
		UsageText:   "attach features MODEL.onnx --x INPUTS -o FEATURES.npz",
		Description: "Runs the model once. The file holds `features` (n×h), `logits` (n×c), earlier layers as `layer_0` and so on, `gaps` of a table whose cells may be empty and, if they are known, `labels` or `targets`. `attach fit` and `attach compare` read it without MODEL.onnx, `attach predict` and others with --from-features.",
		CustomHelpTemplate: `attach features digits_resnet.onnx --x digits_test.npz \
    --preprocess digits.preprocess.json -o test.npz
attach predict digits_resnet.attach --from-features --x test.npz -o test.csv`,
	}, argument{name: "MODEL.onnx", dest: &f.path}, f.readOptionFiles, f.log, f.run)
}

func (f *featuresFlags) regression() bool { return f.task == attach.Regression }

func (f *featuresFlags) run(c *cli.Context) error {
	defer f.CloseModel()
	return atomicfile.WriteFile(c.Context, f.out, func(w io.Writer) error { return f.write(c.Context, w) })
}

func (f *featuresFlags) write(ctx context.Context, w io.Writer) error {
	f.Options.Task = f.task
	if err := f.OpenModel(ctx, f.path, f.Options); err != nil {
		return err
	}
	f.task = cmp.Or(f.task, f.Model.Info().Task)
	if err := cmp.Or(f.checkConflicts(), f.CheckClasses(f.task), f.CheckClassNames(f.Inputs.Outputs)); err != nil {
		return err
	}
	set, err := f.OpenSet(ctx, f.x, f.y, f.rows, f.KeepClasses)
	if err != nil {
		return err
	}
	if names := set.ClassNames; !f.regression() {
		if err := f.checkFolders(f.x, names); err != nil {
			return err
		}
		if f.Inputs.Classes == nil {
			noteFolders(f.stderr, names, f.Inputs.Outputs)
		}
	}
	b, err := f.runModel(ctx, f.x, set, nil)
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
	for name, isTrue := range featureFacts(&base) {
		if *isTrue {
			arrays[name] = rows.Array{Shape: []int{1}, Data: []uint8{1}}
		}
	}
	return npy.WriteNPZ(w, arrays, false)
}
