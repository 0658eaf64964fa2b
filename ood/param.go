package ood

// Param declares a parameter of a method. Help, checks and documentation derive from it.
type Param struct {
	Name    string
	Default any // a number of any type, a bool or a string
	// Takes describes the allowed strings or numbers, in words separated by commas. Without
	// any, all finite numbers are allowed. An unknown word makes the fit fail.
	//
	//	of=a|b    one of these strings
	//	count     whole numbers of at least 1
	//	share     whole numbers, and shares below 1 of a number that the method knows
	//	widths    widths of layers: a count, or several joined as in "64x32"
	//	least=N   numbers of at least N
	//	positive  numbers above 0
	//	most=N    numbers of at most N
	//	below=N   numbers below N
	Takes string
	Sweep []any // values for a sweep
}
