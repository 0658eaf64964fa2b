package hypothesis

// What is promised of rows.
const (
	FalseAlarms    = "false_alarms"
	Coverage       = "coverage" // of a target by its intervals
	JointCoverage  = "joint_coverage"
	Sets           = "sets"
	SelectiveError = "selective_error"
)

// Verdicts on promises.
const (
	Kept       = "kept"
	Broken     = "broken"
	TooFewRows = "too few rows"
)
