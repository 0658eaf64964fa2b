package pixels

import (
	"bytes"
	"errors"
	"image"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
)

// testdata contains pictures, their pixels as decoded by Pillow, and the script make.py
// that wrote them.
const testdata = "../../../preprocess/testdata"

// reference reads an array that make.py wrote.
func reference(t *testing.T, file, name string) ([]int, []uint8) {
	t.Helper()
	z, err := npy.OpenNPZ(filepath.Join(testdata, file))
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
	return a.Shape, a.Data.([]uint8)
}

func references(t *testing.T, file string) []string {
	t.Helper()
	z, err := npy.OpenNPZ(filepath.Join(testdata, file))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.Names()) == 0 {
		t.Fatalf("%s holds nothing", file)
	}
	return z.Names()
}

// distance returns the largest absolute difference between levels of a and b.
func distance(a, b []uint8) int {
	largest := 0
	for i := range a {
		largest = max(largest, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return largest
}

// TestDecode checks the pixels of every image format against Pillow.
func TestDecode(t *testing.T) {
	for _, name := range references(t, "decoded.npz") {
		shape, want := reference(t, "decoded.npz", name)
		path := filepath.Join(testdata, name)
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(testdata, "jpeg", name)
		}
		m := decode(t, strings.TrimPrefix(path, testdata))
		if len(shape) == 2 {
			m = m.Convert(1)
		}
		if m.Height != shape[0] || m.Width != shape[1] {
			t.Errorf("%s: %d×%d, want %v", name, m.Height, m.Width, shape)
			continue
		}
		allowed := 0
		if filepath.Ext(name) == ".jpg" {
			allowed = 3 // the JPEG standard leaves rounding to the decoder
		}
		if d := distance(m.Pix, want); d > allowed {
			t.Errorf("%s: levels differ by up to %d", name, d)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	png, err := os.ReadFile(testdata + "/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	jpeg, err := os.ReadFile(testdata + "/jpeg/420.jpg")
	if err != nil {
		t.Fatal(err)
	}
	huge := append([]byte{}, png...)
	copy(huge[16:], "\x00\x0f\xff\xff\x00\x0f\xff\xff")
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty": {nil, "not a readable image"}, "text": {[]byte("hello"), "not a readable image"}, "cut": {png[:len(png)/2], "not a readable image"},
		"half": {jpeg[:len(jpeg)*3/4], "not a readable image"}, "huge": {huge, "not a readable image"},
		"too large": {[]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), "an image of 65535×65535 is over the limit of 134217728 pixels"},
	} {
		for _, r := range []io.Reader{bytes.NewReader(c.b), io.MultiReader(bytes.NewReader(c.b))} {
			if m, err := Decode(r, nil); m != nil || !errors.Is(err, ErrImage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want it to say %q", name, err, c.want)
			}
		}
	}
	if m, err := Decode(io.MultiReader(bytes.NewReader(png)), nil); err != nil || m.Bounds() != image.Rect(0, 0, 37, 29) {
		t.Errorf("without seeking: %v", err)
	}
}

func decode(t testing.TB, name string) *Image {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := Decode(f, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return From(m)
}
