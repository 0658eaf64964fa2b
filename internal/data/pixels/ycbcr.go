package pixels

import (
	"image"
)

// fromYCbCr converts a decoded JPEG to RGB.
func fromYCbCr(img *image.YCbCr) *Image {
	b := img.Bounds()
	out := New(b.Dy(), b.Dx(), 3)
	p := newPlanes(img)
	src := make([]uint64, 3*out.Width)
	for y := 0; y < out.Height; y += 2 {
		p.pair(y, src)
		first := out.Pix[y*len(src):][:len(src)]
		for i, v := range src {
			first[i] = uint8(v)
		}
		if y+1 == out.Height {
			break
		}
		second := out.Pix[(y+1)*len(src):][:len(src)]
		for i, v := range src {
			second[i] = uint8(v >> 32)
		}
	}
	return out
}

// planes are a decoded JPEG whose rows are read as RGB. Chroma that was stored at half
// the resolution is interpolated with the weights 3:1 that libjpeg (and so Pillow)
// uses; the standard library repeats samples, which differs by tens of levels
// at coloured edges.
type planes struct {
	img *image.YCbCr
	// chroma is that of two rows: Cb and Cr of the first and Cb and Cr of the second,
	// in lanes of 16 bits. So are the sums that it is made of.
	chroma, sums []uint64
}

func newPlanes(img *image.YCbCr) *planes {
	w := img.Bounds().Dx()
	return &planes{img, make([]uint64, w), make([]uint64, (w+1)/2)}
}

// four is one in each of four lanes. byteEach and byteFour are the largest byte in
// each.
const (
	four     = each | each<<16
	byteEach = 255 * each
	byteFour = 255 * four
)

// pair implements pairs. It is the JFIF conversion in 16-bit fixed point.
func (p *planes) pair(y int, dst []uint64) {
	const (
		// Levels are 256 too large at first, so that none is negative.
		beyond = 256 * each
		start  = 1<<15 + 256<<16
		red    = (start - 128*91881) * each
		green  = (start + 128*(22554+46802)) * each
		blue   = (start - 128*116130) * each
		whole  = 0xffff * each
	)
	p.interpolate(y)
	first, second := p.luma(y), p.luma(p.below(y))
	first, second = first[:len(p.chroma)], second[:len(p.chroma)]
	for x, c := range p.chroma {
		l := uint64(first[x]) | uint64(second[x])<<32
		cb, cr := c&byteEach, c>>16&byteEach
		r := (l + (red+91881*cr)>>16&whole) ^ beyond
		g := (l + (green-22554*cb-46802*cr)>>16&whole) ^ beyond
		b := (l + (blue+116130*cb)>>16&whole) ^ beyond
		if (r|g|b)&^byteEach != 0 { // which is rare
			r, g, b = saturated(r), saturated(g), saturated(b)
		}
		to := dst[3*x : 3*x+3 : 3*x+3]
		to[0], to[1], to[2] = r, g, b
	}
}

// saturated makes 255 of lanes with bit 9, which are above it, and 0 of those with bit
// 8 alone, which are below.
func saturated(v uint64) uint64 {
	outside, above := 255*(v>>8&each), 255*(v>>9&each)
	return v&byteEach&^outside | above
}

// below is the row after y, or y if that is the last.
func (p *planes) below(y int) int { return min(y+1, p.img.Rect.Dy()-1) }

// luma is row y, counted from the top of the image, and what follows.
func (p *planes) luma(y int) []uint8 {
	b := p.img.Rect
	return p.img.Y[p.img.YOffset(b.Min.X, b.Min.Y+y):]
}

// interpolate makes the chroma of rows y and y+1.
func (p *planes) interpolate(y int) {
	b := p.img.Rect
	half := (b.Dx() + 1) / 2
	aligned := b.Min.X%2 == 0 && b.Min.Y%2 == 0
	switch ratio := p.img.SubsampleRatio; {
	case ratio == image.YCbCrSubsampleRatio422 && aligned && half > 2:
		p.stored(p.sums, y)
		for i := range p.sums {
			p.sums[i] *= 4
		}
		p.double(4*four, 8*four)
	case ratio == image.YCbCrSubsampleRatio420 && aligned && half > 2:
		p.between(p.sums, y)
		// The two roundings of sums of 16 samples alternate.
		p.double(8*four, 7*four)
	case ratio == image.YCbCrSubsampleRatio440 && aligned:
		p.between(p.chroma, y)
		// The rounding alternates so that it does not drift.
		const rounding = 1 | 1<<16 | 2<<32 | 2<<48
		for x, v := range p.chroma {
			p.chroma[x] = (v + rounding) >> 2 & byteFour
		}
	case ratio == image.YCbCrSubsampleRatio444:
		p.stored(p.chroma, y)
	default:
		for x := range p.chroma {
			i, j := p.at(x, y), p.at(x, p.below(y))
			p.chroma[x] = uint64(p.img.Cb[i]) | uint64(p.img.Cr[i])<<16 | uint64(p.img.Cb[j])<<32 | uint64(p.img.Cr[j])<<48
		}
	}
}

// at is where the chroma of a pixel, counted from the top left, is stored.
func (p *planes) at(x, y int) int { return p.img.COffset(p.img.Rect.Min.X+x, p.img.Rect.Min.Y+y) }

// stored writes the samples of rows y and y+1 to dst.
func (p *planes) stored(dst []uint64, y int) {
	i, j, n := p.at(0, y), p.at(0, p.below(y)), len(dst)
	cb0, cr0, cb1, cr1 := p.img.Cb[i:][:n], p.img.Cr[i:][:n], p.img.Cb[j:][:n], p.img.Cr[j:][:n]
	for x := range dst {
		dst[x] = uint64(cb0[x]) | uint64(cr0[x])<<16 | uint64(cb1[x])<<32 | uint64(cr1[x])<<48
	}
}

// between writes 3:1 sums to dst: of the samples that rows y and y+1 share, and of
// those above for the first, and below for the second.
func (p *planes) between(dst []uint64, y int) {
	last := (p.img.Rect.Dy() - 1) / 2
	i, j, k, n := p.at(0, 2*max(y/2-1, 0)), p.at(0, y), p.at(0, 2*min(y/2+1, last)), len(dst)
	cb0, cr0, cb1, cr1, cb2, cr2 := p.img.Cb[i:][:n], p.img.Cr[i:][:n], p.img.Cb[j:][:n], p.img.Cr[j:][:n], p.img.Cb[k:][:n], p.img.Cr[k:][:n]
	for x := range dst {
		near := uint64(cb1[x]) | uint64(cr1[x])<<16
		dst[x] = 3*each*near + (uint64(cb0[x]) | uint64(cr0[x])<<16 | uint64(cb2[x])<<32 | uint64(cr2[x])<<48)
	}
}

// double makes two samples of chroma of each sum, with one rounding each.
func (p *planes) double(even, odd uint64) {
	s, dst := p.sums, p.chroma
	left := s[0]
	for i, right := range s[1:] {
		v, to := s[i], dst[2*i:2*i+2:2*i+2]
		to[0], to[1] = (3*v+left+even)>>4&byteFour, (3*v+right+odd)>>4&byteFour
		left = v
	}
	n := len(s)
	v := s[n-1]
	dst[2*n-2] = (3*v + left + even) >> 4 & byteFour
	if 2*n-1 < len(dst) {
		dst[2*n-1] = (4*v + odd) >> 4 & byteFour
	}
}
