package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// exportFlags holds the flags of attach export.
type exportFlags struct {
	bundleFlags
	out       string
	triton    string
	onlyHeads bool
	only      []string
}

func exportCommand() *cli.Command {
	f := &exportFlags{}
	onlyHeads := noEffect("with --only-heads", func() bool { return f.onlyHeads })
	f.table = join(table{
		{name: "o", dest: &f.out, required: true, unless: func() bool { return f.triton != "" }, file: resultFile, rule: hasExtension(".onnx"), usage: "FILE: .onnx file to write", conflicts: []conflict{noEffect("with --triton", func() bool { return f.triton != "" })}},
		{name: "triton", dest: &f.triton, usage: "DIR: write DIR/1/model.onnx and DIR/config.pbtxt instead of -o: a model of Triton Inference Server's repository, named as DIR"},
		{name: "only", dest: f.setOnly, choices: exportedOutputs(), list: true, usage: "LIST: add only these outputs, with commas between them, because ONNX Runtime computes all outputs of a file: " + strings.Join(exportedOutputs(), ", ")},
		{name: "only-heads", dest: &f.onlyHeads, usage: "write a graph that takes features, logits and earlier layers instead of the model's inputs, for a service that has them"},
	}.inGroup(groupOutput), f.modelOption().withConflicts(onlyHeads), table{
		{name: "alpha", dest: &f.predict.Alpha, rule: fraction, group: groupDetector, usage: "FRACTION: default of the optional input attach.alpha (default: the one of fit)", conflicts: []conflict{noDetector()}},
		{name: "level", dest: &f.predict.Level, rule: fraction, group: groupIntervals, usage: "PROBABILITY: default of the optional input attach.level (default: the one of fit)", conflicts: f.levelConflicts()},
		{name: "sets", dest: &f.sets, choices: append(conformal.GraphScores(), "none"), group: groupSets, usage: "SCORE: kind of prediction set, as for `attach predict`: lac (default), aps, raps, saps, or none", conflicts: []conflict{noClasses()}},
	}, f.runtimeOptions().withConflicts(onlyHeads))
	return f.command(cli.Command{
		Name:      "export",
		Usage:     "write one ONNX model that predicts with flags, intervals and sets",
		UsageText: "attach export M.attach -o OUT.onnx\n  attach export M.attach --triton models/NAME",
		Description: "OUT.onnx has the model's own inputs and outputs and more outputs: p-value, score and flag, interval bounds, prediction set and calibrated probabilities, as far as M.attach has them. " +
			"Any ONNX Runtime runs it, in any language, without attach. docs/guides/export.md explains the outputs, with programs in Python, JavaScript and C#. `attach verify` checks the result.",
		CustomHelpTemplate: `attach export digits_resnet.attach -o digits_calibrated.onnx
attach export toy_regressor.attach --level 0.8 -o toy_calibrated.onnx
# for Triton Inference Server
attach export digits_resnet.attach --triton models/digits`,
	}, argument{name: "M.attach", dest: &f.path}, f.log, f.checkWritable, f.run)
}

func (f *exportFlags) run(c *cli.Context) error {
	b, err := attach.Open(f.path)
	if err != nil {
		return err
	}
	if err := f.checkBundleConflicts(b, f.path); err != nil {
		return err
	}
	if b.Base.SHA256 == "" && !f.onlyHeads {
		return usagef("%s was fitted on features, without a model to export; pass --only-heads", f.path)
	}
	base := cmp.Or(f.modelPath, b.Base.Path)
	if f.triton != "" {
		f.out = filepath.Join(f.triton, "1", "model.onnx")
		if err := os.MkdirAll(filepath.Dir(f.out), 0o777); err != nil {
			return err
		}
		defer removeEmpty(filepath.Dir(f.out), f.triton)
	}
	if err := f.checkOverwrite(usedFile{base, f.path}); err != nil {
		return err
	}
	done, err := featurize.Export(c.Context, b, f.out, featurize.ExportOptions{
		Options: f.Options, Model: f.modelPath, OnlyHeads: f.onlyHeads, Only: f.only, Sets: f.sets,
		Alpha: f.predict.Alpha, Level: f.predict.Level,
	})
	if err != nil {
		return err
	}
	if f.triton != "" {
		config, notes, err := featurize.TritonConfig(f.out)
		if err == nil {
			err = atomicfile.WriteFile(c.Context, filepath.Join(f.triton, "config.pbtxt"), func(w io.Writer) error {
				_, err := io.WriteString(w, config)
				return err
			})
		}
		if err != nil {
			os.Remove(f.out)
			if done.Data != "" {
				os.Remove(done.Data)
			}
			return err
		}
		done.Notes = append(done.Notes, notes...)
	}
	for _, note := range done.Notes {
		printf(c.App.ErrWriter, "note: %s\n", note)
	}
	files := f.out
	if done.Data != "" {
		files += " and " + done.Data
	}
	optional := ""
	if len(done.Inputs) > 0 {
		optional = "; optional inputs " + strings.Join(done.Inputs, ", ")
	}
	_, err = printf(c.App.Writer, "%s: outputs %s%s\n", files, strings.Join(done.Outputs, ", "), optional)
	return err
}

// removeEmpty removes folders that an error has left empty. It fails, as intended, for others.
func removeEmpty(dirs ...string) {
	for _, dir := range dirs {
		os.Remove(dir)
	}
}

// exportedOutputs returns the outputs that a graph can have, without the prefix of their names.
func exportedOutputs() []string {
	return []string{"p_value", "is_ood", "ood_score", "lower", "upper", "quantiles", "prediction_set", "probabilities"}
}

// setOnly parses the flag --only.
func (f *exportFlags) setOnly(list string) error {
	f.only = nil
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimPrefix(strings.TrimSpace(name), "attach.")
		if !slices.Contains(exportedOutputs(), name) {
			return fmt.Errorf("--only has no output %q; choose from %s", name, strings.Join(exportedOutputs(), ", "))
		}
		f.only = append(f.only, "attach."+name)
	}
	return nil
}

// verifyFlags holds the flags of attach verify.
type verifyFlags struct {
	bundleFlags
	files []string // OUT.onnx and M.attach
}

func verifyCommand() *cli.Command {
	f := &verifyFlags{bundleFlags: bundleFlags{groupsOptional: true}}
	f.Unhashed = true
	features, model := f.bundleOptions()
	f.table = join(table{
		{name: "x", dest: &f.x, required: true, file: rowFile, usage: "INPUTS: rows to compare on; see `attach help inputs`"},
	}.inGroup(groupData), features, model)
	return f.command(cli.Command{
		Name:      "verify",
		Usage:     "check that an exported model predicts what its .attach file does",
		UsageText: "attach verify OUT.onnx M.attach --x INPUTS",
		Description: "Runs both on the same rows and prints, for each output, the largest difference and how many rows differ. Bounds, quantiles and probabilities may differ by 1e-5 of their value and scores by 1e-3; flags, p-values and sets must be equal. Rows so close to a threshold that rounding decides count as ties.\n\n" +
			"The exit status is 3 if a row differs, or if the features of the two models differ by more than 1e-3 of a row's largest value.",
		CustomHelpTemplate: `attach export digits_resnet.attach -o digits_calibrated.onnx
attach verify digits_calibrated.onnx digits_resnet.attach --x digits_test.npz`,
	}, argument{name: "OUT.onnx and M.attach", list: &f.files}, f.checkFiles, f.run)
}

// checkFiles is a step of the command: it checks that there are two files, in the right
// order.
func (f *verifyFlags) checkFiles(c *cli.Context) error {
	if len(f.files) != 2 {
		return missingArgument(c, "two files: OUT.onnx and M.attach")
	}
	if f.path = f.files[1]; filepath.Ext(f.path) == ".onnx" && filepath.Ext(f.files[0]) != ".onnx" {
		return usagef("%s is the exported model; give it first: %s %[1]s %[3]s", f.path, commandPath(c), f.files[0])
	}
	return nil
}

func (f *verifyFlags) run(c *cli.Context) error {
	m, err := f.open(c.App.ErrWriter)
	if err != nil {
		return err
	}
	stop, err := f.offloadProducts(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	defer m.CloseModel()
	m.Inputs.NoTargets = len(m.Classes) == 0 // only --keep-classes needs labels
	set, err := m.OpenRows(c.Context, f.x, "", f.rows)
	if err != nil {
		return err
	}
	var a featurize.Agreement
	if set.Set == nil {
		a, err = featurize.VerifyHeads(c.Context, m.Bundle, f.files[0], f.Runtime, set.Blocks(false))
	} else {
		a, err = m.Net.Verify(c.Context, m.Bundle, f.files[0], set.Set.Blocks(c.Context, set.Set.BlockRows()))
	}
	if err != nil && !strings.Contains(err.Error(), f.files[0]) {
		err = inputs.InFile(f.x, err)
	}
	if err != nil {
		return err
	}
	for _, o := range a.Outputs {
		printf(c.App.Writer, "%-22s %s, largest difference %.1e, %d differ, %d tie\n", o.Name, rows.Count(a.Rows, "row"), o.Largest, o.Differ, o.Ties)
	}
	if a.Network > 0 {
		printf(c.App.Writer, "network: features, logits and layers differ by %.1e of a row's largest at most; the rest is compared on the exported ones\n", a.Network)
	}
	if disagreement := a.Disagreement(); disagreement != "" {
		return &gateError{disagreement}
	}
	return nil
}
