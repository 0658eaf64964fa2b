package inputs

import (
	"image"
	"image/color"
)

// pixels is an 8-bit image, rows of interleaved channels.
type pixels struct {
	h, w, c int
	pix     []uint8
}

func newPixels(h, w, c int) pixels {
	return pixels{h, w, c, make([]uint8, h*w*c)}
}

// convert returns m with 1 or 3 channels. Alpha is dropped, as Pillow's
// convert("RGB") does; grey is ITU-R 601 luma.
func (m pixels) convert(c int) pixels {
	if m.c == c {
		return m
	}
	out := newPixels(m.h, m.w, c)
	for i := range m.h * m.w {
		p := m.pix[i*m.c : (i+1)*m.c]
		q := out.pix[i*c : (i+1)*c]
		switch {
		case c == 1 && m.c < 3:
			q[0] = p[0]
		case c == 1:
			q[0] = luma(p[0], p[1], p[2])
		case m.c < 3:
			q[0], q[1], q[2] = p[0], p[0], p[0]
		default:
			copy(q, p[:3])
		}
	}
	return out
}

func luma(r, g, b uint8) uint8 {
	return uint8((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 1<<15) >> 16)
}

// fromImage returns an image's pixels: one channel if it is grey, else three.
// Sixteen-bit levels lose their low byte, and alpha is dropped.
func fromImage(img image.Image) pixels {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	switch img := img.(type) {
	case *image.Gray:
		out := newPixels(h, w, 1)
		for y := range h {
			copy(out.pix[y*w:(y+1)*w], img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):])
		}
		return out
	case *image.Gray16:
		out := newPixels(h, w, 1)
		for y := range h {
			src := img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):]
			for x := range w {
				out.pix[y*w+x] = src[2*x]
			}
		}
		return out
	case *image.NRGBA:
		return fromQuads(h, w, 1, func(y int) []uint8 { return img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):] })
	case *image.NRGBA64:
		return fromQuads(h, w, 2, func(y int) []uint8 { return img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):] })
	case *image.RGBA:
		if img.Opaque() {
			return fromQuads(h, w, 1, func(y int) []uint8 { return img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):] })
		}
	case *image.RGBA64:
		if img.Opaque() {
			return fromQuads(h, w, 2, func(y int) []uint8 { return img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):] })
		}
	case *image.Paletted:
		return fromPalette(img)
	case *image.YCbCr:
		return fromYCbCr(img)
	case *image.NYCbCrA: // only WebP has these
		return fromVP8(&img.YCbCr)
	}
	out := newPixels(h, w, 3)
	for y := range h {
		for x := range w {
			q := rgb(img.At(b.Min.X+x, b.Min.Y+y))
			copy(out.pix[(y*w+x)*3:], q[:])
		}
	}
	return out
}

func rgb(c color.Color) [3]uint8 {
	q := color.NRGBA64Model.Convert(c).(color.NRGBA64)
	return [3]uint8{uint8(q.R >> 8), uint8(q.G >> 8), uint8(q.B >> 8)}
}

func fromPalette(img *image.Paletted) pixels {
	var levels [256][3]uint8
	for i, c := range img.Palette {
		levels[i] = rgb(c)
	}
	b := img.Bounds()
	out := newPixels(b.Dy(), b.Dx(), 3)
	for y := range out.h {
		dst := out.pix[y*out.w*3 : (y+1)*out.w*3]
		for x, i := range img.Pix[y*img.Stride:][:out.w] {
			copy(dst[3*x:], levels[i][:])
		}
	}
	return out
}

// fromQuads takes three of four samples, each of size bytes with the high one
// first.
func fromQuads(h, w, size int, row func(y int) []uint8) pixels {
	out := newPixels(h, w, 3)
	for y := range h {
		src := row(y)
		dst := out.pix[y*w*3 : (y+1)*w*3]
		for x := range w {
			s := src[4*size*x:]
			dst[3*x], dst[3*x+1], dst[3*x+2] = s[0], s[size], s[2*size]
		}
	}
	return out
}

// toImage returns m for display.
func (m pixels) toImage() image.Image {
	if m.c < 3 {
		g := m.convert(1)
		return &image.Gray{Pix: g.pix, Stride: m.w, Rect: image.Rect(0, 0, m.w, m.h)}
	}
	out := image.NewNRGBA(image.Rect(0, 0, m.w, m.h))
	for i := range m.h * m.w {
		copy(out.Pix[4*i:4*i+3], m.pix[i*m.c:])
		out.Pix[4*i+3] = 255
	}
	return out
}
