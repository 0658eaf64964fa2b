package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

// ErrorEstimate is an estimate of how many predictions of a classifier are wrong, if the rows
// have no labels. It is computed from the confidence of the model: see
// calibrate.ClassCalibration.EstimateError, which states the assumption. Only rows and
// calibration rows that are not flagged at the alpha of the predictor are used, because
// flagged rows are unlike the calibration rows.
type ErrorEstimate struct {
	// Rows is the number of rows that are not flagged, which the estimate is for. Flagged is
	// the number of flagged rows. Nothing is known about their errors.
	Rows    int `json:"rows"`
	Flagged int `json:"flagged"`
	// Error is the estimated fraction of the Rows that are wrong. Low and High are the ends of
	// its 95 % interval. They are nil if there is no estimate. Reason then says why, and Advice
	// what to do.
	Error *float64 `json:"error,omitempty"`
	Low   *float64 `json:"ci_low,omitempty"`
	High  *float64 `json:"ci_high,omitempty"`
	// AllLow and AllHigh bound the fraction of wrong predictions among all rows, the flagged
	// ones included. AllLow counts flagged rows as right, and AllHigh as wrong.
	AllLow  *float64 `json:"all_low,omitempty"`
	AllHigh *float64 `json:"all_high,omitempty"`
	// CalibrationRows is the number of calibration rows that the estimate uses, and
	// CalibrationErrors the number of wrong predictions among them.
	CalibrationRows   int `json:"calibration_rows"`
	CalibrationErrors int `json:"calibration_errors"`
	// Warning says why the estimate may be wrong, or is empty.
	Warning string `json:"warning,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Advice  string `json:"advice,omitempty"`
}

// FewLabels holds estimates of the errors of all rows from a few labelled ones
// (prediction-powered inference): see calibrate.PredictionPowered. They need no assumption
// about confidence, but the labelled rows must be drawn at random from the source of all rows.
type FewLabels struct {
	Rows    int             `json:"rows"` // number of labelled rows
	Figures []PoweredFigure `json:"figures"`
}

// PoweredFigure is a figure that is estimated from a few labelled rows and all other rows.
type PoweredFigure struct {
	// Name is "error_rate" for a classifier, and "mae" or "rmse" for a regressor. Target is the
	// index of the target.
	Name   string `json:"name"`
	Target int    `json:"target,omitempty"`
	// Value is the estimate, and Low and High are the ends of its 95 % interval.
	Value float64 `json:"value"`
	Low   float64 `json:"ci_low"`
	High  float64 `json:"ci_high"`
	// LabelledValue is the figure of the labelled rows alone, with its 95 % interval.
	LabelledValue float64 `json:"labelled_value"`
	LabelledLow   float64 `json:"labelled_ci_low"`
	LabelledHigh  float64 `json:"labelled_ci_high"`
	// Lambda is the influence of the rows without labels, from 0 to 1.
	Lambda float64 `json:"lambda"`
}

// unlabelled collects what estimates need of each row, whether its label is known or not.
type unlabelled struct {
	top     []float64 // largest softmax probability at temperature 1
	weights []float64 // weight of each row, if the calibration rows have weights
	// predictedLosses holds the losses that the model expects for each row, in the order of
	// figures. It is empty without Options.Labelled.
	predictedLosses [][]float64
}

// addUnlabelled collects the results for a block of rows. The features are already scaled.
func (g *accumulator) addUnlabelled(predictions []attach.Prediction, logits, features blas32.General) {
	u := &g.unlabelled
	if g.o.Labelled != nil {
		u.predictedLosses = appendEach(u.predictedLosses, g.predictLosses(predictions, logits))
	}
	if g.bundle.Base.Task != attach.Classification || logits.Cols == 0 {
		return
	}
	for i := range predictions {
		u.top = append(u.top, topProbability(logits, i))
		if ratio := g.bundle.Calibration.Ratio; ratio != nil {
			u.weights = append(u.weights, ratio.Weight(rows.Row(features, i)))
		} else if g.weighted() {
			u.weights = append(u.weights, 1) // the weight depends on the label, which is unknown; the mean weight is about 1
		}
	}
}

func topProbability(logits blas32.General, i int) float64 {
	return softmax.New(rows.Row(logits, i), 1).Largest()
}

// appendEach appends to each list of all the list of more with the same index.
func appendEach(all, more [][]float64) [][]float64 {
	if all == nil {
		all = make([][]float64, len(more))
	}
	for k, list := range more {
		all[k] = append(all[k], list...)
	}
	return all
}

// estimateErrors returns an estimate of the error rate. It returns nil for rows with labels,
// without logits, or of a model that is no classifier.
func (g *accumulator) estimateErrors(e *Evaluation) *ErrorEstimate {
	if g.labels != nil || g.unlabelled.top == nil {
		return nil
	}
	c := &g.bundle.Calibration
	var top, weights []float64
	for i, t := range g.unlabelled.top {
		if e.Flags == nil || g.pValues[i] > e.Alpha {
			top = append(top, t)
			if g.weighted() {
				weights = append(weights, g.unlabelled.weights[i])
			}
		}
	}
	out := &ErrorEstimate{Rows: len(top), Flagged: g.n - len(top)}
	switch {
	case g.bundle.Base.Sigmoid:
		out.Reason = "the model's outputs are separate sigmoids, so that a row may have no class or several"
	case len(c.TrueClasses.Labels) == 0:
		out.Reason, out.Advice = "the calibration rows have no labels, so nothing is known about errors", "fit again, with labels of the calibration rows"
	case len(top) == 0:
		out.Reason, out.Advice = "all rows are flagged, and nothing is known about the errors of such rows", g.labelAdvice()
	}
	if out.Reason != "" {
		return out
	}
	estimate, err := g.unflaggedCalibration(e).EstimateError(top, weights, .95)
	out.CalibrationRows, out.CalibrationErrors = estimate.Calibration, estimate.Wrong
	if err != nil {
		out.Reason = err.Error()
		if errors.Is(err, calibrate.ErrFewErrors) {
			out.Advice = strings.TrimSuffix("calibrate with more rows, or "+g.labelAdvice(), ", or ")
		}
		return out
	}
	n := float64(g.n)
	out.Error, out.Low, out.High = &estimate.Error, &estimate.Low, &estimate.High
	switch {
	case slices.ContainsFunc(e.Guarantees, func(p Guarantee) bool {
		return p.Kind == hypothesis.FalseAlarmRate && p.Nominal == e.Alpha && p.Verdict == hypothesis.Violated
	}):
		out.Warning = "more rows are flagged than expected, so there are probably unfamiliar rows among those that are not flagged, too: the estimate may be far too low"
		out.Advice = g.labelAdvice()
	case g.weighted():
		out.Warning = fmt.Sprintf("the weights of the calibration rows are estimated, and these are worth %s rows with equal weights: the estimate is wrong if rows differ in another way than the weights assume, and flags hardly show it", display.Count(int(math.Round(e.EffectiveSampleSize))))
		out.Advice = g.labelAdvice()
	case c.HeldOut == rows.SplitOff:
		out.Warning = "the calibration rows were split off the fit rows: if the model was trained on them, the estimate is too low"
		out.Advice = "calibrate with rows that the model was not trained on"
	case e.Flags == nil:
		out.Warning = "the .attach file has no detector, so rows of a kind that the calibration rows lack are not noticed: the estimate may be far too low"
		out.Advice = "fit again, with a detector"
	}
	out.AllLow, out.AllHigh = new(estimate.Low*float64(out.Rows)/n), new((estimate.High*float64(out.Rows)+float64(out.Flagged))/n)
	return out
}

// labelAdvice returns the advice to label rows, or "" if there are labelled rows.
func (g *accumulator) labelAdvice() string {
	if g.o.Labelled != nil {
		return ""
	}
	return "label some of these rows, drawn at random, and pass them as labelled rows"
}

// unflaggedCalibration returns the calibration rows that are not flagged.
func (g *accumulator) unflaggedCalibration(e *Evaluation) calibrate.ClassCalibration {
	c := &g.bundle.Calibration
	all := c.TrueClasses
	all.Weights = c.Weights
	if e.Flags == nil {
		return all
	}
	p := g.predictors[g.mainLevel]
	thresholds := map[int]float64{}
	out := calibrate.ClassCalibration{}
	for i, score := range c.OOD {
		class := 0
		if p.Options().FlagByClass {
			class = c.Predicted[i]
		}
		threshold, known := thresholds[class]
		if !known {
			threshold = p.Conformal(class).Threshold(e.Alpha)
			thresholds[class] = threshold
		}
		if score > threshold {
			continue
		}
		out.Top, out.Ranks = append(out.Top, all.Top[i]), append(out.Ranks, all.Ranks[i])
		if all.Weights != nil {
			out.Weights = append(out.Weights, all.Weights[i])
		}
	}
	return out
}

// figures returns the names of the losses whose means are estimated from a few labelled rows.
// The loss of "rmse" is the squared error. A regressor has two losses for each target.
func (g *accumulator) figures() []PoweredFigure {
	if g.bundle.Base.Task == attach.Classification {
		return []PoweredFigure{{Name: "error_rate"}}
	}
	var list []PoweredFigure
	for t := range max(g.bundle.Base.Outputs, len(g.bundle.Calibration.Quantiles)) {
		list = append(list, PoweredFigure{Name: "mae", Target: t}, PoweredFigure{Name: "rmse", Target: t})
	}
	return list
}

// predictLosses returns the losses that the model expects for each row, in the order of
// figures. A loss is 0 if nothing is known about it.
func (g *accumulator) predictLosses(predictions []attach.Prediction, logits blas32.General) [][]float64 {
	list := make([][]float64, len(g.figures()))
	for k := range list {
		list[k] = make([]float64, len(predictions))
	}
	for i, p := range predictions {
		if g.bundle.Base.Task == attach.Classification {
			list[0][i] = 1 - p.Confidence
			if g.vennAbers != nil && logits.Cols > 0 {
				p0, p1 := g.vennAbers(topProbability(logits, i))
				list[0][i] = (1 - p0) / (1 - p0 + p1)
			}
			continue
		}
		for t, target := range p.Targets {
			for l, q := range target.Quantiles {
				if d := q - target.Value; rows.Finite(d) {
					w := g.levelWeights[l]
					list[2*t][i] += w * math.Abs(d)
					list[2*t+1][i] += w * d * d
				}
			}
		}
	}
	return list
}

// losses returns the true losses of labelled rows, in the order of figures.
func (g *accumulator) losses(predictions []attach.Prediction, r attach.Rows, done int) ([][]float64, error) {
	list := make([][]float64, len(g.figures()))
	if g.bundle.Base.Task == attach.Classification {
		switch {
		case r.Labels == nil:
			return nil, errors.New("the labelled rows have no labels")
		case len(r.Labels) != len(predictions):
			return nil, fmt.Errorf("%s for %s", rows.Count(len(r.Labels), "label"), rows.Count(len(predictions), "labelled row"))
		case r.Logits.Cols == 0:
			return nil, errors.New("the labelled rows have no logits, so the predicted classes are unknown")
		}
		if err := checkLabels(r.Labels, r.Logits.Cols, done); err != nil {
			return nil, err
		}
		for i, p := range predictions {
			wrong := 0.
			if p.Class != r.Labels[i] {
				wrong = 1
			}
			list[0] = append(list[0], wrong)
		}
		return list, nil
	}
	switch {
	case r.Targets.Cols == 0:
		return nil, errors.New("the labelled rows have no targets")
	case 2*r.Targets.Cols != len(list) || r.Targets.Rows != len(predictions):
		return nil, fmt.Errorf("the labelled rows have %d×%d targets, but the model predicts %d×%d", r.Targets.Rows, r.Targets.Cols, len(predictions), len(list)/2)
	}
	if err := rows.CheckFinite("targets of the labelled rows", r.Targets); err != nil {
		return nil, err
	}
	for i, p := range predictions {
		for t, target := range p.Targets {
			d := float64(r.Targets.Data[i*r.Targets.Stride+t]) - target.Value
			if math.IsNaN(d) {
				return nil, errors.New("the rows have no predictions of the model itself, so its errors are unknown; give rows with logits")
			}
			list[2*t], list[2*t+1] = append(list[2*t], math.Abs(d)), append(list[2*t+1], d*d)
		}
	}
	return list, nil
}

// evaluateFewLabels estimates the errors of all rows from the rows of Options.Labelled.
func (g *accumulator) evaluateFewLabels(ctx context.Context, e *Evaluation) (*FewLabels, error) {
	if g.bundle.Base.Task == attach.Embedding {
		return nil, errors.New("labelled rows need a classifier or a regressor")
	}
	out := &FewLabels{}
	var predicted, losses [][]float64
	for r, err := range g.o.Labelled {
		if err != nil {
			return nil, err
		}
		if g.bundle.Calibration.Groups == nil {
			r.Groups = nil
		}
		r.First = out.Rows
		predictions, err := g.predictors[g.mainLevel].Predict(ctx, r)
		if err != nil {
			return nil, err
		}
		r.Batch = binarylogit.Batch(r.Batch)
		block, err := g.losses(predictions, r, out.Rows)
		if err != nil {
			return nil, err
		}
		losses, predicted = appendEach(losses, block), appendEach(predicted, g.predictLosses(predictions, r.Logits))
		out.Rows += len(predictions)
	}
	if out.Rows < minLabelled {
		return nil, fmt.Errorf("an estimate needs %d labelled rows or more, not %d", minLabelled, out.Rows)
	}
	for k, figure := range g.figures() {
		p, err := calibrate.PredictionPowered(losses[k], predicted[k], g.unlabelled.predictedLosses[k])
		if err != nil {
			return nil, err
		}
		alone := calibrate.PoweredMean{Known: out.Rows, Mean: stat.Mean(losses[k], nil), StandardError: math.Sqrt(stat.PopVariance(losses[k], nil) / float64(out.Rows))}
		figure.Lambda = p.Lambda
		figure.Value, figure.Low, figure.High = figureOf(figure.Name, p)
		figure.LabelledValue, figure.LabelledLow, figure.LabelledHigh = figureOf(figure.Name, alone)
		out.Figures = append(out.Figures, figure)
	}
	g.compareLabelled(e, predicted[0])
	return out, nil
}

// minLabelled is the smallest number of labelled rows. With fewer rows, intervals say little.
const minLabelled = 10

// figureOf returns a figure and its 95 % interval from the mean of its losses.
func figureOf(name string, p calibrate.PoweredMean) (value, low, high float64) {
	if name == "error_rate" {
		low, high = p.FractionInterval(.95)
		return min(max(p.Mean, 0), 1), low, high
	}
	low, high = p.Interval(.95)
	value, low, high = max(p.Mean, 0), max(low, 0), max(high, 0)
	if name == "rmse" {
		return math.Sqrt(value), math.Sqrt(low), math.Sqrt(high)
	}
	return value, low, high
}

// compareLabelled adds a note if the labelled rows differ from the other rows in the losses
// that the model expects.
func (g *accumulator) compareLabelled(e *Evaluation, predicted []float64) {
	distance, p := hypothesis.Kolmogorov(slices.Sorted(slices.Values(predicted)), slices.Sorted(slices.Values(g.unlabelled.predictedLosses[0])))
	if p > hypothesis.Unlikely {
		return
	}
	e.Notes = append(e.Notes, Note{
		Message: fmt.Sprintf("the labelled rows differ from the other rows: the model expects other errors for them (p = %s, Kolmogorov–Smirnov, distance %s), so estimates from them may be wrong", display.Number(p, 2), display.Fixed(distance, 3)),
		Advice:  "label rows that are drawn at random from all rows",
	})
}

// levelWeights returns the weight of each quantile level in a mean over the distribution.
func levelWeights(levels []float64) []float64 {
	w := make([]float64, len(levels))
	for i := range levels {
		low, high := 0., 1.
		if i > 0 {
			low = (levels[i-1] + levels[i]) / 2
		}
		if i+1 < len(levels) {
			high = (levels[i] + levels[i+1]) / 2
		}
		w[i] = high - low
	}
	return w
}
