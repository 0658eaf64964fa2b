package pixels

import (
	"image"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomYCbCr returns an image with random levels. About half of the levels are 0 or 255.
func randomYCbCr(r *rand.Rand, w, h int, ratio image.YCbCrSubsampleRatio) *image.YCbCr {
	m := image.NewYCbCr(image.Rect(0, 0, w, h), ratio)
	for _, plane := range [][]uint8{m.Y, m.Cb, m.Cr} {
		for i := range plane {
			plane[i] = uint8(r.Uint32())
			if r.IntN(2) == 0 {
				plane[i] = plane[i] >> 7 * 255
			}
		}
	}
	return m
}

// TestRGB checks colours against the formulas of JFIF.
func TestRGB(t *testing.T) {
	m := randomYCbCr(rand.New(rand.NewPCG(1, 2)), 101, 83, image.YCbCrSubsampleRatio444)
	got := From(m)
	for i := range m.Y {
		y, cb, cr := float64(m.Y[i]), float64(m.Cb[i])-128, float64(m.Cr[i])-128
		for c, want := range []float64{y + 1.402*cr, y - .344136*cb - .714136*cr, y + 1.772*cb} {
			if d := math.Abs(float64(got.Pix[3*i+c]) - min(max(want, 0), 255)); d > .51 {
				t.Fatalf("channel %d of %v, %v and %v: got %d, want %v", c, y, cb, cr, got.Pix[3*i+c], want)
			}
		}
	}
}

// TestResizeYCbCr checks that resizing a JPEG during conversion equals resizing after it.
func TestResizeYCbCr(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio410; ratio++ {
		for range 20 {
			m := randomYCbCr(r, 1+r.IntN(30), 1+r.IntN(30), ratio)
			if r.IntN(3) == 0 {
				m = m.SubImage(image.Rect(r.IntN(m.Rect.Dx()), r.IntN(m.Rect.Dy()), m.Rect.Dx(), m.Rect.Dy())).(*image.YCbCr)
			}
			for f := Nearest; f <= Hamming; f++ {
				h, w := 1+r.IntN(40), 1+r.IntN(40)
				if got, want := Resize(m, h, w, f), From(m).Resize(h, w, f); !slices.Equal(got.Pix, want.Pix) {
					t.Fatalf("%v of %v by filter %d to %d×%d: levels differ by up to %d", m.Rect, ratio, f, h, w, distance(got.Pix, want.Pix))
				}
			}
		}
	}
}
