package inputs

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// TestProcessors compares with Hugging Face's image processors, each run with
// the very file that is read here.
func TestProcessors(t *testing.T) {
	for _, name := range references(t, "processed.npz") {
		shape, want := reference[float32](t, "processed.npz", name)
		p, err := LoadPreprocess(filepath.Join("testdata", name+".preprocess.json"))
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, "testdata/photo.png", Options{Preprocess: p})
		if !slices.Equal(s.Shape(), shape) {
			t.Errorf("%s: shape %v, want %v", name, s.Shape(), shape)
			continue
		}
		got := read(t, s, 1)
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Errorf("%s: %v at %v, want %v", name, got[i], unravel(i, shape), want[i])
				break
			}
		}
		nhwc := read(t, open(t, "testdata/photo.png", Options{Preprocess: p, Layout: NHWC}), 1)
		for i, v := range got {
			at := unravel(i, shape)
			if nhwc[(at[1]*shape[2]+at[2])*3+at[0]] != v {
				t.Errorf("%s: NHWC differs at %v", name, at)
				break
			}
		}
	}
}

func TestPreprocessJSON(t *testing.T) {
	mean, std := []float64{.5, .4, .3}, []float64{.1, .2, .3}
	for text, want := range map[string]Preprocess{
		`{}`:                    {Rescale: 1. / 255},
		`{"do_rescale": false}`: {},
		`{"size": 8}`:           {Rescale: 1. / 255, Resize: Size{Box: Box{8, 8}}, Resample: Bilinear},
		`{"size": 8, "do_resize": false, "unknown": [1]}`: {Rescale: 1. / 255},
		`{"size": 8, "crop_pct": null, "resample": 3, "feature_extractor_type": "CLIPFeatureExtractor"}`: {
			Rescale: 1. / 255, Resize: Size{ShortestEdge: 8}, Resample: Bicubic},
		`{"do_resize": true, "size": 224, "crop_pct": 0.875, "resample": 3}`: {
			Rescale: 1. / 255, Resize: Size{ShortestEdge: 256}, Resample: Bicubic, Crop: Box{224, 224}},
		`{"do_resize": true, "size": {"shortest_edge": 384}, "crop_pct": 0.875}`: {
			Rescale: 1. / 255, Resize: Size{Box: Box{384, 384}}, Resample: Bilinear},
		`{"image_mean": [0.5], "image_std": [0.25]}`:                           {Rescale: 1. / 255, Channels: 1, Mean: []float64{.5}, Std: []float64{.25}},
		`{"image_mean": 0.5, "image_std": 0.25}`:                               {Rescale: 1. / 255, Mean: []float64{.5}, Std: []float64{.25}},
		`{"image_mean": [0.5, 0.4, 0.3], "image_std": [0.1, 0.2, 0.3]}`:        {Rescale: 1. / 255, Channels: 3, Mean: mean, Std: std},
		`{"image_mean": 0, "image_std": [0.1, 0.2, 0.3]}`:                      {Rescale: 1. / 255, Channels: 3, Mean: []float64{0, 0, 0}, Std: std},
		`{"do_convert_rgb": true, "do_normalize": false, "image_mean": "bad"}`: {Rescale: 1. / 255, Channels: 3},
		`{"do_rescale": false, "do_flip_channel_order": true, "image_mean": [104, 117, 123], "image_std": [1, 1, 1]}`: {
			Channels: 3, FlipChannels: true, Mean: []float64{104, 117, 123}, Std: []float64{1, 1, 1}},
		`{"do_pad": true, "pad_size": {"height": 32, "width": 30}, "do_center_crop": true, "crop_size": 28}`: {
			Rescale: 1. / 255, Pad: Box{32, 30}, Crop: Box{28, 28}},
	} {
		var got Preprocess
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
		written, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var again Preprocess
		if err := json.Unmarshal(written, &again); err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%s: written as %s and read as %+v, error %v", text, written, again, err)
		}
	}
}

func TestPreprocessErrors(t *testing.T) {
	dir := t.TempDir()
	for text, words := range map[string]string{
		`[1]`:                                      "not a JSON object",
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
		`{"image_mean": 0.5, "image_std": 0}`:      "image_std: 0 cannot be divided by",
		`{"image_mean": [1,2,3], "image_std": {}}`: "image_std: want a number or a list",
		`{"rescale_offset": true}`:                 "rescale_offset: true is not supported",
		`{"size": 224, "crop_pct": 2}`:             "crop_pct: want a share",
	} {
		path := writeFile(t, dir, "preprocessor_config.json", text)
		_, err := LoadPreprocess(path)
		wantError(t, err, path, words)
		_, err = LoadPreprocess(dir)
		wantError(t, err, path, words)
	}
	_, err := LoadPreprocess(filepath.Join(dir, "none.json"))
	wantError(t, err, "none.json", "no such file")
}

func TestSizeOf(t *testing.T) {
	for _, c := range []struct {
		size       Size
		h, w       int
		newH, newW int
	}{
		{Size{}, 3, 5, 3, 5},
		{Size{Box: Box{7, 9}}, 3, 5, 7, 9},
		{Size{ShortestEdge: 256}, 375, 500, 256, 341},
		{Size{ShortestEdge: 256}, 500, 375, 341, 256},
		{Size{ShortestEdge: 256}, 256, 256, 256, 256},
		{Size{LongestEdge: 100}, 375, 500, 75, 100},
		{Size{LongestEdge: 4}, 1, 1000, 1, 4},
		{Size{ShortestEdge: 800, LongestEdge: 1333}, 480, 640, 800, 1066},
		{Size{ShortestEdge: 800, LongestEdge: 1333}, 375, 1000, 500, 1333},
	} {
		h, w, err := c.size.of(c.h, c.w)
		if err != nil || h != c.newH || w != c.newW {
			t.Errorf("%+v of %d×%d: %d×%d, error %v; want %d×%d", c.size, c.h, c.w, h, w, err, c.newH, c.newW)
		}
	}
	if _, _, err := (Size{ShortestEdge: maxEdge}).of(1, 1000); err == nil {
		t.Error("no error of an image that becomes huge")
	}
}

func TestWindow(t *testing.T) {
	m := pixels{2, 3, 1, []uint8{1, 2, 3, 4, 5, 6}}
	for _, c := range []struct {
		got  pixels
		want []uint8
	}{
		{m.centre(2, 3), []uint8{1, 2, 3, 4, 5, 6}},
		{m.centre(1, 1), []uint8{2}},
		{m.centre(1, 2), []uint8{1, 2}},
		{m.centre(3, 3), []uint8{0, 0, 0, 1, 2, 3, 4, 5, 6}},
		{m.pad(3, 4), []uint8{1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0}},
		{m.pad(4, 5), []uint8{0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0}},
		{m.window(5, 5, 1, 1), []uint8{0}},
	} {
		if !slices.Equal(c.got.pix, c.want) {
			t.Errorf("got %v, want %v", c.got.pix, c.want)
		}
	}
}

func FuzzPreprocess(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.preprocess.json")
	if err != nil || len(paths) < 8 {
		f.Fatalf("%d seeds, error %v", len(paths), err)
	}
	for _, p := range paths {
		q, err := LoadPreprocess(p)
		if err != nil {
			f.Fatal(err)
		}
		b, err := json.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"do_pad": true, "pad_size": 16384}`))
	f.Add([]byte(`{"size": {"height": 1, "width": 16384}, "resample": 1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again Preprocess
		if p.UnmarshalJSON(b) != nil {
			return
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalJSON(written); err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%s is read as %+v and again as %+v, error %v", b, p, again, err)
		}
		pipe, err := newPipeline(&p, NCHW)
		if err != nil {
			t.Fatal(err)
		}
		shape, err := pipe.shape(3, 4, 3)
		if err != nil || product(shape) > 1<<20 {
			return
		}
		if err := pipe.apply(newPixels(3, 4, 3), make([]float32, product(shape))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPreprocessRefusesUnknownSteps(t *testing.T) {
	for _, text := range []string{`{"foo": 1}`, `{"do_rescale": true, "do_normalise": true}`, `{"do_thumbnail": true, "size": 32}`} {
		var p Preprocess
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s is taken for %+v", text, p)
		}
	}
	var p Preprocess
	if err := json.Unmarshal([]byte(`{"do_rescale": true, "do_thumbnail": false, "do_reduce_labels": true, "feature_extractor_type": "x"}`), &p); err != nil {
		t.Error(err)
	}
}
