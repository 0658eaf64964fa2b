package networks

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// writeImages writes a file of images of one set.
func writeImages(t *testing.T, path string, shape []int, pixels []uint8, labels []uint8) {
	t.Helper()
	arrays := map[string]rows.Array{"images": {Shape: shape, Data: pixels}, "labels": {Shape: []int{len(labels)}, Data: labels}}
	if err := experiment.WriteFile(path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) }); err != nil {
		t.Fatal(err)
	}
}

// TestForeignImages checks how images of a different size or with different channels are
// converted. Images larger than the input of the network must cause an error.
func TestForeignImages(t *testing.T) {
	dir := t.TempDir()
	colors := filepath.Join(dir, "colors.npz")
	writeImages(t, colors, []int{1, 2, 2, 3}, []uint8{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}, []uint8{0})
	grey := filepath.Join(dir, "grey.npz")
	writeImages(t, grey, []int{1, 2, 2}, []uint8{51, 102, 153, 255}, []uint8{0})
	for name, text := range map[string]string{
		"gray": `{"do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": true, "image_mean": [0.5], "image_std": [0.5]}`,
		"rgb":  `{"do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": false, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".preprocess.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		label  string
		n      Network
		file   string
		layout string
		shape  []int
		want   []float32 // expected values times 255
	}{
		// Padding is black, which is −1 after normalisation. ITU-R 601 gives red 76, green
		// 150 and blue 29.
		{"grey", Network{preprocess: "gray"}, colors, "nchw", []int{1, 2, 2}, []float32{2*76 - 255, 2*150 - 255, 2*29 - 255, 255}},
		{"grey, padded", Network{preprocess: "gray"}, colors, "nchw", []int{1, 4, 4}, []float32{
			-255, -255, -255, -255, -255, 2*76 - 255, 2*150 - 255, -255, -255, 2*29 - 255, 255, -255, -255, -255, -255, -255,
		}},
		{"repeated", Network{}, grey, "nchw", []int{3, 2, 2}, []float32{51, 102, 153, 255, 51, 102, 153, 255, 51, 102, 153, 255}},
		{"repeated, channels last", Network{}, grey, "nhwc", []int{2, 2, 3}, []float32{51, 51, 51, 102, 102, 102, 153, 153, 153, 255, 255, 255}},
	} {
		o, err := c.n.inputOptions(dir, c.layout, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		set, err := part{file: c.file}.open(t.Context(), o, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := set.All(t.Context())
		if err != nil || !slices.Equal(set.Shape(), c.shape) || len(x.Data) != len(c.want) {
			t.Fatalf("%s: shape %v and %d numbers (%v), want shape %v", c.label, set.Shape(), len(x.Data), err, c.shape)
		}
		for i, v := range x.Data {
			if d := 255*v - c.want[i]; d > 1e-3 || d < -1e-3 {
				t.Errorf("%s: number %d is %v, want %v", c.label, i, 255*v, c.want[i])
			}
		}
	}
	o, err := Network{}.inputOptions(dir, "nchw", []int{3, 1, 1})
	if err == nil {
		_, err = part{file: grey}.open(t.Context(), o, 0, 0)
	}
	if err == nil || !strings.Contains(err.Error(), "grey.npz") {
		t.Errorf("error %v for images larger than the network's, want one that names the file", err)
	}
}

// TestDrawnRows checks that rows have only the requested classes, and that each label is an
// index into the list of requested classes. It also checks that the number of rows does not
// exceed the limit, that the seed determines the rows, and that sampleRows keeps labels and
// inputs together. Last, it checks how rowLimits parses --rows.
func TestDrawnRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set.npz")
	pixels, labels := make([]uint8, 100), make([]uint8, 100)
	for i := range pixels {
		pixels[i], labels[i] = uint8(i), uint8(i%10)
	}
	writeImages(t, path, []int{100, 1, 1}, pixels, labels)
	p, err := preprocess.Parse([]byte(`{"do_rescale": false}`))
	if err != nil {
		t.Fatal(err)
	}
	o := inputs.Options{Preprocess: p}
	draw := func(limit int, seed uint64) *inputs.Set {
		set, err := part{file: path, classes: FiveIn()}.open(t.Context(), o, limit, seed)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for _, c := range []struct{ limit, want int }{{0, 50}, {50, 50}, {99, 50}, {12, 12}} {
		if got := draw(c.limit, 0).Len(); got != c.want {
			t.Errorf("%d rows within %d, want %d", got, c.limit, c.want)
		}
	}
	set := draw(12, 0)
	x, err := set.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range set.Labels {
		if want := int(x.Data[i]) % 10; FiveIn()[y] != want {
			t.Errorf("row %d is of class %d, and its label is %d", i, want, y)
		}
	}
	again, _ := draw(12, 0).All(t.Context())
	other, _ := draw(12, 1).All(t.Context())
	if !slices.Equal(x.Data, again.Data) || slices.Equal(x.Data, other.Data) {
		t.Errorf("rows %v, again %v, by another seed %v", x.Data, again.Data, other.Data)
	}
	few, err := sampleRows(t.Context(), ood.Batch{Labels: set.Labels}, set, 5)
	if err != nil || few.Len() != 5 || few.Inputs.Len() != 5 {
		t.Fatalf("%d labels (%v), want 5", few.Len(), err)
	}
	for b, err := range few.Inputs.Blocks(t.Context(), 9) {
		for i, y := range few.Labels {
			if err != nil || FiveIn()[y] != int(b.Tensors[0].Data[i])%10 {
				t.Errorf("input %d is %v (%v), and its label is %d", i, b.Tensors[0].Data[i], err, y)
			}
		}
	}
	for text, want := range map[string][3]int{"7": {7, 7, 7}, "1,0,3": {1, 0, 3}} {
		if got, err := rowLimits(text); err != nil || got != want {
			t.Errorf("--rows %s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1,2", "1,2,x", "1,-2,3"} {
		if _, err := rowLimits(text); err == nil {
			t.Errorf("--rows %q is accepted", text)
		}
	}
}

// TestMissingFiles checks that all missing files are named at once, and each only once.
func TestMissingFiles(t *testing.T) {
	p := Plan{Settings: &experiment.Settings{Data: "nodata", Models: "nomodels", Sets: []string{"mnist_cnn", "cifar10_resnet20"}}, rows: "1"}
	err := p.Check(t.Context(), func(ood.Method) bool { return false }, "")
	if err == nil {
		t.Fatal("missing files are no error")
	}
	for _, file := range []string{"nomodels/mnist_cnn.onnx", "nomodels/cifar10_resnet20.onnx", "nomodels/cifar10_resnet.preprocess.json", "nodata/mnist_test.npz", "nodata/fashion_test.npz", "nodata/cifar100_test.npz"} {
		if n := strings.Count(err.Error(), filepath.FromSlash(file)); n != 1 {
			t.Errorf("%s is named %d times: %v", file, n, err)
		}
	}
}
