package hypothesis

// Kinds of guarantees.
const (
	FalseAlarmRate   = "false_alarm_rate"
	IntervalCoverage = "interval_coverage"
	JointCoverage    = "joint_coverage"
	SetCoverage      = "set_coverage"
	SelectiveError   = "selective_error"
)

// Verdicts on guarantees.
const (
	Met        = "met"
	Violated   = "violated"
	TooFewRows = "too_few_rows"
)
