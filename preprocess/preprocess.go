// Package preprocess prepares images for a network in the same way as Pillow and Hugging
// Face's image processors: decoded and resized images have the same 8-bit levels. Only JPEGs
// may differ, by three levels at most, and JPEGs of four components (CMYK) by one.
//
// A preprocessor_config.json, such as a .attach file contains, describes the steps. The size
// of an image is known, and limited, before memory for its pixels is allocated.
package preprocess

import (
	"errors"
	"fmt"
	"image"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/pixels"
)

// ErrImage is wrapped by the error for an image that cannot be decoded, or is too large.
var ErrImage = pixels.ErrImage

// Decode decodes a PNG, JPEG, GIF, BMP, TIFF or WebP image to RGB. An image of more than 2²⁷
// pixels is an error, before memory is allocated for it. Alpha is dropped, 16-bit levels lose
// their low byte, EXIF rotation is not applied, and only the first frame of a GIF is read. A
// reader that is an io.Seeker must be at its beginning.
func Decode(r io.Reader) (image.Image, error) {
	if r == nil { // an error of the caller, not of an image
		return nil, errors.New("the reader is nil")
	}
	m, err := pixels.Decode(r, nil)
	if err != nil {
		return nil, err
	}
	return pixels.From(m), nil
}

// Pipeline turns an image into a network's input, in this order: colour conversion, resizing,
// centre crop, centred padding, channel order, rescaling, normalisation. [Parse] returns one.
// It is safe for concurrent use.
type Pipeline struct {
	// channels is 3 (RGB), 1 (grey), or 0: as many as the image has.
	channels int
	resize   size
	resample pixels.Filter
	crop     box // size of the centre crop; a smaller image is padded with zeros
	pad      box // size of the centred padding with zeros; a larger image is an error
	// flip turns RGB into BGR. It precedes rescaling and normalisation, so that mean and std
	// are in the order B, G, R.
	flip    bool
	rescale float64 // factor of the pixels
	// mean and std normalise rescaled pixels: (x−mean)/std. Nil means no normalisation, one
	// entry is for all channels, and otherwise there is one for each channel.
	mean, std []float64
	// levels maps each 8-bit level to a number, by channel, or one table for all.
	levels       [][256]float32
	channelsLast bool // whether channels are the last axis
}

// In returns p for networks that take images in a layout: "nchw", which is channels × height ×
// width, or "nhwc", height × width × channels, as TensorFlow exports. It returns p itself if
// layout is empty. [Parse] returns a pipeline for "nchw". Other words panic.
func (p Pipeline) In(layout string) *Pipeline {
	switch layout {
	case "nchw", "nhwc":
		p.channelsLast = layout == "nhwc"
	case "":
	default:
		panic(fmt.Sprintf("layout %q is neither nchw nor nhwc", layout))
	}
	return &p
}

// Slopes returns how far the network's input moves if a pixel, scaled to [0,1], moves by one:
// 255·rescale/std, by channel or one for all.
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

// Shape returns the shape of the result for an image of the given pixels and channels. An
// image from a file has three channels.
func (p *Pipeline) Shape(height, width, channels int) ([]int, error) {
	_, shape, err := p.shape(height, width, channels)
	return shape, err
}

// shape also returns the size that the image is resized to.
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
	if resized, err = p.resize.resized(height, width); err != nil {
		return resized, nil, err
	}
	h, w := resized.Height, resized.Width
	if p.crop.isSet() {
		h, w = p.crop.Height, p.crop.Width
	}
	if p.pad.isSet() {
		if h > p.pad.Height || w > p.pad.Width {
			return resized, nil, fmt.Errorf("an image of %d×%d is larger than pad_size %d×%d", h, w, p.pad.Height, p.pad.Width)
		}
		h, w = p.pad.Height, p.pad.Width
	}
	if p.channelsLast {
		return resized, []int{h, w, channels}, pixels.CheckArea(h, w)
	}
	return resized, []int{channels, h, w}, pixels.CheckArea(h, w)
}

// Append prepares img, appends the numbers to dst, and returns their shape: channels × height
// × width, or channels last. Images appended one after another form a batch if their shapes
// are equal. An image has three channels unless the configuration says otherwise.
func (p *Pipeline) Append(dst []float32, img image.Image) ([]float32, []int, error) {
	if img == nil {
		return dst, nil, errors.New("the image is nil")
	}
	if p.levels == nil {
		return dst, nil, errors.New("the pipeline is empty; use Parse to create one")
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
	if p.crop.isSet() {
		m = m.Centre(p.crop.Height, p.crop.Width)
	}
	if p.pad.isSet() {
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
		if p.channelsLast {
			at, step = start+c, m.Channels
		}
		for i := from; i < len(m.Pix); i, at = i+m.Channels, at+step {
			dst[at] = levels[m.Pix[i]]
		}
	}
	return dst, shape, nil
}
