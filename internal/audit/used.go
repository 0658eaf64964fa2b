package audit

import (
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// usedCounts counts inputs that the .attach file was fitted on, and inputs that it was
// calibrated on, in this order. Both counts are 0 if the .attach file keeps no hashes.
type usedCounts [2]rowhash.Matches

// hashSamples holds hashes of fit rows and of calibration rows, in the order of usedCounts.
type hashSamples struct {
	hashed string // what the hashes were computed from, as in attach.Calibration.Hashed
	rows   [2]rowhash.Sample
}

func samplesOf(c attach.Calibration) hashSamples {
	return hashSamples{c.Hashed, [2]rowhash.Sample{
		rowhash.NewSample(c.FitHashes, c.FitTies),
		rowhash.NewSample(c.CalHashes, c.CalTies),
	}}
}

// add counts the rows of a batch whose hashes are in s. It returns where each row was used:
// fit, calibration, or an empty string.
func (u *usedCounts) add(s hashSamples, b ood.Batch) []string {
	used := make([]string, b.Len())
	for row, h := range rowhash.Of(b, s.hashed) {
		for i, name := range []string{"fit", "calibration"} {
			if u[i].Add(s.rows[i], h.Number()) {
				used[row] = name
			}
		}
	}
	return used
}

func (u *usedCounts) merge(others usedCounts) {
	for i := range u {
		u[i].Merge(others[i])
	}
}

// notes adds notes about inputs that were used to fit or calibrate. It also adds a note
// about calibration rows that were used to fit.
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
