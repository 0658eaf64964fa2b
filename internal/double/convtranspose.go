package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// lowerConvTranspose computes the outputs of each phase of the strides, which
// are a convolution by a part of the kernel, and interleaves them.
func lowerConvTranspose(s *site) string {
	x, weight := s.in(0), s.in(1)
	wd, _ := s.dims(weight)
	xd, _ := s.dims(x)
	w, ok := s.window(afterTwo(wd))
	if !ok {
		return ""
	}
	rank, group := len(w.kernel), s.attrInt("group", 1)
	added, ok := s.transposedPads(&w, xd)
	if !ok {
		return ""
	}
	// Before it is cropped the output has stride·(n + reach) places.
	reach, crop := make([]int64, rank), make([]int64, rank)
	for i, stride := range w.stride {
		reach[i] = (w.extent(i)+added[i]+stride-1)/stride - 1
		crop[i] = stride*(reach[i]+1) - w.extent(i) - added[i] + w.end[i]
	}
	padded := s.padded(x, window{kernel: w.kernel, begin: reach, end: reach}, 0)
	flat := w.kernel
	kernel := s.reshape(weight, slices.Concat(sizes(group, -1), s.sizesOf(weight, wd, 1, 2), sizes(product(flat)))...)
	kernel = s.transpose(kernel, 3, 0, 2, 1) // taps × group × outputs × channels
	channels := []size{{tensor: s.node("Div", s.shape(s.sizesOf(x, nil, 1, 2)...), s.ints(group))}}
	if len(wd) > 0 && wd[0] > 0 {
		channels = sizes(wd[0] / group)
	}
	ones := slices.Repeat([]int64{1}, rank)
	phases, first := make([]string, 0, product(w.stride)), ""
	for _, phase := range onnx.Places(w.stride) {
		var taps []string
		var own []int64
		for at, place := range onnx.Places(w.kernel) {
			start, after, mine := make([]int64, rank), make([]int64, rank), true
			for i, k := range place {
				offset := k * w.dilation[i]
				mine = mine && offset%w.stride[i] == phase[i]
				after[i] = offset / w.stride[i]
				start[i] = reach[i] - after[i]
			}
			if mine {
				own = append(own, int64(at))
				taps = append(taps, s.cut(padded, start, after, ones))
			}
		}
		if taps == nil {
			phases = append(phases, s.node("Expand", s.number(0), s.node("Shape", first)))
			continue
		}
		part := s.node("Gather", kernel, s.ints(own...))
		gathered := channels[0].n > 0 && channels[0].n < narrow
		y := s.products(taps, part, group, channels, gathered)
		y = s.reshape(y, slices.Concat(sizes(0, -1), s.spatial(taps[0], nil, rank))...)
		if first == "" {
			first = y
		}
		phases = append(phases, y)
	}
	out := s.interleave(phases, w.stride)
	return s.biased(s.cut(out, w.begin, crop, ones), s.in(2), rank)
}

// transposedPads settles the padding, and returns output_padding.
func (s *site) transposedPads(w *window, xd []int64) (added []int64, ok bool) {
	rank := len(w.kernel)
	added = onnx.AttributeInts(s.n, "output_padding")
	if added == nil {
		added = make([]int64, rank)
	}
	shape := onnx.AttributeInts(s.n, "output_shape")
	if len(added) != rank || shape != nil && len(shape) != rank {
		s.fail("its output_padding or output_shape has not one number per spatial axis")
		return nil, false
	}
	if shape == nil && !w.isSame() {
		return added, true
	}
	for i, stride := range w.stride {
		total := w.extent(i) + added[i] - stride
		if shape != nil {
			if len(xd) != rank+2 || xd[i+2] < 0 {
				s.fail("its padding depends on sizes that are not known")
				return nil, false
			}
			total = stride*(xd[i+2]-1) + added[i] + w.extent(i) - shape[i]
		}
		w.begin[i], w.end[i] = w.divide(max(total, 0))
	}
	return added, true
}

// interleave puts the tensors of a grid of phases, the last of its axes
// fastest, between each other along the spatial axes.
func (s *site) interleave(phases []string, stride []int64) string {
	rank := len(stride)
	for i := rank - 1; i >= 0; i-- {
		every := int(stride[i])
		if every == 1 {
			continue
		}
		axis := int64(i + 2)
		var next []string
		for at := 0; at < len(phases); at += every {
			apart := make([]string, every)
			for j := range apart {
				apart[j] = s.unsqueeze(phases[at+j], axis+1)
			}
			joined := s.concat(axis+1, apart)
			form := sizes(slices.Repeat([]int64{0}, i+2)...)
			form = append(form, size{n: -1})
			if i < rank-1 {
				form = append(form, s.sizesOf(phases[at], nil, i+3, rank+2)...)
			}
			next = append(next, s.reshape(joined, form...))
		}
		phases = next
	}
	return phases[0]
}
