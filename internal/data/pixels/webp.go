package pixels

import "image"

// fromVP8 converts a decoded lossy WebP to RGB. VP8 uses video levels, luma in 16…235 and
// chroma in 16…240 (ITU-R 601), while the standard library's image.YCbCr assumes the full
// range. Chroma is interpolated and everything is rounded as in libwebp.
func fromVP8(img *image.YCbCr) *Image {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	out := New(h, w, 3)
	for y := range h {
		near := y / 2
		far := min(max(near-1+2*(y%2), 0), (h+1)/2-1)
		luma := img.Y[y*img.YStride:][:w]
		u0, u1 := img.Cb[near*img.CStride:], img.Cb[far*img.CStride:]
		v0, v1 := img.Cr[near*img.CStride:], img.Cr[far*img.CStride:]
		dst := out.Pix[y*w*3 : (y+1)*w*3]
		for x, l := range luma {
			i := x / 2
			j := min(max(i-1+2*(x%2), 0), (w+1)/2-1)
			u := between(u0[i], u0[j], u1[i], u1[j])
			v := between(v0[i], v0[j], v1[i], v1[j])
			dst[3*x], dst[3*x+1], dst[3*x+2] = fromStudio(l, u, v)
		}
	}
	return out
}

// between returns (9·near + 3·beside + 3·across + diagonal)/16 with the rounding of libwebp.
func between(near, beside, across, diagonal uint8) int32 {
	n, b, a, d := int32(near), int32(beside), int32(across), int32(diagonal)
	return (n + (n+3*b+3*a+d+8)>>3) >> 1
}

// fromStudio is the ITU-R 601 conversion in the fixed-point arithmetic of libwebp: products
// keep six fractional bits, and the constants subtract the offsets of 16 and 128 and round.
func fromStudio(luma uint8, u, v int32) (r, g, b uint8) {
	y := int32(luma) * 19077 >> 8
	return limit((y + v*26149>>8 - 14234) >> 6),
		limit((y - u*6419>>8 - v*13320>>8 + 8708) >> 6),
		limit((y + u*33050>>8 - 17685) >> 6)
}

func limit(v int32) uint8 { return uint8(min(max(v, 0), 255)) }
