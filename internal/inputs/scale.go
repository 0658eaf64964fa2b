package inputs

import "github.com/attach-uncertainty/attach/ood"

// Scale says how far the model's input moves where a pixel, scaled to [0,1],
// moves by one: by 255·rescale/std, by channel of the row. A nil Preprocess
// scales nothing.
func (p *Preprocess) Scale(layout Layout) ood.InputScale {
	if p == nil {
		return ood.InputScale{}
	}
	rescale := 255.
	if p.Rescale != 0 {
		rescale *= p.Rescale
	}
	s := ood.InputScale{Factor: []float32{float32(rescale)}}
	if layout == NHWC {
		s.Axis = 2
	}
	if len(p.Std) > 0 {
		s.Factor = make([]float32, len(p.Std))
		for c, std := range p.Std {
			s.Factor[c] = float32(rescale / std)
		}
	}
	return s
}
