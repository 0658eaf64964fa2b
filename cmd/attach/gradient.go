package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

func gradientCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "x", Usage: "`INPUTS`: rows to differentiate at: .npy, .npz (x or images), .csv, a folder of images"},
		&cli.StringFlag{Name: "of", Value: "logsoftmax", Usage: "`SCALAR`: what to differentiate: logsoftmax of the predicted class, sum of the outputs, " +
			"logit:K for output K from 0, top2 for the difference of the two largest"},
		&cli.Float64Flag{Name: "temperature", Value: 1, Usage: "`T`: what divides the logits before the softmax"},
		&cli.StringFlag{Name: "wrt", Usage: "`TENSOR`: what to differentiate with respect to, instead of the input"},
		&cli.StringFlag{Name: "o", Usage: "`FILE`: .npz to write"},
	}
	batch := &cli.IntFlag{Name: "batch", Category: categoryModel, Usage: "`N`: rows per run of the model, where the model leaves it open; without it, as many as 8 images of 224×224 weigh"}
	return &cli.Command{
		Name:      "gradient",
		Usage:     "differentiate a model's outputs with respect to its inputs",
		UsageText: "attach gradient MODEL.onnx --x INPUTS --of SCALAR -o GRADIENTS.npz",
		Description: "The file holds `gradient`, n rows in the shape of the input (of the tensor that --wrt names), and `logits` n×c. " +
			"Outputs are taken before any softmax.\n\n" +
			"The gradient of a network with ReLUs jumps where the input of a unit is 0. A unit whose input is 0 up to rounding is on or off by " +
			"chance in float32, whichever program computes it, and one such unit can change the gradient by a thousandth and more.",
		Flags:  concat(flags, inputFlags(), modelFlags(), []cli.Flag{batch}, runtimeFlags()),
		Action: gradient,
	}
}

func gradient(c *cli.Context) error {
	args, err := positional(c, "MODEL.onnx")
	if err != nil {
		return err
	}
	if err := required(c, "x", "o"); err != nil {
		return err
	}
	if err := distinct(c, "x", "preprocess"); err != nil {
		return err
	}
	if err := checkExtension("o", c.String("o"), ".npz"); err != nil {
		return err
	}
	of, err := parseScalar(c)
	if err != nil {
		return err
	}
	o, err := featurizeOptions(c)
	if err != nil {
		return err
	}
	if err := refuseLabels(c); err != nil {
		return err
	}
	r, err := newReading(c)
	if err != nil {
		return err
	}
	r.options.SkipTargets = len(r.classes) == 0
	out, err := atomicfile.Create(c.Context, c.String("o"))
	if err != nil {
		return err
	}
	defer out.Abort()
	model, err := featurize.Open(c.Context, args[0], o)
	if err != nil {
		return err
	}
	defer model.Close()
	r.fitTo(model)
	set, err := r.open(c.Context, c.String("x"), "", r.classes)
	if err != nil {
		return err
	}
	z := npy.NewNPZWriter(out)
	options := featurize.GradientOptions{Of: of, Tensor: c.String("wrt"), Batch: c.Int("batch")}
	if err := r.writeGradient(c, z, model, set, options); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Commit()
}

// writeGradient writes the gradients as they come, and the logits behind them.
func (r *reading) writeGradient(c *cli.Context, z *npy.NPZWriter, model *featurize.Model, set *inputs.Set, o featurize.GradientOptions) error {
	// Without rows, what is wrong is the model or a flag.
	none := func(func(featurize.Rows, error) bool) {}
	for _, err := range model.Gradients(c.Context, none, o) {
		if err != nil {
			return gradientError(c, c.Args().First(), err)
		}
	}
	p := newProgress(r.stderr, c.String("x"))
	defer p.end()
	var logits rows.Array
	var all []float32
	var write func([]float32) error
	for b, err := range model.Gradients(c.Context, modelRows(c.Context, set), o) {
		if err != nil {
			return gradientError(c, c.String("x"), err)
		}
		if write == nil {
			if write, err = z.Float32s("gradient", append([]int{set.Len()}, b.Shape[1:]...)); err != nil {
				return err
			}
			logits.Shape = []int{0, b.Logits.Cols}
		}
		if err := write(b.Gradient); err != nil {
			return err
		}
		all = append(all, b.Logits.Data...)
		logits.Shape[0] += b.Logits.Rows
		p.set(logits.Shape[0], set.Len())
	}
	if write == nil || logits.Shape[0] != set.Len() {
		return fmt.Errorf("%s: %d rows came where %d were announced", c.String("x"), logits.Shape[0], set.Len())
	}
	logits.Data = all
	return z.Array("logits", logits)
}

// gradientError says which flag asks for what the model does not have, or else
// in which file an error was found.
func gradientError(c *cli.Context, path string, err error) error {
	var scalar *featurize.ScalarError
	var tensor *featurize.TensorError
	switch {
	case errors.As(err, &scalar):
		return usagef("--of is %q: %s", c.String("of"), scalar.Reason)
	case errors.As(err, &tensor) && c.IsSet("wrt"):
		return usagef("--wrt is %q: %s; name a tensor of the model that is made from its input", c.String("wrt"), tensor.Reason)
	}
	return inFile(path, err)
}

// parseScalar reads --of and --temperature.
func parseScalar(c *cli.Context) (ood.Scalar, error) {
	s := ood.Scalar{Temperature: c.Float64("temperature")}
	if !(s.Temperature > 0) || s.Temperature-s.Temperature != 0 {
		return s, usagef("--temperature is %v; it must be a positive number", s.Temperature)
	}
	of := c.String("of")
	name, index, indexed := strings.Cut(of, ":")
	switch {
	case of == "logsoftmax":
		s.Kind = ood.LogSoftmaxTop
	case of == "sum":
		s.Kind = ood.Sum
	case of == "top2":
		s.Kind = ood.TopTwo
	case name == "logit" && indexed:
		var err error
		s.Kind = ood.Logit
		if s.Index, err = strconv.Atoi(index); err != nil || s.Index < 0 {
			return s, usagef("--of is %q; the output is a number from 0, as in logit:3", of)
		}
	default:
		return s, usagef("--of is %q; it must be logsoftmax, sum, logit:K or top2", of)
	}
	if c.IsSet("temperature") && s.Kind != ood.LogSoftmaxTop {
		return s, usagef("--temperature belongs to --of logsoftmax")
	}
	return s, nil
}
