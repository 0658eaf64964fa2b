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
	level   graph.Tensor // vector of length 1, an optional input of the graph, clipped to [0, 1]
}

// graphOptions configures how a .attach file is written to a graph.
type graphOptions struct {
	alpha, level float64 // defaults of the optional inputs; 0 means the value in the .attach file
	sets         string  // see ExportOptions.Sets
	rowAxis      any     // name or size of the row axis of inputs and outputs, for Builder.Input
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

// levelInput returns the level, which is an optional graph input, clipped to [0, 1].
func (w *graphWriter) levelInput() graph.Tensor {
	if w.level.Name() == "" {
		given := w.optionalInput(graph.Level, w.opts.level, fmt.Sprintf("Optional: the probability that intervals and sets cover, in (0, 1); %v by default. Values below 0 become 0. Values above 1 and NaN become 1.", w.opts.level))
		w.level = given.Less(1.).Choose(given, 1.).Max(0.)
	}
	return w.level
}

// writeDetection writes the OOD score, its p-value and the OOD flag. If finite is not nil, it marks
// the rows for which the interval model returns finite quantiles. Other rows get an
// infinite score.
func (w *graphWriter) writeDetection(finite *graph.Tensor) error {
	score, err := w.detectorScore()
	if err != nil {
		return err
	}
	if finite != nil {
		score = finite.Choose(score, math.Inf(1))
	}
	if columns := w.bundle.GapCounter().Columns(); len(columns) > 0 {
		if w.rows.Gaps.Name() == "" {
			return fmt.Errorf("the .attach file counts empty cells in %d columns, but no input of the model can have empty cells: fit again", len(columns))
		}
		cells := gaps.Profile{Rows: columns[0].FitRows}
		for _, c := range columns {
			cells.Empty = append(cells.Empty, float64(c.FitEmpty))
		}
		surprises := w.rows.Gaps.WithCols(len(columns)).Double().Mul(cells.Surprises())
		cellLimit, rowLimit, _ := w.bundle.GapLimits()
		atMost := func(x graph.Tensor, limit float64) graph.Tensor { return x.Less(math.Nextafter(limit, math.Inf(1))) }
		unusual := atMost(surprises.RowMax(), cellLimit).Not().Or(atMost(surprises.Sum(), rowLimit).Not())
		score = unusual.Not().Choose(score, math.Inf(1))
	}
	oodScore := score.Less(math.Inf(1)).Choose(score, math.Inf(1)) // a NaN score becomes infinite too
	w.addOutput(graph.OODScore, oodScore.Reshape(-1), pb.TensorProto_FLOAT, fmt.Sprintf("Score of %s: higher means more likely out-of-distribution; infinite for a row that is not finite.", w.bundle.Detector.Method))
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

// threshold returns the score at the rank that the level requires, as a vector of length 1.
// The n scores must be sorted, and the last one must be infinite.
func (w *graphWriter) threshold(scores graph.Tensor) graph.Tensor {
	// The rank, counted from 0, is the level times n, rounded down. The level is a float32
	// with a rounding error, so the product is reduced slightly.
	rank := w.levelInput().Double().Mul(float64(scores.Cols()) * (1 - 6e-8))
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
	q, err := graph.Quantiles(w.bundle.IntervalModel.Value(), w.rows.Features, levels)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be exported: %w", w.bundle.IntervalModel.Method, err)
	}
	if w.bundle.Base.Residual {
		q = q.Add(w.rows.Logits.Reshape(-1, int64(targets), 1))
	}
	q = q.Double()
	maxSize, unknownValues := make([]float64, targets), make([]float64, len(levels))
	for t, cal := range c.Quantiles {
		maxSize[t] = math.Nextafter(quantile.Reach(cal.Levels, cal.Grid, cal.Y), math.Inf(1))
	}
	for i, l := range levels {
		unknownValues[i] = quantile.Unknown(l)
	}
	size := q.Max(q.Neg()).RowMax().Add(q.Mul(0.).Sum()) // shape n×targets×1
	finite := size.Less(q.Constant(maxSize, targets, 1))
	w.addOutput(graph.QuantilesOut, finite.Choose(q, q.Constant(unknownValues)), pb.TensorProto_FLOAT,
		"Quantiles of the targets from the interval model, at the levels in the model's metadata: not conformalized.", targets, len(levels))
	if c.Groups == nil && c.Folds == nil {
		w.writeIntervals(q, finite)
	}
	infinite := finite.Not().Count(targets).Sum()
	allFinite := infinite.Less(1.)
	return &allFinite, nil
}

// writeIntervals writes the lower and upper bounds of the conformalized intervals of all
// targets.
func (w *graphWriter) writeIntervals(q, finite graph.Tensor) {
	c := w.bundle.Calibration
	levels := c.Quantiles[0].Levels
	half := w.levelInput().Double().Neg().Add(1.).Div(2.)
	low, high := quantileWeights(half, levels), quantileWeights(half.Neg().Add(1.), levels)
	var margins []graph.Tensor
	for _, cal := range c.Quantiles {
		n := len(cal.Y)
		grid := q.Constant(cal.Grid, n, len(levels)).Double()
		y := q.Constant(cal.Y, n, 1).Double()
		lo, hi := grid.Mul(low).Sum(), grid.Mul(high).Sum()
		below, above := lo.Sub(y), y.Sub(hi)
		if lowerUnit, upperUnit, ok := w.units(grid, lo, hi); ok {
			below, above = quotient(below, lowerUnit), quotient(above, upperUnit)
		}
		scores := below.Max(above)
		ascending := scores.Reshape(1, int64(n)).Concat(scores.Constant([]float64{math.Inf(1)}, 1, 1)).Sorted()
		margins = append(margins, w.threshold(ascending.Reshape(int64(n+1))))
	}
	margin := margins[0].Concat(margins[1:]...).Reshape(1, int64(len(margins)), 1)
	margin = margin.WithCols(1)
	lo, hi := q.Mul(low).Sum(), q.Mul(high).Sum()
	down, up := margin, margin
	if lowerUnit, upperUnit, ok := w.units(q, lo, hi); ok {
		bounded := margin.Less(math.Inf(1))
		down, up = bounded.Choose(margin.Mul(lowerUnit), math.Inf(1)), bounded.Choose(margin.Mul(upperUnit), math.Inf(1))
	}
	lower, upper := lo.Sub(down), hi.Add(up)
	crossed, middle := upper.Less(lower), hi.Sub(lo).Div(2.).Add(lo)
	writeBound := func(name, which string, bound graph.Tensor, otherwise float64) {
		bound = finite.Choose(crossed.Choose(middle, bound), otherwise).Reshape(-1, int64(len(margins)))
		w.addOutput(name, bound, pb.TensorProto_FLOAT, fmt.Sprintf("The %s bound of the interval that covers a target with probability %s; infinite if there are too few calibration rows.", which, graph.Level), len(margins))
	}
	writeBound(graph.Lower, "lower", lower, math.Inf(-1))
	writeBound(graph.Upper, "upper", upper, math.Inf(1))
}

// units returns the units in which the interval score moves the two ends of intervals. It returns
// false if the score moves them by the same amount in all rows. q holds the quantiles of rows,
// and lo and hi the ends of their uncalibrated intervals.
func (w *graphWriter) units(q, lo, hi graph.Tensor) (lower, upper graph.Tensor, ok bool) {
	switch w.bundle.Calibration.IntervalScore {
	case conformal.CQRR:
		width := hi.Sub(lo)
		return width, width, true
	case conformal.CQRM:
		median := q.Mul(quantileWeights(q.Constant([]float64{0.5}), w.bundle.Calibration.Quantiles[0].Levels)).Sum()
		return median.Sub(lo), hi.Sub(median), true
	}
	return lower, upper, false
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
