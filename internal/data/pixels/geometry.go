package pixels

import "fmt"

// MaxPixels limits the area of an image, before and after resizing: a file of a few bytes can
// claim any size.
const MaxPixels = 1 << 27

// maxSide limits the sides of an image, because resizing uses many weights for each pixel.
const maxSide = 1 << 16

// CheckArea returns an error for the size of an image that is too large to allocate.
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

// Centre returns the centre crop of h×w. It starts half the difference, rounded down, from the
// top and left. A smaller image is padded with zeros, half the difference, rounded up, at the
// top and left, as Hugging Face does.
func (m *Image) Centre(h, w int) *Image {
	return m.window(offset(m.Height, h), offset(m.Width, w), h, w)
}

// offset returns the start of a centre crop, which is negative if the crop is larger. The
// shift is a division that rounds down.
func offset(have, want int) int { return (have - want) >> 1 }

// Padded pads an image that is no larger than h×w with zeros. If the difference is odd, the
// bottom or right gets one more.
func (m *Image) Padded(h, w int) *Image {
	return m.window(-((h - m.Height) / 2), -((w - m.Width) / 2), h, w)
}

// window cuts h×w out of m, starting at (top, left), with zeros outside of m.
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
