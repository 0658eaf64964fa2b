package attach

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// compareRows counts calibration rows that were fitted on and those that repeat others,
// and keeps samples of the hashes of both, by which other rows are compared with them.
// If all calibration rows were fitted on, it is an error.
func (c *Calibration) compareRows(d division) error {
	c.Hashed = rowhash.OfFeatures
	if d.fit.Hashes != nil && d.cal.Hashes != nil {
		c.Hashed = rowhash.OfInputs
	}
	fit, cal := rowhash.Of(d.fit, c.Hashed), rowhash.Of(d.cal, c.Hashed)
	inputs := [2][]uint64{rowhash.Numbers(fit), rowhash.Numbers(cal)}
	// Equal rows of few columns differ by their targets, if they are no copies.
	if d.fitTo.Rows > 0 && d.calTo.Rows > 0 || d.fit.Labels != nil && d.cal.Labels != nil {
		addTruth(fit, d.fit.Labels, d.fitTo)
		addTruth(cal, d.cal.Labels, d.calTo)
	}
	all := [2][]uint64{rowhash.Numbers(fit), rowhash.Numbers(cal)}
	if d.heldOut == rows.SplitOff {
		c.Reused = rowhash.ReusedOfSplit(all[0], all[1])
	} else {
		c.Reused = rowhash.Reused(all[0], all[1])
	}
	if c.Reused == len(cal) && d.heldOut == rows.Given {
		return &rowhash.ReusedError{Rows: c.Reused}
	}
	c.Repeated = rowhash.Repeated(all[0], all[1])
	c.setSample(false, rowhash.SampleOf(inputs[0], rowhash.Copied(all[0])))
	c.setSample(true, rowhash.SampleOf(inputs[1], c.Repeated > 0))
	return nil
}

// reused says how many calibration rows were fitted on too, and what follows.
func (c *Calibration) reused() string {
	return rows.CountOf(c.Reused, c.NCal, "calibration row") + " were fitted on too: other rows are flagged more often than they should be, and intervals and sets cover less often"
}

// addTruth puts the targets of rows, or else their labels, beside their hashes.
func addTruth(hashes []rowhash.Hash, labels []int, targets blas32.General) {
	for i, h := range hashes {
		if targets.Rows > 0 {
			hashes[i] = rowhash.With(h, rows.Row(targets, i)...)
		} else {
			hashes[i] = rowhash.With(h, float32(labels[i]))
		}
	}
}

// sample is that of the rows calibrated on, or else of those fitted on.
func (c *Calibration) sample(cal bool) rowhash.Sample {
	if cal {
		return rowhash.Sample{Hashes: c.CalHashes, Rows: c.CalTies[0], Repeated: c.CalTies[1]}
	}
	return rowhash.Sample{Hashes: c.FitHashes, Rows: c.FitTies[0], Repeated: c.FitTies[1]}
}

func (c *Calibration) setSample(cal bool, s rowhash.Sample) {
	if ties := [2]int{s.Rows, s.Repeated}; cal {
		c.CalHashes, c.CalTies = s.Hashes, ties
	} else {
		c.FitHashes, c.FitTies = s.Hashes, ties
	}
}

// checkSamples refuses samples that no rows have.
func (c *Calibration) checkSamples() error {
	if c.Hashed == "" && c.CalHashes == nil && c.FitHashes == nil && c.CalTies == [2]int{} && c.FitTies == [2]int{} {
		return nil
	}
	if c.Hashed != rowhash.OfInputs && c.Hashed != rowhash.OfFeatures {
		return fmt.Errorf("the rows are said to be hashed by %q, and not by %s or %s", c.Hashed, rowhash.OfInputs, rowhash.OfFeatures)
	}
	if !c.sample(true).OK(c.NCal) || !c.sample(false).OK(c.NFit) {
		return fmt.Errorf("the hashes of %d rows fitted on and of %d calibrated on are not those of a sample", c.NFit, c.NCal)
	}
	return nil
}
