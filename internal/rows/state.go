// Package rows holds what everything else is made of: arrays and the states that
// fitted things are saved as.
package rows

// Array is a dense array as it is stored on disk: row-major, with a shape.
// Data is one of []float32, []float64, []int64 or []uint8 (or, to be written
// alone, []bool, which is read as []uint8), and its length is
// the product of Shape.
type Array struct {
	Shape []int
	Data  any
}

// State is everything a fitted head or detector needs to be rebuilt: scalars
// that go to the manifest of a bundle as JSON, and arrays that are stored
// beside it as .npy files.
//
// Params holds only JSON scalars: bool, float64, string. An integer is stored
// as float64.
type State struct {
	Params map[string]any
	Arrays map[string]Array
}

// Stater is implemented by every fitted head and detector that can be saved.
type Stater interface {
	State() State
}
