package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/explain"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/schema"
)

// maxSamples limits the memory that --samples needs.
const maxSamples = 100_000

// predictFlags holds the flags of attach predict.
type predictFlags struct {
	bundleFlags
	out, side, report string
	id                string // table column that identifies rows
	explain           bool
	explainRows       int    // largest number of flagged rows to explain
	fitted            string // rows of the fit, among which the nearest are named
	neighbours        int
}

func predictCommand() *cli.Command {
	f := &predictFlags{out: "-", side: "both", neighbours: 1, explainRows: maxReportRows}
	f.Unhashed, f.keepReasons = true, true
	noGroups := bundleConflict("has no effect because M.attach was fitted without --groups; leave it out", func(b *attach.Bundle) bool { return b.Calibration.Groups == nil })
	notRandom := bundleConflict("has no effect without --samples, --smoothed, --sets-by-cluster, --interval-score rcp or --region ellipsoid; leave it out", func(b *attach.Bundle) bool {
		return f.predict.Region != conformal.Ellipsoid && f.predict.Samples == 0 && !f.predict.Smoothed && !f.predict.SetsByCluster && cmp.Or(f.predict.IntervalScore, b.Calibration.IntervalScore) != conformal.RCP
	})
	sideConflicts := func(side string) []conflict {
		return []conflict{
			{when: func() bool { return f.predict.Joint && f.side == side }, reason: side + " cannot be combined with --joint"},
			{when: func() bool { return f.predict.Region != "" && f.side == side }, reason: side + " cannot be combined with --region"},
			{when: func() bool { return f.predict.IntervalScore != "" && f.side == side }, reason: side + " cannot be combined with --interval-score"},
		}
	}
	features, model := f.bundleOptions()
	f.table = join(table{
		{name: "x", dest: &f.x, required: true, file: rowFile, usage: "INPUTS: rows to predict; see `attach help inputs`"},
	}.inGroup(groupData), features, table{
		{name: "alpha", dest: &f.predict.Alpha, rule: fraction, usage: "FRACTION: false-alarm rate: flag rows whose p-value is at most this (default: the one of fit)", conflicts: []conflict{noDetector()}},
	}.inGroup(groupDetector), table{f.flagByClassOption()}, table{
		{name: "level", dest: &f.predict.Level, rule: fraction, conflicts: f.levelConflicts(), usage: "PROBABILITY: coverage of intervals and prediction sets (default: the one of fit)"},
	}.inGroup(groupIntervals), f.predictionSetOptions(), table{
		f.jointOption(),
		f.regionOption(),
		{name: "side", dest: &f.side, choices: []string{"both", conformal.Lower, conformal.Upper}, conflicts: append(sideConflicts(conformal.Lower), sideConflicts(conformal.Upper)...),
			usage: "SIDE: both bounds, or lower or upper: that bound alone, which is then tighter"},
		{name: "quantiles", dest: f.setLevels, usage: "A,B,…: write these quantiles too, such as 0.1,0.5,0.9; they are not conformalized"},
		{name: "samples", dest: &f.predict.Samples, rule: between(1, maxSamples), conflicts: []conflict{crossFitted()}, usage: "N: write N draws from the calibrated distribution of each target, for simulations; draws of several targets are independent"},
	}.inGroup(groupIntervals).withConflicts(noIntervals()), table{
		{name: "class-p-values", dest: &f.predict.ClassPValues, conflicts: f.levelConflicts()[1:], usage: "write the conformal p-value of each class; the classes above 1 − level are the prediction set"},
		{name: "venn-abers", dest: &f.predict.VennAbers, conflicts: []conflict{weighted()}, usage: "write two probabilities that the class is right, one of which is calibrated for any model"},
	}.inGroup(groupSets).withConflicts(noClasses()), f.groupsOption(", if the file was fitted with --groups", noGroups), table{
		{name: "id", dest: &f.id, group: groupColumns, usage: "COLUMN: column of a table that identifies rows; it is no input, and is copied to the output as id",
			conflicts: []conflict{noEffect("with --from-features", func() bool { return f.asFeatures })}},
	}, table{
		{name: "o", dest: &f.out, file: resultFile, rule: tableFile, usage: "FILE: .csv, .jsonl, .parquet or .npz file to write, or - for CSV on standard output, the default in a pipe"},
		{name: "explain", dest: &f.explain, conflicts: []conflict{
			noEffect("with --from-features, because reasons come from the model's inputs", func() bool { return f.asFeatures }),
			bundleConflict("needs the profile of the inputs, and M.attach has none; fit again with the model", func(b *attach.Bundle) bool { return b.Profile == nil })},
			usage: "attribute the score of flagged rows to columns, regions of an image or words, and name new words, in the column reasons; images need --fitted"},
		{name: "explain-rows", dest: &f.explainRows, rule: between(1, math.MaxInt32), conflicts: []conflict{noEffect("without --explain", func() bool { return !f.explain })}, usage: "N: attribute the scores of the first N flagged rows; one costs about as much as 6 predictions for a text, 60 for a table row and 250 to 560 for an image"},
		{name: "fitted", dest: &f.fitted, file: rowFile, usage: "INPUTS: rows of the fit, or other normal rows; the column nearest then names the one with the most similar features; the model runs on all of them, and their features are kept in memory"},
		{name: "neighbours", dest: &f.neighbours, rule: between(1, maxNeighbours), conflicts: []conflict{noEffect("without --fitted", func() bool { return f.fitted == "" })}, usage: "N: how many rows of --fitted to name"},
		{name: "report", dest: &f.report, rule: hasExtension(".html"), file: resultFile, usage: "FILE: .html page of the flagged rows, most unusual first, with pictures of images", conflicts: []conflict{noDetector()}},
		{name: "seed", dest: &f.predict.Seed, conflicts: append(f.levelConflicts()[:1], notRandom), usage: "N: seed of --samples, --smoothed, --sets-by-cluster, --interval-score rcp and --region ellipsoid"},
	}.inGroup(groupOutput), model)
	return f.command(cli.Command{
		Name:      "predict",
		Usage:     "predict with flags, intervals and prediction sets",
		UsageText: "attach predict M.attach --x INPUTS [-o OUT.csv]",
		Description: "Runs the model on each row and says how far to trust the result: a flag for unfamiliar inputs, an interval for a regressor, a prediction set for a classifier. On a terminal it shows the first rows; in a pipe or with -o it writes all rows. `attach help columns` explains the columns.\n\n" +
			"Coverage and p-values hold for rows that are exchangeable with the calibration data: new rows from the same source.",
		CustomHelpTemplate: `# flag letters with a model of digits
attach predict digits_resnet.attach --x letters.npz
# a table of all rows, at a lower false-alarm rate, and a page of the flagged ones
attach predict digits_resnet.attach --x letters.npz --alpha 0.01 -o out.csv --report flags.html
# 80 % intervals and two quantiles
attach predict toy_regressor.attach --x toy_test.npz --level 0.8 --quantiles 0.1,0.9 -o toy.csv`,
	}, argument{name: "M.attach", dest: &f.path}, f.table.pick("report").checkWritable, f.run)
}

// setLevels parses --quantiles.
func (f *predictFlags) setLevels(list string) (err error) {
	f.predict.Levels, err = parseFractions("--quantiles", list)
	return err
}

// parseFractions parses a list such as "0.1,0.5" from a flag.
func parseFractions(option, list string) ([]float64, error) {
	var fractions []float64
	for field := range strings.SplitSeq(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		switch {
		case err != nil || fraction(v) != "":
			return nil, fmt.Errorf("%s is %q; it must be numbers between 0 and 1 with commas between", option, list)
		case slices.Contains(fractions, v):
			return nil, fmt.Errorf("%s names %v twice", option, v)
		}
		fractions = append(fractions, v)
	}
	return fractions, nil
}

func (f *predictFlags) run(c *cli.Context) error {
	f.KeepInputs = f.explain
	m, err := f.open(c.App.ErrWriter)
	if err != nil {
		return err
	}
	m.Inputs.SkipOdd, m.Unlabelled, m.Inputs.ID = len(m.Classes) == 0, true, f.id
	o := f.predictOptions(m.Bundle)
	if f.side != "both" {
		o.Side = f.side
	}
	predictor, stop, err := m.predictor(c.Context, o)
	if err != nil {
		return err
	}
	defer stop()
	defer m.CloseModel()
	result := predictResult{flags: f, stderr: m.stderr, options: o, bundle: m.Bundle, gaps: m.Bundle.GapCounter(), byClass: map[int]int{}}
	if result.known, err = f.readFitted(c.Context, m); err != nil {
		return err
	}
	if f.explain {
		if err := m.OpenNetwork(c.Context); err != nil {
			return err
		}
		var why string
		if result.explainer, why, err = f.newExplainer(c.Context, m, predictor, result.known); err != nil {
			return err
		}
		if why != "" {
			printf(m.stderr, "note: scores are not attributed to the inputs: %s\n", why)
		}
	}
	write := func(w io.Writer) error {
		if result.input, err = m.OpenRows(c.Context, f.x, "", f.rows); err != nil {
			return err
		}
		if f.id != "" && (result.input.Set == nil || result.input.Set.IDs == nil) {
			return fmt.Errorf("%s: --id is for tables; rows of other files have the column input", f.x)
		}
		result.reasons = result.input.Schema != nil && (f.explain || m.Bundle.Base.Columns != nil)
		p := newProgress(m.stderr, "predict")
		defer p.end()
		table := newTableWriter(f.out, w)
		if preview := newPreview(w); preview != nil && !f.find("o").given {
			table = preview
		}
		return result.write(c.Context, predictor, table, p)
	}
	if f.out == "-" {
		err = write(c.App.Writer)
	} else {
		err = atomicfile.WriteFile(c.Context, f.out, write)
	}
	if err != nil {
		return err
	}
	if result.input.Schema != nil {
		result.summary = result.input.Schema.Summary()
	}
	if f.report != "" {
		if err := result.writeReport(c.Context); err != nil {
			return err
		}
	}
	m.NoteTruncated(f.x)
	result.noteColumns(m.stderr)
	noteInfinite(m.stderr, m.Bundle, o, result.input.Known.Groups)
	noteUnflaggable(m.stderr, m.Bundle, o)
	noteSets(m.stderr, m.Bundle, o)
	if m.Bundle.Calibration.HeldOut == rows.SplitOff {
		noteGuarantee(m.stderr, "note", m.Bundle)
	}
	result.noteAccepted(m.stderr, predictor.Selective())
	result.printSummary(m.stderr)
	return nil
}

// predictResult holds the results of a call of attach predict.
type predictResult struct {
	flags                   *predictFlags
	options                 attach.PredictOptions
	bundle                  *attach.Bundle
	input                   *modelrows.Rows
	gaps                    *attach.GapCounter // for a .attach file without a profile
	known                   *fittedRows        // nil without --fitted
	stderr                  io.Writer
	explainer               *explainer     // nil without --explain
	reasons                 bool           // whether to write the column reasons
	summary                 schema.Summary // of all rows; empty without a profile
	worst                   flaggedRows
	allFlagged              []report.FlaggedRow // all flagged rows; nil without --report
	rows, flagged, accepted int
	sets, classesInSets     int         // number of rows with a prediction set, and number of classes in all sets
	byClass                 map[int]int // number of rows for each predicted class
	pValues                 [hypothesis.Bins]int
}

// write predicts all rows and writes them to the table.
func (r *predictResult) write(ctx context.Context, predictor *attach.Predictor, t tableWriter, p *progress) error {
	var fields []func(attach.Prediction) field
	var row []field
	done, f := 0, r.flags
	rows := iter.Seq2[attach.Rows, error](func(yield func(attach.Rows, error) bool) {
		for block, err := range r.input.Blocks(false) {
			if err == nil {
				r.gaps.Add(block)
				if r.known != nil {
					err = r.known.add(ctx, block)
				}
			}
			if !yield(block, err) {
				return
			}
		}
	})
	if r.explainer != nil {
		rows = r.explainer.observe(rows)
	}
	for prediction, err := range predictor.Stream(ctx, rows) {
		if err != nil {
			t.close() // standard output keeps the complete rows before the error
			return inputs.InFile(f.x, err)
		}
		if fields == nil {
			if prediction.Class < 0 && (f.sets != "" && f.sets != "none" || f.predict.MaxError != 0 || f.predict.VennAbers) {
				return inputs.InFile(f.x, errors.New("the rows have no logits, which --sets, --max-error and --venn-abers need; pass --weights to compute them from the features"))
			}
			fields = predictionFields(prediction, r.options, r.bundle.Base.Classes)
		}
		row = append(row[:0], field{"input", r.input.Name(done)})
		if f.id != "" {
			row = append(row, field{"id", r.input.Set.IDs[done]})
		}
		row = knownFields(&r.input.Known, row, done)
		for _, newField := range fields {
			row = append(row, newField(prediction))
		}
		if y := r.input.Known.Targets; prediction.Ellipsoid != nil && y.Cols > 0 {
			row = append(row, field{"inside", insideEllipsoid(prediction.Ellipsoid, y.Data[done*y.Stride:done*y.Stride+y.Cols])})
		}
		var why *explain.Explanation
		if r.input.Schema != nil { // take them even if they are not written, because the checker keeps them until then
			prediction.Reasons = r.input.Schema.Take(done)
		}
		if r.reasons {
			texts := reasonTexts(prediction.Reasons)
			if r.explainer != nil {
				if why, err = r.explainer.take(ctx, prediction.Flag); err != nil {
					return inputs.InFile(f.x, err)
				}
				if why != nil {
					texts = append(texts, why.Reasons()...)
				}
			}
			row = append(row, field{"reasons", texts})
		}
		var nearest []int
		if r.known != nil {
			var names []string
			nearest, names = r.known.take()
			row = append(row, field{"nearest", names})
		}
		if err := t.write(row); err != nil {
			return err
		}
		r.add(prediction)
		if f.report != "" && prediction.Flag {
			newRow := flaggedRow{row: done, score: prediction.Score, fields: row, reasons: prediction.Reasons, nearest: nearest, explanation: why}
			r.worst.add(newRow)
			r.allFlagged = append(r.allFlagged, newRow.describe())
		}
		done++
		p.set(done, r.input.N)
	}
	p.end() // remove the progress line, because a preview may follow
	return t.close()
}

// reasonTexts returns the reasons of a row as texts.
func reasonTexts(reasons []schema.Reason) []string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.String()
	}
	return texts
}

// maxNotedColumns is the largest number of columns that notes describe.
const maxNotedColumns = 10

// noteColumns prints a note for each input column whose values differ from the fit rows.
func (r *predictResult) noteColumns(w io.Writer) {
	if r.input.Schema == nil {
		for _, g := range attach.UnusualGaps(r.gaps.Columns()) {
			printf(w, "note: %v\n", g)
		}
		return
	}
	s := r.summary
	notable := s.NotableColumns()
	if !r.reasons {
		notable = slices.DeleteFunc(notable, func(c schema.ColumnSummary) bool { return c.Kind == schema.Measure })
	}
	for _, c := range notable[:min(maxNotedColumns, len(notable))] {
		printf(w, "note: %v\n", c)
	}
	if more := len(notable) - maxNotedColumns; more > 0 {
		printf(w, "note: %s more differ from the rows of the fit\n", rows.Count(more, "column"))
	}
	if s.Unusual > 0 && r.reasons {
		printf(w, "%s of %s have unusual values; at most about %s are expected if all are in-distribution\n", display.Count(s.Unusual), rows.Count(s.Rows, "row"), display.Number(s.Expected, 2))
	}
}

// predictionFields returns the functions that make the fields of a prediction. first is an
// example of a prediction, and classes are the names of the classes.
func predictionFields(first attach.Prediction, o attach.PredictOptions, classes []string) []func(attach.Prediction) field {
	var fields []func(attach.Prediction) field
	add := func(name string, value func(attach.Prediction) any) {
		fields = append(fields, func(p attach.Prediction) field { return field{name, value(p)} })
	}
	target := func(name string, isFloat32 bool, get func(attach.Target) float64) {
		add(name, func(p attach.Prediction) any {
			list := make([]number, len(p.Targets))
			for i, t := range p.Targets {
				list[i] = number{get(t), isFloat32}
			}
			if len(list) == 1 {
				return list[0]
			}
			return list
		})
	}
	if first.Class >= 0 {
		add("class", func(p attach.Prediction) any { return p.Class })
		if len(classes) > 0 {
			add("class_name", func(p attach.Prediction) any { return p.Name })
		}
		add("confidence", func(p attach.Prediction) any { return number{x: p.Confidence} })
		if o.VennAbers {
			add("confidence_low", func(p attach.Prediction) any { return number{x: p.ConfidenceBounds[0]} })
			add("confidence_high", func(p attach.Prediction) any { return number{x: p.ConfidenceBounds[1]} })
		}
	}
	if first.Set != nil {
		add("set", func(p attach.Prediction) any { return p.Set })
		if len(classes) > 0 {
			add("set_names", func(p attach.Prediction) any { return classNamesOf(p.Set, classes) })
		}
		add("set_size", func(p attach.Prediction) any { return len(p.Set) })
	}
	if first.ClassPValues != nil {
		add("class_p_value", func(p attach.Prediction) any {
			list := make([]number, len(p.ClassPValues))
			for c, v := range p.ClassPValues {
				list[c].x = v
			}
			return list
		})
	}
	if len(first.Targets) > 0 && !math.IsNaN(first.Targets[0].Value) {
		target("prediction", false, func(t attach.Target) float64 { return t.Value })
	}
	if len(first.Targets) > 0 && !math.IsNaN(first.Targets[0].Lower) {
		target("median", false, func(t attach.Target) float64 { return t.Median }) // NaN if the predicted distribution is unknown
		target("lower", o.Smoothed, func(t attach.Target) float64 { return t.Lower })
		target("upper", o.Smoothed, func(t attach.Target) float64 { return t.Upper })
		for l, level := range o.Levels {
			target(fmt.Sprintf("q%g", level), false, func(t attach.Target) float64 { return t.Quantiles[l] })
		}
	}
	if first.Ellipsoid != nil {
		add("factor", func(p attach.Prediction) any {
			factor := p.Ellipsoid.Factor()
			out := make(matrix, len(factor))
			for t, row := range factor {
				for _, x := range row {
					out[t] = append(out[t], number{x: x})
				}
			}
			return out
		})
		add("log_volume", func(p attach.Prediction) any { return number{x: p.Ellipsoid.LogVolume()} })
	}
	if o.Samples > 0 {
		add("samples", func(p attach.Prediction) any {
			all := make(samples, len(p.Targets))
			for i, t := range p.Targets {
				for _, x := range t.Samples {
					all[i] = append(all[i], number{x: x})
				}
			}
			return all
		})
	}
	if !math.IsNaN(first.Score) {
		add("ood_score", func(p attach.Prediction) any { return number{x: p.Score} })
		add("p_value", func(p attach.Prediction) any { return number{x: p.PValue} })
		add("flag", func(p attach.Prediction) any { return p.Flag })
	}
	if o.MaxError != 0 {
		add("accept", func(p attach.Prediction) any { return p.Accept })
	}
	return fields
}

// insideEllipsoid returns 1 if the targets y lie in the ellipsoid, 0 if they do not, and NaN if
// one of them is unknown.
func insideEllipsoid(e *calibrate.Ellipsoid, y []float32) number {
	at := make([]float64, len(y))
	for t, v := range y {
		if at[t] = float64(v); math.IsNaN(at[t]) {
			return number{math.NaN(), true}
		}
	}
	if e.Contains(at) {
		return number{1, true}
	}
	return number{0, true}
}

// classNamesOf returns the names of classes. If a class has no name, its number takes the
// place of the name.
func classNamesOf(set []int, classes []string) []string {
	list := make([]string, len(set))
	for i, c := range set {
		if c < len(classes) {
			list[i] = classes[c]
		}
		list[i] = cmp.Or(list[i], strconv.Itoa(c))
	}
	return list
}

// add counts a prediction.
func (r *predictResult) add(p attach.Prediction) {
	r.rows++
	r.byClass[p.Class]++
	r.pValues[hypothesis.Bin(p.PValue, hypothesis.Bins)]++
	if p.Flag {
		r.flagged++
	}
	if p.Accept {
		r.accepted++
	}
	if p.Set != nil {
		r.sets++
		r.classesInSets += len(p.Set)
	}
}

// expectedPValues returns the expected histogram of p-values if all rows are in-distribution.
func (r *predictResult) expectedPValues() []float64 {
	calibrationRows, expected := calibrationRowsByClass(r.bundle, r.options), make([]float64, hypothesis.Bins)
	for _, class := range slices.Sorted(maps.Keys(r.byClass)) {
		floats.Add(expected, hypothesis.PValues(r.byClass[class], calibrationRows(class)))
	}
	return expected
}

// canFlag reports whether a row can be flagged.
func (r *predictResult) canFlag() bool {
	return r.bundle.Detector != nil && leastPValue(r.bundle) <= r.alpha()
}

// alpha returns the false-alarm rate.
func (r *predictResult) alpha() float64 { return cmp.Or(r.options.Alpha, r.bundle.Calibration.Alpha) }

// expectedFlags returns the expected number of flagged rows if all rows are in-distribution.
func (r *predictResult) expectedFlags() (sum float64) {
	calibrationRows := calibrationRowsByClass(r.bundle, r.options)
	for _, class := range slices.Sorted(maps.Keys(r.byClass)) {
		sum += float64(r.byClass[class]) * (1 - hypothesis.ExpectedCoverage(calibrationRows(class), r.alpha()))
	}
	return sum
}

// describeExpected describes the result of expectedFlags, such as "about 100".
func describeExpected(rows float64) string {
	if rows < .5 {
		return "fewer than 1"
	}
	return "about " + display.Count(int(math.Round(rows)))
}

// flagSummary returns a sentence with the number of flagged rows, and the number expected
// if all rows are in-distribution. It returns "" if no row can be flagged.
func (r *predictResult) flagSummary() string {
	if !r.canFlag() {
		return ""
	}
	return fmt.Sprintf("%s of %s flagged at alpha %g; %s expected if all are in-distribution", display.Count(r.flagged), rows.Count(r.rows, "row"), r.alpha(), describeExpected(r.expectedFlags()))
}

// meanSetSize returns the mean size of a prediction set.
func (r *predictResult) meanSetSize() float64 { return float64(r.classesInSets) / float64(r.sets) }

// printSummary prints a summary of the predictions.
func (r *predictResult) printSummary(w io.Writer) {
	if r.sets > 0 {
		fmt.Fprintf(w, "average prediction-set size %.3g at level %g\n", r.meanSetSize(), cmp.Or(r.options.Level, r.bundle.Calibration.Level))
	}
	if flags := r.flagSummary(); flags != "" {
		fmt.Fprintln(w, flags)
	}
}

// noteAccepted prints how many predictions are accepted, and why. s is nil without
// --max-error.
func (r *predictResult) noteAccepted(w io.Writer, s *calibrate.Selective) {
	switch {
	case s == nil:
	case s.Rows == 0:
		printf(w, "note: no prediction is accepted at --max-error %g: the %s calibration rows that are not flagged have too many errors, or are too few, to guarantee it; "+
			"it takes at least %s rows without an error\n", r.options.MaxError, display.Count(s.Of), display.Count(s.Least))
	default:
		printf(w, "%s of %s predictions accepted at --max-error %g: not flagged, and with a largest probability (at temperature 1) above %.6g. Of the calibration rows, %s of %s would be accepted, and %s of these are wrong\n",
			display.Count(r.accepted), display.Count(r.rows), r.options.MaxError, s.Confidence, display.Count(s.Rows), display.Count(s.Of), display.Count(s.Errors))
	}
}
