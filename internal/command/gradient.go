package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/autodiff"
	"github.com/attach-uncertainty/attach/ood"
)

// gradientFlags holds the flags of attach gradient.
type gradientFlags struct {
	table
	modelFlags
	rowReader
	path, x, wrt, out string
	rows              inputs.Slice
	scalar            string
	options           ood.Scalar
}

func gradientCommand() *cli.Command {
	g := &gradientFlags{scalar: "logsoftmax", options: ood.Scalar{Temperature: 1}}
	g.table = join(table{
		{name: "x", dest: &g.x, required: true, file: rowFile, usage: "INPUTS: rows to differentiate at; see `attach help inputs`"},
		sliceOption("rows", "--x", &g.rows),
	}.inGroup(groupData), g.rowOptions(&g.table, g.noTokenizer()), table{
		{name: "of", dest: g.setScalar, choices: []string{"logsoftmax", "sum", "logit:", "top2"}, usage: "SCALAR: what to differentiate: logsoftmax of the predicted class, sum of the outputs, " +
			"logit:K for output K from 0, or top2, the difference of the two largest outputs (default: logsoftmax)"},
		{name: "temperature", dest: &g.options.Temperature, rule: positive, usage: "T: divisor of the logits before the softmax",
			conflicts: []conflict{{when: func() bool { return g.options.Sum || g.options.TopTwo || g.options.Logit }, reason: "has an effect only with --of logsoftmax; leave it out"}}},
		{name: "wrt", dest: &g.wrt, usage: "TENSOR: tensor to differentiate with respect to: an input, or one computed from it (default: the only input of real numbers)"},
	}.inGroup(groupScalar), table{
		{name: "o", dest: &g.out, required: true, file: resultFile, rule: hasExtension(".npz"), group: groupOutput, usage: "FILE: .npz file to write"},
	}, g.modelOptions(), g.batchOption("as many as need the memory of 8 images of 224×224"), g.runtimeOptions())
	g.table.pick("folder-labels").withConflicts(g.folderLabelsConflict(func() bool { return true }))
	return g.command(cli.Command{
		Name:      "gradient",
		Usage:     "differentiate a model's outputs with respect to its inputs",
		UsageText: "attach gradient MODEL.onnx --x INPUTS [--of SCALAR] -o GRADIENTS.npz",
		Description: "Computes gradients of an ONNX model without its training framework, for saliency maps and methods such as ODIN. The file holds `gradient`, in the shape of the input or of the tensor that --wrt names, and `logits` (n×c), before any softmax. " +
			"Rows of tokens that differ in length are padded with zeros, and `lengths` holds their lengths.",
		CustomHelpTemplate: `attach gradient digits_resnet.onnx --x digits_test.npz --rows :100 \
    --preprocess digits.preprocess.json -o gradients.npz
attach gradient toy_regressor.onnx --x toy_test.npz --of sum -o slopes.npz`,
	}, argument{name: "MODEL.onnx", dest: &g.path}, g.readOptionFiles, g.log, g.run)
}

func (g *gradientFlags) run(c *cli.Context) error {
	defer g.CloseModel()
	return atomicfile.WriteFile(c.Context, g.out, func(w io.Writer) error { return g.write(c.Context, w) })
}

// write writes the gradients and then the logits. If all rows have the same length, it
// writes each block of gradients as soon as it is computed. Otherwise it collects all
// gradients, and then writes them padded to the same length, together with the lengths.
func (g *gradientFlags) write(ctx context.Context, w io.Writer) error {
	g.Inputs.SkipOdd, g.Unlabelled = len(g.KeepClasses) == 0, true
	if err := g.OpenModel(ctx, g.path, g.Options); err != nil {
		return err
	}
	if task := g.Model.Info().Task; task == attach.Regression {
		if err := g.CheckClasses(task); err != nil {
			return err
		}
	}
	set, err := g.OpenSet(ctx, g.x, "", g.rows, g.KeepClasses)
	if err != nil {
		return err
	}
	o := featurize.GradientOptions{Of: g.options, Tensor: g.wrt, Batch: g.Batch}
	// This call has no rows, so an error concerns the model or a flag.
	if err := gradientError(ctx, g.Model, o); err != nil {
		return g.nameCause(g.path, err)
	}
	z := npy.NewNPZWriter(w)
	p := newProgress(g.stderr, g.x)
	defer p.end()
	var logits rows.Array
	var logitValues []float32
	var waiting []ood.Tensor // gradients of rows of different lengths, until the longest length is known
	var write func([]float32) error
	for b, err := range g.Model.Gradients(ctx, set.Blocks(ctx, set.BlockRows()), o) {
		if err != nil {
			return g.nameCause(g.x, err)
		}
		if logits.Shape == nil {
			logits.Shape = []int{0, b.Logits.Cols}
		}
		if b.Gradient.Lengths != nil {
			waiting = append(waiting, b.Gradient)
		} else if write == nil {
			if write, err = z.Float32s("gradient", append([]int{set.Len()}, b.Gradient.Shape[1:]...)); err != nil {
				return err
			}
		}
		if write != nil {
			if err := write(b.Gradient.Data); err != nil {
				return err
			}
		}
		logitValues = append(logitValues, b.Logits.Data...)
		logits.Shape[0] += b.Logits.Rows
		p.set(logits.Shape[0], set.Len())
	}
	if logits.Shape == nil || logits.Shape[0] != set.Len() {
		return fmt.Errorf("%s: read %d rows instead of %d; did the file change?", g.x, logits.Shape[0], set.Len())
	}
	if waiting != nil {
		if err := writePadded(z, waiting, set.Len()); err != nil {
			return err
		}
	}
	logits.Data = logitValues
	if err := z.Array("logits", logits); err != nil {
		return err
	}
	return z.Close()
}

// writePadded writes the gradients of n rows with different lengths, and an array of these
// lengths. It pads shorter rows with zeros at the end.
func writePadded(z *npy.NPZWriter, tensors []ood.Tensor, n int) error {
	longest, width := 0, 1
	for _, t := range tensors {
		longest = max(longest, t.Shape[1])
	}
	for _, d := range tensors[0].Shape[2:] {
		width *= d
	}
	write, err := z.Float32s("gradient", append([]int{n, longest}, tensors[0].Shape[2:]...))
	if err != nil {
		return err
	}
	var lengths []float32
	row := make([]float32, longest*width)
	for _, t := range tensors {
		data := t.Data
		for _, length := range t.Lengths {
			clear(row[copy(row, data[:length*width]):])
			data = data[length*width:]
			if err := write(row); err != nil {
				return err
			}
			lengths = append(lengths, float32(length))
		}
	}
	return z.Array("lengths", rows.Array{Shape: []int{n}, Data: lengths})
}

// nameCause names the cause of an error. It names the flag that asks for something the model
// does not have. For other errors, it names the file at path.
func (g *gradientFlags) nameCause(path string, err error) error {
	var tensorError *autodiff.TensorError
	switch {
	case !errors.As(err, &tensorError):
	case tensorError.Tensor == "":
		return usagef("--of is %q: %s", g.scalar, tensorError.Reason)
	case g.wrt != "":
		return usagef("--wrt is %q: %s; name a tensor of the model that is made from its input", g.wrt, tensorError.Reason)
	}
	return inputs.InFile(path, err)
}

// setScalar parses --of.
func (g *gradientFlags) setScalar(text string) error {
	g.scalar = text
	name, index, hasIndex := strings.Cut(text, ":")
	g.options.Sum, g.options.TopTwo, g.options.Logit = name == "sum", name == "top2", name == "logit"
	known := name == "logsoftmax" || g.options.Sum || g.options.TopTwo || g.options.Logit
	if !known || hasIndex != g.options.Logit {
		return fmt.Errorf("--of is %q; %s", text, suggest(text, []string{"logsoftmax", "sum", "top2"}, "it must be logsoftmax, sum, logit:K or top2"))
	}
	if !hasIndex {
		return nil
	}
	var err error
	if g.options.Index, err = strconv.Atoi(index); err != nil || g.options.Index < 0 {
		return fmt.Errorf("--of is %q; K must be the number of an output from 0, as in logit:3", text)
	}
	return nil
}
