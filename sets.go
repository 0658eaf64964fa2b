package attach

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

// checkSets returns an error for requested sets, a maximum error or Venn–Abers bounds that the
// bundle cannot guarantee. It also returns an error for options of sets if no sets are
// requested.
func (b *Bundle) checkSets(o PredictOptions) error {
	requested := "prediction sets"
	switch {
	case o.Sets != "":
	case o.MaxError != 0:
		requested = "an error rate"
	default:
		requested = "Venn–Abers bounds"
	}
	switch {
	case (o.SetsByClass || o.SetsByCluster) && o.Sets == "":
		return errors.New("sets are to be calibrated by class or by cluster, but none are requested")
	case o.ClassPValues && o.Sets == "":
		return errors.New("p-values of classes use the score of sets, but no sets are requested")
	case o.Sets == "" && o.MaxError == 0 && !o.VennAbers:
		return nil
	case b.Base.Task != Classification:
		return fmt.Errorf("%s: the model is not a classifier", requested)
	case b.Base.Sigmoid:
		return fmt.Errorf("%s: the model's outputs are separate sigmoids, so that a row may have no class or several", requested)
	case len(b.Calibration.TrueClasses.Labels) == 0:
		return fmt.Errorf("%s: the calibration rows had no labels or no logits; fit again with both", requested)
	}
	return nil
}

// calibrateClasses prepares prediction sets, Venn–Abers bounds and the acceptance of rows.
func (p *Predictor) calibrateClasses() error {
	c := p.bundle.Calibration
	if p.o.Sets != "" {
		classes := c.TrueClasses
		classes.Weights = c.Weights
		sets, err := classes.Sets(calibrate.SetOptions{Score: p.o.Sets, ByClass: p.o.SetsByClass, ByCluster: p.o.SetsByCluster, Smoothed: p.o.Smoothed, Seed: p.o.Seed}, 1-p.o.Level)
		if err != nil {
			return err
		}
		if c.LabelShift != nil {
			sets = sets.WithClassWeights(c.LabelShift.Weights)
		}
		p.sets = &sets
	}
	if p.o.VennAbers {
		p.vennAbers = c.TrueClasses.VennAbers()
	}
	if p.o.MaxError == 0 {
		return nil
	}
	var unflagged []bool
	if c.OOD != nil {
		unflagged = make([]bool, len(c.OOD))
		for i, s := range c.OOD {
			unflagged[i] = p.belowThreshold(c.Predicted[i], s)
		}
	}
	s, err := c.TrueClasses.Selective(unflagged, p.o.MaxError)
	p.selective = &s
	return err
}

// belowThreshold reports whether a score is smaller than the largest score that is not flagged
// for the predicted class. Unless it is infinite, this threshold is itself a calibration score.
// Given that score, the calibration rows below it are independent, which the bound on their
// errors requires.
func (p *Predictor) belowThreshold(class int, score float64) bool {
	return score < p.Conformal(class).Threshold(p.o.Alpha)
}

// Selective returns the calibration for PredictOptions.MaxError, or nil if that option is 0.
func (p *Predictor) Selective() *calibrate.Selective { return p.selective }

// Sets returns the calibrated prediction sets, or nil if PredictOptions.Sets is empty.
func (p *Predictor) Sets() *calibrate.Sets { return p.sets }

// setPredictionSets sets Set and ClassPValues of each prediction.
func (p *Predictor) setPredictionSets(out []Prediction, r Rows) {
	if p.sets == nil || r.Logits.Cols == 0 {
		return
	}
	predicted, pValues := p.predictSets(r)
	for i, set := range predicted {
		if len(set) == 0 && !p.o.Smoothed { // only LAC sets can be empty without smoothing
			set = []int{out[i].Class}
		}
		out[i].Set = set
	}
	if !p.o.ClassPValues {
		return
	}
	c := r.Logits.Cols
	for i := range out {
		out[i].ClassPValues = pValues[i*c : (i+1)*c : (i+1)*c]
	}
}

// predictSets returns the prediction set of each row and, if they are requested, the p-values
// of all classes.
func (p *Predictor) predictSets(r Rows) (sets [][]int, pValues []float64) {
	predict := func(s calibrate.Sets, logits blas32.General, first int) {
		sets = append(sets, s.Predict(logits, uint64(first))...)
		if p.o.ClassPValues {
			pValues = append(pValues, s.PValues(logits, uint64(first))...)
		}
	}
	if p.bundle.Calibration.Ratio == nil {
		predict(*p.sets, r.Logits, r.First)
		return sets, pValues
	}
	for i, w := range p.weights(r) {
		predict(p.sets.WithWeight(w), rows.Slice(r.Logits, i, i+1), r.First+i)
	}
	return sets, pValues
}

// topProbabilities returns the largest softmax probability of each row, without a temperature.
// It returns nil without logits, or if neither Venn–Abers bounds nor acceptance is requested.
func (p *Predictor) topProbabilities(logits blas32.General) []float64 {
	if logits.Cols == 0 || p.vennAbers == nil && p.selective == nil {
		return nil
	}
	top := make([]float64, logits.Rows)
	for i := range top {
		top[i] = softmax.New(rows.Row(logits, i), 1).Largest()
	}
	return top
}

// setConfidenceBounds sets ConfidenceBounds of each prediction, from the largest probability
// of each row.
func (p *Predictor) setConfidenceBounds(out []Prediction, top []float64) {
	if p.vennAbers == nil {
		return
	}
	for i := range out {
		out[i].ConfidenceBounds = [2]float64{math.NaN(), math.NaN()}
		if top != nil {
			out[i].ConfidenceBounds[0], out[i].ConfidenceBounds[1] = p.vennAbers(top[i])
		}
	}
}

// setAccept sets Accept of each prediction. Flags must be set already.
func (p *Predictor) setAccept(out []Prediction, top []float64) {
	if p.selective == nil || top == nil {
		return
	}
	for i := range out {
		out[i].Accept = top[i] > p.selective.Confidence && (p.scorer == nil || p.belowThreshold(out[i].Class, out[i].Score))
	}
}
