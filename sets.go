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

// checkSets refuses sets and an error that the bundle cannot promise.
func (b *Bundle) checkSets(o PredictOptions) error {
	asked := "sets of classes"
	switch {
	case o.Sets != "":
	case o.MaxError != 0:
		asked = "a share of errors"
	default:
		asked = "Venn–Abers bounds"
	}
	switch {
	case (o.SetsByClass || o.SetsByCluster) && o.Sets == "":
		return errors.New("sets are to be calibrated by class or cluster, and none are asked for")
	case o.ClassPValues && o.Sets == "":
		return errors.New("p-values of classes are by the score of sets, and none are asked for")
	case o.Sets == "" && o.MaxError == 0 && !o.VennAbers:
		return nil
	case b.Base.Task != Classification:
		return fmt.Errorf("%s: the network answers no classes", asked)
	case b.Base.Sigmoid:
		return fmt.Errorf("%s: each of the network's outputs is a sigmoid of its own, so that none, or several, may be true of a row, and no one class is to be found", asked)
	case len(b.Calibration.TrueClasses.Labels) == 0:
		return fmt.Errorf("%s: the calibration rows had no labels, or no logits: fit anew with both", asked)
	}
	return nil
}

// calibrateClasses prepares the sets, and what is accepted.
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
			kept[i] = p.within(c.Predicted[i], s)
		}
	}
	s, err := c.TrueClasses.Selective(kept, p.o.MaxError)
	p.selective = &s
	return err
}

// within says that a score is below the largest that is not flagged of its predicted
// class. Calibration
// rows of such scores are independent given that one, as their errors must be.
func (p *Predictor) within(class int, score float64) bool {
	return score < p.Conformal(class).Threshold(p.o.Alpha)
}

// Selective is what calibration rows say of PredictOptions.MaxError, or nil where it is 0.
func (p *Predictor) Selective() *calibrate.Selective { return p.selective }

// Sets are what makes prediction sets, or nil if PredictOptions.Sets asks for none.
func (p *Predictor) Sets() *calibrate.Sets { return p.sets }

func (p *Predictor) set(out []Prediction, r Rows) {
	if p.sets == nil || r.Logits.Cols == 0 {
		return
	}
	for i, set := range p.sets.Predict(r.Logits, uint64(r.First)) {
		if len(set) == 0 && !p.o.Smoothed { // of LAC
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

// confidences are the largest probabilities of rows, without a temperature; nil where
// there are no logits, or nothing is by them.
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

// bound sets what is known of how likely the classes are right.
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
		out[i].Accept = sure[i] > p.selective.Confidence && (p.scorer == nil || p.within(out[i].Class, out[i].Score))
	}
}
