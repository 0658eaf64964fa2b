package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// inspecting is a call of attach inspect.
type inspecting struct {
	table
	place
	path string
	json bool
}

func inspectCommand() *cli.Command {
	v := &inspecting{}
	bundle := idle("for M.attach, which is shown without a model", func() bool { return isBundle(v.path) })
	v.table = join(table{{name: "json", to: &v.json, usage: "print JSON"}}, v.modelOptions(), v.layersOption(), v.runtimeOptions())
	v.table.of("feature", "output", "layers", "ort-lib", "provider", "device", "threads").unless(bundle)
	return v.command(cli.Command{
		Name:      "inspect",
		Usage:     "show what a model takes and gives, and which tensor serves as its features; or what M.attach holds",
		UsageText: "attach inspect MODEL.onnx [--json]\nattach inspect M.attach [--json]",
		Description: "Shows what goes in and out of a model, or of the one in the folder that an exporter wrote, the tensor that is taken as its features, whether its outputs are a linear function of them, the " +
			"earlier layers that are read beside them, and the methods that work on it.\n\n" +
			"Of M.attach, shows what it was fitted for and with, and what it promises. This needs neither the model nor the runtime.",
	}, argument{name: "MODEL.onnx", to: &v.path}, v.log, v.run)
}

func (v *inspecting) run(c *cli.Context) error {
	w := c.App.Writer
	if isBundle(v.path) {
		return inspectBundle(w, v.path, v.json)
	}
	if v.json {
		info, err := featurize.Inspect(c.Context, v.path, v.Options)
		if err != nil {
			return err
		}
		return writeJSON(w, info)
	}
	model, err := featurize.Open(c.Context, v.path, v.Options)
	var none *featurize.NoLinearLayerError
	if errors.As(err, &none) {
		return printInfo(w, none.Info, v.Feature != "", nil)
	}
	if err != nil {
		return err
	}
	defer model.Close()
	gradient := differentiable(c.Context, model, featurize.GradientOptions{Of: ood.Scalar{Sum: true}})
	if err := c.Context.Err(); err != nil {
		return err
	}
	return printInfo(w, model.Info(), v.Feature != "", gradient)
}

// differentiable returns why the model cannot be differentiated so, or nil.
func differentiable(ctx context.Context, model *featurize.Model, o featurize.GradientOptions) error {
	none := func(func(ood.InputBlock, error) bool) {}
	for _, err := range model.Gradients(ctx, none, o) {
		if err != nil {
			return err
		}
	}
	return nil
}

// printInfo is told why the model cannot be differentiated, or nil.
func printInfo(w io.Writer, info featurize.Info, named bool, gradient error) error {
	printf(w, "opset      %d (IR %d)\n", info.Opset, info.IRVersion)
	for _, v := range info.Inputs {
		kept := ""
		if v.Optional {
			kept = ", which has a default"
		}
		printf(w, "input      %s %s %s%s\n", v.Name, v.DType, shapeText(v.Shape), kept)
	}
	for _, v := range info.Outputs {
		printf(w, "output     %s %s %s\n", v.Name, v.DType, shapeText(v.Shape))
	}
	printf(w, "task       %s\n", info.Task)
	if f := info.Feature; f != nil {
		exact := "logits = W·features + b holds exactly"
		if !info.Exact {
			exact = "logits = W·features + b does not hold: " + info.ExactReason
		}
		by := fmt.Sprintf("read by %s node %s", f.Op, f.Node)
		if f.Of != nil {
			by = "for want of a linear layer: " + strings.Join(f.Of, " and ") + ", standardised"
		} else if f.Standardised {
			by += ", standardised"
		}
		if info.Task == attach.Embedding {
			by = "an output of the model, and its mean over positions where it has any"
		}
		if named {
			by = "named by --feature"
		}
		printf(w, "feature    %s, width %d, %s\n", f.Tensor, f.Width, by)
		if info.Task != attach.Embedding {
			printf(w, "outputs    %d; %s\n", info.OutputsWidth, exact)
		}
		for _, l := range info.Layers {
			printf(w, "layer      %s, width %d, read too\n", l.Tensor, l.Width)
		}
	} else {
		printf(w, "feature    no linear layer was found; pass one of these with --feature:\n")
		for _, t := range info.Candidates {
			printf(w, "             %s %s, made by %s\n", t.Tensor, shapeText(t.Shape), t.Op)
		}
	}
	if info.Folder != "" {
		printf(w, "folder     %s\n", info.Folder)
	}
	if len(info.Classes) > 0 {
		printf(w, "classes    %s\n", counted(info.Classes))
	}
	if info.MultiLabel {
		fmt.Fprintln(w, "labels     several classes may be right at once")
	}
	if info.Preprocess != nil {
		fmt.Fprintln(w, "images     prepared as preprocessor_config.json says")
	}
	if t := info.Text; t != nil {
		most := ""
		if t.MaxTokens > 0 {
			most = fmt.Sprintf(", at most %d tokens of each", t.MaxTokens)
		}
		printf(w, "texts      tokenized as tokenizer.json says%s\n", most)
	}
	for _, why := range info.Unused {
		printf(w, "unused     %s\n", why)
	}
	printf(w, "providers  %s\n", strings.Join(info.Providers, ", "))
	if gradient != nil {
		printf(w, "gradient   %v\n", gradient)
	} else if info.Feature != nil {
		fmt.Fprintln(w, "gradient   with respect to the input can be had")
	}
	works := methodsThatWork(info, gradient == nil)
	_, err := printf(w, "methods    %s\n", strings.Join(works, ", "))
	return err
}

// methodsThatWork lists the methods whose needs the model itself can meet.
func methodsThatWork(info featurize.Info, differentiable bool) []string {
	has := ood.Needs{Trainer: true, Labels: true}
	if info.Feature != nil {
		has.Features, has.Logits, has.Inputs = true, true, true
		has.Dropout = info.Feature.Of == nil // before the last layer, where there is none of the network's own
		has.Network = differentiable
		has.Weights = info.Exact
		has.Layers = len(info.Layers) > 0
	}
	switch info.Task {
	case attach.Regression:
		has.Logits, has.Labels = false, false
	case attach.Embedding:
		has.Logits, has.Dropout = false, false
	}
	var names []string
	for _, m := range detectors() {
		if fitting.Union(m.Needs, has) == has {
			names = append(names, m.Name)
		}
	}
	return names
}
