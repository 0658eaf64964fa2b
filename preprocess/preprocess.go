// Package preprocess prepares images for a network. Decoded and resized images have
// exactly the same 8-bit levels as with Pillow and Hugging Face's image processors. The
// exception is JPEG: levels may differ by up to three, or by up to one if the image has
// four components (CMYK).
//
// The steps are described by a preprocessor_config.json file, which is also stored in
// .attach files. The size of an image is checked before memory for its pixels is allocated.
package preprocess

import (
	"errors"
	"fmt"
	"image"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/pixels"
)

// ErrImage is wrapped by errors for images that cannot be decoded or are too large.
var ErrImage = pixels.ErrImage

// Decode decodes a PNG, JPEG, GIF, BMP, TIFF or WebP image to RGB. If an image has more
// than 2²⁷ pixels, Decode returns an error before it allocates memory for the pixels. The
// alpha channel is dropped, 16-bit levels lose their low byte, EXIF rotation is ignored,
// and only the first frame of a GIF is read. If r is an io.Seeker, it must be at its
// beginning.
func Decode(r io.Reader) (image.Image, error) {
	if r == nil { // this error does not wrap ErrImage, because it is the caller's mistake
		return nil, errors.New("the reader is nil")
	}
	m, err := pixels.Decode(r, nil)
	if err != nil {
		return nil, err
	}
	return pixels.From(m), nil
}

// Pipeline turns an image into a network's input. The steps are, in this order: colour
// conversion, resizing, centre crop, centred padding, channel order, rescaling,
// normalisation. [Parse] returns a Pipeline. It is safe for concurrent use.
type Pipeline struct {
	// channels is the number of channels after colour conversion: 3 for RGB, 1 for grey, or
	// 0 if the image keeps its own number of channels.
	channels int
	resize   size
	resample pixels.Filter
	crop     box // size of the centre crop; smaller images are padded with zeros
	pad      box // size after centred padding with zeros; larger images are errors
	// flip turns RGB into BGR. Rescaling and normalisation come after this step, so mean
	// and std are in the order B, G, R.
	flip    bool
	rescale float64 // factor for the 8-bit levels of pixels
	// mean and std normalise rescaled levels x as (x−mean)/std. They have one entry for
	// each channel, or a single entry for all channels. If they are nil, levels are not
	// normalised.
	mean, std []float64
	// levels maps each 8-bit level to a number of the network's input. It has one table for
	// each channel, or a single table for all channels.
	levels       [][256]float32
	channelsLast bool // whether the channel axis comes last
}

// In returns a copy of p for networks that take images in the given layout. The layout is
// "nchw" (channels × height × width) or "nhwc" (height × width × channels, as TensorFlow
// exports). If layout is empty, the layout of p is kept. [Parse] returns a pipeline for
// "nchw". In panics if layout has any other value.
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

// Slopes returns the change of the network's input when a pixel level, scaled to [0, 1],
// changes by 1. It equals 255·rescale/std, and has one entry for each channel or a single
// entry for all channels.
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

// Shape returns the shape of the network's input for an image with the given size and
// number of channels. An image that is decoded from a file has three channels.
func (p *Pipeline) Shape(height, width, channels int) ([]int, error) {
	_, shape, err := p.shape(height, width, channels)
	return shape, err
}

// shape returns the same as Shape, and the size that the image is resized to.
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

// Append prepares img, appends the numbers to dst, and returns their shape: channels ×
// height × width, or height × width × channels. If several images have the same shape, they
// can be appended one after the other to form a batch. Images have three channels unless
// the configuration says otherwise.
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
