package preprocess

import (
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/pixels"
)

// TestProcessors compares prepared images with the results of Hugging Face's image
// processors. Both use the same configuration files.
func TestProcessors(t *testing.T) {
	f, err := os.Open("testdata/photo.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	photo, err := Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	z, err := npy.OpenNPZ("testdata/processed.npz") // written by testdata/make.py
	if err != nil || len(z.Names()) == 0 {
		t.Fatalf("no references, error %v", err)
	}
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Read()
		if err != nil {
			t.Fatal(err)
		}
		shape, want := a.Shape, a.Data.([]float32)
		config, err := os.ReadFile(filepath.Join("testdata", name+".preprocess.json"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(config)
		if err != nil {
			t.Fatal(err)
		}
		got, have, err := p.Append([]float32{9}, photo)
		if err != nil || !slices.Equal(have, shape) || got[0] != 9 {
			t.Errorf("%s: shape %v, want %v, error %v", name, have, shape, err)
			continue
		}
		got = got[1:]
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Errorf("%s: %v at %v of %v, want %v", name, got[i], i, shape, want[i])
				break
			}
		}
		channelsLast, have, err := p.In("nhwc").Append(nil, photo)
		if err != nil || !slices.Equal(have, []int{shape[1], shape[2], shape[0]}) {
			t.Errorf("%s, channels last: shape %v, error %v", name, have, err)
			continue
		}
		for i, v := range got {
			if c, at := i/(shape[1]*shape[2]), i%(shape[1]*shape[2]); channelsLast[at*3+c] != v {
				t.Errorf("%s: channels last differ at %v", name, i)
				break
			}
		}
	}
}

// TestAppend checks the shapes of prepared images, and that invalid images are rejected.
func TestAppend(t *testing.T) {
	levels := func(h, w, c int, pix []uint8) image.Image {
		return &pixels.Image{Height: h, Width: w, Channels: c, Pix: pix}
	}
	grey := image.NewGray(image.Rect(1, 1, 4, 3))
	p := parse(t, `{"do_rescale": false}`)
	for _, c := range []struct {
		img  image.Image
		want []int
	}{{grey, []int{3, 2, 3}}, {levels(2, 3, 1, grey.Pix), []int{1, 2, 3}}} {
		if _, shape, err := p.Append(nil, c.img); err != nil || !slices.Equal(shape, c.want) {
			t.Errorf("shape %v, want %v, error %v", shape, c.want, err)
		}
	}
	if _, _, err := (&Pipeline{}).Append(nil, grey); err == nil {
		t.Error("no error for an empty pipeline")
	}
	for _, c := range []image.Image{
		&pixels.Image{}, levels(1, 1<<17, 1, nil),
		image.NewUniform(color.Black), &image.Gray{Rect: image.Rectangle{Max: image.Point{-1, 2}}},
	} {
		if dst, _, err := p.Append([]float32{1}, c); err == nil || len(dst) != 1 {
			t.Errorf("no error for an image of %v", c.Bounds())
		}
	}
}

// TestInPanics checks that In panics for a misspelt layout, because ignoring it would
// silently mix up axes.
func TestInPanics(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); s != `layout "NHWC" is neither nchw nor nhwc` {
			t.Errorf("recovered %q", s)
		}
	}()
	parse(t, `{"do_rescale": true}`).In("NHWC")
}

// parse parses a configuration and fails the test if there is an error.
func parse(t testing.TB, config string) *Pipeline {
	t.Helper()
	p, err := Parse([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestParse checks which pipeline each configuration gives.
func TestParse(t *testing.T) {
	mean, std := []float64{.5, .4, .3}, []float64{.1, .2, .3}
	for text, want := range map[string]Pipeline{
		`{}`:                    {rescale: 1. / 255},
		`{"do_rescale": false}`: {rescale: 1},
		`{"size": 8}`:           {rescale: 1. / 255, resize: size{box: box{8, 8}}, resample: pixels.Bilinear},
		`{"size": 8, "do_resize": false, "unknown": [1]}`: {rescale: 1. / 255},
		`{"size": 8, "crop_pct": null, "resample": 3, "feature_extractor_type": "CLIPFeatureExtractor"}`: {
			rescale: 1. / 255, resize: size{ShortestEdge: 8}, resample: pixels.Bicubic},
		`{"do_resize": true, "size": 224, "crop_pct": 0.875, "resample": 3}`: {
			rescale: 1. / 255, resize: size{ShortestEdge: 256}, resample: pixels.Bicubic, crop: box{224, 224}},
		`{"do_resize": true, "size": {"shortest_edge": 384}, "crop_pct": 0.875}`: {
			rescale: 1. / 255, resize: size{box: box{384, 384}}, resample: pixels.Bilinear},
		`{"image_mean": [0.5], "image_std": [0.25]}`:                           {rescale: 1. / 255, channels: 1, mean: []float64{.5}, std: []float64{.25}},
		`{"image_mean": 0.5, "image_std": 0.25}`:                               {rescale: 1. / 255, mean: []float64{.5}, std: []float64{.25}},
		`{"image_mean": [0.5, 0.4, 0.3], "image_std": [0.1, 0.2, 0.3]}`:        {rescale: 1. / 255, channels: 3, mean: mean, std: std},
		`{"image_mean": 0, "image_std": [0.1, 0.2, 0.3]}`:                      {rescale: 1. / 255, channels: 3, mean: []float64{0, 0, 0}, std: std},
		`{"do_convert_rgb": true, "do_normalize": false, "image_mean": "bad"}`: {rescale: 1. / 255, channels: 3},
		`{"do_rescale": false, "do_flip_channel_order": true, "image_mean": [104, 117, 123], "image_std": [1, 1, 1]}`: {
			rescale: 1, channels: 3, flip: true, mean: []float64{104, 117, 123}, std: []float64{1, 1, 1}},
		`{"do_pad": true, "pad_size": {"height": 32, "width": 30}, "do_center_crop": true, "crop_size": 28}`: {
			rescale: 1. / 255, pad: box{32, 30}, crop: box{28, 28}},
	} {
		got := parse(t, text)
		got.levels = nil
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v, want %+v", text, *got, want)
		}
	}
}

// TestParseErrors checks the errors for invalid configurations.
func TestParseErrors(t *testing.T) {
	for text, words := range map[string]string{
		`[1]`:                                      "not a JSON object of preprocessing keys: it is a JSON array",
		`null`:                                     "not a JSON object",
		`{"do_resize": `:                           "not a JSON object",
		`{"do_resize": "yes"}`:                     "do_resize: want true or false",
		`{"do_resize": true}`:                      "size: it is missing",
		`{"size": "large"}`:                        "size: want a number",
		`{"size": 0}`:                              "size: want a number of pixels",
		`{"size": 100000}`:                         "size: want a number of pixels",
		`{"size": {"height": 3}}`:                  "size: want a number",
		`{"size": {"height": 3, "width": "4"}}`:    "size: want a number",
		`{"size": {"max_height": 3}}`:              `size: "max_height" is not supported`,
		`{"size": 8, "resample": 9}`:               "resample: want a number from 0 to 5",
		`{"size": 8, "resample": "bilinear"}`:      "resample: want a whole number",
		`{"do_center_crop": true}`:                 "crop_size: it is missing",
		`{"crop_size": {"shortest_edge": 3}}`:      "crop_size: want a number",
		`{"do_pad": true}`:                         "pad_size: it is missing",
		`{"rescale_factor": "1/255"}`:              "rescale_factor: want a number",
		`{"rescale_factor": 0}`:                    "rescale_factor: 0 is out of range",
		`{"do_normalize": true}`:                   "image_mean: it is missing",
		`{"image_mean": [0.5]}`:                    "image_std: it is missing",
		`{"image_mean": [], "image_std": []}`:      "image_mean: the list is empty",
		`{"image_mean": [1, 2], "image_std": 1}`:   "image_mean: want one entry (grey) or three (RGB), got 2",
		`{"image_mean": 0.5, "image_std": 0}`:      "image_std: it contains 0, and pixels are divided by it",
		`{"image_mean": [1,2,3], "image_std": {}}`: "image_std: want a number or a list",
		`{"rescale_offset": true}`:                 "rescale_offset: true is not supported",
		`{"size": 224, "crop_pct": 2}`:             "crop_pct: want a number above 0.05",
	} {
		_, err := Parse([]byte(text))
		wantError(t, err, words)
	}
}

// TestResized checks the size of resized images, and that a huge size is an error.
func TestResized(t *testing.T) {
	for _, c := range []struct {
		size       size
		h, w       int
		newH, newW int
	}{
		{size{}, 3, 5, 3, 5},
		{size{box: box{7, 9}}, 3, 5, 7, 9},
		{size{ShortestEdge: 256}, 375, 500, 256, 341},
		{size{ShortestEdge: 256}, 500, 375, 341, 256},
		{size{ShortestEdge: 256}, 256, 256, 256, 256},
		{size{LongestEdge: 100}, 375, 500, 75, 100},
		{size{LongestEdge: 4}, 1, 1000, 1, 4},
		{size{ShortestEdge: 800, LongestEdge: 1333}, 480, 640, 800, 1066},
		{size{ShortestEdge: 800, LongestEdge: 1333}, 375, 1000, 500, 1333},
	} {
		got, err := c.size.resized(c.h, c.w)
		if want := (box{c.newH, c.newW}); err != nil || got != want {
			t.Errorf("%+v of %d×%d: %v, error %v; want %v", c.size, c.h, c.w, got, err, want)
		}
	}
	if _, err := (size{ShortestEdge: maxEdge}).resized(1, 1000); err == nil {
		t.Error("no error for an image that becomes huge")
	}
}

// FuzzParse checks that any accepted configuration gives images of the shape that Shape
// returns.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.preprocess.json")
	if err != nil || len(paths) < 8 {
		f.Fatalf("%d seeds, error %v", len(paths), err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"do_pad": true, "pad_size": 16384}`))
	f.Add([]byte(`{"size": {"height": 1, "width": 16384}, "resample": 1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		shape, err := p.Shape(3, 4, 3)
		if err != nil || shape[0]*shape[1]*shape[2] > 1<<20 {
			return
		}
		data, same, err := p.Append(nil, pixels.New(3, 4, 3))
		if err != nil || !slices.Equal(shape, same) || len(data) != shape[0]*shape[1]*shape[2] {
			t.Fatalf("%d numbers of shape %v, error %v; want shape %v", len(data), same, err, shape)
		}
	})
}

// TestParseUnknownSteps checks that unknown steps give an error only if they are switched
// on. An object with only unknown keys is an error, too.
func TestParseUnknownSteps(t *testing.T) {
	for _, text := range []string{`{"foo": 1}`, `{"do_rescale": true, "do_normalise": true}`, `{"do_thumbnail": true, "size": 32}`} {
		if p, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted as %+v", text, p)
		}
	}
	parse(t, `{"do_rescale": true, "do_thumbnail": false, "do_reduce_labels": true, "feature_extractor_type": "x"}`)
}

// TestSlopes checks the slopes for several configurations.
func TestSlopes(t *testing.T) {
	for config, want := range map[string][]float32{
		`{"do_rescale": false}`:                 {255},
		`{}`:                                    {1},
		`{"image_mean": 0.5, "image_std": 0.5}`: {2},
		`{"do_rescale": false, "image_mean": [1, 2, 3], "image_std": [1, 2, 4]}`: {255, 127.5, 63.75},
	} {
		p := parse(t, config)
		if got := p.Slopes(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
		// The difference between the outputs for the highest and the lowest level must
		// equal the slope.
		for c, slope := range want {
			if step := p.levels[c][255] - p.levels[c][0]; !(step-slope < 1e-4*slope && slope-step < 1e-4*slope) {
				t.Errorf("%s: channel %d moves by %v over all levels, want %v", config, c, step, slope)
			}
		}
	}
}

// wantError checks that an error contains the given words, on one line and without a final
// period.
func wantError(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("no error that says %q", words)
	case !strings.Contains(err.Error(), words):
		t.Errorf("error %q; want it to say %q", err, words)
	case strings.Contains(err.Error(), "\n") || strings.HasSuffix(err.Error(), "."):
		t.Errorf("error %q is not one sentence without a period", err)
	}
}
