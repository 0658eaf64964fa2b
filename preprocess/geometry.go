package preprocess

import "fmt"

// MaxPixels bounds the area of an image, before and after resizing: a file of
// a few bytes can claim any size.
const MaxPixels = 1 << 27

// maxSide bounds the sides of an image, each of whose pixels weighs on many when
// it is resized.
const maxSide = 1 << 16

func checkArea(h, w int) error {
	if h < 1 || w < 1 {
		return fmt.Errorf("an image of %d×%d has no pixels", h, w)
	}
	if h > maxSide || w > maxSide {
		return fmt.Errorf("an image of %d×%d is over the limit of %d pixels a side", h, w, maxSide)
	}
	if w > MaxPixels/h {
		return fmt.Errorf("an image of %d×%d is over the limit of %d pixels", h, w, MaxPixels)
	}
	return nil
}

// box is a height and width in pixels.
type box struct{ Height, Width int }

func (b box) set() bool { return b != box{} }

// size is what an image is resized to: a fixed Height and Width, or one whose
// shorter side is ShortestEdge with the aspect ratio kept, or whose longer side
// is LongestEdge, or the former as far as the latter permits.
type size struct {
	box
	ShortestEdge int
	LongestEdge  int
}

// of returns the size that an image of h×w is resized to, rounded as Hugging
// Face rounds it.
func (s size) of(h, w int) (int, int, error) {
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
		nh, nw = oriented(h, w, edge, int(exact*float64(long)/float64(short)))
	case s.LongestEdge > 0:
		nh, nw = oriented(h, w, int(float64(s.LongestEdge)*float64(short)/float64(long)), s.LongestEdge)
	}
	nh, nw = max(nh, 1), max(nw, 1)
	// Rows are resized before columns.
	if nw > MaxPixels/max(h, nh) {
		return 0, 0, fmt.Errorf("an image of %d×%d would be resized to %d×%d, over the limit of %d pixels", h, w, nh, nw, MaxPixels)
	}
	return nh, nw, nil
}

// oriented returns short and long as height and width of an image like h×w.
func oriented(h, w, short, long int) (int, int) {
	if w <= h {
		return long, short
	}
	return short, long
}

// centre returns the centre crop of h×w, which starts half the difference,
// rounded down, from the top and left. A smaller image is surrounded with zeros,
// half the difference, rounded up, on the top and left, as Hugging Face does.
func (m *Pixels) centre(h, w int) *Pixels {
	if m.Height == h && m.Width == w {
		return m
	}
	return m.window(offset(m.Height, h), offset(m.Width, w), h, w)
}

// offset is where a centre crop begins, less than zero where it is larger. The
// shift is a division that rounds down.
func offset(have, want int) int { return (have - want) >> 1 }

// pad surrounds an image that is no larger than h×w with zeros. An odd
// difference puts one more at the bottom or right.
func (m *Pixels) padded(h, w int) *Pixels {
	if m.Height == h && m.Width == w {
		return m
	}
	return m.window(-((h - m.Height) / 2), -((w - m.Width) / 2), h, w)
}

// window cuts h×w out of m from (top, left) on, with zeros where m has nothing.
func (m *Pixels) window(top, left, h, w int) *Pixels {
	out := newPixels(h, w, m.Channels)
	x0, x1 := max(left, 0), min(left+w, m.Width)
	if x0 >= x1 {
		return out
	}
	for y := max(top, 0); y < min(top+h, m.Height); y++ {
		dst := ((y-top)*w + x0 - left) * m.Channels
		copy(out.Pix[dst:dst+(x1-x0)*m.Channels], m.Pix[(y*m.Width+x0)*m.Channels:(y*m.Width+x1)*m.Channels])
	}
	return out
}
