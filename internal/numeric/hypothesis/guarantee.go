package hypothesis

// Names of the guarantees that an evaluation tests.
const (
	FalseAlarmRate   = "false_alarm_rate"
	IntervalCoverage = "interval_coverage"
	JointCoverage    = "joint_coverage"
	SetCoverage      = "set_coverage"
	SelectiveError   = "selective_error"
)

// Results of the test of a guarantee.
const (
	Met        = "met"
	Violated   = "violated"
	TooFewRows = "too_few_rows"
)
