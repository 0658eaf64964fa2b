package inputs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/pythontest"
)

// sharedData returns the folder of real data sets, and skips where it is
// absent.
func sharedData(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ATTACH_DATA"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		data := filepath.Join(dir, "shared", "data")
		if fi, err := os.Stat(data); err == nil && fi.IsDir() {
			return data
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no shared data sets here; set ATTACH_DATA to their folder")
		}
	}
}

// TestResizePhotographs compares decoding and resizing of real photographs
// with Pillow at every pixel.
func TestResizePhotographs(t *testing.T) {
	folder := filepath.Join(sharedData(t), "imagenet_sample")
	python := pythontest.Find(t, "PIL", "numpy")
	out := filepath.Join(t.TempDir(), "pillow.npz")
	if b, err := exec.Command(python, "testdata/resize_folder.py", folder, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jpg"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d photographs, error %v", len(files), err)
	}
	z, err := npy.OpenNPZ(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func(m pixels) pixels
	}{
		{"decoded", func(m pixels) pixels { return m }},
		{"bilinear256", func(m pixels) pixels { return m.resize(256, 256, Bilinear).centre(224, 224) }},
		{"bicubic256", func(m pixels) pixels { return m.resize(256, 256, Bicubic).centre(224, 224) }},
		{"bilinear96", func(m pixels) pixels { return m.resize(96, 96, Bilinear) }},
		{"bicubic96", func(m pixels) pixels { return m.resize(96, 96, Bicubic) }},
	} {
		l, err := z.Entry(c.name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := l.Open()
		if err != nil {
			t.Fatal(err)
		}
		most, sum, n := 0, 0, 0
		for i, f := range files {
			want, err := rows.ReadRows(i, 1)
			if err != nil {
				t.Fatal(err)
			}
			m, err := decodeFile(f, anySize)
			if err != nil {
				t.Fatal(err)
			}
			got, pillow := c.make(m.convert(3)).pix, want.Data.([]uint8)
			most = max(most, distance(got, pillow))
			for j, v := range got {
				sum += max(int(v), int(pillow[j])) - min(int(v), int(pillow[j]))
			}
			n += len(got)
		}
		rows.Close()
		mean := float64(sum) / float64(n)
		t.Logf("%s: difference over %d photographs: at most %d of 255, mean %.3f", c.name, len(files), most, mean)
		// Decoders of JPEG round in their own places.
		if most > 4 || mean > .1 {
			t.Errorf("%s differs by up to %d levels, more than 4, or by %.3f on average, more than .1", c.name, most, mean)
		}
	}
}

// TestSharedSets opens every real data set and reads some rows of each.
func TestSharedSets(t *testing.T) {
	data := sharedData(t)
	models := filepath.Join(data, "..", "models")
	for _, c := range []struct {
		file, preprocess, target string
		rows, width              int
	}{
		{"mnist_test.npz", "five_class_gray", "", 10000, 1024},
		{"fashion_test.npz", "five_class_gray", "", 10000, 1024},
		{"cifar10_test.npz", "cifar10_resnet", "", 10000, 3072},
		{"cifar100_test.npz", "five_class_rgb", "", 2000, 3072},
		{"imagenet_sample", "imagenet_mobilenetv2", "", 100, 150528},
		{"california.csv", "", "MedHouseVal", 20640, 8},
		{"uci/bostonHousing.txt", "", "last", 506, 13},
		{"uci/concrete.txt", "", "last", 1030, 8},
		{"uci/energy.txt", "", "last", 768, 8},
		{"uci/kin8nm.txt", "", "last", 8192, 8},
		{"uci/naval-propulsion-plant.txt", "", "last", 11934, 17},
		{"uci/power-plant.txt", "", "last", 9568, 4},
		{"uci/wine-quality-red.txt", "", "last", 1599, 11},
		{"uci/yacht.txt", "", "last", 308, 6},
	} {
		o := Options{Target: c.target}
		if c.preprocess != "" {
			p, err := LoadPreprocess(filepath.Join(models, c.preprocess+".preprocess.json"))
			if err != nil {
				t.Skip("no preprocessing files beside the data")
			}
			o.Preprocess = p
		}
		s := open(t, filepath.Join(data, c.file), o)
		y, ok := s.Targets()
		if s.Len() != c.rows || s.RowLen() != c.width || ok != (c.file != "imagenet_sample") || ok && y.Rows != c.rows {
			t.Errorf("%s: %d rows of %v, targets %v of %d", c.file, s.Len(), s.Shape(), ok, y.Rows)
		}
		read(t, s.Head(40), 16)
	}
	for file, column := range map[string]string{"abalone.csv": "column 1: \"M\"", "star/kdg.csv": "column 3 (gr)"} {
		_, err := Open(context.Background(), filepath.Join(data, file), Options{Target: "last"})
		wantError(t, err, file, column)
	}
}
