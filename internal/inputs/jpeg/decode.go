// Package jpeg decodes JPEG files to the very levels that libjpeg's default
// decoder gives, and with it Pillow and most programs that networks are trained
// with. Package image/jpeg of the standard library rounds its inverse transform
// in another way, which moves some pixels by one to three levels.
//
// Baseline, extended and progressive files with 8 bits a sample, Huffman coding
// and one component, or three with chroma at most as fine as luma, are decoded;
// for others Decode returns [ErrUnsupported].
//
// The format is ITU-T T.81.
package jpeg

import (
	"errors"
	"fmt"
	"image"
)

// ErrUnsupported is wrapped by the errors of files that may be valid but use
// what this package does not decode.
var ErrUnsupported = errors.New("unsupported kind of JPEG")

var errCut = errors.New("the JPEG ends early")

// Markers of T.81, table B.1.
const (
	sof0, sof1, sof2 = 0xc0, 0xc1, 0xc2
	sof15            = 0xcf
	dht, jpg, dac    = 0xc4, 0xc8, 0xcc
	rst0, rst7       = 0xd0, 0xd7
	soi, eoi, sos    = 0xd8, 0xd9, 0xda
	dqt, dnl, dri    = 0xdb, 0xdc, 0xdd
	app14            = 0xee
)

const (
	// maxPixels bounds the area of an image.
	maxPixels = 1 << 27
	// maxScans bounds the passes over it, of which sensible encoders make
	// about ten.
	maxScans = 500
)

// component is one plane of the image.
type component struct {
	id       uint8
	h, v     int // sampling factors
	quant    uint8
	width    int // blocks in a row that hold samples
	height   int
	stride   int // blocks in a row, with those that complete an MCU
	coef     []int16
	dc, ac   *huffman
	previous int32 // DC
}

type decoder struct {
	data          []byte
	pos           int
	width, height int
	progressive   bool
	comps         []component
	hmax, vmax    int
	quant         [4]*[64]int32
	dc, ac        [4]*huffman
	restart       int
	transform     int // of Adobe's marker, or -1
	scans         int
}

// Decode decodes a whole file to an *image.Gray or *image.YCbCr.
func Decode(data []byte) (image.Image, error) {
	d := &decoder{data: data, transform: -1}
	if len(data) < 2 || data[0] != 0xff || data[1] != soi {
		return nil, errors.New("not a JPEG")
	}
	d.pos = 2
	for {
		m, err := d.marker()
		if err != nil {
			return nil, err
		}
		if m == eoi {
			break
		}
		if m == soi || m >= rst0 && m <= rst7 || m == 1 {
			continue
		}
		seg, err := d.segment()
		if err != nil {
			return nil, err
		}
		if err := d.handle(m, seg); err != nil {
			return nil, err
		}
	}
	if d.scans == 0 {
		return nil, errors.New("the JPEG holds no image")
	}
	return d.image()
}

func (d *decoder) handle(m uint8, seg []byte) error {
	switch {
	case m == dqt:
		return d.readQuant(seg)
	case m == dht:
		return d.readHuffman(seg)
	case m == sof0 || m == sof1 || m == sof2:
		d.progressive = m == sof2
		return d.readFrame(seg)
	case m >= sof0 && m <= sof15 && m != jpg || m == dac || m == dnl:
		return fmt.Errorf("%w: marker %#x", ErrUnsupported, m)
	case m == sos:
		return d.readScan(seg)
	case m == dri:
		if len(seg) != 2 {
			return errors.New("a malformed restart interval")
		}
		d.restart = int(seg[0])<<8 | int(seg[1])
	case m == app14 && len(seg) >= 12 && string(seg[:5]) == "Adobe":
		d.transform = int(seg[11])
	}
	return nil
}

// marker skips to the next marker.
func (d *decoder) marker() (uint8, error) {
	for d.pos+1 < len(d.data) {
		if d.data[d.pos] == 0xff && d.data[d.pos+1] != 0 && d.data[d.pos+1] != 0xff {
			m := d.data[d.pos+1]
			d.pos += 2
			return m, nil
		}
		d.pos++
	}
	return 0, errCut
}

func (d *decoder) segment() ([]byte, error) {
	if d.pos+2 > len(d.data) {
		return nil, errCut
	}
	n := int(d.data[d.pos])<<8 | int(d.data[d.pos+1])
	if n < 2 || d.pos+n > len(d.data) {
		return nil, errCut
	}
	seg := d.data[d.pos+2 : d.pos+n]
	d.pos += n
	return seg, nil
}

func (d *decoder) readQuant(seg []byte) error {
	for len(seg) > 0 {
		wide, id := int(seg[0]>>4), seg[0]&15
		seg = seg[1:]
		if wide > 1 || id > 3 || len(seg) < 64<<wide {
			return errors.New("a malformed quantization table")
		}
		var q [64]int32
		for i := range q {
			if wide == 1 {
				q[zigzag[i]] = int32(seg[2*i])<<8 | int32(seg[2*i+1])
			} else {
				q[zigzag[i]] = int32(seg[i])
			}
		}
		seg = seg[64<<wide:]
		d.quant[id] = &q
	}
	return nil
}

func (d *decoder) readFrame(seg []byte) error {
	if d.comps != nil {
		return errors.New("the JPEG has two frames")
	}
	if len(seg) < 6 || len(seg) != 6+3*int(seg[5]) {
		return errors.New("a malformed frame header")
	}
	if seg[0] != 8 {
		return fmt.Errorf("%w: %d bits a sample", ErrUnsupported, seg[0])
	}
	d.height, d.width = int(seg[1])<<8|int(seg[2]), int(seg[3])<<8|int(seg[4])
	if d.height == 0 || d.width == 0 || d.width > maxPixels/d.height {
		return fmt.Errorf("%w: %d×%d pixels", ErrUnsupported, d.height, d.width)
	}
	n := int(seg[5])
	if n != 1 && n != 3 {
		return fmt.Errorf("%w: %d components", ErrUnsupported, n)
	}
	comps := make([]component, n)
	for i := range comps {
		s := seg[6+3*i:]
		c := component{id: s[0], h: int(s[1] >> 4), v: int(s[1] & 15), quant: s[2]}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.quant > 3 {
			return errors.New("a malformed frame header")
		}
		if n == 1 {
			// A lone component is not interleaved: its factors mean nothing.
			c.h, c.v = 1, 1
		}
		d.hmax, d.vmax = max(d.hmax, c.h), max(d.vmax, c.v)
		comps[i] = c
	}
	mcusX := (d.width + 8*d.hmax - 1) / (8 * d.hmax)
	mcusY := (d.height + 8*d.vmax - 1) / (8 * d.vmax)
	for i := range comps {
		c := &comps[i]
		c.width = (ceilDiv(d.width*c.h, d.hmax) + 7) / 8
		c.height = (ceilDiv(d.height*c.v, d.vmax) + 7) / 8
		c.stride = mcusX * c.h
		// Each block takes at least one bit.
		if c.width*c.height > 8*len(d.data) {
			return errCut
		}
		c.coef = make([]int16, 64*c.stride*mcusY*c.v)
	}
	d.comps = comps
	if _, ok := d.ratio(); !ok && n == 3 {
		return fmt.Errorf("%w: its chroma is subsampled in an unusual way", ErrUnsupported)
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// ratio is the standard library's name for the sampling factors.
func (d *decoder) ratio() (image.YCbCrSubsampleRatio, bool) {
	for _, c := range d.comps[1:] {
		if c.h != 1 || c.v != 1 {
			return 0, false
		}
	}
	switch [2]int{d.comps[0].h, d.comps[0].v} {
	case [2]int{1, 1}:
		return image.YCbCrSubsampleRatio444, true
	case [2]int{2, 1}:
		return image.YCbCrSubsampleRatio422, true
	case [2]int{2, 2}:
		return image.YCbCrSubsampleRatio420, true
	case [2]int{1, 2}:
		return image.YCbCrSubsampleRatio440, true
	case [2]int{4, 1}:
		return image.YCbCrSubsampleRatio411, true
	case [2]int{4, 2}:
		return image.YCbCrSubsampleRatio410, true
	}
	return 0, false
}

// image transforms the coefficients that were collected.
func (d *decoder) image() (image.Image, error) {
	if len(d.comps) == 3 {
		rgb := d.comps[0].id == 'R' && d.comps[1].id == 'G' && d.comps[2].id == 'B'
		if d.transform == 0 || d.transform < 0 && rgb {
			return nil, fmt.Errorf("%w: it holds RGB", ErrUnsupported)
		}
	}
	planes := make([][]uint8, len(d.comps))
	for i := range d.comps {
		c := &d.comps[i]
		q := d.quant[c.quant]
		if q == nil {
			return nil, errors.New("a quantization table is missing")
		}
		planes[i] = c.samples(q)
	}
	rect := image.Rect(0, 0, d.width, d.height)
	if len(planes) == 1 {
		return &image.Gray{Pix: planes[0], Stride: 8 * d.comps[0].stride, Rect: rect}, nil
	}
	ratio, _ := d.ratio()
	return &image.YCbCr{
		Y: planes[0], Cb: planes[1], Cr: planes[2],
		YStride: 8 * d.comps[0].stride, CStride: 8 * d.comps[1].stride,
		SubsampleRatio: ratio, Rect: rect,
	}, nil
}
