package inputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// maxEdge bounds sizes in a preprocessing file.
const maxEdge = 1 << 14

// squareless are the image processors for which Hugging Face reads a size of
// one number as the shorter edge. For all others it is a square.
var squareless = []string{"CLIP", "ConvNext", "Levit", "MobileNet", "MobileViT", "PoolFormer", "Bit", "VideoMAE"}

// UnmarshalJSON reads Hugging Face's keys. Unknown keys are ignored, but not
// steps that are switched on (do_… true) and are not known, nor a file without
// any key that is; a known key of the wrong type or out of range is an error that names it. Where a
// do_… key is absent, rescaling (by 1/255) is done, as in all of Hugging
// Face's image processors, and the rest is done where its parameter is given.
func (p *Preprocess) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	err := json.Unmarshal(b, &raw)
	if err == nil && raw == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return fmt.Errorf("not a JSON object of preprocessing keys: %w", err)
	}
	k := keys{raw: raw}
	var q Preprocess

	squareless := k.squareless()
	if k.given("crop_pct") {
		squareless = true
	}
	if k.flag("do_resize", k.given("size")) {
		q.Resize = k.size("size", !squareless)
		q.Resample = Filter(k.integer("resample", int(Bilinear), 0, len(filters)-1))
	}
	if k.flag("do_center_crop", k.given("crop_size")) {
		q.Crop = k.box("crop_size")
	}
	if k.given("crop_pct") && !q.Crop.set() {
		k.cropShare(&q)
	}
	if k.flag("do_pad", k.given("pad_size")) {
		q.Pad = k.box("pad_size")
	}
	if k.flag("do_rescale", true) {
		q.Rescale = k.number("rescale_factor", 1.0/255)
	}
	if k.flag("do_normalize", k.given("image_mean") || k.given("image_std")) {
		var listed bool
		if q.Mean, listed = k.numbers("image_mean"); listed {
			q.Channels = len(q.Mean)
		}
		if q.Std, listed = k.numbers("image_std"); listed && q.Channels == 0 {
			q.Channels = len(q.Std)
		}
		q.Mean, q.Std = broadcast(q.Mean, q.Std)
	}
	if k.flag("do_convert_rgb", false) && q.Channels == 0 {
		q.Channels = 3
	}
	q.FlipChannels = k.flag("do_flip_channel_order", false)
	k.refuseUnknown()
	if k.err == nil {
		k.err = q.check()
	}
	if k.err != nil {
		return k.err
	}
	*p = q
	return nil
}

// knownKeys are those that UnmarshalJSON reads, save the processor's type.
var knownKeys = [...]string{
	"do_resize", "size", "resample", "crop_pct", "do_center_crop", "crop_size", "do_pad", "pad_size",
	"do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std", "do_convert_rgb", "do_flip_channel_order",
}

// refuseUnknown fails where a step that is not known is switched on, since
// leaving it out would change every pixel in silence, and where no key is known.
func (k *keys) refuseUnknown() {
	known := 0
	for _, key := range slices.Sorted(maps.Keys(k.raw)) {
		switch {
		case slices.Contains(knownKeys[:], key):
			known++
		case key == "do_convert_annotations" || key == "do_reduce_labels":
			// About labels, not about the image.
		case key == "rescale_offset" || strings.HasPrefix(key, "do_"):
			if bytes.Equal(bytes.TrimSpace(k.raw[key]), []byte("true")) {
				k.fail(key, "true is not supported; the steps known are "+strings.Join(knownSteps(), ", "))
			}
		}
	}
	if known == 0 && len(k.raw) > 0 {
		k.fail("no key of image preprocessing", "want some of "+strings.Join(knownKeys[:], ", "))
	}
}

func knownSteps() []string {
	var steps []string
	for _, key := range knownKeys {
		if strings.HasPrefix(key, "do_") {
			steps = append(steps, key)
		}
	}
	return steps
}

// cropShare is ConvNext's reading of crop_pct: a small image is a centre crop
// out of one that is resized to be larger, a large one is resized alone.
func (k *keys) cropShare(p *Preprocess) {
	share := k.number("crop_pct", 1)
	edge := p.Resize.ShortestEdge
	if edge == 0 || k.err != nil {
		return
	}
	if !(share > 0.05 && share <= 1) {
		k.fail("crop_pct", "want a share in (0.05, 1]")
		return
	}
	p.Crop = Box{edge, edge}
	p.Resize = Size{ShortestEdge: int(float64(edge) / share)}
	if edge >= 384 {
		p.Resize, p.Crop = Size{Box: p.Crop}, Box{}
	}
}

func broadcast(mean, std []float64) ([]float64, []float64) {
	for len(mean) == 1 && len(mean) < len(std) {
		mean = slices.Repeat(mean, len(std))
	}
	for len(std) == 1 && len(std) < len(mean) {
		std = slices.Repeat(std, len(mean))
	}
	return mean, std
}

// check refuses what no pipeline can do.
func (p *Preprocess) check() error {
	switch {
	case p.Channels != 0 && p.Channels != 1 && p.Channels != 3:
		return fmt.Errorf("image_mean: want one entry (grey) or three (RGB), got %d", p.Channels)
	case len(p.Mean) != len(p.Std):
		return fmt.Errorf("image_mean has %d entries, image_std %d; want the same number", len(p.Mean), len(p.Std))
	case p.Channels != 0 && len(p.Mean) > 1 && len(p.Mean) != p.Channels:
		return fmt.Errorf("image_mean has %d entries for images of %d channels", len(p.Mean), p.Channels)
	case slices.Contains(p.Std, 0):
		return fmt.Errorf("image_std: 0 cannot be divided by")
	case p.Resample < 0 || int(p.Resample) >= len(filters):
		return fmt.Errorf("resample: %d is not known; use 0 (nearest), 1 (Lanczos), 2 (bilinear), 3 (bicubic), 4 (box) or 5 (Hamming)", p.Resample)
	}
	return nil
}

// MarshalJSON writes every decision, so that reading gives the same again.
func (p Preprocess) MarshalJSON() ([]byte, error) {
	out := map[string]any{
		"do_resize":             p.Resize != Size{},
		"do_center_crop":        p.Crop.set(),
		"do_pad":                p.Pad.set(),
		"do_rescale":            p.Rescale != 0,
		"do_normalize":          p.Mean != nil,
		"do_convert_rgb":        p.Channels == 3,
		"do_flip_channel_order": p.FlipChannels,
	}
	if p.Resize != (Size{}) {
		out["resample"] = int(p.Resample)
		size := map[string]int{}
		for key, v := range map[string]int{"height": p.Resize.Height, "width": p.Resize.Width, "shortest_edge": p.Resize.ShortestEdge, "longest_edge": p.Resize.LongestEdge} {
			if v > 0 {
				size[key] = v
			}
		}
		out["size"] = size
	}
	if p.Crop.set() {
		out["crop_size"] = p.Crop
	}
	if p.Pad.set() {
		out["pad_size"] = p.Pad
	}
	if p.Rescale != 0 {
		out["rescale_factor"] = p.Rescale
	}
	if p.Mean != nil {
		out["image_mean"], out["image_std"] = p.Mean, p.Std
		if len(p.Mean) == 1 && p.Channels != 1 {
			out["image_mean"], out["image_std"] = p.Mean[0], p.Std[0]
		}
	}
	return json.Marshal(out)
}

func (b Box) set() bool { return b != Box{} }

// keys reads the values of a JSON object and keeps the first error.
type keys struct {
	raw map[string]json.RawMessage
	err error
}

func (k *keys) fail(key, what string) {
	if k.err == nil {
		k.err = fmt.Errorf("%s: %s", key, what)
	}
}

func (k *keys) given(key string) bool {
	v, ok := k.raw[key]
	return ok && !bytes.Equal(bytes.TrimSpace(v), []byte("null"))
}

// decode reports whether a value was given, and complains if it is none of
// what dst holds.
func (k *keys) decode(key string, dst any, want string) bool {
	if !k.given(key) {
		return false
	}
	if json.Unmarshal(k.raw[key], dst) != nil {
		k.fail(key, fmt.Sprintf("want %s, got %.60s", want, k.raw[key]))
		return false
	}
	return true
}

func (k *keys) flag(key string, def bool) bool {
	k.decode(key, &def, "true or false")
	return def
}

func (k *keys) number(key string, def float64) float64 {
	k.decode(key, &def, "a number")
	if def == 0 || math.Abs(def) > 1e6 {
		k.fail(key, fmt.Sprintf("%v is out of range", def))
	}
	return def
}

func (k *keys) integer(key string, def, least, most int) int {
	if k.decode(key, &def, "a whole number") && (def < least || def > most) {
		k.fail(key, fmt.Sprintf("want a number from %d to %d, got %d", least, most, def))
	}
	return def
}

// numbers reads a number or a list of them and says whether it was a list.
func (k *keys) numbers(key string) ([]float64, bool) {
	if !k.given(key) {
		k.fail(key, "it is missing, and do_normalize asks for it")
		return nil, false
	}
	var one float64
	if json.Unmarshal(k.raw[key], &one) == nil {
		return []float64{one}, false
	}
	var list []float64
	k.decode(key, &list, "a number or a list of numbers")
	if k.err == nil && len(list) == 0 {
		k.fail(key, "the list is empty")
	}
	return list, true
}

func (k *keys) squareless() bool {
	for _, key := range []string{"image_processor_type", "feature_extractor_type"} {
		var name string
		if json.Unmarshal(k.raw[key], &name) != nil {
			continue
		}
		for _, s := range squareless {
			if strings.Contains(name, s) {
				return true
			}
		}
	}
	return false
}

// size reads a number, which is a square or else the shorter edge, or an
// object of edges.
func (k *keys) size(key string, square bool) Size {
	var s Size
	if !k.given(key) {
		k.fail(key, "it is missing, and do_resize asks for it")
		return s
	}
	var edge int
	if json.Unmarshal(k.raw[key], &edge) == nil {
		k.edge(key, edge)
		if square {
			return Size{Box: Box{edge, edge}}
		}
		return Size{ShortestEdge: edge}
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
			k.fail(key, fmt.Sprintf("%.40q is not supported; want %s", name, want))
		}
	}
	if (s.Height > 0) != (s.Width > 0) || (s.Height > 0) == (s.ShortestEdge > 0 || s.LongestEdge > 0) {
		k.fail(key, "want "+want)
	}
	return s
}

// box reads a number, which is a square, or an object of height and width.
func (k *keys) box(key string) Box {
	if !k.given(key) {
		k.fail(key, "it is missing, and a do_… key asks for it")
		return Box{}
	}
	s := k.size(key, true)
	if k.err == nil && s.Height == 0 {
		k.fail(key, "want a number, or an object of height and width")
	}
	return s.Box
}

func (k *keys) edge(key string, v int) {
	if v < 1 || v > maxEdge {
		k.fail(key, fmt.Sprintf("want a number of pixels from 1 to %d, got %d", maxEdge, v))
	}
}
