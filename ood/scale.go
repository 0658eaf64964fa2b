package ood

// InputScale tells how far a network's input moves if the raw input moves by one. For images,
// the raw input is pixels scaled to [0,1]; a network whose preprocessing divides channel c by
// std[c] has the factor 1/std[c]. The zero value means a factor of 1.
type InputScale struct {
	// Factor has one entry for everything, or one for each index along Axis.
	Factor []float32
	// Axis is an axis of a row, counted from 0 without the axis of rows: 0 for images whose
	// channels come first, and 2 if they come last.
	Axis int
}
