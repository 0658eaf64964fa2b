package pixels

import "fmt"

// MaxPixels limits the area of an image before and after resizing, because a file of a few
// bytes can claim any size.
const MaxPixels = 1 << 27

// maxSide limits the height and the width of an image, because resizing stores weights for
// each row and column.
const maxSide = 1 << 16

// CheckArea returns an error if an image of h×w pixels is empty or too large to allocate.
func CheckArea(h, w int) error {
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

// Centre returns the centre crop of m with h×w pixels. The crop begins half the difference,
// rounded down, from the top and left. A smaller image is padded with zeros instead. The
// top and left then get half the difference, rounded up, as in Hugging Face.
func (m *Image) Centre(h, w int) *Image {
	return m.window(offset(m.Height, h), offset(m.Width, w), h, w)
}

// offset returns the start of a centre crop, which is negative if the crop is larger than
// the image. The shift halves the difference and rounds down, even if it is negative.
func offset(have, want int) int { return (have - want) >> 1 }

// Padded returns m with zeros around it, so that it has h×w pixels. m must not be larger
// than this. If the difference is odd, the bottom or right gets the extra zeros.
func (m *Image) Padded(h, w int) *Image {
	return m.window(-((h - m.Height) / 2), -((w - m.Width) / 2), h, w)
}

// window returns the h×w pixels of m that begin at (top, left). Pixels outside of m are
// zero.
func (m *Image) window(top, left, h, w int) *Image {
	if top == 0 && left == 0 && m.Height == h && m.Width == w {
		return m
	}
	out := New(h, w, m.Channels)
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
