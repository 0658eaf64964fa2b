package ood

// InputScale holds how far an input of the model moves if the raw input moves by 1. For
// images, the raw input is pixels scaled to [0,1]. If preprocessing divides channel c by
// std[c], the factor of that channel is 1/std[c]. The zero value means a factor of 1.
type InputScale struct {
	// Factor has a single entry for all values, or one entry for each index along Axis.
	Factor []float32
	// Axis is the axis of the factors, counted from 0 without the axis of rows. It is 0 for
	// images whose first axis is the channels, and 2 for images whose last axis is the
	// channels.
	Axis int
}
