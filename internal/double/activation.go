package double

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func (s *site) clamped(low, high float64, x string) string {
	return s.node("Max", s.node("Min", x, s.number(high)), s.number(low))
}

// lowerClip serves operator set 11 too, whose Clip has single precision alone.
func lowerClip(s *site) string {
	x := s.in(0)
	if s.in(1) != "" {
		x = s.node("Max", x, s.in(1))
	}
	if s.in(2) != "" {
		x = s.node("Min", x, s.in(2))
	}
	return x
}

func (s *site) hardSigmoid(x string) string {
	return s.clamped(0, 1, s.plus(s.attrFloat("beta", 0.5), s.times(s.attrFloat("alpha", 0.2), x)))
}

func (s *site) hardSwish(x string) string {
	return s.mul(x, s.clamped(0, 1, s.plus(0.5, s.times(1.0/6, x))))
}

// negative is the negative part of x.
func (s *site) negative(x string) string { return s.node("Min", x, s.number(0)) }

func (s *site) positive(x string) string { return s.node("Max", x, s.number(0)) }

// leaky is x where it is positive, and a multiple of it elsewhere. The runtime
// has kernels of LeakyRelu and PRelu in double precision from operator set 16
// to 18 alone.
func (s *site) leaky(x, slope string) string {
	return s.add(s.positive(x), s.mul(slope, s.negative(x)))
}

func (s *site) leakyRelu(x string) string {
	return s.leaky(x, s.number(s.attrFloat("alpha", 0.01)))
}

func lowerPRelu(s *site) string { return s.leaky(s.in(0), s.in(1)) }

// expBelow1 is exp(x) − 1 for x ≤ 0, without cancellation near 0.
func (s *site) expBelow1(x string) string {
	t := s.node("Tanh", s.times(0.5, x))
	return s.div(s.times(2, t), s.sub(s.number(1), t))
}

// logPlus1 is log(1 + x) without cancellation near 0 (W. Kahan's way).
func (s *site) logPlus1(x string) string {
	u := s.plus(1, x)
	below := s.plus(-1, u)
	none := s.node("Equal", below, s.number(0))
	return s.where(none, x, s.div(s.mul(s.node("Log", u), x), s.where(none, s.number(1), below)))
}

func (s *site) elu(x string) string { return s.exponential(x, 1, s.attrFloat("alpha", 1), 1) }

func (s *site) celu(x string) string {
	alpha := s.attrFloat("alpha", 1)
	return s.exponential(x, 1, alpha, 1/alpha)
}

func (s *site) selu(x string) string {
	gamma := s.attrFloat("gamma", 1.05070102214813232421875)
	return s.exponential(x, gamma, gamma*s.attrFloat("alpha", 1.67326319217681884765625), 1)
}

// exponential is a·x where x is positive and b·(exp(c·x) − 1) elsewhere.
func (s *site) exponential(x string, a, b, c float64) string {
	return s.add(s.times(a, s.positive(x)), s.times(b, s.expBelow1(s.times(c, s.negative(x)))))
}

func (s *site) softplus(x string) string {
	tail := s.node("Exp", s.node("Neg", s.node("Abs", x)))
	return s.add(s.positive(x), s.logPlus1(tail))
}

func (s *site) mish(x string) string { return s.mul(x, s.node("Tanh", s.softplus(x))) }

func (s *site) softsign(x string) string { return s.div(x, s.plus(1, s.node("Abs", x))) }

func (s *site) thresholdedRelu(x string) string {
	return s.where(s.node("Greater", x, s.number(s.attrFloat("alpha", 1))), x, s.number(0))
}

// shrink moves x towards 0 where it is beyond a threshold.
func (s *site) shrink(x string) string {
	bias, threshold := s.attrFloat("bias", 0), s.attrFloat("lambd", 0.5)
	zero := s.number(0)
	high := s.where(s.node("Greater", x, s.number(threshold)), s.plus(-bias, x), zero)
	return s.where(s.node("Less", x, s.number(-threshold)), s.plus(bias, x), high)
}

// swish is x·σ(αx).
func swish(alpha float64) func(*site, string) string {
	return func(s *site, x string) string {
		return s.mul(x, s.node("Sigmoid", s.times(s.attrFloat("alpha", alpha), x)))
	}
}

func (s *site) gelu(x string) string {
	if onnx.AttributeString(s.n, "approximate", "none") == "tanh" {
		return s.tanhGelu(x)
	}
	return s.erfGelu(x)
}

func (s *site) erfGelu(x string) string {
	return s.mul(s.times(0.5, x), s.plus(1, s.erf(s.times(math.Sqrt2/2, x))))
}

func (s *site) tanhGelu(x string) string {
	const k, cubic = 0.7978845608028654, 0.044715 // √(2/π)
	inner := s.mul(s.times(k, x), s.plus(1, s.times(cubic, s.mul(x, x))))
	return s.mul(s.times(0.5, x), s.plus(1, s.node("Tanh", inner)))
}

// biasGelu adds the second input first.
func biasGelu(gelu func(*site, string) string) lowering {
	return func(s *site) string {
		x := s.in(0)
		if s.in(1) != "" {
			x = s.add(x, s.in(1))
		}
		return gelu(s, x)
	}
}

func (s *site) tan(x string) string { return s.div(s.node("Sin", x), s.node("Cos", x)) }

// atan corrects the runtime's in single precision, y, by
// atan(x) − y = atan((x·cos y − sin y)/(cos y + x·sin y)), which is its
// argument to 1e-21.
func (s *site) atan(x string) string {
	narrow := s.Node("Cast", []string{x}, onnx.Attr("to", pb.TensorProto_FLOAT))
	y := s.Node("Cast", []string{s.node("Atan", narrow)}, onnx.Attr("to", pb.TensorProto_DOUBLE))
	sin, cos := s.node("Sin", y), s.node("Cos", y)
	return s.add(y, s.div(s.sub(s.mul(x, cos), sin), s.add(cos, s.mul(x, sin))))
}

// asin is 2·atan(x/(1 + √(1 − x²))).
func (s *site) asin(x string) string {
	root := s.node("Sqrt", s.mul(s.sub(s.number(1), x), s.plus(1, x)))
	return s.times(2, s.atan(s.div(x, s.plus(1, root))))
}

func (s *site) acos(x string) string { return s.sub(s.number(math.Pi/2), s.asin(x)) }

// sinh is tanh·cosh, which has no cancellation.
func (s *site) sinh(x string) string { return s.mul(s.node("Tanh", x), s.cosh(x)) }

func (s *site) cosh(x string) string {
	return s.times(0.5, s.add(s.node("Exp", x), s.node("Exp", s.node("Neg", x))))
}

// asinh is sign(x)·log(1 + a + a²/(1 + √(1 + a²))) with a = |x|.
func (s *site) asinh(x string) string {
	a := s.node("Abs", x)
	square := s.mul(a, a)
	y := s.logPlus1(s.add(a, s.div(square, s.plus(1, s.node("Sqrt", s.plus(1, square))))))
	return s.where(s.node("Less", x, s.number(0)), s.node("Neg", y), y)
}

// acosh is log(1 + t + √(t·(t + 2))) with t = x − 1.
func (s *site) acosh(x string) string {
	t := s.plus(-1, x)
	return s.logPlus1(s.add(t, s.node("Sqrt", s.mul(t, s.plus(2, t)))))
}

// atanh is sign(x)·log(1 + 2a/(1 − a))/2 with a = |x|.
func (s *site) atanh(x string) string {
	a := s.node("Abs", x)
	y := s.times(0.5, s.logPlus1(s.div(s.times(2, a), s.sub(s.number(1), a))))
	return s.where(s.node("Less", x, s.number(0)), s.node("Neg", y), y)
}
