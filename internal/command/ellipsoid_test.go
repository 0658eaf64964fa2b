package command

import (
	"math"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

func TestInsideEllipsoid(t *testing.T) {
	e := &calibrate.Ellipsoid{Centre: []float64{1, 2}, Spread: []float64{1, 1}, Shape: [][]float64{{1, 0}, {.5, 1}}, Radius: 1}
	for text, y := range map[string][]float32{"1": {1, 3}, "0": {1, 3.1}, "nan": {1, float32(math.NaN())}} {
		if got := insideEllipsoid(e, y).String(); got != text {
			t.Errorf("%v: inside is %s, want %s", y, got, text)
		}
	}
}
