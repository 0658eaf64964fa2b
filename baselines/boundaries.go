package baselines

import (
	"math"
	"sync"
)

// boundaries is a last layer with what its decision boundaries are made of.
type boundaries struct {
	lastLayer
	// distances[y] are those between row y of the weights and all rows, worked
	// out when y is first predicted.
	distances sync.Map
}

// from is never below the least positive float32, by which one may divide.
func (s *boundaries) from(y int) []float64 {
	if d, ok := s.distances.Load(y); ok {
		return d.([]float64)
	}
	d := make([]float64, s.Weight.Rows)
	wy := row(s.Weight, y)
	for k := range d {
		var sum float64
		for j, v := range row(s.Weight, k) {
			sum += (float64(v) - float64(wy[j])) * (float64(v) - float64(wy[j]))
		}
		d[k] = max(math.Sqrt(sum), math.SmallestNonzeroFloat32)
	}
	s.distances.Store(y, d)
	return d
}
