package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// narrow is the number of channels of a group below which the elements of a
// window are gathered for one product. Above it there is a product for each
// place of the kernel, which takes less memory and is as fast.
const narrow = 32

// lowerConv is a convolution of any rank as products of matrices.
func lowerConv(s *site) string {
	x, weight := s.in(0), s.in(1)
	wd, _ := s.dims(weight)
	w, ok := s.window(afterTwo(wd))
	if !ok {
		return ""
	}
	xd, _ := s.dims(x)
	w.settle(xd)
	group := s.attrInt("group", 1)
	padded := s.padded(x, w, 0)
	var taps []string
	for _, place := range onnx.Places(w.kernel) {
		taps = append(taps, s.tap(padded, w, place))
	}
	area := product(w.kernel)
	out := ""
	if len(wd) > 1 && wd[0] == group && wd[1] == 1 {
		out = s.depthwise(taps, weight, group, len(w.kernel))
	} else {
		// group × outputs × channels × area; the last two of each are those
		// within a group.
		kernel := s.reshape(weight, slices.Concat(sizes(group, -1), s.sizesOf(weight, wd, 1, 2), sizes(area))...)
		channels := s.sizesOf(weight, wd, 1, 2)
		gathered := len(wd) > 1 && wd[1] > 0 && wd[1] < narrow
		out = s.products(taps, s.transpose(kernel, 3, 0, 1, 2), group, channels, gathered)
		od, _ := s.dims(s.n.Output[0])
		out = s.reshape(out, slices.Concat(sizes(0, -1), s.spatial(taps[0], od, len(w.kernel)))...)
	}
	return s.biased(out, s.in(2), len(w.kernel))
}

func afterTwo(dims []int64) []int64 {
	if len(dims) < 3 {
		return nil
	}
	return dims[2:]
}

// spatial are the sizes of the spatial axes of x, or of what is known to have
// the same.
func (s *site) spatial(x string, dims []int64, rank int) []size {
	if len(dims) != rank+2 {
		dims = nil
	}
	return s.sizesOf(x, dims, 2, rank+2)
}

func (s *site) biased(x, bias string, rank int) string {
	if bias == "" {
		return x
	}
	return s.add(x, s.reshape(bias, sizes(append([]int64{-1}, slices.Repeat([]int64{1}, rank)...)...)...))
}

// products is Σ kernel·tap, n×(group×)outputs×places, with the taps
// n×channels×… and the kernel taps×group×outputs×channels of a group.
func (s *site) products(taps []string, kernel string, group int64, channels []size, gathered bool) string {
	axis := int64(1) // of the channels of a group
	flat := sizes(0, 0, -1)
	if group > 1 {
		axis = 2
		flat = slices.Concat(sizes(0, group), channels, sizes(-1))
	} else {
		kernel = s.squeeze(kernel, 1)
	}
	rows := make([]string, len(taps))
	for i, t := range taps {
		rows[i] = s.reshape(t, flat...)
	}
	if gathered && len(taps) > 1 {
		// group × outputs × (taps × channels)
		if group > 1 {
			kernel = s.reshape(s.transpose(kernel, 1, 2, 0, 3), sizes(0, 0, -1)...)
		} else {
			kernel = s.reshape(s.transpose(kernel, 1, 0, 2), sizes(0, -1)...)
		}
		return s.node("MatMul", kernel, s.concat(axis, rows))
	}
	sum := ""
	for i, r := range rows {
		p := s.node("MatMul", s.node("Gather", kernel, s.Const(int64(i))), r)
		if sum != "" {
			p = s.add(sum, p)
		}
		sum = p
	}
	return sum
}

// depthwise is a convolution with one kernel for each channel.
func (s *site) depthwise(taps []string, weight string, channels int64, rank int) string {
	ones := slices.Repeat([]int64{1}, rank)
	kernel := s.transpose(s.reshape(weight, sizes(channels, -1)...), 1, 0)
	kernel = s.reshape(kernel, sizes(append([]int64{-1, channels}, ones...)...)...)
	sum := ""
	for i, t := range taps {
		p := s.mul(t, s.node("Gather", kernel, s.Const(int64(i))))
		if sum != "" {
			p = s.add(sum, p)
		}
		sum = p
	}
	return sum
}
