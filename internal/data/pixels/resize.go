package pixels

import (
	"image"
	"math"
)

// Filter is a resampling filter, numbered as in Pillow and torchvision.
type Filter int

const (
	Nearest  Filter = 0
	Lanczos  Filter = 1
	Bilinear Filter = 2
	Bicubic  Filter = 3 // Keys' cubic kernel with a = −0.5
	Box      Filter = 4
	Hamming  Filter = 5
)

// kernel is a resampling kernel. Beyond the distance support it is zero.
type kernel struct {
	support float64
	at      func(x float64) float64
}

// filters holds the kernel of each filter except Nearest, which needs none.
var filters = [...]kernel{
	Lanczos: {3, func(x float64) float64 { return sinc(x) * sinc(x/3) }},
	Bilinear: {1, func(x float64) float64 {
		return max(0, 1-math.Abs(x))
	}},
	Bicubic: {2, func(x float64) float64 {
		const a = -0.5
		x = math.Abs(x)
		if x < 1 {
			return ((a+2)*x-(a+3))*x*x + 1
		}
		return (((x-5)*x+8)*x - 4) * a
	}},
	Box: {0.5, func(x float64) float64 {
		if x > -0.5 && x <= 0.5 {
			return 1
		}
		return 0
	}},
	Hamming: {1, func(x float64) float64 { return sinc(x) * (0.54 + 0.46*math.Cos(math.Pi*x)) }},
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// fractionBits is the number of fractional bits of weights in fixed point. The remaining
// bits of an int32 are the 8 bits of a level, and 2 bits for sums outside the range of
// levels, because Lanczos and bicubic overshoot.
const fractionBits = 32 - 8 - 2

// taps holds the weights for one output sample. The first weight belongs to the input
// sample with the index first, and the other weights to the samples after it.
type taps struct {
	first   int
	weights []int32
}

// tapsFor returns the taps of every output sample if in samples are resized to out. If the
// image shrinks, the kernel is stretched so that every input sample counts (antialiasing).
func tapsFor(in, out int, k kernel) []taps {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	support := k.support * stretch
	perOutput := make([]taps, out)
	w := make([]float64, 0, 2*int(math.Ceil(support))+1)
	for i := range perOutput {
		centre := (float64(i) + 0.5) * scale
		first := max(int(centre-support+0.5), 0)
		end := min(int(centre+support+0.5), in)
		w = w[:0]
		sum := 0.0
		for j := first; j < end; j++ {
			v := k.at((float64(j) - centre + 0.5) / stretch)
			w = append(w, v)
			sum += v
		}
		if sum == 0 {
			sum = 1
		}
		fixed := make([]int32, len(w))
		for j, v := range w {
			fixed[j] = int32(math.Round(v / sum * (1 << fractionBits)))
		}
		perOutput[i] = taps{first, fixed}
	}
	return perOutput
}

// Resize scales img to h×w. It returns the same channels as [From].
func Resize(img image.Image, h, w int, f Filter) *Image {
	at := img.Bounds()
	if y, ok := img.(*image.YCbCr); ok && f != Nearest && w != at.Dx() {
		// Each row is converted to RGB just before it is resized.
		return resizeRows(newPlanes(y), at.Dy(), 3, tapsFor(at.Dx(), w, filters[f])).Resize(h, w, f)
	}
	return From(img).Resize(h, w, f)
}

// Resize returns m scaled to h×w. Like Pillow's Image.resize, it convolves rows, rounds to
// bytes, and then convolves columns.
func (m *Image) Resize(h, w int, f Filter) *Image {
	if f == Nearest {
		return m.nearest(h, w)
	}
	if w != m.Width {
		m = resizeRows(m, m.Height, m.Channels, tapsFor(m.Width, w, filters[f]))
	}
	if h != m.Height {
		m = m.resizeColumns(h, tapsFor(m.Height, h, filters[f]))
	}
	return m
}

// Within returns img, scaled down if its longer side has more than edge pixels.
func Within(img image.Image, edge int) *Image {
	at := img.Bounds()
	h, w := at.Dy(), at.Dx()
	if longer := max(h, w); longer > edge {
		h, w = max(1, h*edge/longer), max(1, w*edge/longer)
	}
	return Resize(img, h, w, Bilinear)
}

// rowSource provides an image row by row.
type rowSource interface {
	// row returns row y, which is valid until the next call.
	row(y int) []uint8
}

// row returns row y without a copy.
func (m *Image) row(y int) []uint8 { return m.Pix[y*m.Width*m.Channels:][:m.Width*m.Channels] }

// resizeRows resizes h rows to len(all) pixels each. all holds the taps of each output
// pixel.
func resizeRows(source rowSource, h, channels int, all []taps) *Image {
	out := New(h, len(all), channels)
	for y := range h {
		src, dst := source.row(y), out.row(y)
		for x, t := range all {
			s := src[t.first*channels:]
			if channels == 3 {
				r, g, b := weightedSumRGB(s, t.weights)
				p := dst[3*x : 3*x+3 : 3*x+3]
				p[0], p[1], p[2] = clip(r), clip(g), clip(b)
				continue
			}
			for c := range channels {
				sum := int32(rounding)
				for i, v := range t.weights {
					sum += v * int32(s[i*channels+c])
				}
				dst[x*channels+c] = clip(sum)
			}
		}
	}
	return out
}

// rounding is half a level in fixed point. Sums start with it, so that clip rounds to the
// nearest level.
const rounding = 1 << (fractionBits - 1)

// weightedSumRGB returns the weighted sum of RGB pixels, by channel. s holds the pixels and v
// their weights.
func weightedSumRGB(s []uint8, v []int32) (r, g, b int32) {
	r, g, b = rounding, rounding, rounding
	for len(v) >= 4 && len(s) >= 12 { // a loop over four pixels at a time takes a third less time
		r += v[0]*int32(s[0]) + v[1]*int32(s[3]) + v[2]*int32(s[6]) + v[3]*int32(s[9])
		g += v[0]*int32(s[1]) + v[1]*int32(s[4]) + v[2]*int32(s[7]) + v[3]*int32(s[10])
		b += v[0]*int32(s[2]) + v[1]*int32(s[5]) + v[2]*int32(s[8]) + v[3]*int32(s[11])
		s, v = s[12:], v[4:]
	}
	for i, v := range v {
		s := s[3*i : 3*i+3 : 3*i+3]
		r += v * int32(s[0])
		g += v * int32(s[1])
		b += v * int32(s[2])
	}
	return r, g, b
}

func (m *Image) resizeColumns(h int, all []taps) *Image {
	out := New(h, m.Width, m.Channels)
	n := m.Width * m.Channels
	sums := make([]int32, n)
	for y, t := range all {
		for i := range sums {
			sums[i] = rounding
		}
		src, v := m.Pix[t.first*n:], t.weights
		for ; len(v) >= 4; src, v = src[4*n:], v[4:] {
			v0, v1, v2, v3 := v[0], v[1], v[2], v[3]
			p0, p1, p2, p3 := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
			p1, p2, p3 = p1[:len(p0)], p2[:len(p0)], p3[:len(p0)]
			for i, p := range p0 {
				sums[i] += v0*int32(p) + v1*int32(p1[i]) + v2*int32(p2[i]) + v3*int32(p3[i])
			}
		}
		for j, v := range v {
			for i, p := range src[j*n : (j+1)*n] {
				sums[i] += v * int32(p)
			}
		}
		dst := out.Pix[y*n : (y+1)*n]
		for i, s := range sums {
			dst[i] = clip(s)
		}
	}
	return out
}

// clip removes the fractional bits of v and limits it to a byte.
func clip(v int32) uint8 {
	return uint8(min(max(v>>fractionBits, 0), 255))
}

func (m *Image) nearest(h, w int) *Image {
	if h == m.Height && w == m.Width {
		return m
	}
	out := New(h, w, m.Channels)
	columns := nearestSamples(m.Width, w)
	for y, sy := range nearestSamples(m.Height, h) {
		for x, sx := range columns {
			copy(out.Pix[(y*w+x)*m.Channels:(y*w+x+1)*m.Channels], m.Pix[(sy*m.Width+sx)*m.Channels:])
		}
	}
	return out
}

// nearestSamples returns the input sample at the centre of each output sample. Like Pillow,
// it adds up positions step by step, because rounding decides which sample is nearest at a
// border.
func nearestSamples(in, out int) []int {
	step := float64(in) / float64(out)
	samples := make([]int, out)
	at := step * 0.5
	for i := range samples {
		samples[i] = min(int(at), in-1)
		at += step
	}
	return samples
}
