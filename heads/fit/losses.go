package fit

import "github.com/attach-uncertainty/attach/heads/train"

// losses make the loss from the networks' outputs z: of every row and output,
// or of every row, or of a batch as a whole. Its mean per model is minimised.
var losses = map[train.Loss]func(s *step, z string) string{
	train.BCE:            bce,
	train.MSE:            mse,
	train.L1:             l1,
	train.Pinball:        pinball,
	train.SigmoidPinball: sigmoidPinball,
	train.GaussianNLL:    gaussianNLL,
	train.QualityDriven:  qualityDriven,
}

// residual is z − y, where targets may be zero.
func (s *step) residual(z string) string {
	if s.y == "" {
		return z
	}
	return s.node("Sub", z, s.y)
}
