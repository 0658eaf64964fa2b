// Package conformal names the nonconformity scores of prediction sets and intervals.
package conformal

// Scores for prediction sets; they rank the classes.
const (
	LAC     = "lac"
	APS     = "aps"
	RAPS    = "raps"
	SAPS    = "saps"
	Ordinal = "ordinal"
)

// SetScores lists the scores for prediction sets.
func SetScores() []string { return []string{LAC, APS, RAPS, SAPS, Ordinal} }

// GraphScores lists the scores for prediction sets that exported graphs support.
func GraphScores() []string { return []string{LAC, APS, RAPS, SAPS} }

// Scores for two-sided intervals.
const (
	CQR  = "cqr"
	CQRR = "cqr-r"
	CQRM = "cqr-m"
	CIR  = "cir"
	RCP  = "rcp"
)

// IntervalScores lists the scores for intervals.
func IntervalScores() []string { return []string{CQR, CQRR, CQRM, CIR, RCP} }

// Sides of one-sided intervals.
const (
	Lower = "lower"
	Upper = "upper"
)
