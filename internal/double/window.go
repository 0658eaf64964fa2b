package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// window is how the kernel of a convolution or pooling moves over the spatial
// axes, those from axis 2 on.
type window struct {
	kernel, stride, dilation []int64
	begin, end               []int64 // padding; nil where it has to be computed
	padding                  string  // auto_pad
}

// window reads the node's attributes. kernel is the size where the attribute
// is absent.
func (s *site) window(kernel []int64) (window, bool) {
	w := window{kernel: kernel, padding: onnx.AttributeString(s.n, "auto_pad", "NOTSET")}
	if a := onnx.AttributeInts(s.n, "kernel_shape"); a != nil {
		w.kernel = a
	}
	rank := len(w.kernel)
	if rank == 0 || slices.Min(w.kernel) < 1 {
		s.fail("the size of its kernel is not known")
		return w, false
	}
	orOnes := func(name string) []int64 {
		if a := onnx.AttributeInts(s.n, name); a != nil {
			return a
		}
		return slices.Repeat([]int64{1}, rank)
	}
	w.stride, w.dilation = orOnes("strides"), orOnes("dilations")
	pads := make([]int64, 2*rank)
	if a := onnx.AttributeInts(s.n, "pads"); a != nil && w.padding == "NOTSET" {
		pads = a
	}
	if len(w.stride) != rank || len(w.dilation) != rank || len(pads) != 2*rank || slices.Min(w.stride) < 1 {
		s.fail("its attributes do not match the %d axes of its kernel", rank)
		return w, false
	}
	w.begin, w.end = slices.Clone(pads[:rank]), slices.Clone(pads[rank:])
	return w, true
}

func (w *window) isSame() bool { return w.padding == "SAME_UPPER" || w.padding == "SAME_LOWER" }

// extent is how far the kernel reaches along spatial axis i.
func (w *window) extent(i int) int64 { return (w.kernel[i]-1)*w.dilation[i] + 1 }

// divide gives the odd one of a total padding to the end for SAME_UPPER, and
// to the beginning otherwise.
func (w *window) divide(total int64) (begin, end int64) {
	if w.padding == "SAME_UPPER" {
		return total / 2, total - total/2
	}
	return total - total/2, total / 2
}

// settle finds the padding of SAME_UPPER and SAME_LOWER for x of those dims.
func (w *window) settle(dims []int64) {
	if !w.isSame() {
		return
	}
	for i, stride := range w.stride {
		total := w.extent(i) - 1 // with a stride of 1 whatever the size
		if stride > 1 {
			if len(dims) < i+3 || dims[i+2] < 0 {
				w.begin, w.end = nil, nil
				return
			}
			n := dims[i+2]
			total = max((n+stride-1)/stride*stride-stride+w.extent(i)-n, 0)
		}
		w.begin[i], w.end[i] = w.divide(total)
	}
}

// padded is x with its padding.
func (s *site) padded(x string, w window, value float64) string {
	none := sizes(0, 0)
	if w.begin != nil {
		if slices.Max(w.begin) == 0 && slices.Max(w.end) == 0 {
			return x
		}
		return s.pad(x, s.shape(slices.Concat(none, sizes(w.begin...), none, sizes(w.end...))...), value)
	}
	rank := len(w.kernel)
	round, extent := make([]int64, rank), make([]int64, rank)
	for i := range round {
		round[i], extent[i] = w.stride[i]-1, w.extent(i)
	}
	n := s.shape(s.sizesOf(x, nil, 2, rank+2)...)
	windows := s.div(s.add(n, s.ints(round...)), s.ints(w.stride...))
	last := s.mul(s.sub(windows, s.ints(1)), s.ints(w.stride...))
	total := s.sub(s.add(last, s.ints(extent...)), n)
	total = s.where(s.node("Less", total, s.ints(0)), s.ints(0), total) // Max of operator set 11 takes no integers
	begin := s.div(total, s.ints(2))
	end := s.sub(total, begin)
	if w.padding == "SAME_LOWER" {
		begin, end = end, begin
	}
	return s.pad(x, s.shape(size{}, size{}, size{tensor: begin}, size{}, size{}, size{tensor: end}), value)
}

func (s *site) pad(x, pads string, value float64) string {
	if value == 0 {
		return s.node("Pad", x, pads)
	}
	return s.node("Pad", x, pads, s.number(value))
}

// cut keeps the elements of the spatial axes from start on, less those after
// the end, in steps.
func (s *site) cut(x string, start, after, step []int64) string {
	rank := len(start)
	end, axes := make([]int64, rank), make([]int64, rank)
	for i := range axes {
		axes[i], end[i] = int64(i)+2, 1<<40
		if after[i] > 0 {
			end[i] = -after[i]
		}
	}
	if slices.Max(start) == 0 && slices.Max(after) == 0 && slices.Max(step) == 1 {
		return x
	}
	return s.node("Slice", x, s.ints(start...), s.ints(end...), s.ints(axes...), s.ints(step...))
}

// tap is the element of each window at a place of the kernel: what that place
// is multiplied with. x is padded.
func (s *site) tap(x string, w window, place []int64) string {
	start, after := make([]int64, len(place)), make([]int64, len(place))
	for i, k := range place {
		start[i] = k * w.dilation[i]
		after[i] = w.extent(i) - 1 - start[i]
	}
	return s.cut(x, start, after, w.stride)
}

func product(v []int64) int64 {
	p := int64(1)
	for _, n := range v {
		p *= n
	}
	return p
}
