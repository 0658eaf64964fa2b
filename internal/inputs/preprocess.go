package inputs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/attach-uncertainty/attach/internal/regular"
)

// Preprocess is how images become a model's input, in this order: colour
// conversion, resizing, centre crop, centred padding, channel order, rescaling,
// normalisation. The zero value changes nothing: pixels become 0…255.
//
// It is read from the keys of Hugging Face's preprocessor_config.json, by
// [LoadPreprocess] or encoding/json, and written as such.
type Preprocess struct {
	// Channels is 3 (RGB) or 1 (grey), or 0: RGB for image files, whatever an
	// array has for arrays. A list of means sets it to the list's length.
	Channels int
	// Resize is the size to resize to; the zero value is none.
	Resize Size
	// Resample is the filter of resizing.
	Resample Filter
	// Crop is the centre crop; the zero value is none. An image that is
	// smaller is padded with zeros.
	Crop Box
	// Pad is the size to pad to, with zeros and centred; the zero value is
	// none. A larger image is an error.
	Pad Box
	// FlipChannels turns RGB into BGR. It precedes rescaling and
	// normalisation, so Mean and Std are then in the order B, G, R.
	FlipChannels bool
	// Rescale multiplies pixels; 0 stands for 1.
	Rescale float64
	// Mean and Std normalise what Rescale made: (x−mean)/std. Both nil is
	// none; one entry is for all channels, else there is one a channel.
	Mean, Std []float64
}

// Box is a height and width in pixels.
type Box struct {
	Height int `json:"height"`
	Width  int `json:"width"`
}

// Size is what an image is resized to: a fixed Height and Width, or one whose
// shorter side is ShortestEdge with the aspect ratio kept, or whose longer side
// is LongestEdge, or the former as far as the latter permits.
type Size struct {
	Box
	ShortestEdge int
	LongestEdge  int
}

// LoadPreprocess reads a preprocessor_config.json, or that file in the folder
// at path.
func LoadPreprocess(path string) (*Preprocess, error) {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		path = filepath.Join(path, "preprocessor_config.json")
	}
	b, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p Preprocess
	if err := p.UnmarshalJSON(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &p, nil
}

// pipeline applies a Preprocess in one layout.
type pipeline struct {
	Preprocess
	layout Layout
	table  [][256]float32 // what each level becomes, by channel, or one for all
}

func newPipeline(p *Preprocess, layout Layout) (*pipeline, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	t := &pipeline{Preprocess: *p, layout: layout, table: make([][256]float32, max(len(p.Mean), 1))}
	for c := range t.table {
		for v := range t.table[c] {
			x := float64(v)
			if p.Rescale != 0 {
				x *= p.Rescale
			}
			if p.Mean != nil {
				x = (x - p.Mean[c]) / p.Std[c]
			}
			t.table[c][v] = float32(x)
		}
	}
	return t, nil
}

// size returns the height and width that an image of h×w ends up with.
func (t *pipeline) size(h, w int) (int, int, error) {
	h, w, err := t.Resize.of(h, w)
	if err != nil {
		return 0, 0, err
	}
	if t.Crop.Height > 0 {
		h, w = t.Crop.Height, t.Crop.Width
	}
	if t.Pad.Height > 0 {
		if h > t.Pad.Height || w > t.Pad.Width {
			return 0, 0, fmt.Errorf("an image of %d×%d is larger than pad_size %d×%d", h, w, t.Pad.Height, t.Pad.Width)
		}
		h, w = t.Pad.Height, t.Pad.Width
	}
	return h, w, checkArea(h, w)
}

// shape returns the shape of a row made from an image of h×w with c channels.
func (t *pipeline) shape(h, w, c int) ([]int, error) {
	if t.Channels > 0 {
		c = t.Channels
	}
	if len(t.Mean) > 1 && len(t.Mean) != c {
		return nil, fmt.Errorf("image_mean has %d entries for images of %d channels", len(t.Mean), c)
	}
	if t.FlipChannels && c != 3 {
		return nil, fmt.Errorf("do_flip_channel_order is for images of three channels, not %d", c)
	}
	h, w, err := t.size(h, w)
	if err != nil {
		return nil, err
	}
	if t.layout == NHWC {
		return []int{h, w, c}, nil
	}
	return []int{c, h, w}, nil
}

// apply writes the row that m becomes to dst, whose length is that of shape's
// result for m.
func (t *pipeline) apply(m pixels, dst []float32) error {
	if t.Channels > 0 {
		m = m.convert(t.Channels)
	}
	h, w, err := t.Resize.of(m.h, m.w)
	if err != nil {
		return err
	}
	m = m.resize(h, w, t.Resample)
	if t.Crop.Height > 0 {
		m = m.centre(t.Crop.Height, t.Crop.Width)
	}
	if t.Pad.Height > 0 {
		m = m.pad(t.Pad.Height, t.Pad.Width)
	}
	for c := range m.c {
		table := &t.table[min(c, len(t.table)-1)]
		from := c
		if t.FlipChannels {
			from = m.c - 1 - c
		}
		first, step := c*m.h*m.w, 1
		if t.layout == NHWC {
			first, step = c, m.c
		}
		for i, at := from, first; i < len(m.pix); i, at = i+m.c, at+step {
			dst[at] = table[m.pix[i]]
		}
	}
	return nil
}
