package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// outcome is what came out of a prediction, in a few numbers.
type outcome struct {
	rows, flagged, accepted int
	sets, inSets            int         // rows that have a set of classes, and the classes in all of them
	predicted               map[int]int // rows by predicted class
	pValues                 [hypothesis.Bins]int
}

func (o *outcome) add(p attach.Prediction) {
	o.rows++
	if o.predicted == nil {
		o.predicted = map[int]int{}
	}
	o.predicted[p.Class]++
	o.pValues[hypothesis.Bin(p.PValue, hypothesis.Bins)]++
	if p.Flag {
		o.flagged++
	}
	if p.Accept {
		o.accepted++
	}
	if p.Set != nil {
		o.sets++
		o.inSets += len(p.Set)
	}
}

// rankedAmong is how many calibration rows the score of a row is ranked among, by the
// row's predicted class.
func rankedAmong(b *attach.Bundle, o attach.PredictOptions) func(class int) int {
	if !o.FlagByClass {
		return func(int) int { return len(b.Calibration.OOD) }
	}
	counts := map[int]int{}
	for _, class := range b.Calibration.Predicted {
		counts[class]++
	}
	return func(class int) int { return counts[class] }
}

// expected are the p-values that so many rows would have if all were in-domain.
func (o *outcome) expected(b *attach.Bundle, asked attach.PredictOptions) []float64 {
	among, all := rankedAmong(b, asked), make([]float64, hypothesis.Bins)
	for _, class := range slices.Sorted(maps.Keys(o.predicted)) {
		floats.Add(all, hypothesis.PValues(o.predicted[class], among(class)))
	}
	return all
}

// flags is a sentence on how many rows were flagged, and how many of them would be by
// mistake; "" where none can be.
func (o *outcome) flags(b *attach.Bundle, asked attach.PredictOptions) string {
	alpha := cmp.Or(asked.Alpha, b.Calibration.Alpha)
	if b.Detector == nil || leastPValue(b) > alpha {
		return ""
	}
	among, mistakes := rankedAmong(b, asked), 0.
	for _, class := range slices.Sorted(maps.Keys(o.predicted)) {
		mistakes += float64(o.predicted[class]) * (1 - hypothesis.ExpectedCoverage(among(class), alpha))
	}
	expected := "about " + display.Count(int(math.Round(mistakes)))
	if mistakes < .5 {
		expected = "fewer than 1"
	}
	return fmt.Sprintf("%s of %s flagged at alpha %g; %s would be by mistake if all were in-domain", display.Count(o.flagged), display.Count(o.rows), alpha, expected)
}

func (o *outcome) meanSet() float64 { return float64(o.inSets) / float64(o.sets) }

// say prints what came out.
func (o *outcome) say(w io.Writer, b *attach.Bundle, asked attach.PredictOptions) {
	if o.sets > 0 {
		fmt.Fprintf(w, "sets at level %g hold %.3g classes on average\n", cmp.Or(asked.Level, b.Calibration.Level), o.meanSet())
	}
	if flags := o.flags(b, asked); flags != "" {
		fmt.Fprintln(w, flags)
	}
}
