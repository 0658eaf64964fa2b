package rowhash

import "github.com/attach-uncertainty/attach/internal/data/rows"

// ReusedNote reports calibration rows that were fitted on, and what follows from it.
func ReusedNote(reused, calibration int) string {
	return rows.CountOf(reused, calibration, "calibration row") + " were fitted on too: other rows are flagged more often than they should be, and intervals and sets cover less often"
}
