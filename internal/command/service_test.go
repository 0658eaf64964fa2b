package command

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/image/draw"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/preprocess"
)

// TestServiceAnswersAsPredict checks that a service predicts the same as `attach predict`
// for every JPEG in a folder. The service gets one image per request, and many requests at
// the same time.
func TestServiceAnswersAsPredict(t *testing.T) {
	useTestRuntime(t)
	dir := t.TempDir()
	pictures := filepath.Join(dir, "pictures")
	writeJPEGs(t, pictures)
	config := filepath.Join(dir, "preprocess.json")
	if err := os.WriteFile(config, []byte(`{"size": {"height": 24, "width": 24}, "image_mean": [0.5], "image_std": [0.5]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	fitted := filepath.Join(dir, "m.attach")
	var stdout, stderr bytes.Buffer
	for _, args := range [][]string{
		{"fit", models + "digits_resnet.onnx", "--x", models + "digits_fit.npz", "--rows", ":300", "--preprocess", config, "-o", fitted},
		{"predict", fitted, "--x", pictures},
	} {
		if stdout.Reset(); Run(t.Context(), args, nil, &stdout, &stderr) != exitDone {
			t.Fatal(stderr.String())
		}
	}
	rows, err := csv.NewReader(&stdout).ReadAll()
	if err != nil || len(rows) < 101 {
		t.Fatalf("%d lines, error %v", len(rows), err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }

	b, err := attach.Open(fitted)
	if err != nil {
		t.Fatal(err)
	}
	m, err := featurize.OpenFor(t.Context(), b, "", featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := m.Predict(r.Context(), predictor, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, p[0].Class, p[0].PValue, p[0].Score, p[0].Flag)
	}))
	defer service.Close()
	var requests sync.WaitGroup
	for _, row := range rows[1:] {
		requests.Go(func() {
			content, err := os.ReadFile(filepath.Join(pictures, row[column("input")]))
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := http.Post(service.URL, "image/jpeg", bytes.NewReader(content))
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			var class, flag string
			var p, score float64
			if _, err := fmt.Sscan(string(text), &class, &p, &score, &flag); err != nil {
				t.Errorf("%s: %s", row[0], text)
				return
			}
			// Results may be rounded differently if the batch size differs.
			isClose := func(a float64, name string, tolerance float64) bool {
				b, err := strconv.ParseFloat(row[column(name)], 64)
				return err == nil && math.Abs(a-b) <= tolerance*math.Abs(b)
			}
			if class != row[column("class")] || flag != row[column("flag")] || !isClose(p, "p_value", 1e-8) || !isClose(score, "ood_score", 1e-5) {
				t.Errorf("the service says %s, predict %v", text, row)
			}
		})
	}
	requests.Wait()
}

// writeJPEGs writes JPEG files as a service may receive them. They differ in size, colours,
// number of components, EXIF orientation, subsampling and quality.
func writeJPEGs(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	jpegPaths, err := filepath.Glob("../../preprocess/testdata/jpeg/*.jpg")
	if err != nil || len(jpegPaths) == 0 {
		t.Fatalf("%d pictures, error %v", len(jpegPaths), err)
	}
	jpegPaths = append(jpegPaths, "../../preprocess/testdata/cmyk.jpg")
	if data := os.Getenv("ATTACH_DATA"); data != "" {
		extra, _ := filepath.Glob(filepath.Join(data, "imagenet_sample", "*.jpg"))
		jpegPaths = append(jpegPaths, extra...)
	}
	for _, path := range jpegPaths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write("ready_"+filepath.Base(path), content)
	}
	digits, err := filepath.Glob(models + "images/?/*.png")
	if err != nil || len(digits) == 0 {
		t.Fatalf("%d digits, error %v", len(digits), err)
	}
	for i := range 100 {
		f, err := os.Open(digits[i%len(digits)])
		if err != nil {
			t.Fatal(err)
		}
		img, err := preprocess.Decode(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		size := image.Rect(0, 0, 8+i*37%301, 8+i*53%211)
		var picture draw.Image = image.NewRGBA(size)
		if i%4 == 0 {
			picture = image.NewGray(size)
		} else {
			draw.Draw(picture, size, image.NewUniform(color.RGBA{uint8(9 * i), uint8(5 * i), uint8(7 * i), 255}), image.Point{}, draw.Src)
		}
		draw.BiLinear.Scale(picture, size.Inset(i%3), img, img.Bounds(), draw.Src, nil)
		var b bytes.Buffer
		if err := jpeg.Encode(&b, picture, &jpeg.Options{Quality: 40 + i%60}); err != nil {
			t.Fatal(err)
		}
		content := b.Bytes()
		if i%5 == 0 {
			// Insert an EXIF orientation tag after the first two bytes of the JPEG file.
			orientation := "\xff\xe1\x00\x22Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
			content = slices.Concat(content[:2], []byte(orientation), content[2:])
		}
		write(fmt.Sprintf("digit_%02d.jpg", i), content)
	}
}
