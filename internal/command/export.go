package command

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// exporting is what attach export is called with.
type exporting struct {
	attachedFlags
	out   string
	heads bool
}

func exportCommand() *cli.Command {
	f := &exporting{}
	whole := idle("with --only-heads", func() bool { return f.heads })
	f.table = join(table{
		{name: "o", to: &f.out, needed: true, file: resultFile, must: ends(".onnx"), usage: "FILE: .onnx to write"},
		{name: "only-heads", to: &f.heads, usage: "write a graph that takes features, logits and earlier layers, as `attach features` writes them, in place of the model's inputs"},
		{name: "model", to: &f.moved, file: otherFile, usage: "MODEL.onnx: the model that M.attach was fitted for, where it has moved since", never: []never{whole}},
		{name: "alpha", to: &f.o.Alpha, must: share, usage: "SHARE: what the optional input attach.alpha is where it is not given, instead of what fit was given", never: []never{noDetector()}},
		{name: "level", to: &f.o.Level, must: share, usage: "PROBABILITY: what the optional input attach.level is where it is not given, instead of what fit was given", never: f.levelless()},
		{name: "sets", to: &f.sets, choices: append(conformal.GraphScores(), "none"), usage: "WHICH: sets of classes that hold the right one, as those of `attach predict --sets`: lac, which are smallest (default), aps, raps, saps, or none", never: []never{noClasses()}},
	}, f.runtimeOptions().unless(whole))
	return f.command(cli.Command{
		Name:      "export",
		Usage:     "write the model with M.attach inside: scores, p-values, flags, intervals and sets as outputs",
		UsageText: "attach export M.attach -o OUT.onnx",
		Description: "OUT.onnx has the inputs and outputs of the model and, as far as M.attach has them, `attach.p_value`, `attach.ood_score`, `attach.is_ood`, `attach.lower`, " +
			"`attach.upper`, `attach.quantiles`, `attach.prediction_set` and `attach.probabilities`, tensors all. `attach.alpha` and `attach.level` are inputs that nobody has to give. " +
			"Any ONNX Runtime runs it. docs/guides/export.md says what each is, and shows it in Python, JavaScript and C#.\n\n" +
			"`attach verify` compares it with M.attach.",
	}, argument{name: "M.attach", to: &f.path}, f.log, f.writable, f.run)
}

func (f *exporting) run(c *cli.Context) error {
	b, err := attach.Open(f.path)
	if err != nil {
		return err
	}
	if err := f.checkFor(b); err != nil {
		return err
	}
	if b.Base.SHA256 == "" && !f.heads {
		return usagef("%s was fitted on features alone, and there is no model to add to; pass --only-heads", f.path)
	}
	base := cmp.Or(f.moved, b.Base.Path)
	if err := f.keeps(source{base, f.path}); err != nil {
		return err
	}
	done, err := featurize.Export(c.Context, b, f.out, featurize.ExportOptions{
		Options: f.Options, Model: f.moved, OnlyHeads: f.heads, Sets: f.sets,
		Alpha: f.o.Alpha, Level: f.o.Level,
	})
	if err != nil {
		return err
	}
	for _, note := range done.Notes {
		printf(c.App.ErrWriter, "note: %s\n", note)
	}
	files := f.out
	if done.Data != "" {
		files += " and " + done.Data
	}
	_, err = printf(c.App.Writer, "%s: outputs %s; optional inputs %s\n", files, strings.Join(done.Outputs, ", "), strings.Join(done.Inputs, ", "))
	return err
}

// verifying is what attach verify is called with.
type verifying struct {
	attachedFlags
	files []string // what export wrote, and M.attach
}

func verifyCommand() *cli.Command {
	f := &verifying{attachedFlags: attachedFlags{groupless: true}}
	f.Unhashed = true
	features, model := f.attachedOptions()
	f.table = join(table{
		{name: "x", to: &f.x, needed: true, file: rowFile, usage: "INPUTS: rows to compare on: " + inputKinds + "; with --from-features, what `attach features` writes"},
	}, features, model)
	return f.command(cli.Command{
		Name:      "verify",
		Usage:     "compare a model that export wrote with M.attach",
		UsageText: "attach verify OUT.onnx M.attach --x INPUTS",
		Description: "Runs both on the same rows and prints, of each output, the largest difference and how many rows differ: ends, quantiles and probabilities by more than 1e-5 " +
			"of what they are, scores by more than 1e-3, flags, p-values and sets at all. Ties are rows that stand so near a calibration score or a bound that rounding decides, and scores that differ by more than 1e-5: between calibration scores that are nearly the same, rounding is magnified. " +
			"Outputs are compared on the features that the exported network makes; how far these are from the bundle's network's is printed apart. The exit status is 3 where any row differs, and where these features do by more than 1e-3 of a row's largest number.",
	}, argument{name: "OUT.onnx and M.attach", list: &f.files}, f.named, f.run)
}

// named is a step that tells the two files apart.
func (f *verifying) named(c *cli.Context) error {
	if len(f.files) != 2 {
		return usagef("%s needs OUT.onnx and M.attach, and not %s; see `%[1]s --help`", path(c), rows.Count(len(f.files), "file"))
	}
	if f.path = f.files[1]; filepath.Ext(f.path) == ".onnx" && filepath.Ext(f.files[0]) != ".onnx" {
		return usagef("%s takes OUT.onnx first and M.attach second: %s and %s", path(c), f.path, f.files[0])
	}
	return nil
}

func (f *verifying) run(c *cli.Context) error {
	m, err := f.open(c.App.ErrWriter)
	if err != nil {
		return err
	}
	stop, err := f.products(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	defer m.CloseModel()
	m.Inputs.NoTargets = len(m.Classes) == 0 // which picks rows by their labels
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
	if says := a.Disagreement(); says != "" {
		return &gateError{says}
	}
	return nil
}
