package main

import (
	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/rows"
)

func featuresCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "x", Usage: "`INPUTS`: rows to run the model on: .npy, .npz (x or images), .csv, a folder of images"},
		&cli.StringFlag{Name: "y", Usage: "`FILE`: their labels or targets, where --x does not hold them"},
		&cli.StringFlag{Name: "o", Usage: "`FILE`: .npz to write"},
	}
	return &cli.Command{
		Name:      "features",
		Usage:     "write the features and logits of inputs, to go on from without the model",
		UsageText: "attach features MODEL.onnx --x INPUTS -o FEATURES.npz",
		Description: "The file holds `features` n×h, `logits` n×c, of earlier layers `layer_0` n×h0 and so on and, where they are known, `labels` n (of a regressor, " +
			"`targets` n×t). `attach fit` and `attach compare` take it without the model.",
		Flags:  concat(flags, inputFlags(), modelFlags(), []cli.Flag{layersFlag(), batchFlag()}, runtimeFlags()),
		Action: features,
	}
}

func features(c *cli.Context) error {
	args, err := positional(c, "MODEL.onnx")
	if err != nil {
		return err
	}
	if err := required(c, "x", "o"); err != nil {
		return err
	}
	if err := distinct(c, "x", "y", "preprocess"); err != nil {
		return err
	}
	if err := checkExtension("o", c.String("o"), ".npz"); err != nil {
		return err
	}
	o, err := featurizeOptions(c)
	if err != nil {
		return err
	}
	r, err := newReading(c)
	if err != nil {
		return err
	}
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
	if model.Info().Task == string(attach.Regression) {
		if err := refuseLabels(c); err != nil {
			return err
		}
	}
	r.fitTo(model)
	if err := r.checkClasses(); err != nil {
		return err
	}
	set, err := r.open(c.Context, c.String("x"), c.String("y"), r.classes)
	if err != nil {
		return err
	}
	b, err := r.features(c.Context, model, c.String("x"), set)
	if err != nil {
		return err
	}
	if model.Info().Task == string(attach.Regression) {
		b.Labels = nil
	}
	arrays := inputs.FeatureArrays(b)
	if y, _ := set.Targets(); b.Labels == nil && y.Rows > 0 {
		arrays["targets"] = rows.ArrayOf(y)
	}
	if err := npy.WriteNPZ(out, arrays, false); err != nil {
		return err
	}
	return out.Commit()
}
