package pixels

import (
	"image"
	"image/color"
	"image/draw"
	"reflect"
	"slices"
	"testing"
)

// TestImages checks that From returns the same pixels for different image types.
func TestImages(t *testing.T) {
	grey := image.NewGray(image.Rect(1, 1, 4, 3))
	deep := image.NewGray16(grey.Rect)
	want := &Image{2, 3, 3, nil}
	for i := range grey.Pix {
		grey.Pix[i] = uint8(40 * i)
		deep.SetGray16(1+i%3, 1+i/3, color.Gray16{uint16(40*i)<<8 + 7})
		want.Pix = append(want.Pix, uint8(40*i), uint8(40*i), uint8(40*i))
	}
	part := image.NewGray(image.Rect(0, 0, 9, 9))
	draw.Draw(part, grey.Rect, grey, grey.Rect.Min, draw.Src)
	four := &Image{2, 3, 4, nil}
	for i := range 6 {
		four.Pix = append(append(four.Pix, want.Pix[3*i:3*i+3]...), 3)
	}
	for name, img := range map[string]image.Image{"grey": grey, "16 bits": deep, "part": part.SubImage(grey.Rect), "alpha": four, "any": struct{ image.Image }{want}} {
		if got := From(img); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestWindow(t *testing.T) {
	m := &Image{2, 3, 1, []uint8{1, 2, 3, 4, 5, 6}}
	for _, c := range []struct {
		got  *Image
		want []uint8
	}{
		{m.Centre(2, 3), []uint8{1, 2, 3, 4, 5, 6}},
		{m.Centre(1, 1), []uint8{2}},
		{m.Centre(1, 2), []uint8{1, 2}},
		{m.Centre(3, 3), []uint8{0, 0, 0, 1, 2, 3, 4, 5, 6}},
		{m.Padded(3, 4), []uint8{1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0}},
		{m.Padded(4, 5), []uint8{0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0}},
		{m.window(5, 5, 1, 1), []uint8{0}},
	} {
		if !slices.Equal(c.got.Pix, c.want) {
			t.Errorf("got %v, want %v", c.got.Pix, c.want)
		}
	}
}
