// Package pixels decodes images, and crops, pads and resizes them as Pillow does.
package pixels

import (
	"image"
	"image/color"
)

// Image is an 8-bit image. Pix holds its rows with interleaved channels: 1 (grey), 3 (RGB)
// or 4 (RGBA). Conversions drop the alpha channel.
type Image struct {
	Height, Width, Channels int
	Pix                     []uint8
}

// ColorModel implements image.Image.
func (m *Image) ColorModel() color.Model { return color.NRGBAModel }

// Bounds implements image.Image.
func (m *Image) Bounds() image.Rectangle { return image.Rect(0, 0, m.Width, m.Height) }

// At implements image.Image.
func (m *Image) At(x, y int) color.Color {
	p := m.Pix[(y*m.Width+x)*m.Channels:]
	if m.Channels < 3 {
		return color.NRGBA{p[0], p[0], p[0], 255}
	}
	return color.NRGBA{p[0], p[1], p[2], 255}
}

// RGBA returns m as an *image.RGBA, which image encoders process quickly.
func (m *Image) RGBA() *image.RGBA {
	out := image.NewRGBA(m.Bounds())
	for i, p := 0, m.Convert(3).Pix; i < len(out.Pix); i, p = i+4, p[3:] {
		out.Pix[i], out.Pix[i+1], out.Pix[i+2], out.Pix[i+3] = p[0], p[1], p[2], 255
	}
	return out
}

// New returns a black image of c channels.
func New(h, w, c int) *Image {
	return &Image{h, w, c, make([]uint8, h*w*c)}
}

// Convert returns m with c channels, 1 or 3. Grey is computed as ITU-R 601 luma. Alpha is
// dropped, as in Pillow's convert("RGB").
func (m *Image) Convert(c int) *Image {
	if m.Channels == c {
		return m
	}
	out := New(m.Height, m.Width, c)
	for i := range m.Height * m.Width {
		p := m.Pix[i*m.Channels : (i+1)*m.Channels]
		q := out.Pix[i*c : (i+1)*c]
		switch {
		case c == 1:
			q[0] = luma(p[0], p[1], p[2])
		case m.Channels < 3:
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

// From returns the pixels of img in three channels. An *Image with one channel is returned
// unchanged. 16-bit levels lose their low byte, and alpha is dropped.
func From(img image.Image) *Image {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	switch img := img.(type) {
	case *Image:
		if img.Channels == 4 {
			return img.Convert(3)
		}
		return img
	case *image.Gray:
		out := New(h, w, 3)
		for i := range h * w {
			v := img.Pix[i/w*img.Stride+i%w]
			out.Pix[3*i], out.Pix[3*i+1], out.Pix[3*i+2] = v, v, v
		}
		return out
	case *image.NRGBA:
		return fromQuads(h, w, 1, img.Pix[img.PixOffset(b.Min.X, b.Min.Y):], img.Stride)
	case *image.NRGBA64:
		return fromQuads(h, w, 2, img.Pix[img.PixOffset(b.Min.X, b.Min.Y):], img.Stride)
	case *image.RGBA:
		if img.Opaque() {
			return fromQuads(h, w, 1, img.Pix[img.PixOffset(b.Min.X, b.Min.Y):], img.Stride)
		}
	case *image.RGBA64:
		if img.Opaque() {
			return fromQuads(h, w, 2, img.Pix[img.PixOffset(b.Min.X, b.Min.Y):], img.Stride)
		}
	case *image.Paletted:
		return fromPalette(img)
	case *image.YCbCr:
		return fromYCbCr(img)
	case *image.NYCbCrA: // only the WebP decoder returns this type
		return fromVP8(&img.YCbCr)
	}
	out := New(h, w, 3)
	for i := range h * w {
		q := rgb(img.At(b.Min.X+i%w, b.Min.Y+i/w))
		copy(out.Pix[3*i:], q[:])
	}
	return out
}

func rgb(c color.Color) [3]uint8 {
	q := color.NRGBA64Model.Convert(c).(color.NRGBA64)
	return [3]uint8{uint8(q.R >> 8), uint8(q.G >> 8), uint8(q.B >> 8)}
}

func fromPalette(img *image.Paletted) *Image {
	var levels [256][3]uint8
	for i, c := range img.Palette {
		levels[i] = rgb(c)
	}
	b := img.Bounds()
	out := New(b.Dy(), b.Dx(), 3)
	for y := range out.Height {
		dst := out.Pix[y*out.Width*3 : (y+1)*out.Width*3]
		for x, i := range img.Pix[y*img.Stride:][:out.Width] {
			copy(dst[3*x:], levels[i][:])
		}
	}
	return out
}

// fromQuads returns the first three of every four samples in pix. Each sample has size
// bytes, and only its first (high) byte is kept. Rows begin stride bytes apart.
func fromQuads(h, w, size int, pix []uint8, stride int) *Image {
	out := New(h, w, 3)
	for y := range h {
		src := pix[y*stride:]
		dst := out.Pix[y*w*3 : (y+1)*w*3]
		for x := range w {
			s := src[4*size*x:]
			dst[3*x], dst[3*x+1], dst[3*x+2] = s[0], s[size], s[2*size]
		}
	}
	return out
}
