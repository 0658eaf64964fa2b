package table3

// paperTable3 returns the accuracies of the paper's table, keyed by method name. The
// columns have the order of setNames.
func paperTable3() map[string][6]float64 {
	return map[string][6]float64{
		"lingam":  {0, .04, .07, .03, 0, .42},
		"gr-an":   {.05, .15, .11, .20, .50, .50},
		"bicam":   {1, 1, 1, .53, .86, .58},
		"anm":     {1, 1, .62, .09, .03, .59},
		"gpi":     {.95, .11, .91, .54, .90, .63},
		"igci-g":  {.98, .98, .99, .94, .74, .64},
		"emd":     {.36, .33, .60, .42, .83, .68},
		"igci-u":  {.41, .27, .63, .37, .07, .72},
		"pnl":     {.96, .63, .91, .44, .66, .73},
		"qccd-m3": {1, .81, 1, .98, .99, .77},
		"sqr-m1":  {.99, .51, .98, .78, .62, .75},
		"sqr-m3":  {.99, .73, 1, .85, 1, .75},
		"sqr-m5":  {.99, .76, 1, .82, 1, .77},
	}
}
