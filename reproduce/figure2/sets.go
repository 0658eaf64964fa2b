package figure2

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// crossingSet is a data set on which quantiles may cross: a toy or a UCI set.
type crossingSet struct {
	name   string
	hidden []int
	toy    cosineToy // used if uci is nil
	uci    *uci.Set  // nil for toys
}

// cosineToy generates y = cos(frequency·x₁) + N(0, noise²) with x ~ N(0, I).
type cosineToy struct {
	columns          int
	frequency, noise float64
}

// cosineRows is the number of training rows of a toy, and also of its test rows.
const cosineRows = 1000

// cosineSets returns the toy sets. The paper and its script describe different toys,
// so the list has both.
func cosineSets() []crossingSet {
	return []crossingSet{
		{name: "cos5", hidden: []int{128, 128}, toy: cosineToy{columns: 5, frequency: 5, noise: .3}},
		{name: "cos10", hidden: []int{128, 128}, toy: cosineToy{columns: 10, frequency: 10, noise: 1. / 3}},
		// This toy has one input, so a plot can show the crossings.
		{name: "cos1", hidden: []int{128, 128}, toy: cosineToy{columns: 1, frequency: 5, noise: .3}},
	}
}

// chooseSets selects sets by name. If names is nil, it returns the toys. It adds the UCI
// sets if there is a data folder.
func chooseSets(names []string, data string) ([]crossingSet, error) {
	all := cosineSets()
	for _, u := range uci.Sets() {
		all = append(all, crossingSet{name: u.Name, hidden: []int{64}, uci: &u})
	}
	if names == nil && data == "" {
		return cosineSets(), nil
	}
	sets, err := experiment.Choose("--sets", "set", names, all, func(s crossingSet) string { return s.name }, crossingSet.file)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if s.uci != nil && data == "" {
			return nil, experiment.Usagef("%s is a UCI set: say where the data sets are with --data", s.name)
		}
	}
	return sets, nil
}

// file returns the file name of a UCI set, or the name of a toy.
func (s crossingSet) file() string {
	if s.uci == nil {
		return s.name
	}
	return s.uci.File
}

// crossingRows holds training and test rows.
type crossingRows struct{ x, y, testX, testY blas32.General }

// split draws a toy, or splits a UCI set at random into 90 % training and 10 % test rows.
func (s crossingSet) split(ctx context.Context, dir string, seed int) (r crossingRows, err error) {
	if s.uci == nil {
		rng := rand.New(rand.NewPCG(uint64(seed), 0))
		r.x, r.y = s.toy.draw(rng, cosineRows)
		r.testX, r.testY = s.toy.draw(rng, cosineRows)
		return r, nil
	}
	data, err := s.uci.Read(ctx, dir)
	if err != nil {
		return r, err
	}
	parts := experiment.SplitRows(data.X.Rows, uint64(seed))
	train, test := data.Select(append(parts.Cal, parts.Fit...)), data.Select(parts.Test)
	return crossingRows{train.X, train.Y, test.X, test.Y}, nil
}

func (t cosineToy) draw(rng *rand.Rand, n int) (x, y blas32.General) {
	x = rows.New(n, t.columns)
	target := make([]float64, n)
	for i := range target {
		row := rows.Row(x, i)
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		target[i] = math.Cos(t.frequency*float64(row[0])) + t.noise*rng.NormFloat64()
	}
	return x, experiment.AsColumn(target)
}
