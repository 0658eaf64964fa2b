package main

import (
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/featurize"
)

// Heads that help shows flags under which several commands share.
const (
	categoryRows    = "How rows are read"
	categoryModel   = "How the model is read"
	categoryRuntime = "Where it runs"
)

// runtimeFlags choose the runtime library and where models run.
func runtimeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "ort-lib", Category: categoryRuntime, Usage: "`FILE`: libonnxruntime to use, instead of $ORT_LIB, the one in the user cache, the system's or installing it"},
		&cli.StringFlag{Name: "provider", Category: categoryRuntime, Value: "auto", Usage: "`NAME`: where models run: cpu, cuda, or auto for CUDA where it can be had"},
		&cli.IntFlag{Name: "device", Category: categoryRuntime, Usage: "`N`: number of the CUDA device, from 0"},
		&cli.IntFlag{Name: "threads", Category: categoryRuntime, Usage: "`N`: threads of the runtime; without it, one per core"},
		&cli.BoolFlag{Name: "verbose", Category: categoryRuntime, Aliases: []string{"v"}, Usage: "say on stderr what is being done"},
	}
}

// modelFlags say how a model is read.
func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "feature", Category: categoryModel, Usage: "`TENSOR`: what to take as the features, instead of the input of the last linear layer"},
		&cli.StringFlag{Name: "output", Category: categoryModel, Usage: "`NAME`: output to use, where the model has several"},
	}
}

func layersFlag() cli.Flag {
	return &cli.IntFlag{Name: "layers", Category: categoryModel, Usage: "`N`: how many layers before the features to read too, evenly spread, for detectors that look at them; 0 for none", Value: featurize.DefaultEarlierLayers}
}

// refuseLayers refuses --layers but for 0, which asks for what is done anyway.
func refuseLayers(c *cli.Context, why string) error {
	if c.Int("layers") == 0 {
		return nil
	}
	return refuse(c, why, "layers")
}

// refuseLabels refuses --labels where labels are good for nothing but --classes.
func refuseLabels(c *cli.Context) error {
	if c.String("classes") != "" {
		return nil
	}
	return refuse(c, "here without --classes, which picks rows by them", "labels")
}

func batchFlag() cli.Flag {
	return &cli.IntFlag{Name: "batch", Category: categoryModel, Usage: "`N`: rows per run of the model, where the model leaves it open; without it 64, or as many as 64 MiB hold"}
}

// inputFlags say how inputs are read.
func inputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "preprocess", Category: categoryRows, Usage: "`FILE`: how images are prepared, in the keys of Hugging Face's preprocessor_config.json"},
		&cli.StringFlag{Name: "target", Category: categoryRows, Usage: "`COLUMN`: the column of a table that is the target, by its name in the header, or last"},
		&cli.StringFlag{Name: "classes", Category: categoryRows, Usage: "`A,B,…`: keep the rows with these labels alone; output i of the model is the i-th of them"},
		&cli.BoolFlag{Name: "labels", Category: categoryRows, Usage: "take the sub-folder that an image lies in as its label, numbered in sorted order"},
		&cli.BoolFlag{Name: "skip-bad", Category: categoryRows, Usage: "leave out images that cannot be read, and count them"},
		&cli.IntFlag{Name: "max-rows", Category: categoryRows, Usage: "`N`: take the first N rows of each set alone"},
	}
}

// groupsFlag says which group rows are of.
func groupsFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "groups", Usage: "`NAME`: the column of a table, of any text, or the array of an .npz file, of whole numbers, that says each row's group" + what}
}

// rowFlags are the names of inputFlags and modelFlags, which say how a model
// reads rows.
func rowFlags() []string {
	var names []string
	for _, f := range concat(inputFlags(), modelFlags(), []cli.Flag{layersFlag(), batchFlag()}) {
		names = append(names, f.Names()...)
	}
	return names
}

func logger(c *cli.Context) *slog.Logger {
	level := slog.LevelInfo
	if c.Bool("verbose") {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func checkRuntimeFlags(c *cli.Context) error {
	switch p := c.String("provider"); p {
	case "auto", "cpu", "cuda":
	default:
		return usagef("--provider is %q; it must be auto, cpu or cuda", p)
	}
	if c.Int("threads") < 0 {
		return usagef("--threads is %d; it must not be negative", c.Int("threads"))
	}
	if c.Int("device") < 0 {
		return usagef("--device is %d; it must not be negative", c.Int("device"))
	}
	if c.String("provider") == "cpu" {
		return refuse(c, "with --provider cpu", "device")
	}
	return nil
}

func featurizeOptions(c *cli.Context) (featurize.Options, error) {
	if err := checkRuntimeFlags(c); err != nil {
		return featurize.Options{}, err
	}
	if c.IsSet("batch") && c.Int("batch") < 1 {
		return featurize.Options{}, usagef("--batch is %d; it must be at least 1", c.Int("batch"))
	}
	if c.Int("layers") < 0 {
		return featurize.Options{}, usagef("--layers is %d; it must not be negative", c.Int("layers"))
	}
	return featurize.Options{
		Library:  c.String("ort-lib"),
		Provider: c.String("provider"),
		Device:   c.Int("device"),
		Threads:  c.Int("threads"),
		Log:      logger(c),
		Feature:  c.String("feature"),
		Output:   c.String("output"),
		Batch:    c.Int("batch"),

		EarlierLayers: c.Int("layers"),
	}, nil
}

func concat(groups ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
