package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// mostSamples bounds the memory of --samples.
const mostSamples = 100_000

// predicting is what attach predict is called with.
type predicting struct {
	attachedFlags
	out, side, report string
}

func predictCommand() *cli.Command {
	f := &predicting{out: "-", side: "both"}
	f.Unhashed = true
	ungrouped := unfit("for heads that were fitted without it", func(b *attach.Bundle) bool { return b.Calibration.Groups == nil })
	undrawn := idle("without --samples, --smoothed, --sets-by-cluster or --interval-score rcp", func() bool {
		return f.o.Samples == 0 && !f.o.Smoothed && !f.o.ByCluster && f.o.IntervalScore != conformal.RCP
	})
	apart := func(side string) []never {
		return []never{
			{when: func() bool { return f.o.Joint && f.side == side }, says: side + " and --joint exclude each other"},
			{when: func() bool { return f.o.IntervalScore != "" && f.side == side }, says: side + " and --interval-score exclude each other"},
		}
	}
	features, model := f.attachedOptions()
	f.table = join(table{
		{name: "x", to: &f.x, needed: true, file: rowFile, usage: "INPUTS: rows to predict: " + inputKinds + "; with --from-features, what `attach features` writes"},
		{name: "o", to: &f.out, file: resultFile, must: tableFile, usage: "FILE: .csv, .jsonl, .parquet or, without names, .npz to write; - is CSV on standard output"},
	}, features, table{
		{name: "level", to: &f.o.Level, must: share, never: f.levelless(), usage: "PROBABILITY: how likely an interval is to cover the target, or a set to hold the class, instead of what fit was given"},
	}, f.setOptions(), table{
		{name: "class-p-values", to: &f.o.ClassPValues, never: f.levelless()[1:], usage: "write the conformal p-value of each class, by the score of --sets: the classes above 1 − level are the set at that level"},
		{name: "venn-abers", to: &f.o.VennAbers, usage: "write two probabilities that the class is right, one of which is calibrated whatever the network's are: confidence_low and confidence_high"},
	}.unless(noClasses()), table{
		{name: "seed", to: &f.o.Seed, never: append(f.levelless()[:1], undrawn), usage: "N: seed of --samples, --smoothed, --sets-by-cluster and --interval-score rcp"},
	}, table{
		{name: "quantiles", to: f.setLevels, usage: "LEVELS: write these quantiles of the head too, such as .1,.5,.9; like the median they are not conformalized"},
		{name: "side", to: &f.side, choices: []string{"both", conformal.Lower, conformal.Upper}, never: append(apart(conformal.Lower), apart(conformal.Upper)...),
			usage: "WHICH: both ends of intervals, or lower or upper: that one alone, missed as seldom as both together"},
		{name: "joint", to: &f.o.Joint, usage: "widen the intervals of several targets so that all of a row's are covered at once"},
		{name: "samples", to: &f.o.Samples, must: between(1, mostSamples), usage: "N: write N draws from the calibrated distribution of each row and target too; those of different targets are independent"},
	}.unless(noIntervals()), f.groupsOption(", for heads that were fitted with --groups", ungrouped), table{
		{name: "alpha", to: &f.o.Alpha, must: share, usage: "SHARE: share of in-domain inputs that may be flagged by mistake, instead of what fit was given", never: []never{noDetector()}},
		f.flagByClassOption(),
		{name: "report", to: &f.report, must: ends(".html"), file: resultFile, usage: "FILE: .html to write a page to of what is flagged, the worst first, with pictures of images", never: []never{noDetector()}},
	}, model)
	return f.command(cli.Command{
		Name:      "predict",
		Usage:     "write predictions with their intervals, scores, p-values and flags",
		UsageText: "attach predict M.attach --x INPUTS [-o OUT.csv]",
		Description: "Writes one row per input: `input`, its name or, from 0, its number, what rows bring of `group`, `label` and `target`, and then of a classifier `class`, `class_name`, `confidence`, `set`, `set_names` and `set_size`; of a regressor " +
			"`prediction`, the model's own, and `median`, `lower` and `upper`, the head's. docs/reference/columns.md says more of each.\n\n" +
			"Of both, `ood_score` (higher: more uncertain), `p_value`, the share of in-domain inputs that score at least as high, and `flag`, which says that " +
			"this is at most --alpha, and with --max-error `accept`.\n\n" +
			"An infinite bound says that the calibration rows are too few for the level, that --side asks for the other bound, or that the " +
			"features are so large that nothing is known of the target: then `median` is nan and `ood_score` infinite. The score is infinite too if empty cells " +
			"are rarer than the rows fitted on have them. JSON has null for infinite and nan.\n\n" +
			"Coverage and p-values hold for rows like the calibration rows; where those were split off the rows fitted on and the network " +
			"was trained on them, the promise is weaker. Images are prepared as they were for the fit.",
	}, argument{name: "M.attach", to: &f.path}, f.table.of("report").writable, f.run)
}

// setLevels reads --quantiles.
func (f *predicting) setLevels(list string) (err error) {
	f.o.Levels, err = parseShares("--quantiles", list)
	return err
}

// parseShares reads a list such as ".1,.5" that an option holds.
func parseShares(option, list string) ([]float64, error) {
	var shares []float64
	for field := range strings.SplitSeq(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		switch {
		case err != nil || share(v) != "":
			return nil, fmt.Errorf("%s is %q; it must be numbers between 0 and 1 with commas between", option, list)
		case slices.Contains(shares, v):
			return nil, fmt.Errorf("%s names %v twice", option, v)
		}
		shares = append(shares, v)
	}
	return shares, nil
}

func (f *predicting) run(c *cli.Context) error {
	m, err := f.open(c.App.ErrWriter)
	if err != nil {
		return err
	}
	m.Inputs.SkipOdd, m.Unlabelled = len(m.Classes) == 0, true
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
	result := predicted{call: f, asked: o, bundle: m.Bundle, gaps: m.Bundle.GapCounter(), byClass: map[int]int{}}
	write := func(w io.Writer) error {
		if result.opened, err = m.OpenRows(c.Context, f.x, "", f.rows); err != nil {
			return err
		}
		p := newProgress(m.stderr, "predict")
		defer p.end()
		return result.write(c.Context, predictor, newTableWriter(f.out, w), p)
	}
	if f.out == "-" {
		err = write(c.App.Writer)
	} else {
		err = atomicfile.WriteFile(c.Context, f.out, write)
	}
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := result.writeReport(c.Context); err != nil {
			return err
		}
	}
	m.NoteTruncated(f.x)
	for _, g := range attach.UnusualGaps(result.gaps.Columns()) {
		printf(m.stderr, "note: %v\n", g)
	}
	noteEndless(m.stderr, m.Bundle, o, result.opened.Known.Groups)
	noteSilent(m.stderr, m.Bundle, o)
	noteSets(m.stderr, m.Bundle, o)
	if m.Bundle.Calibration.HeldOut == rows.SplitOff {
		notePromise(m.stderr, "note", m.Bundle)
	}
	result.noteAccepted(m.stderr, predictor.Selective())
	result.say(m.stderr)
	return nil
}

// predicted is what comes of predicting rows.
type predicted struct {
	call                    *predicting
	asked                   attach.PredictOptions
	bundle                  *attach.Bundle
	opened                  *modelrows.Rows
	gaps                    *attach.GapCounter
	worst                   worst
	rows, flagged, accepted int
	sets, inSets            int         // rows that have a set of classes, and the classes in all of them
	byClass                 map[int]int // rows by predicted class
	pValues                 [hypothesis.Bins]int
}

// write writes a row for each prediction.
func (r *predicted) write(ctx context.Context, predictor *attach.Predictor, t tableWriter, p *progress) error {
	var fields []func(attach.Prediction) field
	var row []field
	done, f := 0, r.call
	rows := func(yield func(attach.Rows, error) bool) {
		for block, err := range r.opened.Blocks(false) {
			if err == nil {
				r.gaps.Add(block)
			}
			if !yield(block, err) {
				return
			}
		}
	}
	for prediction, err := range predictor.Stream(ctx, rows) {
		if err != nil {
			t.close() // standard output keeps what came before, in whole rows
			return inputs.InFile(f.x, err)
		}
		if fields == nil {
			if prediction.Class < 0 && (f.sets != "" && f.sets != "none" || f.o.MaxError != 0 || f.o.VennAbers) {
				return inputs.InFile(f.x, errors.New("the rows have no logits, which --sets, --max-error and --venn-abers need; --weights makes them of features"))
			}
			fields = predictionFields(prediction, r.asked, r.bundle.Base.Classes)
		}
		row = knownFields(&r.opened.Known, append(row[:0], field{"input", r.opened.Name(done)}), done)
		for _, of := range fields {
			row = append(row, of(prediction))
		}
		if err := t.write(row); err != nil {
			return err
		}
		r.add(prediction)
		if f.report != "" {
			r.worst.add(done, prediction, row)
		}
		done++
		p.set(done, r.opened.N)
	}
	return t.close()
}

// predictionFields make what is written of each prediction of a bundle, of which
// first is one; classes are the names of classes.
func predictionFields(first attach.Prediction, o attach.PredictOptions, classes []string) []func(attach.Prediction) field {
	var fields []func(attach.Prediction) field
	add := func(name string, value func(attach.Prediction) any) {
		fields = append(fields, func(p attach.Prediction) field { return field{name, value(p)} })
	}
	target := func(name string, single bool, of func(attach.Target) float64) {
		add(name, func(p attach.Prediction) any {
			list := make([]number, len(p.Targets))
			for i, t := range p.Targets {
				list[i] = number{of(t), single}
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
			add("confidence_low", func(p attach.Prediction) any { return number{x: p.Right[0]} })
			add("confidence_high", func(p attach.Prediction) any { return number{x: p.Right[1]} })
		}
	}
	if first.Set != nil {
		add("set", func(p attach.Prediction) any { return p.Set })
		if len(classes) > 0 {
			add("set_names", func(p attach.Prediction) any { return namesOf(p.Set, classes) })
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
		target("median", false, func(t attach.Target) float64 { return t.Median }) // NaN if nothing is known of the target
		target("lower", o.Smoothed, func(t attach.Target) float64 { return t.Lower })
		target("upper", o.Smoothed, func(t attach.Target) float64 { return t.Upper })
		for l, level := range o.Levels {
			target(fmt.Sprintf("q%g", level), false, func(t attach.Target) float64 { return t.Quantiles[l] })
		}
	}
	if o.Samples > 0 {
		add("samples", func(p attach.Prediction) any {
			all := make(draws, len(p.Targets))
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

// namesOf are the names of classes, or the numbers of those that have none.
func namesOf(set []int, classes []string) []string {
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
func (r *predicted) add(p attach.Prediction) {
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
		r.inSets += len(p.Set)
	}
}

// expected are the p-values that so many rows would have if all were in-domain.
func (r *predicted) expected() []float64 {
	among, all := rankedAmong(r.bundle, r.asked), make([]float64, hypothesis.Bins)
	for _, class := range slices.Sorted(maps.Keys(r.byClass)) {
		floats.Add(all, hypothesis.PValues(r.byClass[class], among(class)))
	}
	return all
}

// flags is a sentence on how many rows were flagged, and how many of them would be by
// mistake; "" where none can be.
func (r *predicted) flags() string {
	alpha := cmp.Or(r.asked.Alpha, r.bundle.Calibration.Alpha)
	if r.bundle.Detector == nil || leastPValue(r.bundle) > alpha {
		return ""
	}
	among, mistakes := rankedAmong(r.bundle, r.asked), 0.
	for _, class := range slices.Sorted(maps.Keys(r.byClass)) {
		mistakes += float64(r.byClass[class]) * (1 - hypothesis.ExpectedCoverage(among(class), alpha))
	}
	expected := "about " + display.Count(int(math.Round(mistakes)))
	if mistakes < .5 {
		expected = "fewer than 1"
	}
	return fmt.Sprintf("%s of %s flagged at alpha %g; %s would be by mistake if all were in-domain", display.Count(r.flagged), display.Count(r.rows), alpha, expected)
}

func (r *predicted) meanSet() float64 { return float64(r.inSets) / float64(r.sets) }

// say prints what came out.
func (r *predicted) say(w io.Writer) {
	if r.sets > 0 {
		fmt.Fprintf(w, "sets at level %g hold %.3g classes on average\n", cmp.Or(r.asked.Level, r.bundle.Calibration.Level), r.meanSet())
	}
	if flags := r.flags(); flags != "" {
		fmt.Fprintln(w, flags)
	}
}

// noteAccepted says on what grounds rows are accepted, s, which is nil where that
// was not asked.
func (r *predicted) noteAccepted(w io.Writer, s *calibrate.Selective) {
	switch {
	case s == nil:
	case s.Rows == 0:
		printf(w, "note: nothing is accepted at an error of %g: among the %d calibration rows that are not flagged, errors are too many, or the rows too few, to be sure of it; "+
			"it takes %d rows without an error, and more with some\n", r.asked.MaxError, s.Of, s.Least)
	default:
		printf(w, "%d of %d accepted at an error of %g: those that are not flagged and whose largest probability, at temperature 1, is above %.6g; of the calibration rows that are not flagged %d of %d are, %d of them wrong\n",
			r.accepted, r.rows, r.asked.MaxError, s.Confidence, s.Rows, s.Of, s.Errors)
	}
}
