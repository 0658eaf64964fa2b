package preprocess

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/pixels"
)

// box holds a height and a width in pixels.
type box struct{ Height, Width int }

func (b box) isSet() bool { return b != box{} }

// size describes how an image is resized. The zero value does not resize. Otherwise there
// are four cases. With Height and Width, the image gets this size. With ShortestEdge, its
// shorter side gets this length and the aspect ratio is kept. With LongestEdge, its longer
// side gets this length and the aspect ratio is kept. With both, ShortestEdge is reduced
// until the longer side does not exceed LongestEdge.
type size struct {
	box
	ShortestEdge int
	LongestEdge  int
}

// resized returns the size of an h×w image after resizing. It rounds in the same way as
// Hugging Face's image processors. It returns an error if the resized image would be too
// large.
func (s size) resized(h, w int) (box, error) {
	nh, nw := h, w
	short, long := min(h, w), max(h, w)
	switch {
	case s.Height > 0:
		nh, nw = s.Height, s.Width
	case s.ShortestEdge > 0:
		edge, exact := s.ShortestEdge, float64(s.ShortestEdge)
		if s.LongestEdge > 0 && float64(long)/float64(short)*exact > float64(s.LongestEdge) {
			exact = float64(s.LongestEdge) * float64(short) / float64(long)
			edge = int(exact + 0.5)
		}
		nh, nw = orient(h, w, edge, int(exact*float64(long)/float64(short)))
	case s.LongestEdge > 0:
		nh, nw = orient(h, w, int(float64(s.LongestEdge)*float64(short)/float64(long)), s.LongestEdge)
	}
	nh, nw = max(nh, 1), max(nw, 1)
	// Rows are resized before columns, so there is an intermediate image with the old
	// height and the new width.
	if nw > pixels.MaxPixels/max(h, nh) {
		return box{}, fmt.Errorf("an image of %d×%d would be resized to %d×%d, over the limit of %d pixels", h, w, nh, nw, pixels.MaxPixels)
	}
	return box{nh, nw}, nil
}

// orient returns the lengths short and long as height and width, so that the result has
// the same orientation as h×w.
func orient(h, w, short, long int) (int, int) {
	if w <= h {
		return long, short
	}
	return short, long
}
