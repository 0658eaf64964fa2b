package jpeg

import (
	"bytes"
	"errors"
	"image"
	stdjpeg "image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func seeds(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.jpg")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files, error %v; want at least 20", len(paths), err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = b
	}
	return out
}

// TestAgainstStandard compares every plane with the standard library's, which
// rounds in another place. The exact comparison, with Pillow's levels, is in
// package inputs, which converts the planes to RGB.
func TestAgainstStandard(t *testing.T) {
	for name, b := range seeds(t) {
		got, err := Decode(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := stdjpeg.Decode(bytes.NewReader(b))
		if name == "restart_progressive.jpg" && err != nil {
			continue // Go 1.26 does not read restarts in progressive scans.
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Bounds() != want.Bounds() {
			t.Errorf("%s: bounds %v, want %v", name, got.Bounds(), want.Bounds())
			continue
		}
		switch want := want.(type) {
		case *image.Gray:
			compare(t, name, got.(*image.Gray).At, want.At, want.Bounds())
		case *image.YCbCr:
			g := got.(*image.YCbCr)
			if g.SubsampleRatio != want.SubsampleRatio {
				t.Errorf("%s: %v, want %v", name, g.SubsampleRatio, want.SubsampleRatio)
			}
			b := want.Bounds()
			for y := range b.Dy() {
				for x := range b.Dx() {
					p, q := g.YCbCrAt(x, y), want.YCbCrAt(x, y)
					if differ(p.Y, q.Y) || differ(p.Cb, q.Cb) || differ(p.Cr, q.Cr) {
						t.Fatalf("%s: %v at %d,%d, want about %v", name, p, x, y, q)
					}
				}
			}
		}
	}
}

func differ(a, b uint8) bool { return max(a, b)-min(a, b) > 1 }

func compare[C interface{ RGBA() (r, g, b, a uint32) }](t *testing.T, name string, got, want func(x, y int) C, b image.Rectangle) {
	t.Helper()
	for y := range b.Dy() {
		for x := range b.Dx() {
			p, _, _, _ := got(x, y).RGBA()
			q, _, _, _ := want(x, y).RGBA()
			if differ(uint8(p>>8), uint8(q>>8)) {
				t.Fatalf("%s: level %d at %d,%d, want about %d", name, p>>8, x, y, q>>8)
			}
		}
	}
}

// TestInverse compares the fixed-point transform with the definition.
func TestInverse(t *testing.T) {
	var ones [64]int32
	for i := range ones {
		ones[i] = 1
	}
	for seed := range 20 {
		var coef [64]int16
		coef[0] = int16(40*seed - 400)
		coef[(7*seed+1)%64] += int16(90 - 11*seed)
		coef[(13*seed+5)%64] -= int16(60 - 9*seed)
		var got [64]uint8
		inverse(coef[:], &ones, got[:], 8)
		for i, want := range definition(coef) {
			if d := float64(got[i]) - want; d > 0.56 || d < -0.56 {
				t.Errorf("case %d: sample %d is %d, want %.2f rounded", seed, i, got[i], want)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	b := seeds(t)["420.jpg"]
	for _, n := range []int{0, 1, 2, 20, len(b) / 2, len(b) - 20} {
		if _, err := Decode(b[:n]); err == nil {
			t.Errorf("no error of the first %d bytes", n)
		}
	}
	frame := bytes.Index(b, []byte{0xff, sof0})
	for name, change := range map[string]func(b []byte){
		"12 bits":    func(b []byte) { b[frame+4] = 12 },
		"arithmetic": func(b []byte) { b[frame+1] = 0xc9 },
		"sampling":   func(b []byte) { b[frame+14] = 0x22 },
		"huge":       func(b []byte) { copy(b[frame+5:], "\xff\xff\xff\xff") },
	} {
		c := bytes.Clone(b)
		change(c)
		if _, err := Decode(c); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: error %v, want ErrUnsupported", name, err)
		}
	}
	if _, err := Decode([]byte("\x89PNG")); err == nil || !strings.Contains(err.Error(), "not a JPEG") {
		t.Errorf("error %v of a PNG", err)
	}
}

// FuzzDecode checks that no file makes Decode panic, or gives planes that do
// not hold the image.
func FuzzDecode(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if cfg, err := stdjpeg.DecodeConfig(bytes.NewReader(b)); err == nil && cfg.Width*cfg.Height > 1<<20 {
			return
		}
		img, err := Decode(b)
		if err != nil {
			return
		}
		r := img.Bounds()
		img.At(r.Max.X-1, r.Max.Y-1).RGBA()
	})
}

func BenchmarkDecode(b *testing.B) {
	data := seeds(b)["420.jpg"]
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
