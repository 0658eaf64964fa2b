package table1

// published is a cell of the paper's table of 95 % intervals: test coverage and width with
// their standard deviations. The zero value means that the paper found no model.
type published struct{ picp, picpStd, mpiw, mpiwStd float64 }

// paperTable1 returns table 1 of Tagasovska & Lopez-Paz (2019), keyed by set and by our
// name of the method. The paper trained SQR on two levels.
func paperTable1() map[string]map[string]published {
	return map[string]map[string]published{
		"concrete": {
			"conditional-gaussian": {.94, .03, .32, .09}, "mc-dropout": {}, "gradient-boosting": {.93, 0, .71, 0},
			"quality-driven": {}, "quantile-forest": {.96, .01, .37, .02}, "sqr": {.94, .03, .31, .06},
		},
		"power": {
			"conditional-gaussian": {.94, .01, .18, 0}, "mc-dropout": {.94, 0, .37, 0}, "gradient-boosting": {},
			"quality-driven": {.93, .02, .34, .19}, "quantile-forest": {.94, .01, .18, 0}, "sqr": {.93, .01, .18, .01},
		},
		"wine": {
			"conditional-gaussian": {.94, .02, .49, .03}, "mc-dropout": {}, "gradient-boosting": {},
			"quality-driven": {}, "quantile-forest": {}, "sqr": {.93, .03, .45, .04},
		},
		"yacht": {
			"conditional-gaussian": {.93, .06, .03, .01}, "mc-dropout": {.97, .03, .10, .01}, "gradient-boosting": {.95, .02, .79, .01},
			"quality-driven": {.92, .05, .04, .01}, "quantile-forest": {.97, .04, .28, .11}, "sqr": {.93, .06, .06, .04},
		},
		"naval": {
			"conditional-gaussian": {.96, .01, .15, .25}, "mc-dropout": {.96, .01, .23, 0}, "gradient-boosting": {},
			"quality-driven": {.94, .02, .21, .11}, "quantile-forest": {.92, .01, .22, 0}, "sqr": {.95, .02, .12, .09},
		},
		"energy": {
			"conditional-gaussian": {.94, .03, .12, .18}, "mc-dropout": {.91, .04, .17, .01}, "gradient-boosting": {},
			"quality-driven": {.91, .04, .10, .05}, "quantile-forest": {.95, .02, .15, .01}, "sqr": {.94, .03, .08, .03},
		},
		"boston": {
			"conditional-gaussian": {.94, .03, .55, .20}, "mc-dropout": {}, "gradient-boosting": {.89, 0, .75, 0},
			"quality-driven": {}, "quantile-forest": {.95, .03, .37, .02}, "sqr": {.92, .06, .36, .09},
		},
		"kin8nm": {
			"conditional-gaussian": {.93, .01, .20, .01}, "mc-dropout": {}, "gradient-boosting": {},
			"quality-driven": {.96, 0, .84, 0}, "quantile-forest": {}, "sqr": {.93, .01, .23, .02},
		},
	}
}

// paperCell returns the paper's cell for a method. Both variants of SQR share one cell.
func paperCell(set, method string) (cell published, found bool) {
	if method == "sqr-two-level" {
		method = "sqr"
	}
	cell, found = paperTable1()[set][method]
	return cell, found
}
