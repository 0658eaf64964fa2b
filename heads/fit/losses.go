package fit

import (
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/onnx"
)

// losses maps each loss to a function that adds its graph nodes. The functions get the
// outputs z of the networks. They return one loss for every row and output, one for every
// row, or one for the batch. Training minimises the mean of these losses for each model.
var losses = map[train.Loss]func(s *step, z string) string{
	"bce":             bce,
	"mse":             mse,
	"l1":              l1,
	"pinball":         pinball,
	"sigmoid-pinball": sigmoidPinball,
	"gaussian-nll":    gaussianNLL,
	"quality-driven":  qualityDriven,
}

// residual returns z − y, or z if targets are zero.
func (s *step) residual(z string) string {
	if s.y == "" {
		return z
	}
	return s.node("Sub", z, s.y)
}

// mse returns the squared error.
func mse(s *step, z string) string {
	r := s.residual(z)
	return s.node("Mul", r, r)
}

// l1 returns the absolute error.
func l1(s *step, z string) string { return s.node("Abs", s.residual(z)) }

// bce returns the binary cross-entropy with logits: softplus(z) − y·z.
func bce(s *step, z string) string {
	loss := s.node("Softplus", z)
	if s.y == "" {
		return loss
	}
	return s.node("Sub", loss, s.node("Mul", s.y, z))
}

// pinball returns the quantile loss at level τ, (z−y)·([z>y] − τ), where [z>y] is 1 if z >
// y and otherwise 0 (Koenker and Bassett 1978).
//
// Differentiation treats [z>y] as a constant, so the derivative is [z>y] − τ.
func pinball(s *step, z string) string {
	levels := len(s.Levels)
	if s.Conditional || levels <= 1 || s.Outputs == levels {
		return s.pinballAt(s.residual(z))
	}
	// Outputs are ordered by target, and by level within a target.
	wide := s.node("Reshape", z, s.b.Const(s.dims(s.rows, s.Outputs/levels, levels)))
	if s.y != "" {
		wide = s.node("Sub", wide, s.node("Unsqueeze", s.y, s.b.Const([]int64{-1})))
	}
	return s.node("Reshape", s.pinballAt(wide), s.b.Const(s.dims(s.rows, s.Outputs)))
}

func (s *step) pinballAt(residual string) string {
	return s.node("Mul", residual, s.node("Sub", s.isPositive(residual), s.level()))
}

// isPositive returns 1 if r > 0 and otherwise 0. Differentiation treats it as a constant.
func (s *step) isPositive(r string) string {
	// HardSigmoid with a large alpha, min(max(αr, 0), 1), needs one pass over the data.
	// Greater and Cast need two passes and are slow.
	positive := s.b.Node("HardSigmoid", []string{r}, onnx.Attr("alpha", 1e38), onnx.Attr("beta", 0.0))
	s.constants = append(s.constants, positive)
	return positive
}

// level returns the levels τ in a shape that broadcasts against the residuals.
func (s *step) level() string {
	if s.tau != "" {
		return s.tau
	}
	if len(s.Levels) == 0 {
		levels := make([]float32, s.models)
		for m, c := range s.Models {
			levels[m] = float32(c.Level)
		}
		return s.b.Const(levels, s.dims(1, 1)...)
	}
	levels := make([]float32, len(s.Levels))
	for i, l := range s.Levels {
		levels[i] = float32(l)
	}
	return s.b.Const(levels)
}

// sigmoidPinball returns the quantile loss of σ(z), a score in (0,1), against y.
func sigmoidPinball(s *step, z string) string { return pinball(s, s.node("Sigmoid", z)) }

// gaussianNLL returns ½(ln s + (y−m)²/s) with the variance s = softplus(v) + 1e-3, for
// outputs m and v. References: Nix and Weigend 1994, Lakshminarayanan et al. 2017.
func gaussianNLL(s *step, z string) string {
	mean, v := s.splitOutputs(z)
	variance := s.node("Add", s.node("Softplus", v), s.b.Const(float32(1e-3)))
	r := s.residual(mean)
	sum := s.node("Add", s.node("Log", variance), s.node("Div", s.node("Mul", r, r), variance))
	return s.node("Mul", sum, s.b.Const(float32(0.5)))
}

// splitOutputs returns the first and the second output of each network.
func (s *step) splitOutputs(z string) (first, second string) {
	parts := s.b.NodeN(2, "Split", []string{z, s.b.Const([]int64{1, 1})}, onnx.Attr("axis", -1))
	return parts[0], parts[1]
}

// qualityDriven returns the mean width of the intervals that contain their target, plus a
// penalty if the coverage is too small. The penalty uses a smooth approximation of
// coverage.
//
// Reference: Pearce, Brintrup, Zaki & Neely (2018), High-Quality Prediction
// Intervals for Deep Learning, equation 15 and algorithm 1.
func qualityDriven(s *step, z string) string {
	lower, upper := s.splitOutputs(z)
	belowUpper, aboveLower := s.node("Sub", upper, s.y), s.node("Sub", s.y, lower)
	captured := s.node("Mul", s.isPositive(belowUpper), s.isPositive(aboveLower))
	width := s.mean(s.node("Mul", s.node("Sub", upper, lower), captured))
	fraction := s.node("Max", s.mean(captured), s.b.Const(float32(1/float64(s.rows))))
	width = s.node("Div", width, fraction)

	soft := func(r string) string { return s.node("Sigmoid", s.node("Mul", r, s.b.Const(float32(160)))) }
	coverage := s.mean(s.node("Mul", soft(belowUpper), soft(aboveLower)))
	wantedCoverage := s.Levels[1] - s.Levels[0]
	shortfall := s.node("Relu", s.node("Sub", s.b.Const(float32(wantedCoverage)), coverage))
	weight := 15 * float64(s.penaltyRows) / (wantedCoverage * (1 - wantedCoverage))
	penalty := s.node("Mul", s.node("Mul", shortfall, shortfall), s.b.Const(float32(weight)))
	return s.node("Add", width, penalty)
}
