package inputs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/attach-uncertainty/attach/internal/npy"
)

// reference reads an array that testdata/make.py wrote.
func reference[T uint8 | float32](t *testing.T, file, name string) ([]int, []T) {
	t.Helper()
	z, err := npy.OpenNPZ(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	l, err := z.Entry(name)
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	return a.Shape, a.Data.([]T)
}

func references(t *testing.T, file string) []string {
	t.Helper()
	z, err := npy.OpenNPZ(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.Names()) == 0 {
		t.Fatalf("%s holds nothing", file)
	}
	return z.Names()
}

// distance is the greatest difference of two levels.
func distance(a, b []uint8) int {
	most := 0
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}

// TestDecode compares every kind of image, pixel by pixel, with Pillow.
func TestDecode(t *testing.T) {
	for _, name := range references(t, "decoded.npz") {
		shape, want := reference[uint8](t, "decoded.npz", name)
		path := filepath.Join("testdata", name)
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join("testdata", "jpeg", name)
		}
		m, err := decodeFile(path, anySize)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(shape) == 2 {
			m = m.convert(1)
		} else {
			m = m.convert(3)
		}
		if m.h != shape[0] || m.w != shape[1] {
			t.Errorf("%s: %d×%d, want %v", name, m.h, m.w, shape)
			continue
		}
		allowed := 0
		if filepath.Ext(name) == ".jpg" {
			allowed = 3 // JPEG leaves the rounding to the decoder
		}
		if d := distance(m.pix, want); d > allowed {
			t.Errorf("%s: levels differ by up to %d", name, d)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	dir := t.TempDir()
	png, err := os.ReadFile("testdata/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	huge := append([]byte{}, png...)
	copy(huge[16:], "\x00\x0f\xff\xff\x00\x0f\xff\xff")
	for name, b := range map[string][]byte{
		"empty.png": nil, "text.jpg": []byte("hello"), "cut.png": png[:len(png)/2], "huge.png": huge,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := decodeFile(path, anySize)
		wantError(t, err, path, "")
	}
	_, err = decodeFile(filepath.Join(dir, "none.png"), anySize)
	wantError(t, err, "none.png", "")
}
