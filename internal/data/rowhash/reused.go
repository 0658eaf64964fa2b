package rowhash

import "github.com/attach-uncertainty/attach/internal/data/rows"

// ReusedNote reports calibration rows that were fitted on, and what follows from it.
func ReusedNote(reused, calibration int) string {
	return rows.CountOf(reused, calibration, "calibration row") + " were fitted on too: other rows are flagged more often than they should be, and intervals and sets cover less often"
}

// NewSample is the sample that a file keeps as hashes and as two counts: the rows that
// have these hashes, and the rows among them that equal another row by chance.
func NewSample(hashes []uint64, ties [2]int) Sample {
	return Sample{Hashes: hashes, Rows: ties[0], Repeated: ties[1]}
}
