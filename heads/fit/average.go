package fit

// averages are the running means of the weights of models that ask for them.
type averages struct {
	*plan
	mean  []float32 // flat; nil where no model asks
	total []float64 // of the weights of the epochs, per model
}

func newAverages(p *plan) *averages {
	a := &averages{plan: p, total: make([]float64, p.models)}
	for _, m := range p.Models {
		if m.Averaging > 0 && a.mean == nil {
			a.mean = make([]float32, p.flat)
		}
	}
	return a
}

// add takes in the weights after an epoch.
func (a *averages) add(flat []float32) {
	if a.mean == nil {
		return
	}
	for m, config := range a.Models {
		a.total[m] = config.Averaging*a.total[m] + 1
		share := float32(1 / a.total[m])
		for _, q := range a.params {
			mean := q.of(a.mean, m)
			for i, w := range q.of(flat, m) {
				mean[i] += share * (w - mean[i])
			}
		}
	}
}

// weights is flat with the averages in the place of the models that ask for
// them.
func (a *averages) weights(flat []float32) []float32 {
	if a.mean == nil {
		return flat
	}
	// With a factor of 0 the average is the last epoch's weights.
	return a.mean
}
