package ood

// InputScale says how far a network's input moves where the raw input moves by
// one. For images the raw input is pixels scaled to [0,1], and a network whose
// preprocessing divides channel c by std[c] has the factor 1/std[c]. The zero
// value stands for a factor of 1 throughout.
type InputScale struct {
	// Factor has one entry for everything, or one per index along Axis.
	Factor []float32
	// Axis counts the axes of a row, without the number of rows, from 0: it is
	// 0 for images whose channels come first and 2 where they come last.
	Axis int
}
