package table3

import "math/rand/v2"

// method scores whether x causes y (a score above 0) or y causes x (below 0). A larger
// absolute score means more confidence.
type method struct {
	name string
	// score is nil for sqr-m1, sqr-m3 and sqr-m5, because sqr scores all pairs of a set at
	// once.
	score func(x, y []float64, rng *rand.Rand) (float64, error)
	// onRequest reports whether the method runs only if --methods names it.
	onRequest bool
}

// methods returns the rows of the table. Two trivial baselines come first, then the methods
// in the paper's order, and last two variants of sqr-m5.
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
		{name: "igci-u", score: igci(minMaxScaled)},
		{name: "pnl", score: pnl},
		{name: "qccd-m3", score: qccd},
	}
	for _, p := range pools() {
		list = append(list, method{name: p.method})
	}
	return append(list,
		method{name: "sqr-m5-recipe", score: recipe(false), onRequest: true},
		method{name: "sqr-m5-released", score: recipe(true), onRequest: true})
}

// constant always decides that x causes y.
func constant(_, _ []float64, _ *rand.Rand) (float64, error) { return 1, nil }

// coin decides at random.
func coin(_, _ []float64, rng *rand.Rand) (float64, error) { return rng.Float64() - .5, nil }
