package double

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// normalized is (x − mean)/√(variance + ε) over axes, or x/√(mean square + ε)
// where it is not centred.
func (s *site) normalized(x string, centred bool, epsilon float64, axes ...int64) string {
	if centred {
		x = s.sub(x, s.reduce("ReduceMean", x, axes...))
	}
	return s.div(x, s.node("Sqrt", s.plus(epsilon, s.reduce("ReduceMean", s.mul(x, x), axes...))))
}

// affine is x·scale + shift, of which the latter may be left out.
func (s *site) affine(x, scale, shift string) string {
	if scale != "" {
		x = s.mul(x, scale)
	}
	if shift != "" {
		x = s.add(x, shift)
	}
	return x
}

// lowerLayer normalizes the last axes.
func lowerLayer(centred bool) lowering {
	return func(s *site) string {
		dims, ok := s.dims(s.in(0))
		axis := s.attrInt("axis", -1)
		if axis < 0 && ok {
			axis += int64(len(dims))
		}
		if !ok || axis < 0 || axis >= int64(len(dims)) {
			return s.fail("the rank of %q is not known", s.in(0))
		}
		var axes []int64
		for i := axis; i < int64(len(dims)); i++ {
			axes = append(axes, i)
		}
		return s.affine(s.normalized(s.in(0), centred, s.attrFloat("epsilon", 1e-5), axes...), s.in(1), s.in(2))
	}
}

// lowerSkip normalizes the last axis of the sum of input, skip and a bias,
// whose numbers as inputs and those of the shift are given. The sum may be the
// fourth output.
func lowerSkip(centred bool, shift, bias int) lowering {
	return func(s *site) string {
		sum := s.add(s.in(0), s.in(1))
		if s.in(bias) != "" {
			sum = s.add(sum, s.in(bias))
		}
		if len(s.n.Output) > 3 && s.n.Output[3] != "" {
			s.Append(onnx.Node{Op: "Identity", Inputs: []string{sum}, Outputs: s.n.Output[3:4]})
			s.n.Output = s.n.Output[:3]
		}
		beta := ""
		if shift > 0 {
			beta = s.in(shift)
		}
		return s.affine(s.normalized(sum, centred, s.attrFloat("epsilon", 1e-12), -1), s.in(2), beta)
	}
}

// lowerInstance normalizes each channel of each row.
func lowerInstance(s *site) string {
	axes, ok := s.spatialAxes()
	if !ok {
		return ""
	}
	channels := sizes(append([]int64{-1}, slices.Repeat([]int64{1}, len(axes))...)...)
	return s.affine(s.normalized(s.in(0), true, s.attrFloat("epsilon", 1e-5), axes...),
		s.reshape(s.in(1), channels...), s.reshape(s.in(2), channels...))
}

// lowerGroup normalizes groups of channels. The scales are those of channels
// from operator set 21 on, and of groups before.
func lowerGroup(s *site) string {
	x, groups := s.in(0), s.attrInt("num_groups", 1)
	axes, ok := s.spatialAxes()
	if !ok {
		return ""
	}
	ones := slices.Repeat([]int64{1}, len(axes))
	apart := s.normalized(s.reshape(x, sizes(0, groups, -1)...), true, s.attrFloat("epsilon", 1e-5), 2)
	if s.Opset() < 21 {
		form := sizes(-1, 1)
		apart = s.affine(apart, s.reshape(s.in(1), form...), s.reshape(s.in(2), form...))
		return s.node("Reshape", apart, s.node("Shape", x))
	}
	form := sizes(append([]int64{-1}, ones...)...)
	return s.affine(s.node("Reshape", apart, s.node("Shape", x)), s.reshape(s.in(1), form...), s.reshape(s.in(2), form...))
}

// lowerMeanVariance is what ONNX defines it to be, with its 1e-9.
func lowerMeanVariance(s *site) string {
	axes := onnx.AttributeInts(s.n, "axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	x := s.in(0)
	mean := s.reduce("ReduceMean", x, axes...)
	square := s.reduce("ReduceMean", s.mul(x, x), axes...)
	return s.div(s.sub(x, mean), s.plus(1e-9, s.node("Sqrt", s.sub(square, s.mul(mean, mean)))))
}

// lowerLRN divides by a power of the mean square over nearby channels.
func lowerLRN(s *site) string {
	x, n := s.in(0), s.attrInt("size", 1)
	dims, ok := s.dims(x)
	if !ok {
		return s.fail("the rank of %q is not known", x)
	}
	pads := make([]int64, 2*len(dims))
	pads[1], pads[len(dims)+1] = (n-1)/2, n/2
	padded := s.pad(s.mul(x, x), s.ints(pads...), 0)
	sum := ""
	for i := range n {
		end := int64(1) << 40
		if i < n-1 {
			end = i - n + 1
		}
		t := s.node("Slice", padded, s.ints(i), s.ints(end), s.ints(1))
		if sum != "" {
			t = s.add(sum, t)
		}
		sum = t
	}
	d := s.plus(s.attrFloat("bias", 1), s.times(s.attrFloat("alpha", 1e-4)/float64(n), sum))
	return s.div(x, s.node("Pow", d, s.number(s.attrFloat("beta", 0.75))))
}
