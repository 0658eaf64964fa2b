// Package imagesize explains why the size of an image does not fit a model.
package imagesize

import (
	"fmt"
	"slices"
	"strings"
)

// Check returns an error if an image does not have a shape that the model accepts. The
// image had h×w pixels before preprocessing, and has the given shape after it. An accepted
// size of −1 allows any size, and a nil slice allows any shape. The error suggests how to
// change preprocessing.
func Check(layout string, h, w int, shape, accepted []int) error {
	if accepted == nil || slices.EqualFunc(shape, accepted, func(have, want int) bool { return want < 0 || have == want }) {
		return nil
	}
	return fmt.Errorf("the image is of %d×%d pixels, and %s after preprocessing, where the model takes %s; %s", h, w, Times(shape), Times(accepted), advice(layout, shape, accepted))
}

// advice describes the preprocessing settings that turn images of shape have into shape
// want.
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
		keys = append(keys, fmt.Sprintf(`"size": {"height": %d, "width": %d} (and "crop_size", where it crops)`, sizeOr(h, have[size]), sizeOr(w, have[size+1])))
	}
	if c := want[channel]; c > 0 && c != have[channel] {
		keys = append(keys, fmt.Sprintf(`"image_mean" and "image_std" that are lists of %d`, c))
	}
	return "preprocessing makes them so with " + strings.Join(keys, " and ")
}

// sizeOr returns want, or have if want stands for any size.
func sizeOr(want, have int) int {
	if want < 0 {
		return have
	}
	return want
}

// Times formats a shape, for example 3×32×32. A size that is not fixed is shown as a
// question mark.
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
