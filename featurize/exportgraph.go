package featurize

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/gaps"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/version"
)

// graphWriter appends the computations of a .attach file to an ONNX graph.
type graphWriter struct {
	bundle  *attach.Bundle
	builder *onnx.Builder
	opts    graphOptions
	rows    graph.Batch  // features, logits and other tensors that methods read
	alpha   graph.Tensor // vector of length 1, an optional input of the graph
	level   graph.Tensor // vector of length 1, an optional input of the graph
}

// graphOptions configures how a .attach file is written to a graph.
type graphOptions struct {
	alpha, level float64 // defaults of the optional inputs; 0 means the value in the .attach file
	sets         string  // see ExportOptions.Sets
	rowAxis      any     // name or size of the row axis of inputs and outputs, for Builder.Input
	noIntervals  bool    // whether the outputs of the interval model will be removed
}

// writeGraph appends the computations of a .attach file to a graph. rows names the graph's
// tensors for features, logits and so on, which are float32 and n×width. If rows is empty,
// the tensors that the file needs become inputs of the graph. The result omitted lists the
// parts that were left out, with reasons. If a method cannot be expressed as a graph,
// writeGraph returns an error. An interval model that cannot be expressed is only left out
// if there is a detector.
func writeGraph(b *attach.Bundle, to *onnx.Builder, rows graph.Batch, o graphOptions) (omitted []string, err error) {
	p, err := b.Predictor(attach.PredictOptions{Alpha: o.alpha, Level: o.level})
	if err != nil {
		return nil, err
	}
	o.alpha, o.level, o.sets = p.Options().Alpha, p.Options().Level, cmp.Or(o.sets, conformal.LAC)
	if rows.Features.Cols() == 0 {
		rows = rowInputs(b, to, o.rowAxis)
	}
	w := &graphWriter{bundle: b, builder: to, opts: o, rows: rows}
	defer to.SetScope(to.SetScope("attach/"))
	w.prepareRows()
	var finite *graph.Tensor
	switch {
	case b.IntervalModel != nil:
		finite, err = w.writeQuantiles()
		switch refusal := (*graph.Refusal)(nil); {
		case errors.As(err, &refusal) && b.Detector != nil:
			omitted = append(omitted, "quantiles and intervals: "+err.Error())
		case err != nil:
			return nil, err
		case b.Calibration.Groups != nil:
			omitted = append(omitted, "intervals: they are calibrated by group, and rows of a graph have no groups")
		case b.Calibration.Folds != nil:
			omitted = append(omitted, "intervals: they are cross-fitted, and a graph holds one interval model")
		}
	case b.Base.Task == attach.Classification && w.rows.Logits.Cols() > 0:
		w.writeProbabilities()
		reason, err := w.writeSets()
		if err != nil {
			return nil, err
		}
		if reason != "" {
			omitted = append(omitted, "prediction sets: "+reason)
		}
	}
	if b.Detector != nil {
		if err := w.writeDetection(finite); err != nil {
			return nil, err
		}
	}
	w.writeMetadata()
	return omitted, nil
}

// rowInputs declares graph inputs for the features, logits and other tensors that a .attach
// file needs.
func rowInputs(b *attach.Bundle, to *onnx.Builder, n any) (in graph.Batch) {
	widths, detectorWidths := batchparts.Widths{"features": b.Base.Width, "logits": b.Base.Outputs}, batchparts.Widths{}
	if b.Detector != nil {
		detectorWidths = b.Detector.Widths()
	}
	for name, width := range detectorWidths {
		widths[name] = cmp.Or(widths[name], width) // a detector may count one logit as two
	}
	if _, _, inFeatures := b.GapLimits(); !inFeatures {
		widths["gaps"] = len(b.GapCounter().Columns())
	}
	for _, name := range widths.Names() {
		if name == "logits" && detectorWidths[name] == 0 && b.Base.Task != attach.Classification && !b.Base.Residual {
			continue
		}
		in.Set(name, graph.Wrap(to, to.Input(name, pb.TensorProto_FLOAT, n, widths[name]), pb.TensorProto_FLOAT, widths[name]))
	}
	return in
}

// prepareRows changes the tensors of the graph to those that methods read: it marks empty cells,
// standardises features and turns one logit into two.
func (w *graphWriter) prepareRows() {
	if _, _, gapsInFeatures := w.bundle.GapLimits(); gapsInFeatures {
		w.rows.Gaps = w.rows.Features.IsNaN().Single()
	}
	if w.bundle.Base.Standardised {
		w.standardise()
	}
	if logits := &w.rows.Logits; w.bundle.Base.Task == attach.Classification && logits.Cols() == 1 {
		*logits = logits.Mul(0.).Concat(*logits)
	}
}

// standardise applies the same scaling as Scaling.Apply, except that an infinity becomes
// NaN.
func (w *graphWriter) standardise() {
	mean, deviation := w.bundle.Scaling()
	x := w.rows.Features
	inverse := make([]float64, len(deviation))
	for j, d := range deviation {
		if d > 0 {
			inverse[j] = 1 / d
		}
	}
	x = x.IsNaN().Choose(x.Numbers(mean, len(mean)), x)
	scaled := x.Double().Sub(mean).Mul(inverse)
	w.rows.Features = scaled.Max(-math.MaxFloat32).Min(math.MaxFloat32).Single().Add(x.Mul(0.))
}

// addOutput declares the tensor x (n×dims) as a graph output with the given name. The last
// node of the graph must be the one that made x, because the output of that node is
// renamed.
func (w *graphWriter) addOutput(name string, x graph.Tensor, elem pb.TensorProto_DataType, doc string, dims ...int) graph.Tensor {
	axes := []any{w.opts.rowAxis}
	for _, d := range dims {
		axes = append(axes, d)
	}
	x = x.To(elem)
	scope := w.builder.SetScope("")
	x = x.Named(name)
	w.builder.Output(name, elem, axes...)
	w.builder.Describe(name, doc)
	w.builder.SetScope(scope)
	return x
}

// optionalInput declares an optional graph input that holds one number.
func (w *graphWriter) optionalInput(name string, value float64, doc string) graph.Tensor {
	scope := w.builder.SetScope("")
	w.builder.Optional(name, []float32{float32(value)}, 1)
	w.builder.Describe(name, doc)
	w.builder.SetScope(scope)
	return graph.Wrap(w.builder, name, pb.TensorProto_FLOAT, 1)
}

// addLevel declares the level, which is an optional graph input.
func (w *graphWriter) addLevel() {
	w.level = w.optionalInput(graph.Level, w.opts.level, fmt.Sprintf("Optional: the probability that intervals and sets cover, in (0, 1); %v by default. Values below 0 become 0. Values above 1 and NaN become 1.", w.opts.level))
}

// clippedLevel returns the level in float64, clipped to [0, 1].
func (w *graphWriter) clippedLevel() graph.Tensor {
	return w.level.Less(1.).Choose(w.level, 1.).Max(0.).Double()
}

// writeDetection writes the OOD score, its p-value and the OOD flag. If finite is not nil, it marks
// the rows for which the interval model returns finite quantiles. Other rows get an
// infinite score.
func (w *graphWriter) writeDetection(finite *graph.Tensor) error {
	score, err := w.detectorScore()
	if err != nil {
		return err
	}
	usable := score.Less(math.Inf(1)) // false for NaN, whose score becomes infinite too
	if finite != nil {
		usable = usable.And(*finite)
	}
	if columns := w.bundle.GapCounter().Columns(); len(columns) > 0 {
		if w.rows.Gaps.Name() == "" {
			return fmt.Errorf("the .attach file counts empty cells in %d columns, but no input of the model can have empty cells: fit again", len(columns))
		}
		cells := gaps.Profile{Rows: columns[0].FitRows}
		for _, c := range columns {
			cells.Empty = append(cells.Empty, float64(c.FitEmpty))
		}
		// An empty cell that alone makes a row unusual counts as much as any row can.
		cellLimit, rowLimit, _ := w.bundle.GapLimits()
		surprises := cells.Surprises()
		for j, s := range surprises {
			if s > cellLimit {
				surprises[j] = math.MaxFloat32
			}
		}
		sum := w.rows.Gaps.WithCols(len(columns)).Double().Mul(surprises).Sum()
		usable = usable.And(sum.Less(math.Nextafter(min(rowLimit, math.MaxFloat32/2), math.Inf(1))))
	}
	score = usable.Choose(score, math.Inf(1))
	w.addOutput(graph.OODScore, score.Reshape(-1), pb.TensorProto_FLOAT, fmt.Sprintf("Score of %s: higher means more likely out-of-distribution; infinite for a row that is not finite.", w.bundle.Detector.Method))
	c, err := calibrate.NewConformal(w.bundle.Calibration.OOD)
	if err != nil {
		return err
	}
	n := len(c.Scores)
	above := make([]float64, n) // turns score < above[i] into score ≤ c.Scores[i]; both are false for NaN
	for i, s := range c.Scores {
		above[i] = math.Nextafter(s, math.Inf(1))
	}
	index, width := score.CountAbove(above)
	table := make([]float32, width)
	for i := range n + 1 {
		table[i] = float32(i+1) / float32(n+1)
	}
	p := index.Lookup(table)
	p = w.addOutput(graph.PValue, p, pb.TensorProto_FLOAT, "Conformal p-value: the fraction of in-distribution rows that score at least as high. Small means out-of-distribution; "+
		"its guarantee is in the model's metadata.")
	w.alpha = w.optionalInput(graph.Alpha, w.opts.alpha, fmt.Sprintf("Optional: the fraction of in-distribution rows that may be flagged by mistake, in (0, 1); %v by default. NaN flags every row.", w.opts.alpha))
	w.addOutput(graph.IsOOD, w.alpha.Less(p).Not(), pb.TensorProto_BOOL, "Whether the p-value is at most "+graph.Alpha+".")
	return nil
}

// detectorScore writes the score of the detector, n×1. It ignores empty cells.
func (w *graphWriter) detectorScore() (graph.Tensor, error) {
	d := w.bundle.Detector
	var parts graph.Batch
	for _, name := range batchparts.Widths(d.Widths()).Names() {
		parts.Set(name, w.rows.Part(name))
	}
	score, err := graph.Score(d.Value(), parts)
	if err != nil {
		return score, fmt.Errorf("%s cannot be exported: %w", d.Method, err)
	}
	return score, nil
}

// writeProbabilities writes the probabilities of the classes. Prediction.Confidence is the
// largest of them.
func (w *graphWriter) writeProbabilities() {
	t := cmp.Or(w.bundle.Calibration.Temperature, 1)
	z := w.rows.Logits.Mul(1 / t)
	p := z.Softmax()
	if w.bundle.Base.Sigmoid {
		p = z.Sigmoid()
	}
	w.addOutput(graph.Probabilities, p, pb.TensorProto_FLOAT, fmt.Sprintf("Probabilities of the classes: logits divided by the temperature %.6g.", t), z.Cols())
}

// writeSets writes which classes are in the prediction set. If there can be no sets, it returns
// the reason.
func (w *graphWriter) writeSets() (reason string, err error) {
	c := w.bundle.Calibration.TrueClasses
	switch kind := w.opts.sets; {
	case w.opts.sets == "none":
		return "", nil
	case !slices.Contains(conformal.GraphScores(), kind):
		return "", fmt.Errorf("sets ranked by %q cannot be exported: choose one of %s", kind, strings.Join(conformal.GraphScores(), ", "))
	case w.bundle.Base.Sigmoid:
		return "each output has its own sigmoid", nil
	case len(c.Labels) == 0:
		return "the calibration rows had no labels", nil
	case kind != conformal.LAC && w.builder.Opset() < 11:
		return "", fmt.Errorf("sets ranked by %s need operator set 11, and the model has %d: choose lac, or export the model again", kind, w.builder.Opset())
	}
	w.addLevel()
	z := w.rows.Logits.Double()
	p, o := z.Softmax(), calibrate.SetOptions{Score: w.opts.sets}
	var outside graph.Tensor // marks the classes outside the set; the most probable class is never marked
	if o.Score == conformal.LAC {
		descending := append([]float64{math.Inf(-1)}, slices.Sorted(slices.Values(c.True))...)
		slices.Reverse(descending)
		outside = p.Less(w.threshold(z.Constant(descending)).Min(p.RowMax()))
	} else {
		threshold := w.threshold(z.Constant(append(slices.Sorted(slices.Values(c.Scores(o))), math.Inf(1))))
		ranked, _ := p.Top(z.Cols())
		// Scores increase as probabilities decrease. So the set contains all classes down
		// to the least probable one whose score is within the limit.
		smallest := threshold.Less(rankedScores(ranked, o)).Choose(ranked.Mul(0.).Add(2.), ranked).RowMin()
		outside = p.Less(smallest.Min(ranked.RowMax()))
	}
	w.addOutput(graph.PredictionSet, outside.Not(), pb.TensorProto_BOOL, fmt.Sprintf("Which classes are in the prediction set (%s). It contains the true class with probability %s.", w.opts.sets, graph.Level), z.Cols())
	return "", nil
}

// rankedScores returns the set scores of the classes, from the most probable class to the
// least probable one.
func rankedScores(p graph.Tensor, o calibrate.SetOptions) graph.Tensor {
	n := p.Cols()
	zero, above := make([]float64, n), make([]float64, n)
	ranks := calibrate.ClassCalibration{Labels: make([]int, n), True: zero, Above: zero, Top: zero, Ranks: make([]int, n)}
	for k := range n {
		ranks.Ranks[k], above[k] = k, min(float64(k), 1)
	}
	scores := p.CumSum()
	if o.Score == conformal.SAPS {
		scores = p.Columns(0, 1).Mul(above)
	}
	if o.Score == conformal.APS {
		return scores
	}
	return scores.Add(ranks.Scores(o)) // with all probabilities 0, Scores returns only the penalties
}

// roundedDown reduces a product with a level slightly, because the level is a float32 with a
// rounding error.
const roundedDown = 1 - 6e-8

// threshold returns the score at the rank that the level requires, as a vector of length 1.
// The n scores must be sorted, and the last one must be infinite.
func (w *graphWriter) threshold(scores graph.Tensor) graph.Tensor {
	// The rank, counted from 0, is the level times n, rounded down.
	rank := w.clippedLevel().Mul(float64(scores.Cols()) * roundedDown)
	return rank.To(pb.TensorProto_INT64).Lookup(scores)
}

// writeQuantiles writes quantiles and, unless intervals are calibrated by group or cross-fitted, intervals.
// Its result (n×1) marks the rows for which the interval model returns finite quantiles.
func (w *graphWriter) writeQuantiles() (*graph.Tensor, error) {
	c := w.bundle.Calibration
	if s := c.IntervalScore; s == conformal.CIR || s == conformal.RCP || s == conformal.Ridge {
		return nil, graph.Refuse("intervals with the score %q cannot be exported: fit with the score %q", s, conformal.CQR)
	}
	levels, targets := c.Quantiles[0].Levels, len(c.Quantiles)
	maxSize, unknownValues := make([]float64, targets), make([]float64, len(levels))
	for t, cal := range c.Quantiles {
		maxSize[t] = quantile.Reach(cal.Levels, cal.Grid, cal.Y)
	}
	for i, l := range levels {
		unknownValues[i] = quantile.Unknown(l)
	}
	q, finite, err := w.predictedQuantiles(maxSize)
	if err != nil {
		return nil, err
	}
	double := q.Double()
	w.addOutput(graph.QuantilesOut, finite.Choose(q, q.Numbers(unknownValues, len(levels))), pb.TensorProto_FLOAT,
		"Quantiles of the targets from the interval model, at the levels in the model's metadata: not conformalized.", targets, len(levels))
	if c.Groups == nil && c.Folds == nil {
		if err := w.writeIntervals(double, finite); err != nil {
			return nil, err
		}
	}
	finiteRows := inAllTargets(finite, targets)
	if bounds := graph.QuantileBounds(w.bundle.IntervalModel.Value()); w.opts.noIntervals && bounds != nil {
		finiteRows, err = w.finiteByBounds(maxSize, bounds)
	}
	return &finiteRows, err
}

// predictedQuantiles writes the quantiles of the interval model, n×targets×levels. finite,
// n×targets×1, marks those that are at most maxSize.
func (w *graphWriter) predictedQuantiles(maxSize []float64) (q, finite graph.Tensor, err error) {
	q, err = graph.Quantiles(w.bundle.IntervalModel.Value(), w.rows.Features, w.bundle.Calibration.Quantiles[0].Levels)
	if err != nil {
		return q, q, fmt.Errorf("%s cannot be exported: %w", w.bundle.IntervalModel.Method, err)
	}
	if w.bundle.Base.Residual {
		q = q.Add(w.rows.Logits.Reshape(-1, int64(len(maxSize)), 1))
	}
	double := q.Double()
	return q, double.Abs().Less(nextAfter(double, maxSize)).All(), nil
}

// inAllTargets turns a condition n×targets×1 into one for all targets of a row, n×1.
func inAllTargets(c graph.Tensor, targets int) graph.Tensor {
	c = c.Reshape(-1, int64(targets))
	if targets > 1 {
		c = c.All()
	}
	return c
}

// finiteByBounds marks the rows with finite quantiles, n×1. bounds holds the largest magnitude
// of a quantile that the interval model can return for each target. The interval model runs only
// if a row has a prediction so large that the bounds do not decide.
func (w *graphWriter) finiteByBounds(maxSize, bounds []float64) (finite graph.Tensor, err error) {
	limits, x := make([]float64, len(bounds)), w.rows.Features
	for t, b := range bounds {
		limits[t] = maxSize[t]*(1-1e-6) - b // rounding errors are smaller than a millionth
	}
	size := x.MatMul(x.Constant(make([]float32, x.Cols()), x.Cols(), 1)) // 0, or NaN
	if w.bundle.Base.Residual {
		size = size.Add(w.rows.Logits)
	}
	within := size.Double().Abs().Less(limits)
	decided := within.All().Not().To(pb.TensorProto_INT32).Reduce("ReduceSum", 0, 1).Less(1.)
	out := w.builder.If(decided.Name(), 1, func() []string {
		return []string{within.All().Name()}
	}, func() []string {
		_, finite, err = w.predictedQuantiles(maxSize)
		if err != nil {
			return nil
		}
		return []string{inAllTargets(finite, len(maxSize)).Name()}
	})
	return graph.Wrap(w.builder, out[0], pb.TensorProto_BOOL, 1), err
}

// nextAfter returns the numbers above those of limits as a constant, targets×1. A number less
// than the result is then at most the limit.
func nextAfter(x graph.Tensor, limits []float64) graph.Tensor {
	above := make([]float64, len(limits))
	for i, v := range limits {
		above[i] = math.Nextafter(v, math.Inf(1))
	}
	return x.Constant(above, len(limits), 1)
}

// Columns of the ends of an interval before calibration, which are weighted sums of a row's
// quantiles. A margin moves an end by a multiple of its distance from its base.
const (
	lowEnd = iota
	highEnd
	lowBase
	highBase
	middle
	endColumns
)

// writeIntervals writes the lower and upper bounds of the conformalized intervals of all
// targets. The margins at the default level are constants. At another level, the graph scores
// and sorts the calibration rows at each run.
func (w *graphWriter) writeIntervals(q, finite graph.Tensor) error {
	w.addLevel()
	weights, margins, err := w.defaultMargins()
	if err != nil {
		return err
	}
	targets := len(margins)
	out := w.builder.If(w.level.Is(float64(float32(w.opts.level))).Name(), 2, func() []string {
		return []string{q.Constant(weights, len(weights)/endColumns, endColumns).Name(), q.Constant(margins, 1, targets, 1).Name()}
	}, func() []string {
		weights, margins := w.margins(q)
		return []string{weights.Name(), margins.Name()}
	})
	ends := q.MatMul(graph.Wrap(w.builder, out[0], pb.TensorProto_DOUBLE, endColumns))
	margin := graph.Wrap(w.builder, out[1], pb.TensorProto_DOUBLE, 1)
	bounded := margin.Less(math.Inf(1))
	moves := margin.Mul([]float64{-1, 1})
	if w.hasUnits() {
		moves = margin.Mul(unitsOf(ends))
	}
	bounds := ends.Columns(lowEnd, highEnd+1).Add(moves)
	crossed := bounds.Columns(1, 2).Less(bounds.Columns(0, 1))
	bounds = crossed.Choose(ends.Columns(middle, middle+1), bounds)
	bounds = finite.And(bounded).Choose(bounds, []float64{math.Inf(-1), math.Inf(1)}).Single()
	for i, b := range []struct{ name, which string }{{graph.Lower, "lower"}, {graph.Upper, "upper"}} {
		w.addOutput(b.name, bounds.Column(i, targets), pb.TensorProto_FLOAT,
			fmt.Sprintf("The %s bound of the interval that covers a target with probability %s; infinite if there are too few calibration rows.", b.which, graph.Level), targets)
	}
	return nil
}

// unitsOf returns the distances of the two ends from their bases, with a minus sign for a lower
// end that is below its base.
func unitsOf(ends graph.Tensor) graph.Tensor {
	return ends.Columns(lowEnd, highEnd+1).Sub(ends.Columns(lowBase, highBase+1))
}

// defaultMargins returns the weights of ends, levels×endColumns, and the margin of each target
// at the default level.
func (w *graphWriter) defaultMargins() (weights, margins []float64, err error) {
	c := w.bundle.Calibration
	tail := (1 - w.opts.level) / 2
	levels := c.Quantiles[0].Levels
	low, median, high := quantile.Weights(levels, tail), quantile.Weights(levels, 0.5), quantile.Weights(levels, 1-tail)
	for i := range levels {
		row := [endColumns]float64{low[i], high[i], high[i], low[i], (low[i] + high[i]) / 2}
		if c.IntervalScore == conformal.CQRM {
			row[lowBase], row[highBase] = median[i], median[i]
		}
		weights = append(weights, row[:]...)
	}
	v, err := calibrate.NewIntervals(c.Quantiles, calibrate.IntervalOptions{Score: c.IntervalScore}, 1-w.opts.level)
	if err != nil {
		return nil, nil, err
	}
	for _, scores := range v.CalibrationScores() {
		scores = append(scores, math.Inf(1))
		slices.Sort(scores)
		margins = append(margins, scores[int(w.opts.level*float64(len(scores))*roundedDown)])
	}
	return weights, margins, nil
}

// margins writes what defaultMargins returns, at the level of the optional input. The margins
// have the shape 1×targets×1.
func (w *graphWriter) margins(q graph.Tensor) (weights, margins graph.Tensor) {
	c := w.bundle.Calibration
	levels := c.Quantiles[0].Levels
	half := w.clippedLevel().Neg().Add(1.).Div(2.)
	low, high := quantileWeights(half, levels), quantileWeights(half.Neg().Add(1.), levels)
	columns := [endColumns]graph.Tensor{low, high, high, low, low.Add(high).Div(2.)}
	if c.IntervalScore == conformal.CQRM {
		median := low.Constant(quantile.Weights(levels, 0.5))
		columns[lowBase], columns[highBase] = median, median
	}
	for i, x := range columns {
		columns[i] = x.Reshape(-1, 1)
	}
	weights = columns[0].Concat(columns[1:]...)
	var all []graph.Tensor
	for _, cal := range c.Quantiles {
		n := len(cal.Y)
		ends := q.Constant(cal.Grid, n, len(levels)).Double().MatMul(weights)
		y := q.Constant(cal.Y, n, 1).Double()
		below, above := ends.Columns(lowEnd, lowEnd+1).Sub(y), y.Sub(ends.Columns(highEnd, highEnd+1))
		if w.hasUnits() {
			units := unitsOf(ends)
			below, above = quotient(below, units.Columns(0, 1).Neg()), quotient(above, units.Columns(1, 2))
		}
		scores := below.Max(above)
		ascending := scores.Reshape(1, int64(n)).Concat(scores.Constant([]float64{math.Inf(1)}, 1, 1)).Sorted()
		all = append(all, w.threshold(ascending.Reshape(int64(n+1))))
	}
	return weights, all[0].Concat(all[1:]...).Reshape(1, int64(len(all)), 1)
}

// hasUnits reports whether the interval score moves the ends of intervals by multiples of their
// distances from their bases, and not by the same amount in all rows.
func (w *graphWriter) hasUnits() bool {
	return w.bundle.Calibration.IntervalScore == conformal.CQRR || w.bundle.Calibration.IntervalScore == conformal.CQRM
}

// quotient returns score/unit, and 0 if both are 0.
func quotient(score, unit graph.Tensor) graph.Tensor {
	q := score.Div(unit)
	return q.IsNaN().Not().Choose(q, 0.)
}

// quantileWeights returns the factors that interpolate linearly between quantiles. The quantile at
// tau (a vector of length 1) is the sum of the quantiles at levels, each times its factor.
// See quantile.Interpolate.
func quantileWeights(tau graph.Tensor, levels []float64) graph.Tensor {
	n := len(levels)
	upSlope, upOffset, downSlope, downOffset := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	upOffset[0], downOffset[n-1] = 1, 1
	for i := 1; i < n; i++ {
		step := levels[i] - levels[i-1]
		upSlope[i], upOffset[i] = 1/step, -levels[i-1]/step
		downSlope[i-1], downOffset[i-1] = -1/step, levels[i]/step
	}
	ascending := tau.Mul(upSlope).Add(upOffset)
	return ascending.Min(tau.Mul(downSlope).Add(downOffset)).Min(1.).Max(0.)
}

// writeMetadata writes the levels, the methods and the guarantee into the model's metadata.
func (w *graphWriter) writeMetadata() {
	b, c := w.bundle, w.bundle.Calibration
	note := func(key string, value any) { w.builder.AddMetadata("attach."+key, fmt.Sprint(value)) }
	note("library", version.String())
	note("guarantee", b.Guarantee())
	note("calibration_rows", c.NCal)
	note("alpha", w.opts.alpha)
	note("level", w.opts.level)
	note("sets", w.opts.sets)
	if b.Detector != nil {
		note("detector", strings.TrimSpace(b.Detector.Method+" "+b.Detector.Params.String()))
		note("least_p_value", strconv.FormatFloat(hypothesis.LeastPValue(len(c.OOD)), 'g', 6, 64))
	}
	if b.IntervalModel != nil {
		note("quantile_head", strings.TrimSpace(b.IntervalModel.Method+" "+b.IntervalModel.Params.String()))
		levels, _ := json.Marshal(c.Quantiles[0].Levels)
		note("quantile_levels", string(levels))
	}
	if c.Temperature > 0 {
		note("temperature", c.Temperature)
	}
	for _, names := range []struct {
		key  string
		list []string
	}{{"classes", b.Base.Classes}, {"columns", b.Base.Columns}, {"targets", b.Base.Targets}} {
		if len(names.list) > 0 {
			text, _ := json.Marshal(names.list)
			note(names.key, string(text))
		}
	}
	if b.Preprocess != nil {
		note("preprocess", string(b.Preprocess))
	}
	if b.Profile != nil {
		profile, _ := b.Profile.Encode() // a profile of a fit can be encoded
		note("profile", string(profile))
	}
	if b.Base.SHA256 != "" {
		note("base_sha256", b.Base.SHA256)
	}
}
