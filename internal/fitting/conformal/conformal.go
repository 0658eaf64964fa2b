// Package conformal names the nonconformity scores of prediction sets and intervals.
package conformal

// These are the nonconformity scores for prediction sets.
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

// These are the nonconformity scores for two-sided intervals.
const (
	CQR   = "cqr"
	CQRR  = "cqr-r"
	CQRM  = "cqr-m"
	CIR   = "cir"
	RCP   = "rcp"
	Ridge = "ridge"
)

// IntervalScores lists the scores for intervals.
func IntervalScores() []string { return []string{CQR, CQRR, CQRM, CIR, RCP, Ridge} }

// These are the regions that contain all targets of a row at once.
const (
	Box       = "box"
	Ellipsoid = "ellipsoid"
)

// Regions lists the regions.
func Regions() []string { return []string{Box, Ellipsoid} }

// These are the sides of one-sided intervals.
const (
	Lower = "lower"
	Upper = "upper"
)
