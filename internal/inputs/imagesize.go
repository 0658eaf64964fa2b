package inputs

import (
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/internal/regular"
	"github.com/attach-uncertainty/attach/preprocess"
)

// CheckImages returns an error where the rows are images and, prepared, not of
// the shape that the model takes, of which -1 is any size. It says what the first
// image is and how preprocessing would make such a shape of it.
func (s *Set) CheckImages(takes []int) error {
	fits := len(takes) == len(s.shape)
	for i := 0; fits && i < len(takes); i++ {
		fits = takes[i] < 0 || takes[i] == s.shape[i]
	}
	if fits {
		return nil
	}
	var name, advice string
	var h, w int
	switch src := s.src.(type) {
	case *folderSource:
		name, advice = src.path(s.Row(0)), src.advice(s.shape, takes)
		var err error
		if h, w, err = sizeOf(name); err != nil {
			return err
		}
	case *pixelSource:
		name, advice, h, w = s.Name(0), src.advice(s.shape, takes), src.frame.h, src.frame.w
	default:
		return nil
	}
	return fmt.Errorf("%s: the image is of %d×%d pixels, and %s after preprocessing, where the model takes %s; %s", name, h, w, times(s.shape), times(takes), advice)
}

// sizeOf is the height and width of an image in a file.
func sizeOf(path string) (h, w int, err error) {
	file, err := regular.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	if h, w, err = preprocess.Size(file); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	return h, w, nil
}

// axes is the order of an image's axes.
type axes preprocess.Layout

// advice is what preprocessing says to make images of one shape another.
func (a axes) advice(have, want []int) string {
	if len(want) != 3 {
		return "it does not take images as they are"
	}
	size, channel := 1, 0
	if preprocess.Layout(a) == preprocess.NHWC {
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

// orAny is a size that is wanted, or the one at hand where any is.
func orAny(want, have int) int {
	if want < 0 {
		return have
	}
	return want
}

// times writes a shape as 3×32×32.
func times(shape []int) string {
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
