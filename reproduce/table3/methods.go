package table3

import "math/rand/v2"

// method says of a pair whether x causes y (a score above 0) or y causes x.
// Larger scores in either direction are surer ones.
type method struct {
	name string
	// score is nil for the rows of sqr, which score all pairs of a set at once.
	score func(x, y []float64, rng *rand.Rand) (float64, error)
	// asked says that the row is measured where --methods names it alone.
	asked bool
}

// methods are the rows of the table, in the order of the paper's, below two that
// know nothing.
func methods() []method {
	list := []method{
		{name: "constant", score: constant}, {name: "coin", score: coin},
		{name: "lingam", score: lingam},
		{name: "gr-an", score: gran},
		{name: "bicam", score: bicam},
		{name: "anm", score: anm},
		{name: "gpi", score: gpi},
		{name: "igci-g", score: igci(standardised)},
		{name: "emd", score: emd},
		{name: "igci-u", score: igci(unit)},
		{name: "pnl", score: pnl},
		{name: "qccd-m3", score: qccd},
	}
	for _, p := range pools() {
		list = append(list, method{name: p.method})
	}
	return append(list,
		method{name: "sqr-m5-recipe", score: recipe(false), asked: true},
		method{name: "sqr-m5-released", score: recipe(true), asked: true})
}

// constant always answers that x causes y.
func constant(_, _ []float64, _ *rand.Rand) (float64, error) { return 1, nil }

// coin answers at random.
func coin(_, _ []float64, rng *rand.Rand) (float64, error) { return rng.Float64() - .5, nil }
