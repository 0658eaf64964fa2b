// Package preprocess turns images into what a network takes, as Pillow and
// Hugging Face's image processors do: images are decoded and resized to the same
// 8-bit levels. Only those of JPEGs may differ, by three at most, and by one in
// those of four components (CMYK).
//
// What is done to an image says a preprocessor_config.json, such as a bundle
// holds. Its size is known before memory is taken for its pixels, and bounded.
package preprocess

import (
	"errors"
	"fmt"
	"image"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/pixels"
)

// ErrImage is wrapped by the error of what cannot be decoded, or is too large.
var ErrImage = pixels.ErrImage

// Decode decodes a PNG, JPEG, GIF, BMP, TIFF or WebP image to RGB. One over 2²⁷
// pixels is refused before memory is taken for it. Alpha is dropped, 16-bit
// levels lose their low byte, EXIF rotation is not applied, and of a GIF the
// first frame is taken. A reader that is an io.Seeker is at its beginning.
func Decode(r io.Reader) (image.Image, error) {
	if r == nil { // which says nothing of an image
		return nil, errors.New("there is no reader")
	}
	m, err := pixels.Decode(r, nil)
	if err != nil {
		return nil, err
	}
	return pixels.From(m), nil
}

// Pipeline is how images become a network's input, in this order: colour
// conversion, resizing, centre crop, centred padding, channel order, rescaling,
// normalisation. [Parse] makes it, and it is safe for concurrent use.
type Pipeline struct {
	// channels is 3 (RGB) or 1 (grey), or 0: as many as pixels have.
	channels int
	resize   size
	resample pixels.Filter
	crop     box // the centre of it; an image that is smaller is padded with zeros
	pad      box // with zeros and centred; a larger image is an error
	// flip turns RGB into BGR. It precedes rescaling and normalisation, so mean
	// and std are then in the order B, G, R.
	flip    bool
	rescale float64 // what pixels are multiplied by
	// mean and std normalise what rescale made: (x−mean)/std. Both nil is
	// none; one entry is for all channels, else there is one a channel.
	mean, std []float64
	// levels are what each level becomes, by channel, or one for all.
	levels [][256]float32
	last   bool // channels are the last axis
}

// In is p for networks that take images in a layout, "nchw", which is channels ×
// height × width, or "nhwc", height × width × channels, as TensorFlow exports; or p
// where layout is empty. What [Parse] returns makes "nchw". Another word panics.
func (p Pipeline) In(layout string) *Pipeline {
	switch layout {
	case "nchw", "nhwc":
		p.last = layout == "nhwc"
	case "":
	default:
		panic(fmt.Sprintf("layout %q is neither nchw nor nhwc", layout))
	}
	return &p
}

// Slopes say how far the network's input moves where a pixel, scaled to [0,1],
// moves by one: 255·rescale/std, by channel or one for all.
func (p *Pipeline) Slopes() []float32 {
	slope := 255 * p.rescale
	slopes := []float32{float32(slope)}
	if len(p.std) > 0 {
		slopes = make([]float32, len(p.std))
	}
	for c, std := range p.std {
		slopes[c] = float32(slope / std)
	}
	return slopes
}

// Shape is the shape of what an image of so many pixels and channels becomes.
// An image of a file has three channels.
func (p *Pipeline) Shape(height, width, channels int) ([]int, error) {
	_, shape, err := p.shape(height, width, channels)
	return shape, err
}

// shape also returns what the image is resized to.
func (p *Pipeline) shape(height, width, channels int) (resized box, shape []int, err error) {
	if err := pixels.CheckArea(height, width); err != nil {
		return resized, nil, err
	}
	if p.channels > 0 {
		channels = p.channels
	}
	if p.flip && channels != 3 {
		return resized, nil, fmt.Errorf("do_flip_channel_order is for images of three channels, not %d", channels)
	}
	if resized, err = p.resize.of(height, width); err != nil {
		return resized, nil, err
	}
	h, w := resized.Height, resized.Width
	if p.crop.set() {
		h, w = p.crop.Height, p.crop.Width
	}
	if p.pad.set() {
		if h > p.pad.Height || w > p.pad.Width {
			return resized, nil, fmt.Errorf("an image of %d×%d is larger than pad_size %d×%d", h, w, p.pad.Height, p.pad.Width)
		}
		h, w = p.pad.Height, p.pad.Width
	}
	if p.last {
		return resized, []int{h, w, channels}, pixels.CheckArea(h, w)
	}
	return resized, []int{channels, h, w}, pixels.CheckArea(h, w)
}

// Append appends what img becomes to dst, one float32 after another, and returns
// its shape: channels × height × width, or channels last. Images that follow one
// another in dst make a batch where their shapes are equal. An image has three
// channels where the configuration does not say how many.
func (p *Pipeline) Append(dst []float32, img image.Image) ([]float32, []int, error) {
	if img == nil {
		return dst, nil, errors.New("it is nil")
	}
	if p.levels == nil {
		return dst, nil, errors.New("the pipeline is empty: Parse makes one")
	}
	at, channels := img.Bounds(), 3
	if m, ok := img.(*pixels.Image); ok {
		channels = min(m.Channels, 3)
	}
	resized, shape, err := p.shape(at.Dy(), at.Dx(), channels)
	if err != nil {
		return dst, nil, err
	}
	if p.channels > 0 && p.channels != channels {
		img = pixels.From(img).Convert(p.channels)
	}
	m := pixels.Resize(img, resized.Height, resized.Width, p.resample)
	if p.crop.set() {
		m = m.Centre(p.crop.Height, p.crop.Width)
	}
	if p.pad.set() {
		m = m.Padded(p.pad.Height, p.pad.Width)
	}
	start := len(dst)
	dst = slices.Grow(dst, len(m.Pix))[:start+len(m.Pix)]
	for c := range m.Channels {
		levels := &p.levels[min(c, len(p.levels)-1)]
		from := c
		if p.flip {
			from = m.Channels - 1 - c
		}
		at, step := start+c*m.Height*m.Width, 1
		if p.last {
			at, step = start+c, m.Channels
		}
		for i := from; i < len(m.Pix); i, at = i+m.Channels, at+step {
			dst[at] = levels[m.Pix[i]]
		}
	}
	return dst, shape, nil
}
