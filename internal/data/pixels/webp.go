package pixels

import "image"

// fromVP8 converts a decoded lossy WebP image to RGB. VP8 stores video levels, luma in
// 16…235 and chroma in 16…240 (ITU-R 601), but the standard library's image.YCbCr assumes
// the full range. fromVP8 interpolates chroma and rounds as libwebp does.
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
			u := interpolate(u0[i], u0[j], u1[i], u1[j])
			v := interpolate(v0[i], v0[j], v1[i], v1[j])
			dst[3*x], dst[3*x+1], dst[3*x+2] = fromStudio(l, u, v)
		}
	}
	return out
}

// interpolate returns (9·near + 3·beside + 3·across + diagonal)/16, rounded as in libwebp.
// The arguments are the four nearest chroma samples.
func interpolate(near, beside, across, diagonal uint8) int32 {
	n, b, a, d := int32(near), int32(beside), int32(across), int32(diagonal)
	return (n + (n+3*b+3*a+d+8)>>3) >> 1
}

// fromStudio converts ITU-R 601 video levels to RGB in the fixed-point arithmetic of
// libwebp. Products keep six fractional bits. The constants subtract the offsets of luma
// (16) and chroma (128), and round.
func fromStudio(luma uint8, u, v int32) (r, g, b uint8) {
	y := int32(luma) * 19077 >> 8
	return limit((y + v*26149>>8 - 14234) >> 6),
		limit((y - u*6419>>8 - v*13320>>8 + 8708) >> 6),
		limit((y + u*33050>>8 - 17685) >> 6)
}

func limit(v int32) uint8 { return uint8(min(max(v, 0), 255)) }
