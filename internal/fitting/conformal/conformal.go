// Package conformal names the nonconformity scores of prediction sets and intervals.
package conformal

// Scores that rank the classes of sets.
const (
	LAC     = "lac"
	APS     = "aps"
	RAPS    = "raps"
	SAPS    = "saps"
	Ordinal = "ordinal"
)

// SetScores are all that rank classes.
func SetScores() []string { return []string{LAC, APS, RAPS, SAPS, Ordinal} }

// GraphScores are those whose sets are written to graphs.
func GraphScores() []string { return []string{LAC, APS, RAPS, SAPS} }

// Scores that calibrate intervals with two ends.
const (
	CQR  = "cqr"
	CQRR = "cqr-r"
	CQRM = "cqr-m"
	CIR  = "cir"
	RCP  = "rcp"
)

// IntervalScores are all that calibrate intervals.
func IntervalScores() []string { return []string{CQR, CQRR, CQRM, CIR, RCP} }

// Ends of intervals that have one alone.
const (
	Lower = "lower"
	Upper = "upper"
)
