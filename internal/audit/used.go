package audit

import (
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// usedCounts counts the inputs that were fitted on and the inputs that were calibrated on. It
// counts none if the .attach file keeps no hashes to compare with.
type usedCounts [2]rowhash.Matches

// hashSamples holds the hashes of rows that a .attach file keeps, in the order of used.
type hashSamples struct {
	hashed string // what is hashed
	rows   [2]rowhash.Sample
}

func samplesOf(c attach.Calibration) hashSamples {
	return hashSamples{c.Hashed, [2]rowhash.Sample{
		rowhash.NewSample(c.FitHashes, c.FitTies),
		rowhash.NewSample(c.CalHashes, c.CalTies),
	}}
}

// add compares the rows of a batch.
func (u *usedCounts) add(s hashSamples, b ood.Batch) {
	for _, h := range rowhash.Of(b, s.hashed) {
		for i := range u {
			u[i].Add(s.rows[i], h.Number())
		}
	}
}

func (u *usedCounts) merge(others usedCounts) {
	for i := range u {
		u[i].Merge(others[i])
	}
}

// notes reports inputs that were used before, and calibration rows that were fitted on.
func (u usedCounts) notes(a *Audit, add func(format string, args ...any)) {
	for i, what := range []string{"fitted on: they score too low, and their p-values mean nothing", "calibrated on: their p-values mean nothing"} {
		if text := u[i].Says("input"); text != "" && u[i].Rows == a.Inputs {
			add("%s were %s.", strings.ToUpper(text[:1])+text[1:], what)
		}
	}
	if a.Reused > 0 {
		add("%s were fitted on too: there are too many discoveries, and bounds do not hold. Fit again, with calibration rows that were not used to fit.", rows.CountOf(a.Reused, a.Calibration, "calibration row"))
	}
}
