package fit

import "github.com/attach-uncertainty/attach/heads"

// losses make the loss from the networks' outputs z: of every row and output,
// or of every row, or of a batch as a whole. Its mean per model is minimised.
var losses = map[heads.Loss]func(s *step, z string) string{
	heads.BCE:            bce,
	heads.MSE:            mse,
	heads.L1:             l1,
	heads.Pinball:        pinball,
	heads.SigmoidPinball: sigmoidPinball,
	heads.GaussianNLL:    gaussianNLL,
	heads.QualityDriven:  qualityDriven,
}

// residual is z − y, where targets may be zero.
func (s *step) residual(z string) string {
	if s.y == "" {
		return z
	}
	return s.node("Sub", z, s.y)
}
