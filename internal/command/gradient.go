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

// differentiating holds the flags of attach gradient.
type differentiating struct {
	table
	place
	reading
	path, x, wrt, out string
	rows              inputs.Slice
	scalar            string
	of                ood.Scalar
}

func gradientCommand() *cli.Command {
	g := &differentiating{scalar: "logsoftmax", of: ood.Scalar{Temperature: 1}}
	g.table = join(table{
		{name: "x", to: &g.x, required: true, file: rowFile, usage: "INPUTS: rows to differentiate at; see `attach help inputs`"},
		sliceOption("rows", "--x", &g.rows),
	}.under(groupData), g.rowOptions(&g.table, g.textless()), table{
		{name: "of", to: g.setScalar, choices: []string{"logsoftmax", "sum", "logit:", "top2"}, usage: "SCALAR: what to differentiate: logsoftmax of the predicted class, sum of the outputs, " +
			"logit:K for output K from 0, or top2, the difference of the two largest outputs (default: logsoftmax)"},
		{name: "temperature", to: &g.of.Temperature, rule: positive, usage: "T: divisor of the logits before the softmax",
			conflicts: []conflict{{when: func() bool { return g.of.Sum || g.of.TopTwo || g.of.Logit }, reason: "has an effect only with --of logsoftmax; leave it out"}}},
		{name: "wrt", to: &g.wrt, usage: "TENSOR: tensor to differentiate with respect to: an input, or one computed from it (default: the only input of real numbers)"},
	}.under(groupScalar), table{
		{name: "o", to: &g.out, required: true, file: resultFile, rule: ends(".npz"), group: groupOutput, usage: "FILE: .npz file to write"},
	}, g.modelOptions(), g.batchOption("as many as need the memory of 8 images of 224×224"), g.runtimeOptions())
	g.table.pick("folder-labels").unless(g.pickless(func() bool { return true }))
	return g.command(cli.Command{
		Name:      "gradient",
		Usage:     "differentiate a model's outputs with respect to its inputs",
		UsageText: "attach gradient MODEL.onnx --x INPUTS [--of SCALAR] -o GRADIENTS.npz",
		Description: "Computes gradients of an ONNX model without its training framework, for saliency maps and methods such as ODIN. The file holds `gradient`, in the shape of the input or of the tensor that --wrt names, and `logits` (n×c), before any softmax. " +
			"Rows of tokens that differ in length are padded with zeros, and `lengths` holds their lengths.",
		CustomHelpTemplate: `attach gradient digits_resnet.onnx --x digits_test.npz --rows :100 \
    --preprocess digits.preprocess.json -o gradients.npz
attach gradient toy_regressor.onnx --x toy_test.npz --of sum -o slopes.npz`,
	}, argument{name: "MODEL.onnx", to: &g.path}, g.begin, g.log, g.run)
}

func (g *differentiating) run(c *cli.Context) error {
	defer g.CloseModel()
	return atomicfile.WriteFile(c.Context, g.out, func(w io.Writer) error { return g.write(c.Context, w) })
}

// write writes the gradients as they are computed, and then the logits.
func (g *differentiating) write(ctx context.Context, w io.Writer) error {
	g.Inputs.SkipOdd, g.Unlabelled = len(g.Classes) == 0, true
	if err := g.OpenModel(ctx, g.path, g.Options); err != nil {
		return err
	}
	if task := g.Model.Info().Task; task == attach.Regression {
		if err := g.CheckClasses(task); err != nil {
			return err
		}
	}
	set, err := g.OpenSet(ctx, g.x, "", g.rows, g.Classes)
	if err != nil {
		return err
	}
	o := featurize.GradientOptions{Of: g.of, Tensor: g.wrt, Batch: g.Batch}
	// This call has no rows, so an error concerns the model or a flag.
	if err := differentiable(ctx, g.Model, o); err != nil {
		return g.explain(g.path, err)
	}
	z := npy.NewNPZWriter(w)
	p := newProgress(g.stderr, g.x)
	defer p.end()
	var logits rows.Array
	var all []float32
	var held []ood.Tensor // gradients of rows of different lengths, until the longest length is known
	var write func([]float32) error
	for b, err := range g.Model.Gradients(ctx, set.Blocks(ctx, set.BlockRows()), o) {
		if err != nil {
			return g.explain(g.x, err)
		}
		if logits.Shape == nil {
			logits.Shape = []int{0, b.Logits.Cols}
		}
		if b.Gradient.Lengths != nil {
			held = append(held, b.Gradient)
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
		all = append(all, b.Logits.Data...)
		logits.Shape[0] += b.Logits.Rows
		p.set(logits.Shape[0], set.Len())
	}
	if logits.Shape == nil || logits.Shape[0] != set.Len() {
		return fmt.Errorf("%s: read %d rows instead of %d; did the file change?", g.x, logits.Shape[0], set.Len())
	}
	if held != nil {
		if err := writePadded(z, held, set.Len()); err != nil {
			return err
		}
	}
	logits.Data = all
	if err := z.Array("logits", logits); err != nil {
		return err
	}
	return z.Close()
}

// writePadded writes the gradients of n rows with different lengths, and an array of these
// lengths. It pads shorter rows with zeros at the end.
func writePadded(z *npy.NPZWriter, held []ood.Tensor, n int) error {
	longest, width := 0, 1
	for _, t := range held {
		longest = max(longest, t.Shape[1])
	}
	for _, d := range held[0].Shape[2:] {
		width *= d
	}
	write, err := z.Float32s("gradient", append([]int{n, longest}, held[0].Shape[2:]...))
	if err != nil {
		return err
	}
	var lengths []float32
	row := make([]float32, longest*width)
	for _, t := range held {
		data := t.Data
		for _, own := range t.Lengths {
			clear(row[copy(row, data[:own*width]):])
			data = data[own*width:]
			if err := write(row); err != nil {
				return err
			}
			lengths = append(lengths, float32(own))
		}
	}
	return z.Array("lengths", rows.Array{Shape: []int{n}, Data: lengths})
}

// explain names the cause of an error. It names the flag that asks for something the model
// does not have. For other errors, it names the file at path.
func (g *differentiating) explain(path string, err error) error {
	var refused *autodiff.TensorError
	switch {
	case !errors.As(err, &refused):
	case refused.Tensor == "":
		return usagef("--of is %q: %s", g.scalar, refused.Reason)
	case g.wrt != "":
		return usagef("--wrt is %q: %s; name a tensor of the model that is made from its input", g.wrt, refused.Reason)
	}
	return inputs.InFile(path, err)
}

// setScalar parses --of.
func (g *differentiating) setScalar(of string) error {
	g.scalar = of
	name, index, indexed := strings.Cut(of, ":")
	g.of.Sum, g.of.TopTwo, g.of.Logit = name == "sum", name == "top2", name == "logit"
	known := name == "logsoftmax" || g.of.Sum || g.of.TopTwo || g.of.Logit
	if !known || indexed != g.of.Logit {
		return fmt.Errorf("--of is %q; %s", of, orSimilar(of, []string{"logsoftmax", "sum", "top2"}, "it must be logsoftmax, sum, logit:K or top2"))
	}
	if !indexed {
		return nil
	}
	var err error
	if g.of.Index, err = strconv.Atoi(index); err != nil || g.of.Index < 0 {
		return fmt.Errorf("--of is %q; K must be the number of an output from 0, as in logit:3", of)
	}
	return nil
}
