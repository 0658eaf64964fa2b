package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func compareCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "fit", Usage: "`INPUTS`: in-domain rows to fit with: .npy, .npz (x or images), .csv, a folder of images; without MODEL.onnx, features as `attach features` writes them, or rows×columns of them as .npy"},
		&cli.StringFlag{Name: "in", Usage: "`INPUTS`: other in-domain rows, to measure on"},
		&cli.StringSliceFlag{Name: "out", Usage: "`[[GROUP:]NAME=]INPUTS`: out-of-domain rows, to measure on; with a NAME, repeat for more sets"},
		&cli.StringFlag{Name: "out-classes", Usage: "`A,B,…`: keep the rows of --out with these labels alone"},
		&cli.StringFlag{Name: "task", Usage: "`WHAT`: classification or regression, where the model's graph does not tell which it does"},
		weightsFlag("without MODEL.onnx", ", for methods that read them"),
		&cli.StringFlag{Name: "methods", Usage: "`A,B,…`: compare these alone, of those that attach methods lists"},
		&cli.BoolFlag{Name: "sweep", Usage: "run every method's whole grid, not its default alone"},
		&cli.IntFlag{Name: "parallel", Usage: "`N`: methods fitted and scored at a time; more than one disturbs the times shown. Without it, one, or with --sweep one per core"},
		&cli.IntFlag{Name: "bootstrap", Value: 1000, Usage: "`N`: resamples of the rows measured on that confidence intervals come from; 0 for none"},
		&cli.Uint64Flag{Name: "seed", Usage: "`N`: seed of all that is drawn at random"},
		&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		&cli.BoolFlag{Name: "select", Usage: "choose a method and its configuration from --fit alone, and say how far its AUROC is from the best"},
		&cli.StringFlag{Name: "criterion", Usage: "`NAME`: with --select, what stands in for out-of-domain rows: " + criteria() + " (default: " + string(compare.Criteria()[0]) + ")"},
		&cli.StringFlag{Name: "scores", Usage: "`FILE`: .npz to write every row's scores to"},
		&cli.StringFlag{Name: "report", Usage: "`FILE`: .html to write a report to, with the scores and curves drawn"},
	}
	return &cli.Command{
		Name:      "compare",
		Usage:     "measure detectors side by side on in-domain and out-of-domain inputs",
		UsageText: "attach compare MODEL.onnx --fit F --in I --out O\nattach compare MODEL.onnx --fit F --in I --out near:A=O1 --out far:B=O2\nattach compare --fit F.npz --in I.npz --out O.npz [--weights W.npz]",
		Description: "Fits every detector (of those that attach methods lists) on in-domain inputs and measures how well it tells fresh in-domain inputs from " +
			"out-of-domain ones.\n\nOut-of-domain is the positive class: FPR95 is the share of in-domain inputs flagged " +
			"when 95 % of the out-of-domain ones are found. \"FPR95 in\" swaps the classes, as many papers do: the share of " +
			"out-of-domain inputs accepted when 95 % of the in-domain ones are. \"error\" is the detection error, the least " +
			"chance of judging a row wrongly where both sides are equally likely. AURC, where --in has labels, is the area under " +
			"the risk-coverage curve: the network's error among the k most certain in-domain inputs, averaged over all k. " +
			"Intervals are of 95 %, by resampling the rows measured on, the same ones for every method.\n\n" +
			"With --sweep, mean and standard deviation run over a method's grid. A method marked \"inserted dropout\" ran with a dropout layer that " +
			"the network was not trained with. The oracle, a control, is fitted with a random half of --out (by --seed) and " +
			"measured on the other half alone.\n\n" +
			"With several --out every method is fitted once, and its figures are means over the sets, each set counted alike; AUROC by set and by group " +
			"follows. NAME and GROUP are letters, digits and . _ + -; write a file whose name holds = as ./a=b.npz.\n\n" +
			"--scores writes arrays METHOD/in and METHOD/out, or METHOD/out/NAME where sets have names; with --sweep METHOD/0/in and so on, " +
			"counted as the configs of --json. Where --in has labels, the array wrong says which of its rows the network gets wrong.\n\n" +
			"--select ranks the configurations compared by how well they tell --fit's own rows, a fifth of them not fitted with, from rows made of them, " +
			"and chooses the first: --criterion mixed puts features half-way between two rows of different classes, shuffled takes every feature from another " +
			"row, held-out-classes fits without some classes and takes their rows, and corrupted, which takes MODEL.onnx, disturbs that fifth of the inputs and puts them through the model once more: " +
			"half of them by noise of up to their standard deviation, the others by permuting patches of images or exchanging columns of tables. " +
			"mean-rank, the default, is the mean rank by all of these that the rows allow. No row of --in or --out is looked at. Regret is the best AUROC of all on --out less that of the " +
			"choice. Methods that run the network cannot be chosen.\n\n" +
			"--classes applies to --fit and --in, --out-classes to --out.",
		Flags:  concat(flags, inputFlags(), modelFlags(), []cli.Flag{layersFlag(), batchFlag()}, runtimeFlags()),
		Action: runCompare,
	}
}

func runCompare(c *cli.Context) error {
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
	choice, err := compareChoices(c)
	if err != nil {
		return err
	}
	o, err := featurizeOptions(c)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(choice.Methods, func(m ood.Method) bool { return m.Needs&ood.NeedLayers != 0 }) {
		if err := refuseLayers(c, "for --methods that do not look at earlier layers"); err != nil {
			return err
		}
		o.EarlierLayers = 0
	}
	r, err := newReading(c)
	if err != nil {
		return err
	}
	if err := choice.checkOutputs(c); err != nil {
		return err
	}
	stop, err := useRuntimeBLAS(c.Context, o)
	if err != nil {
		return err
	}
	defer stop()
	comparison := choice.Options
	sha256 := ""
	if modelPath != "" {
		model, openErr := featurize.Open(c.Context, modelPath, o)
		if openErr != nil {
			return openErr
		}
		defer model.Close()
		sha256 = model.SHA256()
		err = compareModel(c, r, choice, &comparison, model)
	} else {
		err = compareFeatures(c, choice, &comparison)
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
	var chosen *compare.Selected
	if c.Bool("select") {
		if chosen, err = choice.selectMethod(c, comparison); err != nil {
			return err
		}
	}
	p := newProgress(c.App.ErrWriter, "compare")
	defer p.end()
	comparison.Progress = overall(p, len(comparison.Methods))
	report, err := compare.Run(c.Context, comparison)
	if err != nil {
		return err
	}
	p.end()
	if err := anyResult(report); err != nil {
		return err
	}
	if sameFile(c.String("in"), c.String("fit")) {
		fmt.Fprintln(c.App.ErrWriter, "note: --in is what --fit reads; rows that a method was fitted with look more in-domain than fresh ones do")
	}
	for _, s := range choice.sets {
		if c.String("out-classes") == "" && (sameFile(s.path, c.String("in")) || sameFile(s.path, c.String("fit"))) {
			printf(c.App.ErrWriter, "note: --out %s is what --fit or --in reads; in-domain rows against themselves tell nothing\n", s.path)
		}
	}
	report.Model, report.ModelSHA256 = modelPath, sha256
	if chosen != nil {
		report.Choose(*chosen)
	}
	if path := c.String("scores"); path != "" {
		if err := writeScores(c.Context, path, report); err != nil {
			return err
		}
	}
	if path := c.String("report"); path != "" {
		if err := writeReport(c.Context, path, report); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, report)
	}
	return printReport(c.App.Writer, report)
}

// overall shows how much of all methods' work is done.
func overall(p *progress, methods int) func(method string, share float64) {
	shares := map[string]float64{}
	return func(method string, share float64) {
		shares[method] = share
		var sum float64
		for _, s := range shares {
			sum += s / float64(methods)
		}
		p.share(sum, fmt.Sprintf("%.0f %%, %s", 100*sum, method))
	}
}

// comparing is what the flags ask for.
type comparing struct {
	compare.Options
	sets       []outFlag
	outClasses []int
}

// mostResamples bounds the memory of --bootstrap.
const mostResamples = 1_000_000

func compareChoices(c *cli.Context) (comparing, error) {
	choice := comparing{Options: compare.Options{Sweep: c.Bool("sweep"), Parallel: c.Int("parallel"), Resamples: c.Int("bootstrap")}}
	if err := checkTask(c); err != nil {
		return choice, err
	}
	if err := checkCriterion(c); err != nil {
		return choice, err
	}
	if choice.Resamples < 0 || choice.Resamples > mostResamples {
		return choice, usagef("--bootstrap is %d; it must be at least 0 and at most %d", choice.Resamples, mostResamples)
	}
	if c.IsSet("parallel") && choice.Parallel < 1 {
		return choice, usagef("--parallel is %d; it must be at least 1", choice.Parallel)
	}
	if choice.Sweep && choice.Parallel == 0 {
		choice.Parallel = runtime.GOMAXPROCS(0)
	}
	var err error
	if choice.Methods, err = pickMethods(c.String("methods")); err != nil {
		return choice, err
	}
	if choice.sets, err = parseOutFlags(c.StringSlice("out")); err != nil {
		return choice, err
	}
	if len(choice.sets) > 1 {
		if err := refuse(c, "with several --out", "out-classes"); err != nil {
			return choice, err
		}
	}
	choice.outClasses, err = parseInts("out-classes", c.String("out-classes"))
	return choice, err
}

// checkOutputs fails before the work is done where what it would write cannot
// be written, or would replace what it reads.
func (choice comparing) checkOutputs(c *cli.Context) error {
	var reads []source
	for _, path := range c.Args().Slice() {
		reads = append(reads, source{path, c.Command.Name})
	}
	for _, flag := range []string{"fit", "in", "weights", "preprocess"} {
		reads = append(reads, source{c.String(flag), dashed(flag)})
	}
	for _, s := range choice.sets {
		reads = append(reads, source{s.path, "--out"})
	}
	for _, out := range []struct{ flag, extension string }{{"scores", ".npz"}, {"report", ".html"}} {
		path := c.String(out.flag)
		if path == "" {
			continue
		}
		if err := checkExtension(out.flag, path, out.extension); err != nil {
			return err
		}
		if err := keeps(out.flag, path, reads); err != nil {
			return err
		}
		if err := checkWritable(c.Context, path); err != nil {
			return err
		}
	}
	return nil
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

// anyResult returns an error where no method has a result: the first reason.
func anyResult(r *compare.Report) error {
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
