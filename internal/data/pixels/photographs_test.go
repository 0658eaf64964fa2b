package pixels

import (
	"bytes"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/pythontest"
)

// TestResizePhotographs checks every pixel of decoded and resized photographs against
// Pillow.
func TestResizePhotographs(t *testing.T) {
	data := os.Getenv("ATTACH_DATA")
	if data == "" {
		t.Skip("ATTACH_DATA names no folder of data sets")
	}
	folder := filepath.Join(data, "imagenet_sample")
	python := pythontest.Find(t, "PIL", "numpy")
	out := filepath.Join(t.TempDir(), "pillow.npz")
	if b, err := exec.Command(python, testdata+"/resize_folder.py", folder, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jpg"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d photographs, error %v", len(files), err)
	}
	var photographs []image.Image
	for i := 0; i < len(files); i += 3 {
		b, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(bytes.NewReader(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		photographs = append(photographs, m)
	}
	z, err := npy.OpenNPZ(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func(m image.Image) *Image
	}{
		{"decoded", From},
		{"bilinear256", func(m image.Image) *Image { return Resize(m, 256, 256, Bilinear).Centre(224, 224) }},
		{"bicubic256", func(m image.Image) *Image { return Resize(m, 256, 256, Bicubic).Centre(224, 224) }},
		{"bilinear96", func(m image.Image) *Image { return Resize(m, 96, 96, Bilinear) }},
		{"bicubic96", func(m image.Image) *Image { return Resize(m, 96, 96, Bicubic) }},
	} {
		l, err := z.Entry(c.name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := l.Open()
		if err != nil {
			t.Fatal(err)
		}
		largest, sum, n := 0, 0, 0
		for i, m := range photographs {
			want, err := rows.ReadRows(i, 1)
			if err != nil {
				t.Fatal(err)
			}
			got, pillow := c.make(m).Pix, want.Data.([]uint8)
			largest = max(largest, distance(got, pillow))
			for j, v := range got {
				sum += max(int(v), int(pillow[j])) - min(int(v), int(pillow[j]))
			}
			n += len(got)
		}
		rows.Close()
		mean := float64(sum) / float64(n)
		t.Logf("%s: difference over %d photographs: at most %d of 255, mean %.3f", c.name, len(photographs), largest, mean)
		// JPEG decoders round at different steps, so small differences are allowed.
		if largest > 4 || mean > .1 {
			t.Errorf("%s differs by up to %d levels, more than 4, or by %.3f on average, more than .1", c.name, largest, mean)
		}
	}
}
