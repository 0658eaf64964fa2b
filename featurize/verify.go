package featurize

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// Agreement reports how far the outputs of an exported model agree with its .attach file.
type Agreement struct {
	Rows int
	// Network is the largest difference between the original and the exported model in
	// features, logits and layers, relative to the row's largest number. It is 0 if only
	// the heads were exported. For Outputs, the .attach file predicts from the features of
	// the exported model, so this difference does not affect them.
	Network float64
	Outputs []struct {
		Name string
		// Largest is the largest relative difference between two numbers. Differences from
		// numbers below 1 are absolute. For bounds and quantiles, the median target takes
		// the place of 1. Largest is 0 for flags and sets.
		Largest float64
		// Differ is the number of rows that differ: numbers by more than 1e-5, and scores
		// by more than 1e-3. P-values, flags and sets count as different if no tie explains
		// the difference. First is the number of the first such row.
		Differ, First int
		// Ties is the number of rows with a difference that a tie explains. In a tie, a
		// calibration score lies between the row's two scores, or a probability is close to
		// a set's threshold. Scores that differ by more than 1e-5 but at most 1e-3 also
		// count as ties. The reason is that nearly equal calibration scores magnify
		// rounding errors.
		Ties int
	}
}

const (
	// numberTolerance is the largest relative difference that is allowed between numbers,
	// and scoreTolerance between scores. The tolerance for scores is larger because fused
	// scores interpolate log p-values between calibration scores. If two calibration scores
	// are nearly equal, this magnifies the rounding of float32.
	numberTolerance, scoreTolerance = 1e-5, 1e-3
	// featureTolerance is the largest relative difference that is allowed between features.
	// Features can differ because ONNX Runtime fuses operators differently in a graph with
	// more outputs.
	featureTolerance = 1e-3
	// scoreRounding is a generous bound of the float32 rounding error of a score, relative
	// to the score or, if that is larger, to the median of the calibration scores.
	scoreRounding = 1e-6
)

// Disagreement describes the first difference in a sentence, or states that there were no
// rows. The result is empty if all outputs agree.
func (a Agreement) Disagreement() string {
	if a.Rows == 0 {
		return "there are no rows, and nothing was compared"
	}
	for _, o := range a.Outputs {
		if o.Differ > 0 {
			return fmt.Sprintf("%s differs in %d of %s, the first of which is row %d (counted from 0); the largest difference is %.2g", o.Name, o.Differ, rows.Count(a.Rows, "row"), o.First, o.Largest)
		}
	}
	if a.Network > featureTolerance {
		return fmt.Sprintf("the exported model computes other features: the largest difference is %.2g of a row's largest number", a.Network)
	}
	return ""
}

// Verify compares the model that Export wrote to path with the .attach file b, on the same
// blocks of rows. a must have been opened for b.
func (a *Attached) Verify(ctx context.Context, b *attach.Bundle, path string, blocks iter.Seq2[ood.InputBlock, error]) (Agreement, error) {
	e, err := openExported(ctx, b, path, a.runtime)
	if err != nil {
		return Agreement{}, err
	}
	defer e.session.Close()
	e.Model.batchSize, e.Model.maxPositions, e.Model.fixedBatch, e.Model.tokenizer, e.Model.canPad = a.batchSize, a.maxPositions, a.fixedBatch, a.tokenizer, a.canPad
	for x, err := range blocks {
		if err != nil {
			return e.agreement, err
		}
		r, err := a.Run(ctx, x)
		if err != nil {
			return e.agreement, err
		}
		if e.onlyHeads {
			x = blockOf(r.Batch, e.Model.inputs)
		}
		if err := e.compare(ctx, r, x); err != nil {
			return e.agreement, err
		}
	}
	return e.agreement, nil
}

// VerifyHeads does the same as Attached.Verify for heads that were exported without the
// model. The rows must be features.
func VerifyHeads(ctx context.Context, b *attach.Bundle, path string, o Runtime, batches iter.Seq2[attach.Rows, error]) (Agreement, error) {
	rt, err := ort.Open(ctx, ort.Options(o))
	if err != nil {
		return Agreement{}, err
	}
	defer rt.Close()
	e, err := openExported(ctx, b, path, rt)
	if err != nil {
		return Agreement{}, err
	}
	defer e.session.Close()
	if !e.onlyHeads {
		return Agreement{}, fmt.Errorf("%s takes the model's inputs, but these rows are features", path)
	}
	for r, err := range batches {
		if err == nil {
			err = e.compare(ctx, r, blockOf(r.Batch, e.Model.inputs))
		}
		if err != nil {
			return e.agreement, err
		}
	}
	return e.agreement, nil
}

// blockOf returns features, logits and other parts of rows as inputs of exported heads.
func blockOf(b ood.Batch, in inputs) (x ood.InputBlock) {
	for _, p := range batchparts.Of(&b) {
		if in.byName(p.Name) == nil {
			continue
		}
		rowIndexes := make([]int, p.Rows)
		for i := range rowIndexes {
			rowIndexes[i] = i
		}
		x.Tensors = append(x.Tensors, ood.Tensor{Name: p.Name, Shape: []int{p.Rows, p.Cols}, Data: rows.Select(*p.General, rowIndexes).Data})
	}
	return x
}

// exportedModel is a model that Export wrote, together with the data that compare needs.
type exportedModel struct {
	*Model
	outputNames  []string // names of its outputs
	partNames    []string // names of features, logits and layers, which follow the outputs
	onlyHeads    bool
	predictor    *attach.Predictor
	bundle       *attach.Bundle
	level        float64
	setScore     string
	setThreshold float64 // threshold of the scores of sets
	calibration  calibrate.Conformal
	alpha        float64
	scales       map[string]float64
	agreement    Agreement
}

// openExported opens a model that Export wrote, and checks that it belongs to the .attach
// file b.
func openExported(ctx context.Context, b *attach.Bundle, path string, rt *ort.Runtime) (*exportedModel, error) {
	g, err := load(path)
	if err != nil {
		return nil, err
	}
	e := &exportedModel{Model: &Model{path: path, batchSize: 1024}, bundle: b, scales: map[string]float64{}}
	notes := map[string]string{}
	for _, p := range g.Model.GetMetadataProps() {
		notes[p.GetKey()] = p.GetValue()
	}
	var views []view
	for _, v := range g.Outputs() {
		if strings.HasPrefix(v.GetName(), ownPrefix) {
			e.outputNames, views = append(e.outputNames, v.GetName()), append(views, view{tensor: v.GetName()})
		}
	}
	e.onlyHeads = notes["attach.heads_only"] == "true"
	switch {
	case len(e.outputNames) == 0:
		return nil, fmt.Errorf("%s has no outputs of attach: write it with `attach export`", path)
	case notes["attach.base_sha256"] != b.Base.SHA256:
		return nil, fmt.Errorf("%s was exported for another model than that of the .attach file", path)
	}
	for _, part := range batchparts.Names(func(part string) bool { return g.Producer(rowsPrefix+part) != nil }, true) {
		e.partNames, views = append(e.partNames, part), append(views, view{tensor: rowsPrefix + part})
	}
	if e.Model.inputs, err = findInputs(g, filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range e.Model.inputs {
		e.Model.inputs[i].acceptsNaN = true // the original model has already rejected NaN in inputs that do not allow it
	}
	var errs [2]error
	e.level, errs[0] = strconv.ParseFloat(notes["attach.level"], 64)
	e.alpha, errs[1] = strconv.ParseFloat(notes["attach.alpha"], 64)
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, fmt.Errorf("%s has no valid levels in its metadata: %w", path, err)
	}
	o := attach.PredictOptions{Level: e.level, Alpha: e.alpha}
	if slices.Contains(e.outputNames, graph.PredictionSet) {
		o.Sets = notes["attach.sets"]
	}
	if len(b.Calibration.Quantiles) > 0 {
		levels := b.Calibration.Quantiles[0].Levels
		o.Levels = levels
	}
	if e.predictor, err = b.Predictor(o); err != nil {
		return nil, fmt.Errorf("%s does not match the .attach file: %w", path, err)
	}
	if o.Sets != "" {
		c, err := calibrate.NewConformal(b.Calibration.TrueClasses.Scores(calibrate.SetOptions{Score: o.Sets}))
		if err != nil {
			return nil, err
		}
		e.setScore, e.setThreshold = o.Sets, c.Threshold((1-e.level)*(1+1e-12))
	}
	if e.calibration, err = calibrate.NewConformal(b.Calibration.OOD); err != nil {
		return nil, err
	}
	s := modelBuilder{constants: newConstants(g, filepath.Dir(path), rt, e.Model.inputs...), inputs: e.Model.inputs}
	if e.session, err = s.expose(ctx, views); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	e.agreement.Outputs = slices.Grow(e.agreement.Outputs, len(e.outputNames))[:len(e.outputNames)]
	for k, name := range e.outputNames {
		e.agreement.Outputs[k].Name = name
	}
	return e, nil
}

// outputs runs the exported model on a block of rows. It returns the outputs, followed by
// features, logits and layers.
func (e *exportedModel) outputs(ctx context.Context, x ood.InputBlock) ([]blas32.General, error) {
	run := func(ctx context.Context, c chunk) (b ood.Batch, err error) {
		in, err := e.Model.inputs.newTensors(c.tensors)
		if err != nil {
			return b, err
		}
		defer closeAll(in)
		out, err := e.session.Run(ctx, in)
		if err != nil {
			return b, runError(ctx, c, err)
		}
		defer closeAll(out)
		for i, t := range out {
			v, err := asRows(t, c.rows)
			if err != nil {
				return b, fmt.Errorf("%s comes out with %w", slices.Concat(e.outputNames, e.partNames)[i], err)
			}
			v.Rows, v.Data = c.n, slices.Clone(v.Data[:c.n*v.Cols])
			b.Layers = append(b.Layers, v)
		}
		b.Features = rows.New(c.n, 1) // only its number of rows is used
		return b, nil
	}
	var all ood.Batch
	for b, err := range stream(ctx, newFeeder(e.Model, e.Model.batchSize, e.Model.maxPositions), oneBlock(x), run, restoreOrder) {
		if err == nil {
			err = appendTo(&all, b, -1)
		}
		if err != nil {
			return nil, err
		}
	}
	return all.Layers, nil
}

// compare runs the exported model and the .attach file on rows and records the differences.
// r holds the rows for the .attach file, and x the same rows for the exported model.
func (e *exportedModel) compare(ctx context.Context, r attach.Rows, x ood.InputBlock) error {
	if r.Len() == 0 {
		return nil
	}
	if e.bundle.Calibration.Groups != nil && r.Groups == nil {
		r.Groups = make([]string, r.Len()) // the predictor needs groups, but intervals by group are not exported
	}
	got, err := e.outputs(ctx, x)
	if err != nil {
		return err
	}
	for _, p := range batchparts.Of(&r.Batch) {
		i := slices.Index(e.partNames, p.Name)
		if i < 0 {
			continue
		}
		part := got[len(e.outputNames)+i]
		if part.Rows != p.Rows || part.Cols != p.Cols {
			return fmt.Errorf("%s computes %s of %d×%d, and the original model of %d×%d", e.path, p.Name, part.Rows, part.Cols, p.Rows, p.Cols)
		}
		for k := range part.Rows {
			e.agreement.Network = max(e.agreement.Network, maxRelativeDiff(rows.Row(part, k), rows.Row(*p.General, k)))
		}
		*p.General = part
	}
	want, err := e.predictor.Predict(ctx, r)
	if err != nil {
		return err
	}
	for k, name := range e.outputNames {
		if got[k].Rows != len(want) {
			return fmt.Errorf("%s: %s has %s for %d inputs", e.path, name, rows.Count(got[k].Rows, "row"), len(want))
		}
		if columns := outputWidth(name, want[0], r.Batch); got[k].Cols != columns {
			return fmt.Errorf("%s: %s has %s a row, and the .attach file %d", e.path, name, rows.Count(got[k].Cols, "number"), columns)
		}
	}
	scoreOutput := slices.Index(e.outputNames, graph.OODScore)
	for k := range e.outputNames {
		for i, p := range want {
			score := p.Score
			if scoreOutput >= 0 {
				score = float64(got[scoreOutput].Data[i*got[scoreOutput].Stride])
			}
			e.compareRow(k, rows.Row(got[k], i), p, score, r.Batch, i)
		}
	}
	e.agreement.Rows += len(want)
	return nil
}

// outputWidth returns how many numbers the .attach file predicts for each row in the named
// output.
func outputWidth(name string, p attach.Prediction, b ood.Batch) int {
	switch name {
	case graph.Lower, graph.Upper:
		return len(p.Targets)
	case graph.QuantilesOut:
		n := 0
		for _, t := range p.Targets {
			n += len(t.Quantiles)
		}
		return n
	case graph.Probabilities, graph.PredictionSet:
		if b.Logits.Cols == 1 {
			return 2
		}
		return b.Logits.Cols
	}
	return 1
}

// maxRelativeDiff returns the largest difference between a and b, relative to the largest number of
// b. If b is 0, the difference is absolute.
func maxRelativeDiff(a, b []float32) float64 {
	var maxDiff, largest float64
	for j, v := range b {
		if diff := math.Abs(float64(a[j]) - float64(v)); diff > maxDiff { // false for NaN, which the comparison of scores finds
			maxDiff = diff
		}
		largest = max(largest, math.Abs(float64(v)))
	}
	if largest == 0 {
		return maxDiff
	}
	return maxDiff / largest
}

// compareRow compares output k of row i, and records the result. score is the exported model's OOD
// score of the row.
func (e *exportedModel) compareRow(k int, got []float32, p attach.Prediction, score float64, b ood.Batch, i int) {
	o := &e.agreement.Outputs[k]
	record := func(same, tie bool) {
		switch {
		case same:
		case tie:
			o.Ties++
		default:
			if o.Differ == 0 {
				o.First = e.agreement.Rows + i
			}
			o.Differ++
		}
	}
	compareNumbers := func(want []float64, scale float64) {
		var largest float64
		for j := range want {
			if float32(want[j]) == got[j] || want[j] != want[j] && got[j] != got[j] {
				continue
			}
			diff := math.Abs(float64(got[j])-want[j]) / max(math.Abs(want[j]), scale)
			if diff != diff {
				diff = math.Inf(1)
			}
			largest = max(largest, diff)
		}
		o.Largest = max(o.Largest, largest)
		record(largest <= numberTolerance, o.Name == graph.OODScore && largest <= scoreTolerance)
	}
	margin := scoreRounding * max(math.Abs(p.Score), e.scale(graph.OODScore))
	if diff := math.Abs(score - p.Score); diff <= scoreTolerance*max(math.Abs(p.Score), 1) {
		margin += diff
	}
	high, low := e.calibration.PValue(p.Score-margin), e.calibration.PValue(p.Score+margin)
	switch o.Name {
	case graph.OODScore:
		compareNumbers([]float64{p.Score}, 1)
	case graph.PValue:
		o.Largest = max(o.Largest, math.Abs(float64(got[0])-p.PValue))
		record(got[0] == float32(p.PValue), got[0] >= float32(low) && got[0] <= float32(high))
	case graph.IsOOD:
		record((got[0] != 0) == p.Flag, (low <= e.alpha) != (high <= e.alpha))
	case graph.Lower, graph.Upper, graph.QuantilesOut:
		var want []float64
		for _, t := range p.Targets {
			switch o.Name {
			case graph.Lower:
				want = append(want, t.Lower)
			case graph.Upper:
				want = append(want, t.Upper)
			default:
				want = append(want, t.Quantiles...)
			}
		}
		compareNumbers(want, e.scale(o.Name))
	case graph.Probabilities, graph.PredictionSet:
		z := rows.Row(b.Logits, i)
		if len(z) == 1 {
			z = []float32{0, z[0]}
		}
		if o.Name == graph.Probabilities {
			t := cmp.Or(e.bundle.Calibration.Temperature, 1)
			probabilities, want := softmax.New(z, t), make([]float64, len(z))
			for j, v := range z {
				if want[j] = probabilities.Of(v, t); e.bundle.Base.Sigmoid {
					want[j] = 1 / (1 + math.Exp(-float64(v)/t))
				}
			}
			compareNumbers(want, 1)
			return
		}
		same, tie := true, true
		probabilities := softmax.New(z, 1)
		for j := 0; same && j < len(z); j++ {
			if (got[j] != 0) == slices.Contains(p.Set, j) {
				continue
			}
			class := calibrate.ClassCalibration{Labels: []int{j}, True: []float64{probabilities.Of(z[j], 1)}, Above: []float64{0}, Ranks: []int{0}, Top: []float64{probabilities.Largest()}}
			for k, v := range z {
				if v > z[j] || v == z[j] && k < j {
					class.Above[0] += probabilities.Of(v, 1)
					class.Ranks[0]++
				}
			}
			same, tie = false, math.Abs(class.Scores(calibrate.SetOptions{Score: e.setScore})[0]-e.setThreshold) <= numberTolerance
		}
		record(same, tie)
	}
}

// scale returns the median absolute value of the calibration scores for the output
// OODScore, and of the calibration targets for other outputs.
func (e *exportedModel) scale(name string) float64 {
	if v, ok := e.scales[name]; ok {
		return v
	}
	var magnitudes []float64
	if name == graph.OODScore {
		for _, s := range e.calibration.Scores {
			magnitudes = append(magnitudes, math.Abs(s))
		}
	} else {
		for _, q := range e.bundle.Calibration.Quantiles {
			for _, y := range q.Y {
				magnitudes = append(magnitudes, math.Abs(float64(y)))
			}
		}
	}
	slices.Sort(magnitudes)
	if len(magnitudes) == 0 {
		return 0
	}
	e.scales[name] = magnitudes[len(magnitudes)/2]
	return e.scales[name]
}
