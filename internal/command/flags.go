package command

import (
	"context"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// Heads that help shows flags under which several commands share.
const (
	underRows    = "How rows are read"
	underModel   = "How the model is read"
	underRuntime = "Where it runs"
)

// inputKinds is what rows may come as.
const inputKinds = ".npy, .npz (an array for each input by its name, or x or images), a table (.csv, .tsv, .txt, .jsonl, .parquet), a folder of images or one, a WebDataset (.tar, or shard-{000..146}.tar)"

// place is where models run, and how they are read.
type place struct {
	featurize.Options
	verbose bool
}

func verboseOption(to *bool) *option {
	return &option{name: "verbose", to: to, usage: "say on stderr what is being done"}
}

func (p *place) runtimeOptions() table {
	p.Provider = "auto"
	return table{
		{name: "ort-lib", to: &p.Library, usage: "FILE: libonnxruntime to use, instead of $ORT_LIB, the one in the user cache, the system's or installing it"},
		{name: "provider", to: &p.Provider, choices: []string{"auto", "cpu", "cuda"}, usage: "NAME: where models run: cpu, cuda, or auto for CUDA where it can be had"},
		{name: "device", to: &p.Device, must: atLeast(0), usage: "N: number of the CUDA device, from 0",
			never: []never{idle("with --provider cpu", func() bool { return p.Provider == "cpu" })}},
		{name: "threads", to: &p.Threads, must: atLeast(0), usage: "N: threads of the runtime; without it, one per core"},
		verboseOption(&p.verbose),
	}.under(underRuntime)
}

// modelOptions say how a model is read.
func (p *place) modelOptions() table {
	return table{
		{name: "feature-tensor", to: &p.Feature, usage: "TENSOR: what to take as the features, instead of the input of the last linear layer"},
		{name: "model-output", to: &p.Output, usage: "NAME: output to use, where the model has several"},
	}.under(underModel)
}

// layersOption is refused where layers that nothing looks at would be read; 0
// asks for what is done anyway.
func (p *place) layersOption(unused ...never) table {
	p.EarlierLayers = featurize.DefaultEarlierLayers
	o := &option{name: "layers", to: &p.EarlierLayers, must: atLeast(0), head: underModel,
		usage: "N: how many layers before the features to read too, evenly spread, for detectors that look at them; 0 for none"}
	for _, n := range unused {
		o.never = append(o.never, never{when: func() bool { return p.EarlierLayers != 0 && n.when() }, says: n.says})
	}
	return table{o}
}

func (p *place) batchOption(standard string) table {
	return table{{name: "batch", to: &p.Batch, must: atLeast(1), head: underModel,
		usage: "N: rows per run of the model, where the model leaves it open; without it " + standard}}
}

const batchStandard = "64, or as many as 64 MiB hold"

// log is a step that logs what --verbose asks for.
func (p *place) log(c *cli.Context) error {
	p.Log = logger(c.App.ErrWriter, p.verbose)
	return nil
}

// products runs large matrix products of the whole process in the runtime that
// models run in, until stop is called.
func (p *place) products(ctx context.Context) (stop func(), err error) {
	return ort.Products(ctx, ort.Options(p.Runtime))
}

// engine is what trains heads, in the runtime that models run in; products are
// run there too until stop is called.
func (p *place) engine(ctx context.Context) (e *fit.Engine, stop func(), err error) {
	free, err := p.products(ctx)
	if err != nil {
		return nil, nil, err
	}
	e, err = fit.New(ctx, fit.Options(p.Runtime))
	if err != nil {
		free()
		return nil, nil, err
	}
	return e, func() { e.Close(); free() }, nil
}

func levelOf(verbose bool) slog.Level {
	if verbose {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func logger(w io.Writer, verbose bool) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: levelOf(verbose),
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}
