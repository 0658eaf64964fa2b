package attach

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// check returns an error for options with which a fit would fail late or, worse, would give a
// wrong result.
func (in FitOptions) check() error {
	switch in.Base.Task {
	case Classification, Regression:
	case Embedding:
		if in.Batch.Logits.Cols > 0 {
			return fmt.Errorf("the task is %q, but the rows have logits", in.Base.Task)
		}
	default:
		return fmt.Errorf("the task is %q; it must be %s, %s or %s", in.Base.Task, Classification, Regression, Embedding)
	}
	switch {
	case in.Base.Residual && in.Base.Task == Classification:
		return errors.New("the features are inputs and predictions of a regressor, and the task is classification; compute them again with this task")
	case in.Base.Sigmoid && in.Base.Task != Classification:
		return errors.New("the outputs are probabilities of a classifier, and the task is not classification; compute the features again with this task")
	}
	tensors := []string{in.Base.Feature, in.Base.Output}
	for _, l := range in.Base.Layers {
		tensors = append(tensors, l.Tensor)
	}
	if i := slices.IndexFunc(tensors, notUTF8); i >= 0 {
		return fmt.Errorf("the tensor name %q is not UTF-8", tensors[i])
	}
	names := slices.Concat(in.Base.Classes, in.Base.Columns, in.Base.Targets)
	if i := slices.IndexFunc(names, notUTF8); i >= 0 {
		return fmt.Errorf("the name of a class or a column, %q, is not UTF-8", names[i])
	}
	if !(in.CalFraction > 0 && in.CalFraction < 1) {
		return fmt.Errorf("calibration fraction %v is not between 0 and 1", in.CalFraction)
	}
	if err := checkLevels(in.Level, in.Alpha); err != nil {
		return err
	}
	intervals := in.fitsIntervals()
	if in.SkipDetector && !intervals {
		return errors.New("there is nothing to fit: neither a detector nor an interval model is requested")
	}
	if intervals && in.IntervalModel.Needs.Trainer && in.Trainer == nil {
		return errors.New("this interval model needs a trainer, such as that of package heads/fit; a quantile forest needs none")
	}
	if err := in.checkRows("fit rows", in.Batch, in.Targets, intervals); err != nil {
		return err
	}
	if in.Last != nil {
		if err := fitting.CheckLast(in.Last, in.Batch.Features.Cols, in.Batch.Logits.Cols); err != nil {
			return err
		}
	}
	if err := cmp.Or(in.checkGroups(intervals), in.checkTargetRows(), in.checkCross()); err != nil {
		return err
	}
	if in.Cal.Len() == 0 && in.CalTargets.Rows == 0 {
		return nil
	}
	if err := in.checkRows("calibration rows", in.Cal, in.CalTargets, intervals); err != nil {
		return err
	}
	return in.checkCal(intervals)
}

// notUTF8 reports whether a name is not UTF-8, which the JSON manifest cannot hold.
func notUTF8(name string) bool { return !utf8.ValidString(name) }

// checkGroups returns an error for groups that cannot be used, for example if there is not
// one for each row. It checks CalGroups or, if calibration rows are split off, Groups.
func (in FitOptions) checkGroups(intervals bool) error {
	groups, rows, what := in.Groups, in.Batch.Len(), "fit rows"
	if in.Cal.Len() > 0 {
		groups, rows, what = in.CalGroups, in.Cal.Len(), "calibration rows"
		if groups == nil && in.Groups != nil {
			return errors.New("the fit rows have groups, but the calibration rows have none; intervals are calibrated by the groups of the calibration rows")
		}
	}
	switch {
	case groups == nil:
		return nil
	case !intervals:
		return errors.New("groups are for intervals, but no interval model is fitted")
	case slices.ContainsFunc(groups, notUTF8):
		return errors.New("a group name is not UTF-8")
	case len(groups) != rows:
		return fmt.Errorf("%d groups for %d %s", len(groups), rows, what)
	}
	return nil
}

func (in FitOptions) checkRows(what string, b ood.Batch, targets blas32.General, intervals bool) error {
	n := b.Len()
	switch {
	case n == 0:
		return fmt.Errorf("there are no %s", what)
	case b.Features.Cols == 0:
		return fmt.Errorf("the %s have no features", what)
	}
	if err := batchparts.Validate(b); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	b.Layers = nil // checkLayers checks them if the detector reads them
	if err := in.Base.checkFinite(b, what); err != nil {
		return err
	}
	switch {
	case in.Base.Task != Regression && targets.Cols > 0:
		return fmt.Errorf("the task %q has no targets, but the %s have %d", in.Base.Task, what, targets.Cols)
	case in.Base.Task != Regression:
		return nil
	case intervals && targets.Cols == 0:
		return fmt.Errorf("the %s have no targets, which an interval model needs", what)
	case intervals && in.Base.Residual && b.Logits.Cols == 0:
		return fmt.Errorf("the %s lack the model's predictions, which this interval model needs", what)
	case targets.Cols > 0 && targets.Rows != n:
		return fmt.Errorf("%d %s, but %s of targets", n, what, rows.Count(targets.Rows, "row"))
	case targets.Cols > 0 && b.Logits.Cols > 0 && targets.Cols != b.Logits.Cols:
		return fmt.Errorf("the model predicts %s, but the %s have %d", rows.Count(b.Logits.Cols, "target"), what, targets.Cols)
	}
	return rows.CheckFinite(what+": targets", targets)
}

// checkFinite returns an error for NaN and infinities. If features are standardised, they may
// contain NaN, which stands for an empty cell of a table.
func (b Base) checkFinite(r ood.Batch, what string) error {
	if b.Standardised {
		for i := range r.Features.Rows {
			row := rows.Row(r.Features, i)
			if j := slices.IndexFunc(row, func(v float32) bool { return math.IsInf(float64(v), 0) }); j >= 0 {
				return &rows.NotFiniteError{Name: strings.TrimPrefix(what+": features", ": "), Row: i, Col: j, Value: row[j]}
			}
		}
		r.Features = blas32.General{}
	}
	return batchparts.Of(&r).CheckFinite(what)
}

// checkLayers returns an error unless all earlier layers are finite, calibration rows have
// the widths of the fit rows, and Base.Layers describes as many layers as the rows have, or
// none.
func (in FitOptions) checkLayers() error {
	for _, part := range []struct {
		what string
		b    ood.Batch
	}{{"fit rows", in.Batch}, {"calibration rows", in.Cal}} {
		if err := batchparts.Of(&part.b).CheckFinite(part.what); err != nil {
			return err
		}
	}
	if err := batchparts.Of(&in.Cal).Widths().Check(batchparts.Of(&in.Batch).Widths(), "calibration rows", "fit rows have"); err != nil {
		return err
	}
	if named := len(in.Base.Layers); named > 0 && named != len(in.Batch.Layers) {
		return fmt.Errorf("%d earlier layers are named, but the fit rows have %d", named, len(in.Batch.Layers))
	}
	return nil
}

// checkCal returns an error if calibration rows do not have the same number of features,
// logits or targets as the fit rows.
func (in FitOptions) checkCal(intervals bool) error {
	in.Cal.Layers, in.Batch.Layers = nil, nil // checkLayers checks them if the detector reads them
	if err := batchparts.Of(&in.Cal).Widths().Check(batchparts.Of(&in.Batch).Widths(), "calibration rows", "fit rows have"); err != nil {
		return err
	}
	switch {
	case (in.Cal.Logits.Cols > 0) != (in.Batch.Logits.Cols > 0):
		return fmt.Errorf("calibration rows have %s, but fit rows have %d", rows.Count(in.Cal.Logits.Cols, "logit"), in.Batch.Logits.Cols)
	case intervals && in.CalTargets.Cols != in.Targets.Cols:
		return fmt.Errorf("calibration rows have %s, but fit rows have %d", rows.Count(in.CalTargets.Cols, "target"), in.Targets.Cols)
	}
	return nil
}

// withAlternatives adds a hint to an error about too little memory: the names of the detectors
// that would fit in memory.
func (in FitOptions) withAlternatives(err error, t ood.Training) error {
	if !errors.Is(err, fitting.ErrMemory) || in.Detector.Name != "" && fitting.Check(in.Detector, t, nil) == nil {
		return err // the named detector fits in memory with its default parameters
	}
	var alternatives []string
	for _, m := range Methods() {
		if !m.Control && !m.Needs.Targets && fitting.CheckBatch(m, in.Cal, "") == nil && fitting.Check(m, t, nil) == nil {
			alternatives = append(alternatives, m.Name)
		}
	}
	if alternatives == nil {
		return err
	}
	return fmt.Errorf("%w; these detectors need less: %s", err, strings.Join(alternatives, ", "))
}

// compareRows counts the calibration rows that are also fit rows, and those that equal an
// earlier calibration row. It stores samples of the hashes of both sets, to find reused rows
// later. It returns an error if all given calibration rows are fit rows.
func (c *Calibration) compareRows(d rowSplit) error {
	c.Hashed = rowhash.OfFeatures
	if d.fit.Hashes != nil && d.cal.Hashes != nil {
		c.Hashed = rowhash.OfInputs
	}
	fit, cal := rowhash.Of(d.fit, c.Hashed), rowhash.Of(d.cal, c.Hashed)
	inputs := [2][]uint64{rowhash.Numbers(fit), rowhash.Numbers(cal)}
	// Rows with few columns may have equal inputs by chance, but their targets or labels then
	// usually differ. Copies also have equal targets or labels.
	if d.fitTargets.Rows > 0 && d.calTargets.Rows > 0 || d.fit.Labels != nil && d.cal.Labels != nil {
		addTargets(fit, d.fit.Labels, d.fitTargets)
		addTargets(cal, d.cal.Labels, d.calTargets)
	}
	withTargets := [2][]uint64{rowhash.Numbers(fit), rowhash.Numbers(cal)}
	if d.heldOut == rows.SplitOff {
		c.Reused = rowhash.ReusedOfSplit(withTargets[0], withTargets[1])
	} else {
		c.Reused = rowhash.Reused(withTargets[0], withTargets[1])
	}
	if c.Reused == len(cal) && d.heldOut == rows.Given {
		return &rowhash.ReusedError{Rows: c.Reused}
	}
	c.Repeated = rowhash.Repeated(withTargets[0], withTargets[1])
	fitted, calibrated := rowhash.SampleOf(inputs[0], rowhash.Copied(withTargets[0])), rowhash.SampleOf(inputs[1], c.Repeated > 0)
	c.FitHashes, c.FitTies = fitted.Hashes, [2]int{fitted.Rows, fitted.Repeated}
	c.CalHashes, c.CalTies = calibrated.Hashes, [2]int{calibrated.Rows, calibrated.Repeated}
	return nil
}

// addTargets adds the targets of each row to the hash of the row or, without targets, its
// label.
func addTargets(hashes []rowhash.Hash, labels []int, targets blas32.General) {
	for i, h := range hashes {
		if targets.Rows > 0 {
			hashes[i] = rowhash.With(h, rows.Row(targets, i)...)
		} else {
			hashes[i] = rowhash.With(h, float32(labels[i]))
		}
	}
}

// checkSamples returns an error if Hashed is unknown, or if a sample of hashes is one that no
// set of rows can have, for example because the sample is larger than the set.
func (c *Calibration) checkSamples() error {
	if c.Hashed != rowhash.OfInputs && c.Hashed != rowhash.OfFeatures {
		return fmt.Errorf("the rows are hashed by %q, not by %s or %s", c.Hashed, rowhash.OfInputs, rowhash.OfFeatures)
	}
	if !rowhash.NewSample(c.CalHashes, c.CalTies).OK(c.NCal) || !rowhash.NewSample(c.FitHashes, c.FitTies).OK(c.NFit) {
		return fmt.Errorf("the hashes of %d fit rows and %d calibration rows are not a sample", c.NFit, c.NCal)
	}
	return nil
}
