package double

import (
	"slices"
)

// lowerGlobal reduces all spatial axes.
func lowerGlobal(op string) lowering {
	return func(s *site) string {
		axes, ok := s.spatialAxes()
		if !ok {
			return ""
		}
		return s.reduce(op, s.in(0), axes...)
	}
}

// spatialAxes are those of the first input from axis 2 on.
func (s *site) spatialAxes() ([]int64, bool) {
	dims, ok := s.dims(s.in(0))
	if !ok || len(dims) < 3 {
		s.fail("the rank of %q is not known to be 3 or more", s.in(0))
		return nil, false
	}
	var axes []int64
	for i := range dims[2:] {
		axes = append(axes, int64(i)+2)
	}
	return axes, true
}

// pooled is the window of a pool over x of those dims, and how far its last ones
// reach beyond the padding.
func (s *site) pooled(dims []int64) (w window, beyond []int64, ok bool) {
	if w, ok = s.window(nil); !ok {
		return w, nil, false
	}
	w.settle(dims)
	beyond, ok = s.beyond(w, dims)
	return w, beyond, ok
}

// lowerAveragePool divides sums over windows by the number of elements in each.
func lowerAveragePool(s *site) string {
	x := s.in(0)
	dims, _ := s.dims(x)
	w, beyond, ok := s.pooled(dims)
	if !ok {
		return ""
	}
	sum := s.windowSum(x, w, beyond, 0)
	include := s.attrInt("count_include_pad", 0) != 0
	padless := w.begin != nil && slices.Max(w.begin) == 0 && slices.Max(w.end) == 0
	if slices.Max(beyond) == 0 && (padless || include) {
		return s.times(1/float64(product(w.kernel)), sum)
	}
	value := 0.0
	if include {
		value = 1
	}
	ones := s.node("Expand", s.number(1), s.shape(slices.Concat(sizes(1, 1), s.spatial(x, dims, len(w.kernel)))...))
	return s.div(sum, s.windowSum(ones, w, beyond, value))
}

// windowSum sums over each window of x, padded with a value and then with
// zeros beyond, along one axis after the other: windows as large as an image
// have too many elements for a node each.
func (s *site) windowSum(x string, w window, beyond []int64, value float64) string {
	x = s.padded(x, w, value)
	x = s.padded(x, window{begin: make([]int64, len(beyond)), end: beyond}, 0)
	ones := slices.Repeat([]int64{1}, len(w.kernel))
	for i, n := range w.kernel {
		line := window{kernel: slices.Clone(ones), stride: slices.Clone(ones), dilation: ones}
		line.kernel[i], line.stride[i] = w.extent(i), w.stride[i]
		place := make([]int64, len(w.kernel))
		sum := ""
		for k := range n {
			place[i] = k * w.dilation[i]
			t := s.tap(x, line, place)
			if sum != "" {
				t = s.add(sum, t)
			}
			sum = t
		}
		x = sum
	}
	return x
}

// beyond is how far the last windows of ceil_mode reach beyond the padding.
func (s *site) beyond(w window, dims []int64) ([]int64, bool) {
	beyond := make([]int64, len(w.kernel))
	if s.attrInt("ceil_mode", 0) == 0 || w.isSame() {
		return beyond, true
	}
	for i, stride := range w.stride {
		if len(dims) != len(w.kernel)+2 || dims[i+2] < 0 {
			// No window starts in the padding behind the end, if this holds.
			if w.end[i] > w.extent(i)-stride {
				s.fail("how many windows there are depends on sizes that are not known")
				return nil, false
			}
			beyond[i] = stride - 1
			continue
		}
		n := dims[i+2]
		room := n + w.begin[i] + w.end[i] - w.extent(i)
		count := (room+stride-1)/stride + 1
		if (count-1)*stride >= n+w.begin[i] {
			count--
		}
		beyond[i] = max((count-1)*stride-room, 0)
	}
	return beyond, true
}

// lowerLpPool is the p-norm of each window.
func lowerLpPool(s *site) string {
	x := s.in(0)
	dims, _ := s.dims(x)
	w, beyond, ok := s.pooled(dims)
	if !ok {
		return ""
	}
	return s.root(s.windowSum(s.power(x), w, beyond, 0))
}

// lowerGlobalLpPool is the p-norm over all spatial axes.
func lowerGlobalLpPool(s *site) string {
	axes, ok := s.spatialAxes()
	if !ok {
		return ""
	}
	return s.root(s.sum(s.power(s.in(0)), axes...))
}

// power is |x|ᵖ, and root its inverse.
func (s *site) power(x string) string {
	return s.node("Pow", s.node("Abs", x), s.number(float64(s.attrInt("p", 2))))
}

func (s *site) root(x string) string {
	return s.node("Pow", x, s.number(1/float64(s.attrInt("p", 2))))
}

// lowerMean is the mean of the inputs.
func lowerMean(s *site) string {
	return s.times(1/float64(len(s.n.Input)), s.node("Sum", s.n.Input...))
}
