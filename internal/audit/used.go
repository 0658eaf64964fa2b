package audit

import (
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// used counts the inputs that were fitted on and the inputs that were calibrated on. It
// counts none if the .attach file keeps no hashes to compare with.
type used [2]rowhash.Matches

// samples holds the hashes of rows that a .attach file keeps, in the order of used.
type samples struct {
	of   string // what is hashed
	rows [2]rowhash.Sample
}

func samplesOf(c attach.Calibration) samples {
	return samples{c.Hashed, [2]rowhash.Sample{
		rowhash.NewSample(c.FitHashes, c.FitTies),
		rowhash.NewSample(c.CalHashes, c.CalTies),
	}}
}

// add compares the rows of a batch.
func (u *used) add(s samples, b ood.Batch) {
	for _, h := range rowhash.Of(b, s.of) {
		for i := range u {
			u[i].Add(s.rows[i], h.Number())
		}
	}
}

func (u *used) merge(others used) {
	for i := range u {
		u[i].Merge(others[i])
	}
}

// notes reports inputs that were used before, and calibration rows that were fitted on.
func (u used) notes(a *Audit, say func(format string, args ...any)) {
	for i, what := range []string{"fitted on: they score too low, and their p-values mean nothing", "calibrated on: their p-values mean nothing"} {
		if says := u[i].Says("input"); says != "" && u[i].Rows == a.Inputs {
			say("%s were %s.", strings.ToUpper(says[:1])+says[1:], what)
		}
	}
	if a.Reused > 0 {
		say("%s were fitted on too: there are too many discoveries, and bounds do not hold. Fit again, with calibration rows that were not used to fit.", rows.CountOf(a.Reused, a.Calibration, "calibration row"))
	}
}
