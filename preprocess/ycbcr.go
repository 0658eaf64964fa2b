package preprocess

import (
	"image"
)

// fromYCbCr converts a decoded JPEG to RGB. Chroma that was stored at half the
// resolution is interpolated with the weights 3:1 that libjpeg (and so Pillow)
// uses; the standard library repeats samples, which differs by tens of levels
// at coloured edges.
func fromYCbCr(img *image.YCbCr) *Pixels {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	out := newPixels(h, w, 3)
	cb := chroma{img: img, plane: img.Cb}
	cr := chroma{img: img, plane: img.Cr}
	cbRow, crRow := make([]uint8, w), make([]uint8, w)
	for y := range h {
		cb.row(y, cbRow)
		cr.row(y, crRow)
		luma := img.Y[img.YOffset(b.Min.X, b.Min.Y+y):][:w]
		dst := out.Pix[y*w*3 : (y+1)*w*3]
		for x, l := range luma {
			dst[3*x], dst[3*x+1], dst[3*x+2] = toRGB(l, cbRow[x], crRow[x])
		}
	}
	return out
}

// toRGB is the JFIF conversion in 16-bit fixed point.
func toRGB(y, cb, cr uint8) (r, g, b uint8) {
	const half = 1 << 15
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	return limit(l + (91881*v+half)>>16),
		limit(l + (-22554*u-46802*v+half)>>16),
		limit(l + (116130*u+half)>>16)
}

func limit(v int32) uint8 { return uint8(min(max(v, 0), 255)) }

// chroma reads one chroma plane at the resolution of the luma.
type chroma struct {
	img   *image.YCbCr
	plane []uint8
	sums  []int32
}

// row writes row y of the image, counted from its top, to dst.
func (c *chroma) row(y int, dst []uint8) {
	b := c.img.Bounds()
	w, h := len(dst), b.Dy()
	half := (w + 1) / 2
	aligned := b.Min.X%2 == 0 && b.Min.Y%2 == 0
	switch ratio := c.img.SubsampleRatio; {
	case ratio == image.YCbCrSubsampleRatio422 && aligned && half > 2:
		c.line(c.at(y), nil, half, dst)
	case ratio == image.YCbCrSubsampleRatio420 && aligned && half > 2:
		near := y / 2
		far := near + 1 - 2*(1-y%2)
		far = min(max(far, 0), (h+1)/2-1)
		c.line(c.at(2*near), c.at(2*far), half, dst)
	case ratio == image.YCbCrSubsampleRatio440 && aligned:
		near := y / 2
		far := near + 1 - 2*(1-y%2)
		far = min(max(far, 0), (h+1)/2-1)
		// The rounding alternates so that it does not drift.
		bias := int32(1 + y%2)
		a, z := c.at(2*near), c.at(2*far)
		for x := range dst {
			dst[x] = uint8((3*int32(a[x]) + int32(z[x]) + bias) >> 2)
		}
	default:
		for x := range dst {
			dst[x] = c.plane[c.img.COffset(b.Min.X+x, b.Min.Y+y)]
		}
	}
}

// at returns the samples that belong to row y of the image.
func (c *chroma) at(y int) []uint8 {
	b := c.img.Bounds()
	return c.plane[c.img.COffset(b.Min.X, b.Min.Y+y):]
}

// line doubles a line of n samples, or, with far, the weighted sum 3:1 of the
// nearer and the farther line.
func (c *chroma) line(near, far []uint8, n int, dst []uint8) {
	if cap(c.sums) < n {
		c.sums = make([]int32, n)
	}
	s := c.sums[:n]
	// Sums carry a scale of 1 or 4; the two roundings alternate.
	shift, even, odd := 2, int32(1), int32(2)
	for i := range s {
		s[i] = int32(near[i])
	}
	if far != nil {
		for i := range s {
			s[i] = 3*s[i] + int32(far[i])
		}
		shift, even, odd = 4, 8, 7
	}
	for i, v := range s {
		left, right := s[max(i-1, 0)], s[min(i+1, n-1)]
		dst[2*i] = uint8((3*v + left + even) >> shift)
		if 2*i+1 < len(dst) {
			dst[2*i+1] = uint8((3*v + right + odd) >> shift)
		}
	}
}
