package jpeg

import "math"

// definition is the inverse transform as T.81, A.3.3 defines it, shifted to
// unsigned levels and limited to them.
func definition(coef [64]int16) [64]float64 {
	scale := func(k int) float64 {
		if k == 0 {
			return math.Sqrt2 / 2
		}
		return 1
	}
	var out [64]float64
	for y := range 8 {
		for x := range 8 {
			sum := 0.0
			for v := range 8 {
				for u := range 8 {
					sum += scale(u) * scale(v) * float64(coef[8*v+u]) *
						math.Cos(float64(2*x+1)*float64(u)*math.Pi/16) *
						math.Cos(float64(2*y+1)*float64(v)*math.Pi/16)
				}
			}
			out[8*y+x] = min(max(sum/4+128, 0), 255)
		}
	}
	return out
}
