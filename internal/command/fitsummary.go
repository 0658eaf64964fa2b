package command

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// note says what was fitted, and what to know of it; first, that more will be
// flagged than was asked for.
func (f *fitCall) note(b *attach.Bundle) {
	w := f.stderr
	seen := b.Calibration.HeldOut == rows.SplitOff && b.Base.Task == attach.Classification && looksTrainedOn(f.in.Batch)
	if seen {
		printf(w, "warning: %s looks like the rows that the network was trained on, as it is right on nearly all of them: if they are, fresh rows will be flagged more often than asked; pass rows that it has not seen with --cal\n", f.x.x)
	}
	c := b.Calibration
	first := c.Reused > 0 || c.HeldOut == rows.SplitOff && f.Model != nil && f.Model.Info().Feature.Of != nil
	if first {
		notePromise(w, "warning", b)
	}
	if c.Repeated > 0 {
		printf(w, "warning: %s: %s repeat an earlier one: the guarantees count each copy as a row of its own, and are those of the %s at best; leave the copies out\n",
			cmp.Or(f.cal.x, f.x.x), rows.CountOf(c.Repeated, c.NCal, "calibration row"), rows.Count(c.NCal-c.Repeated, "different row"))
	}
	if b.Base.Task == attach.Classification {
		f.warnLabels(f.x.x, f.in.Batch)
		f.warnLabels(f.cal.x, f.in.Cal)
	}
	f.warnTargets(f.x.x, f.in.Batch, f.in.Targets)
	f.warnTargets(f.cal.x, f.in.Cal, f.in.CalTargets)
	f.summarize(b)
	if !seen && !first {
		notePromise(w, "note", b)
	}
	noteEndless(w, b, attach.PredictOptions{}, b.Calibration.Groups)
	noteSilent(w, b, attach.PredictOptions{})
	if b.Detector != nil {
		m, _ := attach.MethodByName(b.Detector.Method)
		if variant := fitting.Variant(m, f.in.Batch.Network); variant != "" {
			printf(w, "note: %s works with %s, which the network does not have of its own and was not trained with\n", m.Name, variant)
		}
	}
	noteFolders(w, len(b.Base.Classes), b.Base.Outputs)
	if f.in.Batch.Labels != nil && f.in.Base.Task == attach.Classification && b.Calibration.Temperature == 0 {
		fmt.Fprintln(w, "note: confidence is that of the network itself: the calibration rows settle no temperature")
	}
}

// warnTargets says where targets look to be other than the network predicts.
func (f *fitCall) warnTargets(path string, b ood.Batch, targets blas32.General) {
	if f.in.Base.Task != attach.Regression || b.Len() < fewTargets || b.Logits.Cols != targets.Cols {
		return
	}
	predicted, truth := make([]float64, b.Len()), make([]float64, b.Len())
	for j := range targets.Cols {
		for i := range truth {
			predicted[i], truth[i] = float64(rows.Row(b.Logits, i)[j]), float64(rows.Row(targets, i)[j])
		}
		name := "the target"
		if targets.Cols > 1 {
			name = fmt.Sprintf("target %d", j)
		}
		if len(f.in.Base.Targets) > 0 {
			name = f.in.Base.Targets[j]
		}
		if r2 := stat.RSquaredFrom(predicted, truth, nil); r2 <= 0 && !math.IsInf(r2, -1) {
			printf(f.stderr, "warning: %s: the network predicts %s worse than its mean would (R² %.3g): look at its units, and at the order of rows and columns\n", path, name, r2)
		}
	}
}

// summarize says what was fitted, a fact a line.
func (f *fitCall) summarize(b *attach.Bundle) {
	line := func(what, format string, args ...any) { fact(f.stderr, what, format, args...) }
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
	if b.Detector != nil {
		line("detector", "%s; flags at alpha %g, least p-value %.3g", b.Detector.Method, c.Alpha, leastPValue(b))
	}
	if b.Quantiles != nil {
		line("intervals", "%s; level %g", b.Quantiles.Method, c.Level)
		list("targets", len(c.Quantiles), b.Base.Targets)
		if groups := slices.Compact(slices.Sorted(slices.Values(c.Groups))); len(groups) > 0 {
			list("groups", len(groups), groups)
		}
	}
	if n := inputs.ClassesOf(b.Base.Outputs); b.Base.Task == attach.Classification && n > 0 {
		list("classes", n, b.Base.Classes)
	}
	if len(c.TrueClasses.Labels) > 0 {
		line("sets", "of classes; level %g", c.Level)
	}
}

// Networks are right on nearly all of the rows that they were trained on to the
// end: ResNet-20 and 56 for CIFAR-10 on 99.8 and 100 % of them, and on 91.5 and 93.0 % of
// fresh ones, of which, calibrated on the former, 11 and 14 % were flagged at alpha .05.
// Of seven others, on MNIST, Fashion-MNIST, CIFAR-10 and drawn digits, none was so often
// right on either, 99.76 % of a whole set of fresh rows at most, of which 4 to 7 % were
// flagged. On the easier half of MNIST's test rows one is, on 99.96 %: accuracy alone
// cannot tell these from rows trained on.
const (
	trainedShare = .998
	trainedRows  = 1000 // below, fresh rows may all be right by chance
	// fewTargets are too few to tell one network from another.
	fewTargets = 20
)

// looksTrainedOn says that a network is right on so many rows that it was most
// likely trained on them.
func looksTrainedOn(b ood.Batch) bool {
	right, _ := rightOf(b)
	return b.Len() >= trainedRows && float64(right) >= trainedShare*float64(b.Len())
}

// rightOf is on how many rows the network is right, and on which share of them the
// answers to other rows would be; 0 without labels or logits.
func rightOf(b ood.Batch) (right int, chance float64) {
	if b.Labels == nil || b.Logits.Rows == 0 {
		return 0, 0
	}
	answers := rows.Argmax(b.Logits)
	for i := range answers {
		if b.Logits.Cols == 1 && b.Logits.Data[i*b.Logits.Stride] > 0 {
			answers[i] = 1
		}
	}
	return hypothesis.Agreement(answers, b.Labels)
}

// warnLabels says where labels look to be of other classes or rows.
func (f *fitCall) warnLabels(path string, b ood.Batch) {
	right, chance := rightOf(b)
	if b.Labels == nil || b.Logits.Rows < fewTargets || chance >= .9 {
		return
	}
	if low, _ := hypothesis.Interval(right, b.Len(), .95); low <= chance {
		printf(f.stderr, "warning: %s: the network is right on %d of %d rows, no more than answers to other rows would be: look at the numbers of the classes, at the order of rows and at how inputs are prepared\n", path, right, b.Len())
	}
}
