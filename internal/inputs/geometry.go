package inputs

import "fmt"

// maxPixels bounds the area of an image, before and after resizing: a file of
// a few bytes can claim any size.
const maxPixels = 1 << 27

// maxSide bounds the sides of an image, each of whose pixels weighs on many when
// it is resized.
const maxSide = 1 << 16

func checkArea(h, w int) error {
	if h > maxSide || w > maxSide {
		return fmt.Errorf("an image of %d×%d is over the limit of %d pixels a side", h, w, maxSide)
	}
	if w > maxPixels/h {
		return fmt.Errorf("an image of %d×%d is over the limit of %d pixels", h, w, maxPixels)
	}
	return nil
}

// of returns the size that an image of h×w is resized to, rounded as Hugging
// Face rounds it.
func (s Size) of(h, w int) (int, int, error) {
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
	if nw > maxPixels/max(h, nh) {
		return 0, 0, fmt.Errorf("an image of %d×%d would be resized to %d×%d, over the limit of %d pixels", h, w, nh, nw, maxPixels)
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
func (m pixels) centre(h, w int) pixels {
	if m.h == h && m.w == w {
		return m
	}
	return m.window(offset(m.h, h), offset(m.w, w), h, w)
}

// offset is where a centre crop begins, less than zero where it is larger. The
// shift is a division that rounds down.
func offset(have, want int) int { return (have - want) >> 1 }

// pad surrounds an image that is no larger than h×w with zeros. An odd
// difference puts one more at the bottom or right.
func (m pixels) pad(h, w int) pixels {
	if m.h == h && m.w == w {
		return m
	}
	return m.window(-((h - m.h) / 2), -((w - m.w) / 2), h, w)
}

// window cuts h×w out of m from (top, left) on, with zeros where m has nothing.
func (m pixels) window(top, left, h, w int) pixels {
	out := newPixels(h, w, m.c)
	x0, x1 := max(left, 0), min(left+w, m.w)
	if x0 >= x1 {
		return out
	}
	for y := max(top, 0); y < min(top+h, m.h); y++ {
		dst := ((y-top)*w + x0 - left) * m.c
		copy(out.pix[dst:dst+(x1-x0)*m.c], m.pix[(y*m.w+x0)*m.c:(y*m.w+x1)*m.c])
	}
	return out
}
