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

// maxResamples limits the memory that --bootstrap needs.
const maxResamples = 1_000_000

// compareCall holds the flags of attach compare, and the rows and methods to compare.
type compareCall struct {
	table
	modelFlags
	rowReader
	options        compare.Options
	path           string // path of MODEL.onnx, or ""
	x, test        string
	ood            oodSets
	oodClasses     []int
	rows           inputs.Slice
	testRows       inputs.Slice
	oodRows        inputs.Slice
	task           attach.Task
	weights        string
	json           bool
	standardised   bool // whether to standardise the features of all sets, because --x or the model needs it
	scores, report string
}

func compareCommand() *cli.Command {
	m := &compareCall{options: compare.Options{Methods: detectors(), Resamples: 1000}}
	m.Unhashed = true
	regression := func() bool { return m.task == attach.Regression }
	withModel := noEffect("with MODEL.onnx", func() bool { return m.path != "" })
	withoutModel := noEffect("without MODEL.onnx", func() bool { return m.path == "" })
	read := join(m.rowOptions(&m.table, m.noTokenizer()), m.modelOptions(),
		m.layersOption(noEffect("because none of --methods reads earlier layers", m.readsNoLayers)), m.batchOption(defaultBatch))
	read.pick("folder-labels").withConflicts(m.folderLabelsConflict(regression))
	m.table = join(table{
		{name: "x", dest: &m.x, required: true, file: rowFile, usage: "INPUTS: in-distribution rows to fit on; see `attach help inputs`"},
		{name: "test", dest: &m.test, required: true, file: rowFile, usage: "INPUTS: other in-distribution rows, to measure on"},
		{name: "ood", dest: &m.ood, required: true, file: rowFile, usage: "[[GROUP:]NAME=]INPUTS: out-of-distribution rows, to measure on; with a NAME, may be repeated for more sets"},
		{name: "ood-classes", dest: &m.oodClasses, usage: "A,B,…: keep only rows of --ood with these labels", conflicts: []conflict{withoutModel, noEffect("with several --ood", func() bool { return len(m.ood) > 1 })}},
		sliceOption("rows", "--x", &m.rows),
		sliceOption("test-rows", "--test", &m.testRows),
		sliceOption("ood-rows", "every --ood", &m.oodRows),
	}.inGroup(groupData), table{
		{name: "methods", dest: (*comparedMethods)(&m.options.Methods).set, choices: methodNames(detectors()), list: true, usage: methodsUsage},
		{name: "sweep", dest: &m.options.Sweep, usage: "measure every setting in each method's grid, not only its default"},
		{name: "parallel", dest: &m.options.Parallel, rule: atLeast(1), usage: "N: methods to measure at a time; more than one disturbs the times shown. Without it, one, or with --sweep one per core"},
		{name: "bootstrap", dest: &m.options.Resamples, rule: between(0, maxResamples), usage: "N: bootstrap resamples for confidence intervals; 0 for none"},
		{name: "seed", dest: &m.options.Training.Seed, usage: "N: seed of all random choices"},
	}.inGroup(groupMethods), table{
		{name: "report", dest: &m.report, rule: hasExtension(".html"), file: resultFile, usage: "FILE: .html page with scores and curves"},
		{name: "scores", dest: &m.scores, rule: hasExtension(".npz"), file: resultFile, usage: "FILE: .npz file of every row's scores"},
		{name: "json", dest: &m.json, usage: "print JSON"},
	}.inGroup(groupOutput), table{
		{name: "task", dest: (*string)(&m.task), choices: tasks(), group: groupModel, usage: "TASK: classification or regression, if the model's graph does not tell"},
	}, weightsOption(&m.weights, "without MODEL.onnx", withModel), read.withConflicts(withoutModel), m.runtimeOptions())
	return m.command(cli.Command{
		Name:      "compare",
		Usage:     "measure how well detectors separate in- and out-of-distribution inputs",
		UsageText: "attach compare MODEL.onnx --x INPUTS --test INPUTS --ood INPUTS\nattach compare MODEL.onnx --x INPUTS --test INPUTS --ood near:A=INPUTS --ood far:B=INPUTS\nattach compare --x F.npz --test T.npz --ood O.npz [--weights W.npz]",
		Description: "Fits every detector on --x and measures how well its scores separate --test from --ood, to choose a method for `attach fit --method`. AUROC 1 is perfect, 0.5 is chance. FPR95 is the false-alarm rate at which 95 % of the out-of-distribution rows are detected; AURC is the area under the risk-coverage curve. The oracle, a control, has seen half of --ood.\n\n" +
			"With several --ood, figures are means over the sets. --keep-classes applies to --x and --test, --ood-classes to --ood. docs/reference/json.md explains every figure and file.",
		CustomHelpTemplate: `# three detectors on digits against letters
attach compare digits_resnet.onnx --x digits_fit.npz --test digits_test.npz --ood letters.npz \
    --preprocess digits.preprocess.json --methods certificates,mahalanobis,knn
# the same without the model, from features that are computed once
attach features digits_resnet.onnx --x digits_fit.npz --preprocess digits.preprocess.json -o x.npz
attach features digits_resnet.onnx --x digits_test.npz --preprocess digits.preprocess.json -o test.npz
attach features digits_resnet.onnx --x letters.npz --preprocess digits.preprocess.json -o ood.npz
attach compare --x x.npz --test test.npz --ood ood.npz --methods knn,energy --report compare.html`,
	}, argument{name: "MODEL.onnx", dest: &m.path, optional: true}, m.readOptionFiles, m.log, m.checkWritable, m.run)
}

const methodsUsage = "A,B,…: measure only these methods; `attach methods` lists them"

// comparedMethods holds the value of --methods.
type comparedMethods []ood.Method

func (c *comparedMethods) set(list string) error {
	*c = nil
	for name := range strings.SplitSeq(list, ",") {
		method, ok := attach.MethodByName(strings.TrimSpace(name))
		if !ok || method.Needs.Targets {
			return unknownMethod("--methods", strings.TrimSpace(name))
		}
		if slices.ContainsFunc(*c, func(other ood.Method) bool { return other.Name == method.Name }) {
			return fmt.Errorf("--methods names %s twice", method.Name)
		}
		*c = append(*c, method)
	}
	return nil
}

// readsNoLayers reports whether no method reads earlier layers.
func (m *compareCall) readsNoLayers() bool {
	return !slices.ContainsFunc(m.options.Methods, func(m ood.Method) bool { return m.Needs.Layers })
}

func (m *compareCall) run(c *cli.Context) error {
	if m.readsNoLayers() {
		m.EarlierLayers = 0
	}
	if m.options.Sweep && m.options.Parallel == 0 {
		m.options.Parallel = runtime.GOMAXPROCS(0)
	}
	engine, stop, err := m.newEngine(c.Context)
	if err != nil {
		return err
	}
	defer stop()
	m.options.Training.Trainer = engine
	defer m.CloseModel()
	if m.path == "" {
		err = m.readFeatures()
	} else {
		err = m.readSetsThroughModel(c.Context)
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
	m.printNotes()
	return m.printReport(c.Context, c.App.Writer, r)
}

// measure fits and measures the methods.
func (m *compareCall) measure(ctx context.Context) (*compare.Report, error) {
	p := newProgress(m.stderr, "compare")
	defer p.end()
	m.options.Progress = totalProgress(p, len(m.options.Methods))
	r, err := compare.Run(ctx, m.options)
	if err != nil {
		return nil, err
	}
	return r, checkResults(r)
}

// printNotes prints a warning if labels do not match the predictions, and a note if two
// flags name the same file.
func (m *compareCall) printNotes() {
	warnLabels(m.stderr, m.x, m.options.Training.Batch)
	warnLabels(m.stderr, m.test, m.options.Test)
	if sameFile(m.test, m.x) {
		fmt.Fprintln(m.stderr, "note: --test and --x are one file; methods were fitted on these rows, so that they look more in-distribution than new rows do")
	}
	for _, s := range m.ood {
		if len(m.oodClasses) == 0 && (sameFile(s.path, m.test) || sameFile(s.path, m.x)) {
			printf(m.stderr, "note: --ood %s is also the file of --x or --test; separating rows from themselves is meaningless\n", s.path)
		}
	}
}

// printReport prints the report or its JSON form, and writes the files that flags ask for.
func (m *compareCall) printReport(ctx context.Context, w io.Writer, r *compare.Report) error {
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

// totalProgress returns a function that shows the mean progress of all methods.
func totalProgress(p *progress, methods int) func(method string, share float64) {
	shares := map[string]float64{}
	return func(method string, share float64) {
		shares[method] = share
		var sum float64
		for _, s := range shares {
			sum += s / float64(methods)
		}
		p.show(sum, fmt.Sprintf("%.0f %%, %s", 100*sum, method))
	}
}

// checkResults returns an error with the first reason if no method has a result.
func checkResults(r *compare.Report) error {
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

// writeScores writes the score of every row. The arrays are METHOD/in and METHOD/out, or
// METHOD/out/NAME if sets have names. With --sweep, METHOD/INDEX takes the place of METHOD.
// The array wrong reports which rows of --test the model misclassifies, if that is known.
func writeScores(ctx context.Context, path string, r *compare.Report) error {
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		z := npy.NewNPZWriter(w)
		writeVector := func(name string, x []float64) error {
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
				if err := writeVector(name+"/in", conf.TestScores); err != nil {
					return err
				}
				for k, scores := range conf.OODScores {
					out := name + "/out"
					if len(r.OODSets) > 0 {
						out += "/" + r.OODSets[k].Name
					}
					if err := writeVector(out, scores); err != nil {
						return err
					}
				}
			}
		}
		return z.Close()
	})
}
