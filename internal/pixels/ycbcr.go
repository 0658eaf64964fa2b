package pixels

import (
	"image"
)

// fromYCbCr converts a decoded JPEG to RGB. Chroma that was stored at half the
// resolution is interpolated with the weights 3:1 that libjpeg (and so Pillow)
// uses; the standard library repeats samples, which differs by tens of levels
// at coloured edges.
func fromYCbCr(img *image.YCbCr) *Image {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	out := New(h, w, 3)
	cb := chroma{img: img, plane: img.Cb}
	cr := chroma{img: img, plane: img.Cr}
	cbRow, crRow := make([]uint8, w), make([]uint8, w)
	for y := range h {
		cb.row(y, cbRow)
		cr.row(y, crRow)
		luma := img.Y[img.YOffset(b.Min.X, b.Min.Y+y):][:w]
		toRGB(out.Pix[y*w*3:(y+1)*w*3], luma, cbRow, crRow)
	}
	return out
}

// toRGB writes the pixels of a row to dst. It is the JFIF conversion in 16-bit fixed
// point.
func toRGB(dst, luma, cb, cr []uint8) {
	const half = 1 << 15
	cb, cr = cb[:len(luma)], cr[:len(luma)]
	for x, l := range luma {
		y, u, v := int32(l), int32(cb[x])-128, int32(cr[x])-128
		r := y + (91881*v+half)>>16
		g := y + (-22554*u-46802*v+half)>>16
		b := y + (116130*u+half)>>16
		to := dst[3*x : 3*x+3 : 3*x+3]
		if uint32(r|g|b) < 256 { // which most are
			to[0], to[1], to[2] = uint8(r), uint8(g), uint8(b)
		} else {
			to[0], to[1], to[2] = limit(r), limit(g), limit(b)
		}
	}
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
	// The two roundings of sums of 16 samples alternate.
	even, odd := int32(8), int32(7)
	if far == nil {
		far, even, odd = near, 4, 8
	}
	near, far = near[:n], far[:n]
	for i := range s {
		s[i] = 3*int32(near[i]) + int32(far[i])
	}
	left := s[0]
	for i, right := range s[1:] {
		v, to := s[i], dst[2*i:2*i+2:2*i+2]
		to[0], to[1] = uint8((3*v+left+even)>>4), uint8((3*v+right+odd)>>4)
		left = v
	}
	v := s[n-1]
	dst[2*n-2] = uint8((3*v + left + even) >> 4)
	if 2*n-1 < len(dst) {
		dst[2*n-1] = uint8((4*v + odd) >> 4)
	}
}
