package pixels

import (
	"fmt"
	"math"
	"testing"
)

// TestResize checks that every pixel value equals the one that Pillow's Image.resize
// produces.
func TestResize(t *testing.T) {
	photo := decode(t, "photo.png")
	for _, name := range references(t, "resized.npz") {
		shape, want := reference(t, "resized.npz", name)
		var f, h, w int
		if _, err := fmt.Sscanf(name, "%d_%dx%d", &f, &h, &w); err != nil {
			t.Fatal(err)
		}
		m := photo
		if len(shape) == 2 {
			m = m.Convert(1)
		}
		m = m.Resize(h, w, Filter(f))
		if m.Height != shape[0] || m.Width != shape[1] {
			t.Errorf("%s: got %d×%d", name, m.Height, m.Width)
		} else if d := distance(m.Pix, want); d > 0 {
			t.Errorf("filter %d to %d×%d: levels differ by up to %d", f, h, w, d)
		}
	}
}

// TestTaps checks that weights add up to one and belong to samples within the image.
func TestTaps(t *testing.T) {
	for f := int(Lanczos); f < len(filters); f++ {
		for _, size := range [][2]int{{1, 1}, {1, 9}, {9, 1}, {1000, 3}, {3, 1000}, {224, 256}, {375, 256}} {
			for i, tap := range tapsFor(size[0], size[1], filters[f]) {
				sum := 0
				for _, w := range tap.weights {
					sum += int(w)
				}
				if math.Abs(float64(sum)/(1<<fractionBits)-1) > 1e-4 {
					t.Errorf("filter %d, %d to %d: weights of sample %d sum to %v", f, size[0], size[1], i, float64(sum)/(1<<fractionBits))
				}
				if tap.first < 0 || tap.first+len(tap.weights) > size[0] {
					t.Errorf("filter %d, %d to %d: sample %d reaches outside", f, size[0], size[1], i)
				}
			}
		}
	}
}

func TestConstantStaysConstant(t *testing.T) {
	m := New(5, 7, 3)
	for i := range m.Pix {
		m.Pix[i] = 200
	}
	for f := range filters {
		for _, v := range m.Resize(11, 3, Filter(f)).Pix {
			if v != 200 {
				t.Fatalf("filter %d: level %d", f, v)
			}
		}
	}
}

// TestWithin checks that the longer side has the requested length, and that smaller images are
// unchanged.
func TestWithin(t *testing.T) {
	m := New(300, 200, 3)
	for i := range m.Pix {
		m.Pix[i] = 7
	}
	if small := Within(m, 60); small.Height != 60 || small.Width != 40 || small.Pix[60*40] != 7 {
		t.Errorf("%d×%d", small.Height, small.Width)
	}
	if thin := Within(New(1, 1000, 1), 10); thin.Height != 1 || thin.Width != 10 {
		t.Errorf("a thin picture becomes %d×%d", thin.Height, thin.Width)
	}
	if Within(m, 300) != m {
		t.Error("a picture that is small enough is changed")
	}
}

func BenchmarkResize(b *testing.B) {
	m := New(375, 500, 3)
	for i := range m.Pix {
		m.Pix[i] = uint8(i * 2654435761 >> 24)
	}
	for b.Loop() {
		m.Resize(256, 341, Bilinear)
	}
}
