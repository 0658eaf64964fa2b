package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/bundle"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

func compareCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "fit", Usage: "`INPUTS`: in-domain rows to fit with: .npy, .npz (x or images), .csv, a folder of images; without MODEL.onnx, features as `attach features` writes them"},
		&cli.StringFlag{Name: "in", Usage: "`INPUTS`: other in-domain rows, to measure on"},
		&cli.StringFlag{Name: "out", Usage: "`INPUTS`: out-of-domain rows, to measure on"},
		&cli.StringFlag{Name: "out-classes", Usage: "`A,B,…`: keep the rows of --out with these labels alone"},
		&cli.StringFlag{Name: "task", Usage: "`WHAT`: classification or regression, where the model's graph does not tell which it does"},
		&cli.StringFlag{Name: "weights", Usage: "`FILE`: .npz of the last layer's weight c×h and bias c, without MODEL.onnx, for methods that read them"},
		&cli.StringFlag{Name: "methods", Usage: "`A,B,…`: compare these alone, of those that attach methods lists"},
		&cli.BoolFlag{Name: "sweep", Usage: "run every method's whole grid, not its default alone"},
		&cli.Uint64Flag{Name: "seed", Usage: "`N`: seed of all that is drawn at random"},
		&cli.BoolFlag{Name: "json", Usage: "print JSON"},
	}
	return &cli.Command{
		Name:      "compare",
		Usage:     "every method side by side",
		UsageText: "attach compare MODEL.onnx --fit F --in I --out O\nattach compare --fit F.npz --in I.npz --out O.npz [--weights W.npz]",
		Description: "Fits every method on in-domain inputs and measures how well it tells fresh in-domain inputs from " +
			"out-of-domain ones. Out-of-domain is the positive class; FPR95 is the share of in-domain inputs flagged " +
			"when 95 % of the out-of-domain ones are found. With --sweep, mean and standard deviation run over a " +
			"method's grid. A method marked \"inserted dropout\" ran with a dropout layer that " +
			"the network was not trained with. The oracle, a control, is fitted with a random half of --out (by --seed) and " +
			"measured on the other half alone. --classes applies to --fit and --in, --out-classes to --out.",
		Flags:  concat(flags, inputFlags(), modelFlags(), []cli.Flag{batchFlag()}, runtimeFlags()),
		Action: compare,
	}
}

func compare(c *cli.Context) error {
	modelPath, err := optional(c)
	if err != nil {
		return err
	}
	if err := required(c, "fit", "in", "out"); err != nil {
		return err
	}
	if modelPath != "" {
		err = refuse(c, "with MODEL.onnx", "weights")
	} else {
		err = refuse(c, "without MODEL.onnx", append(rowFlags(), "out-classes")...)
	}
	if err != nil {
		return err
	}
	if err := checkTask(c); err != nil {
		return err
	}
	methods, err := pickMethods(c.String("methods"))
	if err != nil {
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
	outClasses, err := parseInts("out-classes", c.String("out-classes"))
	if err != nil {
		return err
	}
	stop, err := useRuntimeBLAS(c.Context, o)
	if err != nil {
		return err
	}
	defer stop()
	comparison := ood.Comparison{Methods: methods, Sweep: c.Bool("sweep")}
	if modelPath != "" {
		model, openErr := featurize.Open(c.Context, modelPath, o)
		if openErr != nil {
			return openErr
		}
		defer model.Close()
		err = compareModel(c, r, outClasses, &comparison, model)
	} else {
		err = compareFeatures(c, &comparison)
	}
	if err != nil {
		return err
	}
	engine, err := newEngine(c.Context, o)
	if err != nil {
		return err
	}
	defer engine.Close()
	comparison.Training.Trainer = engine
	comparison.Training.Seed = c.Uint64("seed")
	p := newProgress(c.App.ErrWriter, "compare")
	defer p.end()
	comparison.Progress = func(method string, share float64) { p.share(share, fmt.Sprintf("%s %.0f %%", method, 100*share)) }
	report, err := ood.Compare(c.Context, comparison)
	if err != nil {
		return err
	}
	p.end()
	if err := anyResult(report); err != nil {
		return err
	}
	report.Model = modelPath
	if c.Bool("json") {
		return writeJSON(c.App.Writer, report)
	}
	return printReport(c.App.Writer, report)
}

func pickMethods(list string) ([]ood.Method, error) {
	if list == "" {
		return baselines.All, nil
	}
	var methods []ood.Method
	for _, name := range strings.Split(list, ",") {
		m, ok := baselines.ByName(strings.TrimSpace(name))
		if !ok {
			return nil, usagef("--methods: there is no method %q; `attach methods` lists them", name)
		}
		if slices.ContainsFunc(methods, func(other ood.Method) bool { return other.Name == m.Name }) {
			return nil, usagef("--methods names %s twice", m.Name)
		}
		methods = append(methods, m)
	}
	return methods, nil
}

// compareModel runs the model on the three sets.
func compareModel(c *cli.Context, r *reading, outClasses []int, comparison *ood.Comparison, model *featurize.Model) error {
	r.fitTo(model)
	info := model.Info()
	task := cmp.Or(c.String("task"), info.Task)
	read := func(path string, classes []int, labelled bool) (ood.Batch, error) {
		set, err := r.open(c.Context, path, "", classes)
		if err != nil {
			return ood.Batch{}, err
		}
		if labelled && task == string(bundle.Classification) && set.Labels() != nil {
			if err := inputs.CheckLabels(set.Labels(), info.OutputsWidth); err != nil {
				return ood.Batch{}, fmt.Errorf("%s: %w", path, err)
			}
		}
		b, err := r.features(c.Context, model, path, set)
		if !labelled || task == string(bundle.Regression) {
			b.Labels = nil
		}
		if task == string(bundle.Regression) {
			// Methods on logits read scores of classes, which these are not.
			b.Logits = blas32.General{}
		}
		return b, err
	}
	var err error
	if comparison.Training.Batch, err = read(c.String("fit"), r.classes, true); err != nil {
		return err
	}
	if comparison.In, err = read(c.String("in"), r.classes, true); err != nil {
		return err
	}
	if comparison.Out, err = read(c.String("out"), outClasses, false); err != nil {
		return err
	}
	comparison.Training.Last, comparison.Training.Network = model.Last(), model.Network()
	comparison.Training.InputScale = r.inputScale()
	comparison.Training.Regression = task == string(bundle.Regression)
	return nil
}

func compareFeatures(c *cli.Context, comparison *ood.Comparison) error {
	for _, part := range []struct {
		flag string
		dst  *ood.Batch
	}{{"fit", &comparison.Training.Batch}, {"in", &comparison.In}, {"out", &comparison.Out}} {
		b, err := openFeatures(c.String(part.flag))
		if err != nil {
			return err
		}
		if c.String("task") == string(bundle.Regression) {
			b.Labels, b.Logits = nil, blas32.General{}
		}
		*part.dst = b
	}
	comparison.Out.Labels = nil
	comparison.Training.Regression = c.String("task") == string(bundle.Regression)
	path := c.String("weights")
	if path == "" {
		return nil
	}
	var err error
	comparison.Training.Last, err = inputs.LoadWeights(path)
	return err
}

// anyResult returns an error where no method has a result: the first reason.
func anyResult(r *ood.Report) error {
	for _, m := range r.Methods {
		if len(m.Configs) > 0 {
			return nil
		}
	}
	for _, m := range r.Methods {
		for _, f := range m.Failed {
			return fmt.Errorf("no method has a result: %s: %s", m.Name, f.Error)
		}
	}
	for _, s := range r.Skipped {
		return fmt.Errorf("no method has a result: %s", s.Reason)
	}
	return nil
}

func printReport(w io.Writer, r *ood.Report) error {
	fmt.Fprintf(w, "%d rows to fit with, %d in-domain, %d out-of-domain\n\n", r.NFit, r.NIn, r.NOut)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	spread := func(s ood.Summary) string {
		if !r.Sweep {
			return fmt.Sprintf("%.4f", s.Mean)
		}
		return fmt.Sprintf("%.3f±%.3f", s.Mean, s.Std)
	}
	width := len("method")
	names := map[string]string{}
	for _, m := range r.Methods {
		names[m.Name] = m.Name
		if m.Control {
			names[m.Name] += " (control)"
		}
		if m.Variant != "" {
			names[m.Name] += " (" + m.Variant + ")"
		}
		width = max(width, len(names[m.Name]))
	}
	fmt.Fprintf(t, "%-*s\t", width, "method")
	fmt.Fprintln(t, "AUROC\tFPR95\tAUPR in\tAUPR out\tfit s\tµs/input\t")
	for _, m := range r.Ranked() {
		if m.AUROC.IsZero() {
			continue
		}
		fmt.Fprintf(t, "%-*s\t%s\t%s\t%s\t%s\t%.2f\t%.1f\t\n", width, names[m.Name], spread(m.AUROC), spread(m.FPR95), spread(m.AUPRIn), spread(m.AUPROut), m.FitSeconds, m.ScoreMicroseconds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range r.Methods {
		if m.NOutliers > 0 {
			fmt.Fprintf(w, "\n%s: fitted with %d out-of-domain rows and measured on %d others\n", m.Name, m.NOutliers, m.NOut)
		}
		for _, f := range m.Failed {
			fmt.Fprintf(w, "failed: %s %s: %s\n", m.Name, f.Params, f.Error)
		}
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s\n", s.Reason)
	}
	return nil
}
