package rows

import (
	"slices"
	"testing"
)

func TestProgress(t *testing.T) {
	var told []float64
	p := Progress(func(share float64) { told = append(told, share) })
	p.Sub(.5, 1).Part(1, 2).Tell(.5)
	p.Part(0, 4).Tell(1)
	rising := p.Rising()
	rising.Tell(.5)
	rising.Sub(0, .5).Tell(.5)
	if want := []float64{.875, .25, .5, .5}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	Progress(nil).Sub(0, 1).Part(0, 2).Rising().Tell(1)
}
