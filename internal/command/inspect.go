package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// inspectFlags holds the flags of attach inspect.
type inspectFlags struct {
	table
	modelFlags
	path string
	json bool
}

func inspectCommand() *cli.Command {
	v := &inspectFlags{}
	bundle := noEffect("for a .attach file, which is shown without its model", func() bool { return isBundle(v.path) })
	v.table = join(table{{name: "json", dest: &v.json, usage: "print JSON", group: groupOutput}}, v.modelOptions(), v.layersOption(), v.runtimeOptions())
	v.table.pick("feature-tensor", "model-output", "layers", "ort-lib", "provider", "device", "threads").withConflicts(bundle)
	return v.command(cli.Command{
		Name:      "inspect",
		Usage:     "show what a model or a .attach file contains",
		UsageText: "attach inspect MODEL.onnx [--json]\nattach inspect M.attach [--json]",
		Description: "For a model, or the folder that an exporter wrote: its inputs and outputs, the tensor that attach uses as features, and the methods that work with it. Look here first to see whether attach understands your model.\n\n" +
			"For a .attach file: the model it belongs to, what was fitted and calibrated, and what is guaranteed. This needs neither the model nor the runtime.",
		CustomHelpTemplate: `attach inspect digits_resnet.onnx
attach inspect digits_resnet.attach`,
	}, argument{name: "MODEL.onnx or M.attach", dest: &v.path}, v.log, v.run)
}

func (v *inspectFlags) run(c *cli.Context) error {
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
	var noLayer *featurize.NoLinearLayerError
	if errors.As(err, &noLayer) {
		return printInfo(w, noLayer.Info, v.Feature != "", nil)
	}
	if err != nil {
		return err
	}
	defer model.Close()
	gradientErr := gradientError(c.Context, model, featurize.GradientOptions{Of: ood.Scalar{Sum: true}})
	if err := c.Context.Err(); err != nil {
		return err
	}
	return printInfo(w, model.Info(), v.Feature != "", gradientErr)
}

// gradientError returns the reason why the model cannot be differentiated. It returns nil
// if the model can be differentiated.
func gradientError(ctx context.Context, model *featurize.Model, o featurize.GradientOptions) error {
	noRows := func(func(ood.InputBlock, error) bool) {}
	for _, err := range model.Gradients(ctx, noRows, o) {
		if err != nil {
			return err
		}
	}
	return nil
}

// printInfo prints what a model contains. gradientErr is the result of gradientError. isNamed
// says whether --feature-tensor named the features.
func printInfo(w io.Writer, info featurize.Info, isNamed bool, gradientErr error) error {
	printFact(w, "opset", "%d (IR %d)", info.Opset, info.IRVersion)
	for _, v := range info.Inputs {
		suffix := ""
		if v.Optional {
			suffix = ", optional"
		}
		printFact(w, "input", "%s %s %s%s", v.Name, v.DType, shapeText(v.Shape), suffix)
	}
	for _, v := range info.Outputs {
		printFact(w, "output", "%s %s %s", v.Name, v.DType, shapeText(v.Shape))
	}
	printFact(w, "task", "%s", info.Task)
	if f := info.Feature; f != nil {
		weights := "logits = W·features + b holds exactly"
		if !info.Exact {
			weights = "logits = W·features + b does not hold: " + info.ExactReason
		}
		source := fmt.Sprintf("read by %s node %s", f.Op, f.Node)
		if f.Of != nil {
			source = strings.Join(f.Of, " and ") + " together, standardised"
			if f.LastLayer != "" {
				source += "; --feature-tensor " + f.LastLayer + " reads the last linear layer instead"
			}
		} else if f.Standardised {
			source += ", standardised"
		}
		if info.Task == attach.Embedding {
			source = "an output of the model, and its mean over positions where it has any"
		}
		if isNamed {
			source = "named by --feature-tensor"
		}
		printFact(w, "feature", "%s, width %d, %s", f.Tensor, f.Width, source)
		if info.Task != attach.Embedding {
			printFact(w, "outputs", "%d; %s", info.OutputsWidth, weights)
		}
		for _, l := range info.Layers {
			printFact(w, "layer", "%s, width %d, read too", l.Tensor, l.Width)
		}
	} else {
		printFact(w, "feature", "no linear layer found; choose one of these with --feature-tensor:")
		for _, t := range info.Candidates {
			printf(w, "             %s %s, made by %s\n", t.Tensor, shapeText(t.Shape), t.Op)
		}
	}
	if info.Folder != "" {
		printFact(w, "folder", "%s", info.Folder)
	}
	if len(info.Classes) > 0 {
		printFact(w, "classes", "%s", countAndNames(info.Classes))
	}
	if info.MultiLabel {
		printFact(w, "labels", "several classes may be right at once")
	}
	if info.Preprocess != nil {
		printFact(w, "images", "prepared as in preprocessor_config.json")
	}
	if t := info.Text; t != nil {
		printFact(w, "texts", "tokenized by tokenizer.json%s", tokenLimit(t))
	}
	for _, reason := range info.Unused {
		printFact(w, "unused", "%s", reason)
	}
	printFact(w, "providers", "%s", strings.Join(info.Providers, ", "))
	if gradientErr != nil {
		printFact(w, "gradient", "%s", errorText(gradientErr))
	} else if info.Feature != nil {
		printFact(w, "gradient", "available with respect to the input")
	}
	_, err := printFact(w, "methods", "%s", strings.Join(methodNames(supportedMethods(info, gradientErr == nil)), ", "))
	return err
}

// supportedMethods returns the methods whose needs the model meets.
func supportedMethods(info featurize.Info, differentiable bool) []ood.Method {
	available := ood.Needs{Trainer: true, Labels: true}
	if info.Feature != nil {
		available.Features, available.Logits, available.Inputs = true, true, true
		available.Dropout = info.Feature.Of == nil // attach inserts dropout before the last layer if the model has none
		available.Network = differentiable
		available.Weights = info.Exact
		available.Layers = len(info.Layers) > 0
	}
	switch info.Task {
	case attach.Regression:
		available.Logits, available.Labels = false, false
	case attach.Embedding:
		available.Logits, available.Dropout = false, false
	}
	return slices.DeleteFunc(detectors(), func(m ood.Method) bool { return fitting.Union(m.Needs, available) != available })
}
