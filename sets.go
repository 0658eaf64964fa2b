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

// checkSets returns an error for sets and a maximum error that the bundle cannot guarantee.
func (b *Bundle) checkSets(o PredictOptions) error {
	asked := "prediction sets"
	switch {
	case o.Sets != "":
	case o.MaxError != 0:
		asked = "an error rate"
	default:
		asked = "Venn–Abers bounds"
	}
	switch {
	case (o.SetsByClass || o.SetsByCluster) && o.Sets == "":
		return errors.New("sets are to be calibrated by class or by cluster, but none are requested")
	case o.ClassPValues && o.Sets == "":
		return errors.New("p-values of classes use the score of sets, but no sets are requested")
	case o.Sets == "" && o.MaxError == 0 && !o.VennAbers:
		return nil
	case b.Base.Task != Classification:
		return fmt.Errorf("%s: the model is not a classifier", asked)
	case b.Base.Sigmoid:
		return fmt.Errorf("%s: the model's outputs are separate sigmoids, so that a row may have no class or several", asked)
	case len(b.Calibration.TrueClasses.Labels) == 0:
		return fmt.Errorf("%s: the calibration rows had no labels or no logits; fit again with both", asked)
	}
	return nil
}

// calibrateClasses prepares prediction sets and acceptance.
func (p *Predictor) calibrateClasses() error {
	c := p.bundle.Calibration
	if p.o.Sets != "" {
		sets, err := c.TrueClasses.Sets(calibrate.SetOptions{Score: p.o.Sets, ByClass: p.o.SetsByClass, ByCluster: p.o.SetsByCluster, Smoothed: p.o.Smoothed, Seed: p.o.Seed}, 1-p.o.Level)
		if err != nil {
			return err
		}
		p.sets = &sets
	}
	if p.o.VennAbers {
		p.right = c.TrueClasses.VennAbers()
	}
	if p.o.MaxError == 0 {
		return nil
	}
	var kept []bool
	if c.OOD != nil {
		kept = make([]bool, len(c.OOD))
		for i, s := range c.OOD {
			kept[i] = p.belowFlag(c.Predicted[i], s)
		}
	}
	s, err := c.TrueClasses.Selective(kept, p.o.MaxError)
	p.selective = &s
	return err
}

// belowFlag reports whether a score is below the largest score that is not flagged for its
// predicted class. Given that score, the calibration rows below it are independent, as their
// errors must be.
func (p *Predictor) belowFlag(class int, score float64) bool {
	return score < p.Conformal(class).Threshold(p.o.Alpha)
}

// Selective returns the calibration of PredictOptions.MaxError, or nil if that is 0.
func (p *Predictor) Selective() *calibrate.Selective { return p.selective }

// Sets returns what makes prediction sets, or nil if PredictOptions.Sets is empty.
func (p *Predictor) Sets() *calibrate.Sets { return p.sets }

func (p *Predictor) set(out []Prediction, r Rows) {
	if p.sets == nil || r.Logits.Cols == 0 {
		return
	}
	for i, set := range p.sets.Predict(r.Logits, uint64(r.First)) {
		if len(set) == 0 && !p.o.Smoothed { // only LAC
			set = []int{out[i].Class}
		}
		out[i].Set = set
	}
	if !p.o.ClassPValues {
		return
	}
	all, c := p.sets.PValues(r.Logits, uint64(r.First)), r.Logits.Cols
	for i := range out {
		out[i].ClassPValues = all[i*c : (i+1)*c : (i+1)*c]
	}
}

// confidences returns the largest probabilities of rows, without a temperature, or nil if
// there are no logits or if nothing uses them.
func (p *Predictor) confidences(logits blas32.General) []float64 {
	if logits.Cols == 0 || p.right == nil && p.selective == nil {
		return nil
	}
	sure := make([]float64, logits.Rows)
	for i := range sure {
		sure[i] = softmax.New(rows.Row(logits, i), 1).Largest()
	}
	return sure
}

// bound sets Accept and ConfidenceBounds.
func (p *Predictor) bound(out []Prediction, sure []float64) {
	if p.right == nil {
		return
	}
	for i := range out {
		out[i].ConfidenceBounds = [2]float64{math.NaN(), math.NaN()}
		if sure != nil {
			out[i].ConfidenceBounds[0], out[i].ConfidenceBounds[1] = p.right(sure[i])
		}
	}
}

func (p *Predictor) accept(out []Prediction, sure []float64) {
	if p.selective == nil || sure == nil {
		return
	}
	for i := range out {
		out[i].Accept = sure[i] > p.selective.Confidence && (p.scorer == nil || p.belowFlag(out[i].Class, out[i].Score))
	}
}
