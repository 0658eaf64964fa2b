package ood

// Param declares a parameter of a method. Its checks, its help text and the documentation use
// this declaration.
type Param struct {
	Name    string
	Default any // a number of any type, a bool or a string
	// Takes describes the allowed numbers or strings, as conditions separated by commas. An
	// empty Takes allows all finite numbers. An unknown condition makes the fit fail.
	//
	//	of=a|b    one of these strings
	//	count     whole numbers of at least 1
	//	share     whole numbers, or a fraction below 1 of a number that the method knows
	//	widths    widths of layers: a count, or several joined as in "64x32"
	//	least=N   numbers of at least N
	//	positive  numbers above 0
	//	most=N    numbers of at most N
	//	below=N   numbers below N
	Takes string
	Sweep []any // values to try in a sweep
}
