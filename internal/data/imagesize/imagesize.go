// Package imagesize explains errors in the size of an image for a model.
package imagesize

import (
	"fmt"
	"slices"
	"strings"
)

// Check returns an error if preprocessing turns an image of h×w pixels into another shape than
// the model takes. In that shape, -1 means any size, and nil any shape. The error tells how
// preprocessing can produce the shape.
func Check(layout string, h, w int, shape, takes []int) error {
	if takes == nil || slices.EqualFunc(shape, takes, func(have, want int) bool { return want < 0 || have == want }) {
		return nil
	}
	return fmt.Errorf("the image is of %d×%d pixels, and %s after preprocessing, where the model takes %s; %s", h, w, Times(shape), Times(takes), advice(layout, shape, takes))
}

// advice returns the preprocessing that turns images of one shape into another.
func advice(layout string, have, want []int) string {
	if len(want) != 3 {
		return "it does not take images as they are"
	}
	size, channel := 1, 0
	if layout == "nhwc" {
		size, channel = 0, 2
	}
	var keys []string
	if h, w := want[size], want[size+1]; h != have[size] || w != have[size+1] {
		keys = append(keys, fmt.Sprintf(`"size": {"height": %d, "width": %d} (and "crop_size", where it crops)`, orAny(h, have[size]), orAny(w, have[size+1])))
	}
	if c := want[channel]; c > 0 && c != have[channel] {
		keys = append(keys, fmt.Sprintf(`"image_mean" and "image_std" that are lists of %d`, c))
	}
	return "preprocessing makes them so with " + strings.Join(keys, " and ")
}

// orAny returns the wanted size, or the given one if any is allowed.
func orAny(want, have int) int {
	if want < 0 {
		return have
	}
	return want
}

// Times formats a shape, for example 3×32×32.
func Times(shape []int) string {
	var b strings.Builder
	for i, d := range shape {
		if i > 0 {
			b.WriteString("×")
		}
		if d < 0 {
			b.WriteString("?")
		} else {
			fmt.Fprint(&b, d)
		}
	}
	return b.String()
}
