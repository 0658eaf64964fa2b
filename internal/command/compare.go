package command

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// mostResamples bounds the memory of --bootstrap.
const mostResamples = 1_000_000

// comparing is a call of attach compare.
type comparing struct {
	table
	place
	reading
	job            compare.Options
	path           string // of MODEL.onnx, or ""
	x, test        string
	ood            oodSets
	oodClasses     []int
	rows           inputs.Slice
	testRows       inputs.Slice
	oodRows        inputs.Slice
	task           attach.Task
	weights        string
	json           bool
	standardised   bool // features of the rows to fit with are, and so those of all
	scores, report string
}

func compareCommand() *cli.Command {
	m := &comparing{job: compare.Options{Methods: detectors(), Resamples: 1000}}
	m.Unhashed = true
	regression := func() bool { return m.task == attach.Regression }
	withModel := idle("with MODEL.onnx", func() bool { return m.path != "" })
	alone := idle("without MODEL.onnx", func() bool { return m.path == "" })
	read := join(m.rowOptions(&m.table, m.textless()), m.modelOptions(),
		m.layersOption(idle("for --methods that do not look at earlier layers", m.layerless)), m.batchOption(batchStandard))
	read.of("folder-labels").unless(m.pickless(regression))
	m.table = join(table{
		{name: "x", to: &m.x, needed: true, file: rowFile, usage: "INPUTS: in-domain rows to fit with: " + inputKinds + "; without MODEL.onnx, features as `attach features` writes them, lists of them as .parquet, or rows×columns as .npy"},
		{name: "test", to: &m.test, needed: true, file: rowFile, usage: "INPUTS: other in-domain rows, to measure on"},
		{name: "ood", to: &m.ood, needed: true, file: rowFile, usage: "[[GROUP:]NAME=]INPUTS: out-of-domain rows, to measure on; with a NAME, repeat for more sets"},
		{name: "ood-classes", to: &m.oodClasses, usage: "A,B,…: keep the rows of --ood with these labels alone", never: []never{alone, idle("with several --ood", func() bool { return len(m.ood) > 1 })}},
		{name: "task", to: (*string)(&m.task), choices: tasks(), usage: "WHAT: classification or regression, where the model's graph does not tell which it does"},
		sliceOption("rows", "--x", &m.rows),
		sliceOption("test-rows", "--test", &m.testRows),
		sliceOption("ood-rows", "every --ood", &m.oodRows),
	}, weightsOption(&m.weights, "without MODEL.onnx, for methods that read them", withModel), table{
		{name: "methods", to: (*comparedMethods)(&m.job.Methods).set, usage: methodsUsage},
		{name: "sweep", to: &m.job.Sweep, usage: "run every method's whole grid, not its default alone"},
		{name: "parallel", to: &m.job.Parallel, must: atLeast(1), usage: "N: methods fitted and scored at a time; more than one disturbs the times shown. Without it, one, or with --sweep one per core"},
		{name: "bootstrap", to: &m.job.Resamples, must: between(0, mostResamples), usage: "N: resamples of the rows measured on that confidence intervals come from; 0 for none"},
		{name: "seed", to: &m.job.Training.Seed, usage: "N: seed of all that is drawn at random"},
		{name: "json", to: &m.json, usage: "print JSON"},
		{name: "scores", to: &m.scores, must: ends(".npz"), file: resultFile, usage: "FILE: .npz to write every row's scores to"},
		{name: "report", to: &m.report, must: ends(".html"), file: resultFile, usage: "FILE: .html to write a report to, with the scores and curves drawn"},
	}, read.unless(alone), m.runtimeOptions())
	return m.command(cli.Command{
		Name:      "compare",
		Usage:     "measure detectors side by side on in-domain and out-of-domain inputs",
		UsageText: "attach compare MODEL.onnx --x F --test T --ood O\nattach compare MODEL.onnx --x F --test T --ood near:A=O1 --ood far:B=O2\nattach compare --x F.npz --test T.npz --ood O.npz [--weights W.npz]",
		Description: "Fits every detector on in-domain inputs and measures how well it tells fresh in-domain inputs from out-of-domain ones; docs/guides/which-method.md says " +
			"what each figure and file holds.\n\n" +
			"Out-of-domain is the positive class: FPR95 is the share of in-domain inputs flagged when 95 % of the out-of-domain ones are found; \"FPR95 in\" " +
			"swaps the classes; \"error\" is the least chance of judging a row wrongly where both sides are equally likely; AURC is the area under the " +
			"risk-coverage curve of the network's own errors. Intervals are of 95 %. The oracle, a control, is fitted with half of --ood.\n\n" +
			"With several --ood, figures are means over the sets. --keep-classes applies to --x and --test, --ood-classes to --ood.",
	}, argument{name: "MODEL.onnx", to: &m.path, optional: true}, m.begin, m.log, m.writable, m.run)
}

const methodsUsage = "A,B,…: compare these alone, of those that `attach methods` lists"

// comparedMethods are the value of --methods.
type comparedMethods []ood.Method

func (c *comparedMethods) set(list string) error {
	*c = nil
	for name := range strings.SplitSeq(list, ",") {
		method, ok := attach.MethodByName(strings.TrimSpace(name))
		if !ok || method.Needs.Targets {
			return fmt.Errorf("--methods: there is no method %q; `attach methods` lists them", name)
		}
		if slices.ContainsFunc(*c, func(other ood.Method) bool { return other.Name == method.Name }) {
			return fmt.Errorf("--methods names %s twice", method.Name)
		}
		*c = append(*c, method)
	}
	return nil
}

// layerless says that no method looks at earlier layers.
func (m *comparing) layerless() bool {
	return !slices.ContainsFunc(m.job.Methods, func(m ood.Method) bool { return m.Needs.Layers })
}

func (m *comparing) run(c *cli.Context) error {
	if m.layerless() {
		m.EarlierLayers = 0
	}
	if m.job.Sweep && m.job.Parallel == 0 {
		m.job.Parallel = runtime.GOMAXPROCS(0)
	}
	engine, stop, err := m.engine(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	m.job.Training.Trainer = engine
	defer m.CloseModel()
	if m.path == "" {
		err = m.readFeatures()
	} else {
		err = m.readModel(c.Context)
	}
	if err != nil {
		return err
	}
	r, err := m.measure(c.Context)
	if err != nil {
		return err
	}
	if m.Model != nil {
		r.Model, r.ModelSHA256 = m.path, m.Model.Base("").SHA256
	}
	m.note()
	return m.print(c.Context, c.App.Writer, r)
}

// measure compares the methods.
func (m *comparing) measure(ctx context.Context) (*compare.Report, error) {
	p := newProgress(m.stderr, "compare")
	defer p.end()
	m.job.Progress = overall(p, len(m.job.Methods))
	r, err := compare.Run(ctx, m.job)
	if err != nil {
		return nil, err
	}
	return r, anyResult(r)
}

// note says which sets are read in two places.
func (m *comparing) note() {
	if sameFile(m.test, m.x) {
		fmt.Fprintln(m.stderr, "note: --test is what --x reads; rows that a method was fitted with look more in-domain than fresh ones do")
	}
	for _, s := range m.ood {
		if len(m.oodClasses) == 0 && (sameFile(s.path, m.test) || sameFile(s.path, m.x)) {
			printf(m.stderr, "note: --ood %s is what --x or --test reads; in-domain rows against themselves tell nothing\n", s.path)
		}
	}
}

// print prints and writes what was measured.
func (m *comparing) print(ctx context.Context, w io.Writer, r *compare.Report) error {
	if m.scores != "" {
		if err := writeScores(ctx, m.scores, r); err != nil {
			return err
		}
	}
	if m.report != "" {
		page := report.Page{Title: "Detectors of out-of-distribution inputs, compared", Sets: []report.Comparison{{Report: r}}}
		if err := writePage(ctx, m.report, page); err != nil {
			return err
		}
	}
	if m.json {
		return writeJSON(w, r)
	}
	_, err := io.WriteString(w, report.ComparisonText(r))
	return err
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

// writeScores writes the score of every row: METHOD/in and METHOD/out, or
// METHOD/out/NAME where sets have names; of a sweep, METHOD/INDEX/in and so on.
func writeScores(ctx context.Context, path string, r *compare.Report) error {
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		z := npy.NewNPZWriter(w)
		vector := func(name string, x []float64) error {
			return z.Array(name, rows.Array{Shape: []int{len(x)}, Data: x})
		}
		if r.Wrong != nil {
			if err := z.Array("wrong", rows.Array{Shape: []int{len(r.Wrong)}, Data: r.Wrong}); err != nil {
				return err
			}
		}
		for _, m := range r.Methods {
			for i, conf := range m.Configs {
				name := m.Name
				if r.Sweep {
					name = fmt.Sprintf("%s/%d", name, i)
				}
				if err := vector(name+"/in", conf.TestScores); err != nil {
					return err
				}
				for k, scores := range conf.OODScores {
					out := name + "/out"
					if len(r.OODSets) > 0 {
						out += "/" + r.OODSets[k].Name
					}
					if err := vector(out, scores); err != nil {
						return err
					}
				}
			}
		}
		return z.Close()
	})
}
