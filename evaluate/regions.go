package evaluate

import (
	"context"
	"math"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
)

// Regions compares the boxes and the ellipsoids that contain all targets of a row at once. Boxes
// have the nonconformity score of the predictor, or "cqr" if the predictor has ellipsoids.
type Regions struct {
	Box       Rate `json:"box"` // rate of rows whose targets lie in their box
	Ellipsoid Rate `json:"ellipsoid"`
	// VolumeRatio is the geometric mean, over ComparedRows, of the volume of the ellipsoid
	// divided by that of the box. ComparedRows is the number of rows in which both are bounded
	// and have a volume. VolumeRatio is nil if there are none.
	VolumeRatio  *float64 `json:"volume_ratio,omitempty"`
	ComparedRows int      `json:"compared_rows"`
	Smaller      string   `json:"smaller,omitempty"` // the region with the smaller volume, "box" or "ellipsoid"
}

// regionCounts collects the results for boxes and ellipsoids.
type regionCounts struct {
	other           *attach.Predictor // predicts the regions that the main predictor does not; nil if regions are not compared
	rows            int
	box, ellipsoid  int     // number of rows that are covered
	compared        int     // number of rows with two volumes
	logRatios       float64 // sum of the logarithms of the ratios of volumes
	level           float64
	otherEllipsoids bool
}

// start makes the predictor of the other kind of region, if p predicts one kind and there are
// several targets.
func (c *regionCounts) start(p *attach.Predictor) (err error) {
	o := p.Options()
	if o.Region == "" || len(p.Bundle().Calibration.Quantiles) < 2 {
		return nil
	}
	c.level, c.otherEllipsoids = o.Level, o.Region == conformal.Box
	o.Region = conformal.Box
	if c.otherEllipsoids {
		o.Region, o.IntervalScore, o.Smoothed = conformal.Ellipsoid, "", false
	}
	o.NoScore, o.MaxError, o.Levels, o.Samples, o.Explain = true, 0, nil, 0, false
	c.other, err = p.Bundle().Predictor(o)
	return err
}

// add compares the regions of rows with targets. It does nothing if they have none.
func (c *regionCounts) add(ctx context.Context, main []attach.Prediction, r attach.Rows) error {
	if c.other == nil || r.Targets.Cols == 0 {
		return nil
	}
	other, err := c.other.Predict(ctx, r)
	if err != nil {
		return err
	}
	for i := range main {
		box, ellipsoid := other[i], main[i]
		if c.otherEllipsoids {
			box, ellipsoid = main[i], other[i]
		}
		y := rows.Row(r.Targets, i)
		c.rows++
		if containsTargets(box, y) {
			c.box++
		}
		if containsTargets(ellipsoid, y) {
			c.ellipsoid++
		}
		logRatio := ellipsoid.Ellipsoid.LogVolume()
		for _, t := range box.Targets {
			logRatio -= math.Log(max(0, t.Upper-t.Lower))
		}
		if !math.IsInf(logRatio, 0) && !math.IsNaN(logRatio) {
			c.compared++
			c.logRatios += logRatio
		}
	}
	return nil
}

// compare returns the comparison, or nil if there is none.
func (c *regionCounts) compare() *Regions {
	if c.rows == 0 {
		return nil
	}
	out := &Regions{Box: *rate(c.box, c.rows), Ellipsoid: *rate(c.ellipsoid, c.rows), ComparedRows: c.compared}
	out.Box.Nominal, out.Ellipsoid.Nominal = c.level, c.level
	if c.compared == 0 {
		return out
	}
	ratio := math.Exp(c.logRatios / float64(c.compared))
	out.VolumeRatio, out.Smaller = &ratio, conformal.Box
	if ratio < 1 {
		out.Smaller = conformal.Ellipsoid
	}
	return out
}

// containsTargets reports whether the region of a prediction contains all targets of its row.
func containsTargets(p attach.Prediction, y []float32) bool {
	at := make([]float64, len(y))
	for t, v := range y {
		at[t] = float64(v)
	}
	if p.Ellipsoid != nil {
		return p.Ellipsoid.Contains(at)
	}
	for t, target := range p.Targets {
		if !(target.Lower <= at[t] && at[t] <= target.Upper) {
			return false
		}
	}
	return true
}
