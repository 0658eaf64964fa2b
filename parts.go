package attach

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// These are the folders in a .attach file that hold the arrays of each part.
const (
	detectorFolder    = "detector/"
	quantilesFolder   = "quantiles/"
	foldsFolder       = "folds/"
	calibrationFolder = "calibration/"
	textFolder        = "text/"
	featuresFolder    = "features/"
	cellsFolder       = "cells/"
	profileFolder     = "profile/"
)

// partStates returns the state of every part of the bundle, by the folder of its arrays.
func (b *Bundle) partStates() (map[string]rows.State, error) {
	states := make(map[string]rows.State)
	if b.Detector != nil {
		states[detectorFolder] = b.Detector.scorer.State()
	}
	if b.IntervalModel != nil {
		states[quantilesFolder] = b.IntervalModel.scorer.State()
		if _, arrays := b.foldStates(); arrays != nil {
			states[foldsFolder] = rows.State{Arrays: arrays}
		}
	}
	if b.Text != nil {
		states[textFolder] = b.Text.state()
	}
	if b.Base.Standardised {
		states[featuresFolder] = rows.Save(b.scaling)
	}
	if b.cells.Empty != nil {
		states[cellsFolder] = rows.Save(b.cells)
	}
	if b.Profile != nil {
		content, err := b.Profile.Encode()
		if err != nil {
			return nil, err
		}
		states[profileFolder] = rows.State{Arrays: map[string]rows.Array{profileArray: {Shape: []int{len(content)}, Data: content}}}
	}
	var err error
	states[calibrationFolder], err = b.Calibration.state()
	return states, err
}

// state returns the arrays in which a file stores the calibration.
func (c Calibration) state() (rows.State, error) {
	s := rows.State{Arrays: map[string]rows.Array{}}
	if len(c.OOD) > 0 {
		s.Arrays["ood"] = rows.Vector(c.OOD)
	}
	if k := c.TrueClasses; len(k.Labels) > 0 {
		s.Arrays["labels"], s.Arrays["ranks"] = vector(k.Labels), vector(k.Ranks)
		s.Arrays["true"], s.Arrays["above"] = rows.Vector(k.True), rows.Vector(k.Above)
		s.Arrays["top"], s.Arrays["grown"] = rows.Vector(k.Top), rows.Vector(k.Grown)
	}
	if len(c.Predicted) > 0 {
		s.Arrays["predicted"] = vector(c.Predicted)
	}
	if c.Weights != nil && c.Ratio != nil { // weights of a label shift follow from the labels
		s.Arrays["weights"], s.Arrays["ratio"] = rows.Vector(c.Weights), c.ratioArray()
	}
	s.Arrays["fit_hashes"], s.Arrays["cal_hashes"] = vector(c.FitHashes), vector(c.CalHashes)
	if len(c.Quantiles) == 0 {
		return s, nil
	}
	levels, n := c.Quantiles[0].Levels, len(c.Quantiles[0].Y)
	var grid, y []float32
	for i, q := range c.Quantiles {
		if err := quantile.Check(q.Levels, len(q.Grid), len(q.Y)); err != nil {
			return s, err
		}
		if !slices.Equal(q.Levels, levels) || len(q.Y) != n {
			return s, fmt.Errorf("targets %d and 0 are calibrated on different levels or rows", i)
		}
		grid = append(grid, q.Grid...)
		y = append(y, q.Y...)
	}
	t := len(c.Quantiles)
	s.Arrays["quantiles"] = rows.Array{Shape: []int{t, n, len(levels)}, Data: grid}
	s.Arrays["targets"] = rows.Array{Shape: []int{t, n}, Data: y}
	if c.Weights != nil && c.NInterval > 0 {
		s.Arrays["interval_weights"] = rows.Vector(c.Quantiles[0].Weights)
	}
	if c.Folds != nil {
		s.Arrays["folds"] = vector(c.Folds)
	}
	if c.Groups == nil {
		return s, nil
	}
	if len(c.Groups) != n {
		return s, fmt.Errorf("%d groups for %d calibration rows", len(c.Groups), n)
	}
	names, codes := c.groupNames(), make([]int64, n)
	for i, g := range c.Groups {
		at, _ := slices.BinarySearch(names, g)
		codes[i] = int64(at)
	}
	s.Arrays["groups"] = rows.Array{Shape: []int{n}, Data: codes}
	return s, nil
}

// restoreScaling restores the mean and the deviation of standardised features.
func (b *Bundle) restoreScaling(s rows.State) error {
	if !b.Base.Standardised {
		return nil
	}
	if err := rows.Restore(&b.scaling, s, map[string]int{"features": b.Base.Width}); err != nil {
		return fmt.Errorf("%w: standardised features: %w", ErrDamaged, err)
	}
	return nil
}

// restoreCells restores the counts of empty cells, if there are any.
func (b *Bundle) restoreCells(s rows.State) error {
	if s.Arrays == nil && s.Params == nil {
		return nil
	}
	if err := cmp.Or(checkScalars(s.Params), rows.Restore(&b.cells, s, nil)); err != nil {
		return fmt.Errorf("%w: empty cells: %w", ErrDamaged, err)
	}
	if e := b.cells; e.Features && (!b.Base.Standardised || len(e.Empty) != b.Base.Width) {
		return fmt.Errorf("%w: there are empty cells of %d columns for %d features", ErrDamaged, len(e.Empty), b.Base.Width)
	}
	return nil
}

// profileArray is the name of the array that holds the profile as bytes of JSON.
const profileArray = "columns"

// checkProfile returns an error if a profile cannot be saved.
func checkProfile(p *schema.Profile) error {
	if p == nil {
		return nil
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("the profile of the inputs: %w", err)
	}
	return nil
}

// restoreProfile restores the profile of the inputs, if there is one.
func (b *Bundle) restoreProfile(s rows.State) error {
	if s.Arrays == nil {
		return nil
	}
	a := s.Arrays[profileArray]
	content, isBytes := a.Data.([]uint8)
	if !isBytes || len(a.Shape) != 1 || len(s.Arrays) != 1 {
		return fmt.Errorf("%w: the profile of the inputs is %T of shape %v", ErrDamaged, a.Data, a.Shape)
	}
	var err error
	if b.Profile, err = schema.Decode(content); err != nil {
		return fmt.Errorf("%w: the profile of the inputs: %w", ErrDamaged, err)
	}
	return nil
}

// groupNames returns the distinct groups of the calibration rows, sorted. Files store a group
// as its index in this list.
func (c Calibration) groupNames() []string {
	return slices.Compact(slices.Sorted(slices.Values(c.Groups)))
}

// vector returns integers as a one-dimensional array of int64. Unsigned hashes keep their
// bits.
func vector[T int | uint64](list []T) rows.Array {
	v := make([]int64, len(list))
	for i, x := range list {
		v[i] = int64(x)
	}
	return rows.Array{Shape: []int{len(v)}, Data: v}
}

// integers returns the integers of a one-dimensional array. Errors call the array by name.
func integers(a rows.Array, name string) ([]int64, error) {
	v, ok := a.Data.([]int64)
	if !ok || len(a.Shape) != 1 {
		return nil, fmt.Errorf("%w: %s are %T of shape %v", ErrDamaged, name, a.Data, a.Shape)
	}
	return v, nil
}

// hashesFrom returns the hashes that are stored in the named array.
func hashesFrom(s rows.State, name string) ([]uint64, error) {
	v, err := integers(s.Arrays[name], name)
	if err != nil {
		return nil, err
	}
	hashes := make([]uint64, len(v))
	for i, x := range v {
		hashes[i] = uint64(x)
	}
	return hashes, nil
}

// restoreClasses restores TrueClasses and Predicted from their arrays.
func (c *Calibration) restoreClasses(s rows.State) error {
	k := &c.TrueClasses
	for _, part := range []struct {
		name string
		to   *[]int
	}{{"labels", &k.Labels}, {"ranks", &k.Ranks}, {"predicted", &c.Predicted}} {
		a, exists := s.Arrays[part.name]
		if !exists {
			continue
		}
		v, err := integers(a, "the calibration rows' "+part.name)
		if err != nil {
			return err
		}
		for _, x := range v {
			if x < 0 || x >= rows.MaxWidth {
				return fmt.Errorf("%w: %s of the calibration rows contain %d", ErrDamaged, part.name, x)
			}
			*part.to = append(*part.to, int(x))
		}
	}
	if k.Labels == nil {
		return nil
	}
	var all [4]error
	k.True, all[0] = s.Float64s("true")
	k.Above, all[1] = s.Float64s("above")
	k.Top, all[2] = s.Float64s("top")
	if k.Grown, all[3] = s.Float64s("grown"); cmp.Or(all[:]...) != nil {
		return fmt.Errorf("%w: calibration: %w", ErrDamaged, cmp.Or(all[:]...))
	}
	return nil
}

// restore restores the calibration from its arrays, the quantile levels and the group names.
func (c *Calibration) restore(s rows.State, levels []float64, groups []string) error {
	if _, ok := s.Arrays["ood"]; ok {
		scores, err := s.Float64s("ood")
		if err != nil {
			return fmt.Errorf("%w: calibration: %w", ErrDamaged, err)
		}
		c.OOD = scores
	}
	var err error
	if c.FitHashes, err = hashesFrom(s, "fit_hashes"); err != nil {
		return err
	}
	if c.CalHashes, err = hashesFrom(s, "cal_hashes"); err != nil {
		return err
	}
	if err := cmp.Or(c.restoreClasses(s), c.restoreWeights(s)); err != nil {
		return err
	}
	if len(levels) == 0 {
		return nil
	}
	grid, y := s.Arrays["quantiles"], s.Arrays["targets"]
	q, isGrid := grid.Data.([]float32)
	v, isTargets := y.Data.([]float32)
	if !isGrid || !isTargets || len(grid.Shape) != 3 || len(y.Shape) != 2 ||
		grid.Shape[0] != y.Shape[0] || grid.Shape[1] != y.Shape[1] || grid.Shape[2] != len(levels) {
		return fmt.Errorf("%w: quantiles of shape %v do not fit targets of shape %v and %d levels",
			ErrDamaged, grid.Shape, y.Shape, len(levels))
	}
	weights := c.Weights
	if _, exists := s.Arrays["interval_weights"]; exists {
		if weights, err = s.Float64s("interval_weights"); err != nil {
			return fmt.Errorf("%w: calibration: %w", ErrDamaged, err)
		}
	}
	n, l := y.Shape[1], len(levels)
	for t := range y.Shape[0] {
		target := calibrate.QuantileCalibration{Levels: levels, Grid: q[t*n*l : (t+1)*n*l], Y: v[t*n : (t+1)*n], Weights: weights}
		if err := quantile.Check(levels, len(target.Grid), n); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		for i := range n {
			if row := target.Grid[i*l : (i+1)*l]; !slices.IsSorted(row) || math.IsInf(float64(target.Y[i]), 0) {
				return fmt.Errorf("%w: calibration row %d has crossing quantiles or an infinite target", ErrDamaged, i)
			}
		}
		c.Quantiles = append(c.Quantiles, target)
	}
	if a, exists := s.Arrays["folds"]; exists {
		folds, err := integers(a, "the folds")
		if err != nil {
			return err
		}
		for _, k := range folds {
			c.Folds = append(c.Folds, int(k))
		}
	}
	return c.restoreGroups(s.Arrays["groups"], groups, n)
}

// restoreGroups restores the groups of n calibration rows from their codes.
func (c *Calibration) restoreGroups(codes rows.Array, names []string, n int) error {
	v, ok := codes.Data.([]int64)
	switch {
	case names == nil && codes.Data == nil:
		return nil
	case !ok || len(codes.Shape) != 1 || len(v) != n:
		return fmt.Errorf("%w: the groups of %d calibration rows are %T of shape %v", ErrDamaged, n, codes.Data, codes.Shape)
	}
	c.Groups = make([]string, n)
	for i, code := range v {
		if code < 0 || code >= int64(len(names)) {
			return fmt.Errorf("%w: calibration row %d has group %d of %d", ErrDamaged, i, code, len(names))
		}
		c.Groups[i] = names[code]
	}
	return nil
}

// restore rebuilds a fitted method from its manifest entry and its arrays. It returns nil
// without an entry. Errors call the method by its kind, such as "detector". If intervals is
// true, the method must be an interval method, and otherwise a detector.
func (e *methodEntry) restore(kind string, intervals bool, arrays map[string]rows.Array, custom []ood.Method) (*Fitted, error) {
	if e == nil {
		return nil, nil
	}
	method, ok := MethodByName(e.Method, custom...)
	if !ok || method.Needs.Targets != intervals {
		return nil, fmt.Errorf("%w %q: neither this version of attach nor this program has such a %s; upgrade attach, or pass the method to Open and Save", ErrUnknownMethod, e.Method, kind)
	}
	if err := cmp.Or(checkScalars(e.Params), checkScalars(e.State)); err != nil {
		return nil, err
	}
	if _, err := fitting.With(method, e.Params); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	scorer, err := fitting.Restore(method, rows.State{Params: e.State, Arrays: arrays})
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", ErrDamaged, kind, e.Method, err)
	}
	return &Fitted{Method: e.Method, Params: e.Params, scorer: scorer}, nil
}

// checkParts returns an error unless the calibration has scores for the detector and quantiles
// for the interval model, with the right numbers of rows and targets. It also checks that there
// is a detector or an interval model, and calls checkClasses and checkSamples.
func (b *Bundle) checkParts() error {
	c := b.Calibration
	rows := 0
	if b.Detector != nil {
		rows = c.NCal
	}
	if len(c.OOD) != rows {
		return fmt.Errorf("%d scores of calibration rows, but there must be %d", len(c.OOD), rows)
	}
	if err := cmp.Or(b.checkClasses(), c.checkSamples(), b.checkWeights(), b.checkFolds()); err != nil {
		return err
	}
	switch {
	case b.Detector == nil && b.IntervalModel == nil:
		return errors.New("it has neither a detector nor an interval model")
	case (b.IntervalModel == nil) != (len(c.Quantiles) == 0):
		return fmt.Errorf("the calibration has quantiles of %d targets, but the interval model predicts others", len(c.Quantiles))
	case b.IntervalModel == nil:
		return nil
	case b.Base.Task != Regression:
		return errors.New("it has an interval model for a classifier")
	case b.Base.Outputs > 0 && len(c.Quantiles) != b.Base.Outputs:
		return fmt.Errorf("the calibration has quantiles of %d targets, but the model has %d outputs", len(c.Quantiles), b.Base.Outputs)
	case len(c.Quantiles[0].Y) != c.IntervalRows():
		return fmt.Errorf("%d targets of calibration rows, but there must be %d", len(c.Quantiles[0].Y), c.IntervalRows())
	}
	return nil
}

// checkClasses returns an error for predicted classes that do not exist, and for probabilities
// of true classes that no softmax gives. It also returns an error unless both are given for
// every calibration row or for none.
func (b *Bundle) checkClasses() error {
	c := b.Calibration.TrueClasses
	n, classes := len(c.Labels), max(b.Base.Outputs, 2)
	predicted := b.Calibration.Predicted
	switch {
	case len(predicted) > 0 && (b.Base.Task != Classification || len(predicted) != b.Calibration.NCal || slices.Max(predicted) >= classes || slices.Min(predicted) < 0):
		return fmt.Errorf("there are %d predicted classes for %d calibration rows and %d classes", len(predicted), b.Calibration.NCal, classes)
	case n == 0:
		return nil
	case b.Base.Task != Classification || b.Base.Sigmoid || b.Base.Outputs == 0:
		return errors.New("it has labels of calibration rows, but the model has no softmax")
	case n != b.Calibration.NCal || len(predicted) != n || len(c.True) != n || len(c.Above) != n || len(c.Ranks) != n || len(c.Top) != n || len(c.Grown) != n:
		return fmt.Errorf("labels, probabilities and ranks of %d, %d, %d, %d, %d and %d calibration rows, but there must be %d",
			n, len(c.True), len(c.Above), len(c.Top), len(c.Grown), len(c.Ranks), b.Calibration.NCal)
	}
	for i, label := range c.Labels {
		p, above, top, grown := c.True[i], c.Above[i], c.Top[i], c.Grown[i]
		first := c.Ranks[i] == 0
		if label >= classes || c.Ranks[i] >= classes || !(p >= 0 && p <= top && top <= 1 && above >= 0 && above < 1.001 && grown >= 0 && grown < 1.001) ||
			first != (grown == 0) || first != (above == 0) || first && p != top {
			return fmt.Errorf("calibration row %d has label %d of %d, rank %d and the probabilities %v, %v, %v and %v, which no softmax gives",
				i, label, classes, c.Ranks[i], p, above, top, grown)
		}
	}
	return nil
}

// checkConsistent returns an error if the detector or the interval model reads matrices
// whose widths differ from the manifest, or if it reads a different number of earlier
// layers. It also returns an error if the interval model predicts more or fewer targets than
// were calibrated.
func (b *Bundle) checkConsistent() error {
	widths := b.Base.widths()
	if b.Base.Task == Classification && b.Base.Outputs == 1 {
		widths["logits"] = 2
	}
	for _, part := range []*Fitted{b.Detector, b.IntervalModel} {
		if part == nil {
			continue
		}
		if err := part.scorer.Widths().Check(widths, "the rows of "+part.Method, "the manifest says"); err != nil {
			return fmt.Errorf("%w: its parts do not fit together: %w", ErrDamaged, err)
		}
	}
	if d := b.Detector; d != nil {
		if read := d.scorer.Widths().Layers(); read != len(b.Base.Layers) {
			return fmt.Errorf("%w: its parts do not fit together: the detector reads %d earlier layers, but the manifest names %d", ErrDamaged, read, len(b.Base.Layers))
		}
	}
	if h := b.IntervalModel; h != nil {
		predicted, err := h.scorer.Predict(rows.New(1, h.scorer.Widths()["features"]), []float64{.5})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if calibrated := len(b.Calibration.Quantiles); calibrated != predicted.Targets {
			return fmt.Errorf("%w: the calibration has quantiles of %d targets, but the interval model predicts others", ErrDamaged, calibrated)
		}
	}
	return nil
}
