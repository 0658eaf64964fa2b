package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// printNotes prints warnings, a summary of the fit, and notes. The guarantee is printed as
// a warning if some calibration rows are also fit rows, or if they were split off for a
// model of a table, which has often memorised its training rows. Otherwise it is printed as a note, unless
// another warning replaces it.
func (f *fitCall) printNotes(b *attach.Bundle) {
	w := f.stderr
	trainedOn := b.Calibration.HeldOut == rows.SplitOff && b.Base.Task == attach.Classification && looksTrainedOn(f.options.Batch)
	if trainedOn {
		printf(w, "warning: the model is right on nearly all rows of %s: it was probably trained on them. New rows will then be flagged too often; pass held-out rows with --cal\n", f.x.x)
	}
	c := b.Calibration
	guaranteeFails := c.Reused > 0 || c.HeldOut == rows.SplitOff && f.Model != nil && f.Model.Info().Feature.Of != nil
	if guaranteeFails {
		noteGuarantee(w, "warning", b)
	}
	if c.Repeated > 0 {
		printf(w, "warning: %s: %s repeat an earlier one, and copies are no evidence: the guarantees are those of the %s at best; leave the copies out\n",
			cmp.Or(f.cal.x, f.x.x), rows.CountOf(c.Repeated, c.NCal, "calibration row"), rows.Count(c.NCal-c.Repeated, "different row"))
	}
	if b.Base.Task == attach.Classification {
		warnLabels(w, f.x.x, f.options.Batch)
		warnLabels(w, f.cal.x, f.options.Cal)
	}
	f.warnTargets(f.x.x, f.options.Batch, f.options.Targets)
	f.warnTargets(f.cal.x, f.options.Cal, f.options.CalTargets)
	f.summarize(b)
	if !trainedOn && !guaranteeFails {
		noteGuarantee(w, "note", b)
	}
	noteInfinite(w, b, attach.PredictOptions{}, b.Calibration.Groups)
	noteUnflaggable(w, b, attach.PredictOptions{})
	if b.Detector != nil {
		m, _ := attach.MethodByName(b.Detector.Method)
		if variant := fitting.Variant(m, f.options.Batch.Network); variant != "" {
			printf(w, "note: %s works with %s, which the model was not trained with\n", m.Name, variant)
		}
	}
	if s := c.LabelShift; s != nil && s.PValue < .001 {
		printf(w, "warning: %s: the inputs of some classes differ from those of the calibration rows (p-value %s), and other shares of classes cannot explain this: the weights are wrong; see whether the rows are prepared in the same way, or whether --shift covariate describes them better\n",
			f.targetRows, display.Number(s.PValue, 2))
	}
	noteFolders(w, f.numbered, b.Base.Outputs)
	if f.options.Batch.Labels != nil && f.options.Base.Task == attach.Classification && b.Calibration.Temperature == 0 {
		fmt.Fprintln(w, "note: confidence is the model's own, because the calibration rows determine no temperature")
	}
}

// warnTargets prints a warning if the targets are probably not those that the model
// predicts.
func (f *fitCall) warnTargets(path string, b ood.Batch, targets blas32.General) {
	if b.Len() < fewTargets {
		return
	}
	for j, r2 := range f.rSquared(b, targets) {
		name := "the target"
		if targets.Cols > 1 {
			name = fmt.Sprintf("target %d", j)
		}
		if len(f.options.Base.Targets) > 0 {
			name = f.options.Base.Targets[j]
		}
		if r2 <= 0 && !math.IsInf(r2, -1) {
			printf(f.stderr, "warning: %s: the model predicts %s worse than its mean would (R² %.3g): check units, and the order of rows and columns\n", path, name, r2)
		}
	}
}

// rSquared returns the R² of a regressor's predictions of each target, or nil if the
// predictions or the targets are not known.
func (f *fitCall) rSquared(b ood.Batch, targets blas32.General) []float64 {
	if f.options.Base.Task != attach.Regression || b.Len() == 0 || b.Logits.Cols != targets.Cols {
		return nil
	}
	all := make([]float64, targets.Cols)
	predicted, truth := make([]float64, b.Len()), make([]float64, b.Len())
	for j := range all {
		for i := range truth {
			predicted[i], truth[i] = float64(rows.Row(b.Logits, i)[j]), float64(rows.Row(targets, i)[j])
		}
		all[j] = stat.RSquaredFrom(predicted, truth, nil)
	}
	return all
}

// quality returns how right the model is on the rows of --x and of --cal, with the name of
// the figure. Users then see a wrong preparation of inputs, and rows that the model was
// trained on. The result is empty if the labels or targets are not known.
func (f *fitCall) quality() (figure, values string) {
	in := &f.options
	var all []string
	add := func(flag string, b ood.Batch, targets blas32.General) {
		if in.Base.Task != attach.Regression {
			if right, _ := countRight(b); b.Labels != nil && b.Logits.Rows > 0 {
				figure, all = "accuracy", append(all, display.Percent(float64(right)/float64(b.Len()))+" on "+flag)
			}
		} else if r2 := stat.Mean(f.rSquared(b, targets), nil); !math.IsNaN(r2) && !math.IsInf(r2, 0) { // targets may all be equal
			figure, all = "R²", append(all, display.Number(r2, 3)+" on "+flag)
		}
	}
	add("--x", in.Batch, in.Targets)
	add("--cal", in.Cal, in.CalTargets)
	return figure, strings.Join(all, ", ")
}

// summarize prints what was fitted, one fact per line.
func (f *fitCall) summarize(b *attach.Bundle) {
	line := func(what, format string, args ...any) { printFact(f.stderr, what, format, args...) }
	list := func(what string, n int, names []string) {
		if len(names) > 0 {
			line(what, "%d: %s", n, display.List(names, 10))
		} else {
			line(what, "%d", n)
		}
	}
	c := b.Calibration
	line("fitted", "%s on %s of %s", f.out, rows.Count(c.NFit, "row"), f.x.x)
	if c.HeldOut == rows.Given {
		line("calibrated", "on %s of %s", rows.Count(c.NCal, "row"), f.cal.x)
	} else {
		line("calibrated", "on %s of %s, split off", rows.Count(c.NCal, "other row"), f.x.x)
	}
	if c.Weights != nil {
		line("weights", "from %s of %s; %s", rows.Count(f.options.TargetRows.Rows, "row"), f.targetRows, effectiveSize(c))
	}
	if c.LabelShift != nil {
		line("shares", "%s", describeShares(c, b.Base.Classes))
	}
	if b.Detector != nil {
		smallest := fmt.Sprintf(", smallest p-value %.3g", leastPValue(b))
		if c.Weights != nil {
			smallest = "" // it depends on the weight of the row
		}
		line("detector", "%s; flags at alpha %g%s", b.Detector.Method, c.Alpha, smallest)
	}
	if b.IntervalModel != nil {
		line("intervals", "%s; level %g%s", strings.TrimSuffix(b.IntervalModel.Method+", "+c.IntervalScore, ", "), c.Level, describeIntervalRows(c))
		f.printChoice(c.IntervalChoice)
		list("targets", len(c.Quantiles), b.Base.Targets)
		if groups := slices.Compact(slices.Sorted(slices.Values(c.Groups))); len(groups) > 0 {
			list("groups", len(groups), groups)
		}
	}
	if n := inputs.ClassesOf(b.Base.Outputs); b.Base.Task == attach.Classification && n > 0 {
		list("classes", n, b.Base.Classes)
	}
	if len(c.TrueClasses.Labels) > 0 {
		line("sets", "level %g", c.Level)
	}
	if figure, values := f.quality(); values != "" {
		line(figure, "%s", values)
	}
}

// describeIntervalRows says what taught the interval model, and which rows calibrate it, unless it
// learned the model's errors on the fit rows and all calibration rows calibrate it.
func describeIntervalRows(c attach.Calibration) (text string) {
	switch {
	case c.Folds != nil:
		return fmt.Sprintf("; learned from %s and calibrated on them, cross-fitted in %d folds", rows.Count(len(c.Folds), "calibration row"), 1+slices.Max(c.Folds))
	case c.TaughtByCalibration:
		text = "; learned from " + rows.Count(c.NCal-c.NInterval, "calibration row")
	case c.IntervalErrors == "surrogate":
		text = "; learned from a surrogate model"
	case c.IntervalErrors == "out-of-fold":
		text = "; learned from out-of-fold predictions"
	}
	if c.NInterval > 0 {
		text += ", calibrated on " + display.Count(c.NInterval)
	}
	if c.ErrorRatio > 1 { // below 1, the surrogate's errors resemble those of the model more for another reason
		text += fmt.Sprintf(", because the model's errors are %s times as large on calibration rows as on fit rows", display.Number(c.ErrorRatio, 2))
	}
	return text
}

// maxShares is the largest number of classes whose shares are printed.
const maxShares = 5

// describeShares describes the shares of the classes that have changed most, with 95 %
// intervals.
func describeShares(c attach.Calibration, names []string) string {
	s, before := c.LabelShift, classShares(c)
	order := make([]int, len(before))
	for k := range order {
		order[k] = k
	}
	if len(order) > maxShares {
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(math.Abs(s.Shares[b]-before[b]), math.Abs(s.Shares[a]-before[a]))
		})
	}
	list := make([]string, len(order))
	for i, k := range order {
		name := "class " + strconv.Itoa(k)
		if k < len(names) && names[k] != "" {
			name = names[k]
		}
		low, high := max(s.Shares[k]-1.96*s.Errors[k], 0), min(s.Shares[k]+1.96*s.Errors[k], 1)
		list[i] = fmt.Sprintf("%s %s–%s (was %s)", name, display.PercentNumber(low), display.Percent(high), display.Percent(before[k]))
	}
	return display.List(list, maxShares)
}

// classShares returns the share of each class among the calibration rows.
func classShares(c attach.Calibration) []float64 {
	shares := make([]float64, len(c.LabelShift.Shares))
	for _, label := range c.TrueClasses.Labels {
		shares[label] += 1 / float64(c.NCal)
	}
	return shares
}

// noteOtherShift prints a note if weights for a covariate shift were estimated, but other shares
// of the classes explain the target rows too. A test can reject a label shift without labels of
// the target rows, but no test can reject a covariate shift.
func (f *fitCall) noteOtherShift(ctx context.Context, b *attach.Bundle) {
	cal := f.options.Cal
	if b.Calibration.Ratio == nil || len(b.Calibration.TrueClasses.Labels) == 0 || cal.Len() == 0 || f.target.Logits.Cols == 0 {
		return
	}
	var scaling rows.Scaling
	scaling.Mean, scaling.Deviation = b.Scaling()
	cal.Features = scaling.Apply(cal.Features)
	target := ood.Batch{Features: scaling.Apply(f.options.TargetRows), Logits: f.target.Logits}
	s, err := calibrate.NewLabelShift(ctx, binarylogit.Batch(cal), binarylogit.Batch(target))
	if err != nil || s.PValue < .05 {
		return // shares of classes cannot be estimated, or do not explain the target rows
	}
	c := b.Calibration
	c.LabelShift = &s
	for k, before := range classShares(c) {
		if math.Abs(s.Shares[k]-before) > 4*s.Errors[k] {
			printf(f.stderr, "note: %s: other shares of the classes explain these rows as well (p-value %s). If only the frequencies of classes differ, and the inputs of each class are as before, use --shift label\n",
				f.targetRows, display.Number(s.PValue, 2))
			return
		}
	}
}

// noteUnfamiliar prints a note if clearly more target rows are flagged than the false-alarm rate
// allows. Weights of calibration rows cannot stand for rows that no calibration row is like, and
// a density ratio that is linear in the features does not see a gap.
func (f *fitCall) noteUnfamiliar(ctx context.Context, b *attach.Bundle) {
	if b.Calibration.Ratio == nil || b.Detector == nil {
		return
	}
	p, err := b.Predictor(attach.PredictOptions{Seed: f.options.Seed})
	if err != nil {
		return // the predictions of the caller show the error
	}
	predictions, err := p.Predict(ctx, attach.Rows{Batch: f.target})
	flagged := 0
	for _, y := range predictions {
		if y.Flag {
			flagged++
		}
	}
	expected := b.Calibration.Alpha * float64(len(predictions))
	if err == nil && float64(flagged) > 2*expected+4*math.Sqrt(expected) {
		printf(f.stderr, "note: %s: %s are flagged as unfamiliar, and about %.0f were expected; few calibration rows are like them, so nothing is guaranteed for them\n",
			f.targetRows, rows.CountOf(flagged, len(predictions), "row"), expected)
	}
}

// printChoice prints how good the compared interval models were, each with its best score.
func (f *fitCall) printChoice(list []attach.IntervalCandidate) {
	what, printed := "compared", map[string]bool{}
	for _, c := range list {
		name := c.Method
		if c.Direct {
			name += " of the target itself"
		}
		if printed[name] {
			continue
		}
		printed[name] = true
		printFact(f.stderr, what, "%s, %s: Winkler score %s of that of equal widths; the worst decile covers %s", name, c.Score, display.Percent(c.Winkler), display.Percent(c.WorstDecile))
		what = ""
	}
}

// effectiveSize describes how many rows with equal weights the calibration rows are worth.
func effectiveSize(c attach.Calibration) string {
	return fmt.Sprintf("the %s are worth %s rows with equal weights", rows.Count(c.NCal, "calibration row"), display.Count(int(math.Round(calibrate.EffectiveSampleSize(c.Weights)))))
}

// Most models are right on nearly all of their training rows. For example, ResNet-20 and
// ResNet-56 were right on 99.8 % and 100 % of the training rows of CIFAR-10. On held-out
// rows they were right on 91.5 % and 93.0 %. Calibrated on training rows, they flagged 11 %
// and 14 % of the held-out rows at alpha 0.05.
//
// Seven other models for MNIST, Fashion-MNIST, CIFAR-10 and drawn digits were right on at
// most 99.76 % of all held-out rows. They flagged 4 % to 7 % of these rows. However, one
// model is right on 99.96 % of the easier half of MNIST's test rows. Accuracy alone
// therefore cannot prove that rows are training rows.
const (
	trainedAccuracy = .998
	trainedRows     = 1000 // with fewer held-out rows, all may be right by chance
	// fewTargets is the number of rows below which the warnings about labels and targets
	// are not printed, because they could be due to chance.
	fewTargets = 20
)

// looksTrainedOn reports whether the model was probably trained on these rows, because it
// is right on nearly all of them.
func looksTrainedOn(b ood.Batch) bool {
	right, _ := countRight(b)
	return b.Len() >= trainedRows && float64(right) >= trainedAccuracy*float64(b.Len())
}

// countRight returns the number of rows on which the model is right, and the fraction that
// chance would give. Both are 0 if the rows have no labels or logits.
func countRight(b ood.Batch) (right int, chance float64) {
	if b.Labels == nil || b.Logits.Rows == 0 {
		return 0, 0
	}
	predicted := rows.Argmax(b.Logits)
	for i := range predicted {
		if b.Logits.Cols == 1 && b.Logits.Data[i*b.Logits.Stride] > 0 {
			predicted[i] = 1
		}
	}
	return hypothesis.Agreement(predicted, b.Labels)
}

// warnLabels prints a warning if the labels probably belong to other classes or other rows.
func warnLabels(w io.Writer, path string, b ood.Batch) {
	right, chance := countRight(b)
	if b.Labels == nil || b.Logits.Rows < fewTargets || chance >= .9 {
		return
	}
	if low, _ := hypothesis.Interval(right, b.Len(), .95); low <= chance {
		printf(w, "warning: %s: the model is right on %d of %d rows, which is chance: check how classes are numbered, the order of rows, and --preprocess\n", path, right, b.Len())
	}
}
