package pixels

import (
	"image"
)

// fromYCbCr converts a decoded JPEG to RGB.
func fromYCbCr(img *image.YCbCr) *Image {
	b := img.Bounds()
	out := New(b.Dy(), b.Dx(), 3)
	p := newPlanes(img)
	for y := range out.Height {
		copy(out.Pix[y*3*out.Width:], p.row(y))
	}
	return out
}

// planes provides a decoded JPEG as rows of RGB. If chroma has half the resolution, it is
// interpolated with weights 3:1, as in libjpeg (and thus Pillow). The standard library
// would repeat samples instead, and differ by tens of levels at coloured edges.
type planes struct {
	img         *image.YCbCr
	rgb, cb, cr []uint8 // one row of output, and of chroma at full resolution
	sums        []int32
}

func newPlanes(img *image.YCbCr) *planes {
	w := img.Bounds().Dx()
	return &planes{img, make([]uint8, 3*w), make([]uint8, w), make([]uint8, w), make([]int32, (w+1)/2)}
}

// row returns row y as RGB. It uses the conversion that JFIF defines, in fixed point with
// 16 fractional bits.
func (p *planes) row(y int) []uint8 {
	const half = 1 << 15
	p.chroma(p.cb, p.img.Cb, y)
	p.chroma(p.cr, p.img.Cr, y)
	b := p.img.Rect
	luma := p.img.Y[p.img.YOffset(b.Min.X, b.Min.Y+y):][:len(p.cb)]
	cb, cr := p.cb[:len(luma)], p.cr[:len(luma)]
	for x, l := range luma {
		y, u, v := int32(l), int32(cb[x])-128, int32(cr[x])-128
		r := y + (91881*v+half)>>16
		g := y + (-22554*u-46802*v+half)>>16
		b := y + (116130*u+half)>>16
		to := p.rgb[3*x : 3*x+3 : 3*x+3]
		if uint32(r|g|b) < 256 { // no channel is outside 0…255, as in most pixels
			to[0], to[1], to[2] = uint8(r), uint8(g), uint8(b)
		} else {
			to[0], to[1], to[2] = limit(r), limit(g), limit(b)
		}
	}
	return p.rgb
}

// chroma writes row y of a chroma plane to dst, at the resolution of the luma.
func (p *planes) chroma(dst, plane []uint8, y int) {
	b := p.img.Rect
	at := func(x, y int) int { return p.img.COffset(b.Min.X+x, b.Min.Y+y) }
	storedRow := func(y int) []uint8 { return plane[at(0, y):] }
	// near is the stored chroma row that covers row y. far is the second-nearest stored
	// row.
	near, last := y/2, (b.Dy()-1)/2
	far := min(max(near+2*(y%2)-1, 0), last)
	aligned := b.Min.X%2 == 0 && b.Min.Y%2 == 0
	wide := len(p.sums) > 2
	switch ratio := p.img.SubsampleRatio; {
	case ratio == image.YCbCrSubsampleRatio422 && aligned && wide:
		p.double(dst, storedRow(y), storedRow(y), 4, 8)
	case ratio == image.YCbCrSubsampleRatio420 && aligned && wide:
		// As in libjpeg, the rounding constants 8 and 7 alternate. The weights add up to
		// 16.
		p.double(dst, storedRow(2*near), storedRow(2*far), 8, 7)
	case ratio == image.YCbCrSubsampleRatio440 && aligned:
		nearRow, farRow := storedRow(2 * near)[:len(dst)], storedRow(2 * far)[:len(dst)]
		rounding := int32(1 + y%2) // alternates between rows, so that rounding errors do not add up
		for x := range dst {
			dst[x] = uint8((3*int32(nearRow[x]) + int32(farRow[x]) + rounding) >> 2)
		}
	case ratio == image.YCbCrSubsampleRatio444:
		copy(dst, storedRow(y))
	default:
		for x := range dst {
			dst[x] = plane[at(x, y)]
		}
	}
}

// double computes two samples of dst from each chroma sample. It interpolates between the
// rows near and far with weights 3:1, and then between columns with weights 3:1. even and
// odd are added to round the two samples.
func (p *planes) double(dst, near, far []uint8, even, odd int32) {
	s := p.sums
	near, far = near[:len(s)], far[:len(s)]
	for i := range s {
		s[i] = 3*int32(near[i]) + int32(far[i])
	}
	left := s[0]
	for i, right := range s[1:] {
		v, to := s[i], dst[2*i:2*i+2:2*i+2]
		to[0], to[1] = uint8((3*v+left+even)>>4), uint8((3*v+right+odd)>>4)
		left = v
	}
	n := len(s)
	v := s[n-1]
	dst[2*n-2] = uint8((3*v + left + even) >> 4)
	if 2*n-1 < len(dst) {
		dst[2*n-1] = uint8((4*v + odd) >> 4)
	}
}
