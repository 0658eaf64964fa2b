package preprocess

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/pixels"
)

// maxEdge limits the sizes, in pixels, in a preprocessing file.
const maxEdge = 1 << 14

// shortestEdgeProcessors lists parts of the names of image processors. For these
// processors, Hugging Face interprets a size with one number as the length of the shorter
// edge. For all other processors, the number means a square.
var shortestEdgeProcessors = []string{"CLIP", "ConvNext", "Levit", "MobileNet", "MobileViT", "PoolFormer", "Bit", "VideoMAE"}

// Parse reads the JSON object of a preprocessor_config.json file.
//
// Unknown keys are ignored. However, an unknown step that is switched on (a do_… key with
// true) is an error unless it only changes labels. A non-empty object without any known key
// is an error, too. If a known key has the wrong type or is out of range, the error names
// the key.
//
// If do_rescale is absent, images are rescaled by 1/255, because all of Hugging Face's
// image processors do so. If another do_… key is absent, its step is applied if its
// parameter is given. For example, with {} images are only rescaled.
func Parse(config []byte) (*Pipeline, error) {
	var raw map[string]json.RawMessage
	err := json.Unmarshal(config, &raw)
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("it is a JSON %s", typeErr.Value)
	} else if err == nil && raw == nil {
		err = errors.New("the file is null; it must be a JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("not a JSON object of preprocessing keys: %w", err)
	}
	k := keys{raw: raw}
	p := Pipeline{rescale: 1}
	shortestEdge := k.usesShortestEdge()
	if k.has("crop_pct") {
		shortestEdge = true
	}
	if k.flag("do_resize", k.has("size")) {
		p.resize = k.size("size", !shortestEdge)
		p.resample = pixels.Filter(k.integer("resample", int(pixels.Bilinear), 0, int(pixels.Hamming)))
	}
	if k.flag("do_center_crop", k.has("crop_size")) {
		p.crop = k.box("crop_size")
	}
	if k.has("crop_pct") && !p.crop.isSet() {
		k.cropFraction(&p)
	}
	if k.flag("do_pad", k.has("pad_size")) {
		p.pad = k.box("pad_size")
	}
	if k.flag("do_rescale", true) {
		p.rescale = k.number("rescale_factor", 1.0/255)
	}
	if k.flag("do_normalize", k.has("image_mean") || k.has("image_std")) {
		var isList bool
		if p.mean, isList = k.numbers("image_mean"); isList {
			p.channels = len(p.mean)
		}
		if p.std, isList = k.numbers("image_std"); isList && p.channels == 0 {
			p.channels = len(p.std)
		}
		p.mean, p.std = broadcastPair(p.mean, p.std)
	}
	if k.flag("do_convert_rgb", false) && p.channels == 0 {
		p.channels = 3
	}
	p.flip = k.flag("do_flip_channel_order", false)
	k.rejectUnknown()
	if k.err == nil {
		k.err = p.check()
	}
	if k.err != nil {
		return nil, k.err
	}
	p.levels = make([][256]float32, max(len(p.mean), 1))
	for c := range p.levels {
		for level := range 256 {
			x := p.rescale * float64(level)
			if p.mean != nil {
				x = (x - p.mean[c]) / p.std[c]
			}
			p.levels[c][level] = float32(x)
		}
	}
	return &p, nil
}

// knownKeys lists the keys that Parse reads, except the keys for the type of the processor.
var knownKeys = [...]string{
	"do_resize", "size", "resample", "crop_pct", "do_center_crop", "crop_size", "do_pad", "pad_size",
	"do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std", "do_convert_rgb", "do_flip_channel_order",
}

// rejectUnknown records an error if an unknown step is switched on, because ignoring the
// step would silently change every pixel. It also records an error if there are keys but
// none of them is known.
func (k *keys) rejectUnknown() {
	known := 0
	for _, key := range slices.Sorted(maps.Keys(k.raw)) {
		switch {
		case slices.Contains(knownKeys[:], key):
			known++
		case key == "do_convert_annotations" || key == "do_reduce_labels":
			// These steps change labels and not the image.
		case key == "rescale_offset" || strings.HasPrefix(key, "do_"):
			if bytes.Equal(bytes.TrimSpace(k.raw[key]), []byte("true")) {
				steps := slices.DeleteFunc(slices.Clone(knownKeys[:]), func(key string) bool { return !strings.HasPrefix(key, "do_") })
				k.addError(key, "true is not supported; the steps known are "+strings.Join(steps, ", "))
			}
		}
	}
	if known == 0 && len(k.raw) > 0 {
		k.addError("no key of image preprocessing", "want some of "+strings.Join(knownKeys[:], ", "))
	}
}

// cropFraction applies crop_pct as ConvNext's image processor does. If the edge is shorter
// than 384 pixels, images are resized to edge/crop_pct and cropped at the centre. Otherwise
// they are only resized to a square.
func (k *keys) cropFraction(p *Pipeline) {
	fraction := k.number("crop_pct", 1)
	edge := p.resize.ShortestEdge
	if edge == 0 || k.err != nil {
		return
	}
	if !(fraction > 0.05 && fraction <= 1) {
		k.addError("crop_pct", "want a number above 0.05 and up to 1")
		return
	}
	p.crop = box{edge, edge}
	p.resize = size{ShortestEdge: int(float64(edge) / fraction)}
	if edge >= 384 {
		p.resize, p.crop = size{box: p.crop}, box{}
	}
}

// broadcastPair repeats a single mean or a single standard deviation for all channels.
func broadcastPair(mean, std []float64) ([]float64, []float64) {
	for len(mean) == 1 && len(mean) < len(std) {
		mean = slices.Repeat(mean, len(std))
	}
	for len(std) == 1 && len(std) < len(mean) {
		std = slices.Repeat(std, len(mean))
	}
	return mean, std
}

// check returns an error if the settings contradict each other or cannot be applied.
func (p *Pipeline) check() error {
	switch {
	case p.channels != 0 && p.channels != 1 && p.channels != 3:
		return fmt.Errorf("image_mean: want one entry (grey) or three (RGB), got %d", p.channels)
	case len(p.mean) != len(p.std):
		return fmt.Errorf("image_mean has %d entries, image_std %d; want the same number", len(p.mean), len(p.std))
	case p.channels != 0 && len(p.mean) > 1 && len(p.mean) != p.channels:
		return fmt.Errorf("image_mean has %d entries for images of %d channels", len(p.mean), p.channels)
	case slices.Contains(p.std, 0):
		return errors.New("image_std: it contains 0, and pixels are divided by it")
	}
	return nil
}

// keys reads values of a JSON object and keeps the first error in err.
type keys struct {
	raw map[string]json.RawMessage
	err error
}

// addError records an error about a key, unless an error was recorded before.
func (k *keys) addError(key, what string) {
	if k.err == nil {
		k.err = fmt.Errorf("%s: %s", key, what)
	}
}

// has reports whether the object has a key with a value other than null.
func (k *keys) has(key string) bool {
	v, ok := k.raw[key]
	return ok && !bytes.Equal(bytes.TrimSpace(v), []byte("null"))
}

// decode decodes the value of a key into dst, and reports whether this succeeded. It
// returns false if there is no value. If the value does not fit dst, decode also records an
// error.
func (k *keys) decode(key string, dst any, want string) bool {
	if !k.has(key) {
		return false
	}
	if json.Unmarshal(k.raw[key], dst) != nil {
		k.addError(key, fmt.Sprintf("want %s, got %.60s", want, k.raw[key]))
		return false
	}
	return true
}

// flag returns the value of a boolean key, or def if the key is absent.
func (k *keys) flag(key string, def bool) bool {
	k.decode(key, &def, "true or false")
	return def
}

// number returns the value of a numeric key, or def if the key is absent. It records an
// error if the number is 0 or beyond ±1e6.
func (k *keys) number(key string, def float64) float64 {
	k.decode(key, &def, "a number")
	if def == 0 || math.Abs(def) > 1e6 {
		k.addError(key, fmt.Sprintf("%v is out of range", def))
	}
	return def
}

// integer returns the value of an integer key, or def if the key is absent. It records an
// error if the value is not between lowest and highest.
func (k *keys) integer(key string, def, lowest, highest int) int {
	if k.decode(key, &def, "a whole number") && (def < lowest || def > highest) {
		k.addError(key, fmt.Sprintf("want a number from %d to %d, got %d", lowest, highest, def))
	}
	return def
}

// numbers reads a number or a list of numbers. It reports whether the value was a list. A
// missing key or an empty list is recorded as an error.
func (k *keys) numbers(key string) ([]float64, bool) {
	if !k.has(key) {
		k.addError(key, "it is missing, and do_normalize asks for it")
		return nil, false
	}
	var single float64
	if json.Unmarshal(k.raw[key], &single) == nil {
		return []float64{single}, false
	}
	var list []float64
	k.decode(key, &list, "a number or a list of numbers")
	if k.err == nil && len(list) == 0 {
		k.addError(key, "the list is empty")
	}
	return list, true
}

// usesShortestEdge reports whether the image processor interprets a size with one number as the
// length of the shorter edge.
func (k *keys) usesShortestEdge() bool {
	for _, key := range []string{"image_processor_type", "feature_extractor_type"} {
		var name string
		if json.Unmarshal(k.raw[key], &name) != nil {
			continue
		}
		for _, s := range shortestEdgeProcessors {
			if strings.Contains(name, s) {
				return true
			}
		}
	}
	return false
}

// size reads a size, which is a number or an object of edge lengths. If square is set, a
// number means a square. Otherwise it means the shorter edge.
func (k *keys) size(key string, square bool) size {
	var s size
	if !k.has(key) {
		k.addError(key, "it is missing, and do_resize asks for it")
		return s
	}
	var edge int
	if json.Unmarshal(k.raw[key], &edge) == nil {
		k.edge(key, edge)
		if square {
			return size{box: box{edge, edge}}
		}
		return size{ShortestEdge: edge}
	}
	const want = "a number, or an object of height and width, or of shortest_edge or longest_edge"
	var edges map[string]int
	if !k.decode(key, &edges, want) {
		return s
	}
	for name, v := range edges {
		k.edge(key+"."+name, v)
		switch name {
		case "height":
			s.Height = v
		case "width":
			s.Width = v
		case "shortest_edge":
			s.ShortestEdge = v
		case "longest_edge":
			s.LongestEdge = v
		default:
			k.addError(key, fmt.Sprintf("%.40q is not supported; want %s", name, want))
		}
	}
	if (s.Height > 0) != (s.Width > 0) || (s.Height > 0) == (s.ShortestEdge > 0 || s.LongestEdge > 0) {
		k.addError(key, "want "+want)
	}
	return s
}

// box reads a height and a width: a number, which means a square, or an object.
func (k *keys) box(key string) box {
	if !k.has(key) {
		k.addError(key, "it is missing, and a do_… key asks for it")
		return box{}
	}
	s := k.size(key, true)
	if k.err == nil && s.Height == 0 {
		k.addError(key, "want a number, or an object of height and width")
	}
	return s.box
}

// edge records an error if the length v of an edge is out of range.
func (k *keys) edge(key string, v int) {
	if v < 1 || v > maxEdge {
		k.addError(key, fmt.Sprintf("want a number of pixels from 1 to %d, got %d", maxEdge, v))
	}
}
