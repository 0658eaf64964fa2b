package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

func fitCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "x", Usage: "`INPUTS`: in-domain rows: .npy, .npz (x or images), .csv, a folder of images; without MODEL.onnx, features as `attach features` writes them, or rows×columns of them as .npy"},
		&cli.StringFlag{Name: "y", Usage: "`FILE`: their labels or targets, where --x does not hold them"},
		&cli.StringFlag{Name: "cal", Usage: "`INPUTS`: in-domain rows to calibrate with, which neither the network nor the heads were trained on; without them, --cal-fraction of --x is split off"},
		&cli.StringFlag{Name: "cal-y", Usage: "`FILE`: labels or targets of --cal, where it does not hold them"},
		&cli.StringFlag{Name: "o", Usage: "`FILE`: where to write what is fitted, such as M.attach"},
		&cli.StringFlag{Name: "task", Usage: "`WHAT`: classification or regression, where the model's graph does not tell which it does"},
		&cli.StringFlag{Name: "method", Usage: "`NAME`: out-of-domain detector, one of those that attach methods lists (default: fused-layers; without earlier layers fused, or certificates-coupled where the last layer is not known; certificates for regression and where there are no logits)"},
		&cli.StringSliceFlag{Name: "param", Usage: "`NAME=VALUE`: parameter of the detector, such as dropout=.2 of bald, in place of its default; repeat for more"},
		&cli.BoolFlag{Name: "no-detector", Usage: "fit no out-of-domain detector"},
		&cli.BoolFlag{Name: "no-quantiles", Usage: "fit no quantile head"},
		&cli.StringFlag{Name: "interval", Usage: "`NAME`: how the quantile head predicts, one of those that attach methods --intervals describes: " + strings.Join(intervalNames(), ", "), Value: baselines.SQR.Name},
		&cli.StringSliceFlag{Name: "interval-param", Usage: "`NAME=VALUE`: parameter of --interval, such as n_estimators=500 of quantile-forest, in place of its default; repeat for more"},
		groupsFlag("; intervals are then calibrated group by group, and predict needs --groups too"),
		weightsFlag("without MODEL.onnx", ", for methods that read them"),
		&cli.Float64Flag{Name: "cal-fraction", Usage: "`SHARE`: share of --x that is split off to calibrate with, where there is no --cal", Value: rows.DefaultFraction},
		&cli.Float64Flag{Name: "alpha", Usage: "`SHARE`: share of in-domain inputs that may be flagged by mistake; below 1/(n+1), with n calibration rows, nothing is flagged; predict can choose another", Value: attach.DefaultAlpha},
		&cli.Float64Flag{Name: "level", Usage: "`PROBABILITY`: how likely an interval is to cover the target; predict can choose another", Value: attach.DefaultLevel},
		&cli.Uint64Flag{Name: "seed", Usage: "`N`: seed of all that is drawn at random"},
		&cli.StringFlag{Name: "hidden", Usage: "`A,B,…`: widths of the quantile head's hidden layers", Value: "64"},
		&cli.IntFlag{Name: "epochs", Usage: "`N`: passes of the quantile head over the rows; without it, as many as the number of rows asks for"},
		&cli.Float64Flag{Name: "lr", Usage: "`RATE`: learning rate of the quantile head", Value: 1e-3},
		&cli.Float64Flag{Name: "weight-decay", Usage: "`FACTOR`: weight decay of the quantile head"},
		&cli.Float64Flag{Name: "dropout", Usage: "`SHARE`: share of the quantile head's hidden units that are dropped in training; the rate of the detector bald is --param dropout=SHARE"},
	}
	return &cli.Command{
		Name:      "fit",
		Usage:     "fit and calibrate a detector and, for a regressor, intervals; write M.attach",
		UsageText: "attach fit MODEL.onnx --x INPUTS [--y FILE] [--cal INPUTS] -o M.attach\nattach fit --x FEATURES.npz --task WHAT [--weights W.npz] -o M.attach",
		Description: "Fits an out-of-domain detector on the model's features of in-domain inputs, those that the model is meant for, and, for a regressor, " +
			"a quantile head, which its intervals come from, and calibrates both. The model itself stays as it is; M.attach is what `attach predict` takes.\n\nWith --groups every group's intervals cover on their own, and are endless where a group " +
			"has too few calibration rows.\n\nCoverage and p-values hold for rows that neither the network nor the heads were " +
			"trained on: pass such rows with --cal. Where calibration rows are split off --x and the network has " +
			"seen them, the promise is weaker: intervals may cover less, and p-values may be too small.",
		Flags:  concat(flags, inputFlags(), modelFlags(), []cli.Flag{layersFlag(), batchFlag()}, runtimeFlags()),
		Action: runFit,
	}
}

func runFit(c *cli.Context) error {
	modelPath, err := optional(c)
	if err != nil {
		return err
	}
	if err := required(c, "x", "o"); err != nil {
		return err
	}
	if err := distinct(c, "x", "y", "cal", "cal-y", "weights", "preprocess"); err != nil {
		return err
	}
	if modelPath != "" {
		err = refuse(c, "with MODEL.onnx", "weights")
	} else {
		err = refuse(c, "without MODEL.onnx", rowFlags()...)
	}
	if err != nil {
		return err
	}
	switch {
	case c.String("cal") == "":
		err = refuse(c, "without --cal", "cal-y")
	case sameFile(c.String("cal"), c.String("x")):
		err = usagef("--cal %s is what --x reads; calibrate with rows that nothing was fitted on, or leave out --cal to have some split off", c.String("cal"))
	default:
		err = refuse(c, "with --cal", "cal-fraction")
	}
	if err != nil {
		return err
	}
	in, err := fitChoices(c)
	if err != nil {
		return err
	}
	o, err := featurizeOptions(c)
	if err != nil {
		return err
	}
	if in.SkipDetector || in.Method.Name != "" && in.Method.Needs&ood.NeedLayers == 0 {
		if err := refuseLayers(c, "for a detector that does not look at earlier layers"); err != nil {
			return err
		}
		o.EarlierLayers = 0
	}
	r, err := newReading(c)
	if err != nil {
		return err
	}
	if err := checkWritable(c.Context, c.String("o")); err != nil {
		return err
	}
	stop, err := useRuntimeBLAS(c.Context, o)
	if err != nil {
		return err
	}
	defer stop()
	if modelPath != "" {
		model, openErr := featurize.Open(c.Context, modelPath, o)
		if openErr != nil {
			return openErr
		}
		defer model.Close()
		if cmp.Or(c.String("task"), model.Info().Task) == string(attach.Regression) && in.Method.Name == "" {
			if err := refuseLayers(c, "for a regressor, whose default detector does not look at earlier layers"); err != nil {
				return err
			}
		}
		err = modelInputs(c, r, &in, modelPath, model)
	} else {
		err = featureInputs(c, &in)
	}
	if err != nil {
		return err
	}
	engine, err := newEngine(c.Context, o)
	if err != nil {
		return err
	}
	defer engine.Close()
	in.Trainer, in.Log = engine, logger(c)
	p := newProgress(c.App.ErrWriter, "fit")
	defer p.end()
	in.Progress = func(stage string, share float64) { p.share(share, fmt.Sprintf("%s %.0f %%", stage, 100*share)) }

	b, err := attach.Fit(c.Context, in)
	var few *rows.TooFewRowsError
	if errors.As(err, &few) {
		return fmt.Errorf("%s: %w; give more rows", c.String("x"), err)
	}
	if err != nil {
		return err
	}
	if err := b.Save(c.Context, c.String("o")); err != nil {
		return err
	}
	p.end()
	detector := "no detector"
	if b.Detector != nil {
		detector = "detector " + b.Detector.Method
	}
	printf(c.App.ErrWriter, "%s: fitted on %d rows, calibrated on %d; %s\nnote: %s\n",
		c.String("o"), b.Calibration.NFit, b.Calibration.NCal, detector, b.Calibration.Promise())
	noteEndless(c.App.ErrWriter, b, 0, b.Calibration.Groups)
	noteSilent(c.App.ErrWriter, b, 0)
	if b.Detector != nil {
		if v := b.Detector.Scorer.Variant(); v != "" {
			printf(c.App.ErrWriter, "note: %s works with %s, which the network does not have of its own and was not trained with\n", b.Detector.Method, v)
		}
	}
	if in.Batch.Labels != nil && in.Base.Task == attach.Classification && b.Calibration.Temperature == 0 {
		fmt.Fprintln(c.App.ErrWriter, "note: confidence is that of the network itself: the calibration rows settle no temperature")
	}
	return nil
}

// quantileFlags are those of the quantile head and of what is made of it.
func quantileFlags() []string {
	return []string{"hidden", "epochs", "lr", "weight-decay", "dropout", "level", "interval", "interval-param", "groups"}
}

// refuseForTask refuses flags that the task has no use for.
func refuseForTask(c *cli.Context, in *attach.Inputs) error {
	if in.Base.Task == attach.Classification {
		return refuse(c, "for a classifier, which gets no quantile head", quantileFlags()...)
	}
	if in.SkipQuantiles {
		if err := refuse(c, "with --no-quantiles, as only the quantile head learns from targets", "y", "cal-y"); err != nil {
			return err
		}
	}
	return refuse(c, "for a regressor, which has no classes", "classes", "labels")
}

// fitChoices reads what does not depend on the model.
func fitChoices(c *cli.Context) (attach.Inputs, error) {
	in := attach.Inputs{
		SkipDetector:  c.Bool("no-detector"),
		SkipQuantiles: c.Bool("no-quantiles"),
		Alpha:         c.Float64("alpha"),
		Level:         c.Float64("level"),
		CalFraction:   c.Float64("cal-fraction"),
		Seed:          c.Uint64("seed"),
		Stays:         true,
	}
	for _, flag := range []string{"alpha", "level", "cal-fraction"} {
		if v := c.Float64(flag); !(v > 0 && v < 1) {
			return in, usagef("--%s is %v; it must be between 0 and 1", flag, v)
		}
	}
	if err := checkTask(c); err != nil {
		return in, err
	}
	if in.SkipDetector {
		if err := refuse(c, "with --no-detector", "method", "param", "alpha"); err != nil {
			return in, err
		}
	}
	if name := c.String("method"); name != "" {
		var ok bool
		if in.Method, ok = baselines.ByName(name); !ok {
			return in, usagef("--method %q is not known; `attach methods` lists them", name)
		}
	} else if c.IsSet("param") {
		return in, usagef("--param needs --method: parameters are those of a method")
	}
	params, err := ood.ParseParams(strings.Join(c.StringSlice("param"), " "))
	if err != nil {
		return in, usagef("--param: %v", err)
	}
	if _, err := in.Method.With(params); err != nil {
		return in, usagef("--param: %v", err)
	}
	in.Params = params
	if in.SQR.Hidden, err = parseInts("hidden", c.String("hidden")); err != nil {
		return in, err
	}
	if len(in.SQR.Hidden) == 0 {
		return in, usagef("--hidden is empty; it must name the width of a hidden layer")
	}
	for _, h := range in.SQR.Hidden {
		if h < 1 {
			return in, usagef("--hidden is %q; every width must be at least 1", c.String("hidden"))
		}
	}
	in.SQR.Epochs = c.Int("epochs")
	in.SQR.LearningRate = c.Float64("lr")
	in.SQR.WeightDecay = c.Float64("weight-decay")
	in.SQR.Dropout = c.Float64("dropout")
	finite := func(v float64) bool { return v-v == 0 }
	switch {
	case in.SQR.Epochs < 0:
		return in, usagef("--epochs is %d; it must not be negative", in.SQR.Epochs)
	case !(in.SQR.LearningRate > 0 && finite(in.SQR.LearningRate)):
		return in, usagef("--lr is %v; it must be positive", in.SQR.LearningRate)
	case !(in.SQR.WeightDecay >= 0 && finite(in.SQR.WeightDecay)):
		return in, usagef("--weight-decay is %v; it must not be negative", in.SQR.WeightDecay)
	case !(in.SQR.Dropout >= 0 && in.SQR.Dropout < 1):
		return in, usagef("--dropout is %v; it must be at least 0 and below 1", in.SQR.Dropout)
	}
	return in, intervalChoices(c, &in)
}

func checkTask(c *cli.Context) error {
	switch t := c.String("task"); t {
	case "", string(attach.Classification), string(attach.Regression):
		return nil
	default:
		return usagef("--task is %q; it must be classification or regression", t)
	}
}

// checkWritable fails before the work is done where its result could not be
// written after it.
func checkWritable(ctx context.Context, path string) error {
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		return err
	}
	f.Abort()
	return nil
}
