package table3

import "math/rand/v2"

// method says of a pair whether x causes y (a score above 0) or y causes x.
// Larger scores in either direction are surer ones.
type method struct {
	name string
	// score is nil for the rows of sqr, which score all pairs of a set at once.
	score func(x, y []float64, rng *rand.Rand) (float64, error)
}

// methods are the rows of the table, in the order of the paper's, below two that
// know nothing. GPI (Stegle et al. 2010) is not among them.
func methods() []method {
	list := []method{
		{"constant", constant}, {"coin", coin},
		{"lingam", lingam},
		{"gr-an", gran},
		{"bicam", bicam},
		{"anm", anm},
		{"igci-g", igci(standardised)},
		{"emd", emd},
		{"igci-u", igci(unit)},
		{"pnl", pnl},
		{"qccd-m3", qccd},
	}
	for _, p := range pools() {
		list = append(list, method{name: p.method})
	}
	return list
}

// constant always answers that x causes y.
func constant(_, _ []float64, _ *rand.Rand) (float64, error) { return 1, nil }

// coin answers at random.
func coin(_, _ []float64, rng *rand.Rand) (float64, error) { return rng.Float64() - .5, nil }
