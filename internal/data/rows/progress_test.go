package rows

import (
	"slices"
	"testing"
)

func TestProgress(t *testing.T) {
	var reported []float64
	p := Progress(func(fraction float64) { reported = append(reported, fraction) })
	p.Sub(.5, 1).Part(1, 2).Tell(.5)
	p.Part(0, 4).Tell(1)
	rising := p.Rising()
	rising.Tell(.5)
	rising.Sub(0, .5).Tell(.5)
	if want := []float64{.875, .25, .5, .5}; !slices.Equal(reported, want) {
		t.Errorf("told %v, want %v", reported, want)
	}
	Progress(nil).Sub(0, 1).Part(0, 2).Rising().Tell(1)
}
