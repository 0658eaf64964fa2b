package inputs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestSharedSets checks that the real data sets can be opened, and that some rows of each
// can be read. Tables with a column of texts must give an error that names the column.
func TestSharedSets(t *testing.T) {
	data := os.Getenv("ATTACH_DATA")
	if data == "" {
		t.Skip("ATTACH_DATA names no folder of data sets")
	}
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
		var o Options
		if c.target != "" {
			o.Targets = []string{c.target}
		}
		if c.preprocess != "" {
			b, err := os.ReadFile(filepath.Join(models, c.preprocess+".preprocess.json"))
			if err != nil {
				t.Skip("no preprocessing files beside the data")
			}
			o.Preprocess = pipeline(t, string(b))
		}
		s := open(t, filepath.Join(data, c.file), o)
		y, ok := s.Targets, s.Targets.Rows > 0
		if s.Len() != c.rows || s.RowLen() != c.width || ok != (c.file != "imagenet_sample") || ok && y.Rows != c.rows {
			t.Errorf("%s: %d rows of %v, targets %v of %d", c.file, s.Len(), s.Shape(), ok, y.Rows)
		}
		some, err := s.Slice(Slice{End: 40, Ends: true})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, some, 16)
	}
	for file, column := range map[string]string{"abalone.csv": "column 1: \"M\"", "star/kdg.csv": "column \"gr\""} {
		_, err := Open(context.Background(), filepath.Join(data, file), Options{Targets: []string{"last"}})
		wantError(t, err, file, column)
	}
}
