package fit

import "github.com/attach-uncertainty/attach/internal/onnx"

// pinball is the quantile loss (Koenker and Bassett 1978) at level τ:
// (z−y)·([z>y] − τ).
//
// The bracket is held fast, which leaves ([z>y] − τ) as the derivative.
func pinball(s *step, z string) string {
	levels := len(s.Levels)
	if s.Conditional || levels <= 1 || s.Outputs == levels {
		return s.pinballAt(s.residual(z))
	}
	// The outputs are all levels of target after target.
	wide := s.node("Reshape", z, s.b.Const(s.dims(s.rows, s.Outputs/levels, levels)))
	if s.y != "" {
		wide = s.node("Sub", wide, s.node("Unsqueeze", s.y, s.b.Const([]int64{-1})))
	}
	return s.node("Reshape", s.pinballAt(wide), s.b.Const(s.dims(s.rows, s.Outputs)))
}

func (s *step) pinballAt(residual string) string {
	return s.node("Mul", residual, s.node("Sub", s.over(residual), s.level()))
}

// over is [r>0], held fast.
func (s *step) over(r string) string {
	// As a steep min(max(αr, 0), 1): one pass, where Greater and Cast are two
	// slow ones.
	over := s.nodeWith("HardSigmoid", []string{r}, onnx.Attr("alpha", 1e38), onnx.Attr("beta", 0.0))
	s.constants = append(s.constants, over)
	return over
}

// level is τ, to be broadcast against the residuals.
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
