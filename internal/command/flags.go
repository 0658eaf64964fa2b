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

// modelFlags holds the flags that say where a model runs and how it is read.
type modelFlags struct {
	featurize.Options
	verbose bool
}

func verboseOption(dest *bool) *option {
	return &option{name: "verbose", dest: dest, usage: "print what is being done to standard error"}
}

func (p *modelFlags) runtimeOptions() table {
	p.Provider = "auto"
	return table{
		{name: "ort-lib", dest: &p.Library, usage: "FILE: ONNX Runtime library to use; without it, $ORT_LIB, the user cache and the system are searched, and else it is installed"},
		{name: "provider", dest: &p.Provider, choices: []string{"auto", "cpu", "cuda"}, usage: "NAME: where models run: cpu, cuda, or auto for CUDA if it is available"},
		{name: "device", dest: &p.Device, rule: atLeast(0), usage: "N: number of the CUDA device, from 0",
			conflicts: []conflict{noEffect("with --provider cpu", func() bool { return p.Provider == "cpu" })}},
		{name: "threads", dest: &p.Threads, rule: atLeast(0), usage: "N: threads of the runtime; without it, one per core"},
		verboseOption(&p.verbose),
	}.inGroup(groupRuntime)
}

// modelOptions returns the flags that say which tensors of a model are read.
func (p *modelFlags) modelOptions() table {
	return table{
		{name: "feature-tensor", dest: &p.Feature, usage: "TENSOR: tensor to use as the features; without it, the input of the last linear layer or, for trees and regressors that read a table, attach/inputs-and-outputs: the inputs and the predictions"},
		{name: "model-output", dest: &p.Output, usage: "NAME: output of the model to use, if it has several"},
	}.inGroup(groupModel)
}

// layersOption returns --layers. The conflicts apply to every value except 0.
func (p *modelFlags) layersOption(conflicts ...conflict) table {
	p.EarlierLayers = featurize.DefaultEarlierLayers
	o := &option{name: "layers", dest: &p.EarlierLayers, rule: atLeast(0), group: groupModel,
		usage: "N: how many layers before the features to read too, evenly spread, because some detectors use them; 0 for none"}
	for _, n := range conflicts {
		o.conflicts = append(o.conflicts, conflict{when: func() bool { return p.EarlierLayers != 0 && n.when() }, reason: n.reason})
	}
	return table{o}
}

func (p *modelFlags) batchOption(defaultText string) table {
	return table{{name: "batch", dest: &p.Batch, rule: atLeast(1), group: groupModel,
		usage: "N: rows per run of the model, if the model leaves it open; without it " + defaultText}}
}

const defaultBatch = "64, or as many as fit in 64 MiB"

// log is a step of the command: it sets the logger. --verbose makes it more detailed.
func (p *modelFlags) log(c *cli.Context) error {
	p.Log = logger(c.App.ErrWriter, p.verbose)
	return nil
}

// offloadProducts runs large matrix products of this process in ONNX Runtime until stop is
// called.
func (p *modelFlags) offloadProducts(ctx context.Context) (stop func(), err error) {
	return ort.Products(ctx, ort.Options(p.Runtime))
}

// newEngine returns an engine that trains networks in ONNX Runtime. Until stop is called,
// large matrix products of this process run there, too.
func (p *modelFlags) newEngine(ctx context.Context) (e *fit.Engine, stop func(), err error) {
	stopProducts, err := p.offloadProducts(ctx)
	if err != nil {
		return nil, nil, err
	}
	e, err = fit.New(ctx, fit.Options(p.Runtime))
	if err != nil {
		stopProducts()
		return nil, nil, err
	}
	return e, func() { e.Close(); stopProducts() }, nil
}

func logLevel(verbose bool) slog.Level {
	if verbose {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func logger(w io.Writer, verbose bool) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: logLevel(verbose),
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}
