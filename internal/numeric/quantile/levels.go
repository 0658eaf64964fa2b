package quantile

// Levels returns the levels at which quantiles of calibration rows are stored. Intervals
// interpolate between them, both in calibration and in prediction. Any interval level can
// therefore be requested later and is calibrated exactly.
func Levels() []float64 {
	return []float64{
		.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .25, .3, .35, .4, .45, .5,
		.55, .6, .65, .7, .75, .8, .85, .9, .925, .95, .975, .99, .995, .9975, .999,
	}
}
