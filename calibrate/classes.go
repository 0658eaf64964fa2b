package calibrate

import (
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

// ClassCalibration holds the probabilities that a classifier gave the true class of each
// calibration row: the softmax of its logits at temperature 1. Classes are ranked by their
// logits, and classes with equal logits by their index. All fields have one entry for each
// calibration row, except that Weights may be nil.
//
// ClassCalibration is enough to calibrate prediction sets, selective prediction and
// Venn–Abers bounds, so the score and the level can be chosen after the fit.
type ClassCalibration struct {
	Labels []int     // true class
	True   []float64 // probability of the true class
	Above  []float64 // total probability of the classes that rank above the true one
	Ranks  []int     // number of classes that rank above the true one
	Top    []float64 // largest probability of any class
	Grown  []float64 // total probability of the classes that an ordinal set adds before the true class
	// Weights holds the weight of each row if new rows come from another distribution: see
	// WeightedConformal. Sets.WithWeight then sets the weight of a new row. Nil gives all rows
	// the same weight. EstimateError uses weights, Selective refuses them, and VennAbers ignores them.
	Weights []float64
}

// NewClassCalibration ranks the true class of each calibration row among all classes.
// logits is n×c for n rows and c classes, and labels are in [0,c). If no probability is 0,
// logarithms of probabilities can serve as logits.
func NewClassCalibration(logits blas32.General, labels []int) (ClassCalibration, error) {
	if err := checkRows("logits", logits, labels); err != nil {
		return ClassCalibration{}, err
	}
	n := len(labels)
	c := ClassCalibration{
		Labels: slices.Clone(labels), True: make([]float64, n), Above: make([]float64, n), Ranks: make([]int, n), Top: make([]float64, n),
		Grown: make([]float64, n),
	}
	var above []float32
	var order ordinalOrder
	for i, label := range labels {
		z := rows.Row(logits, i)
		above = above[:0]
		for j, v := range z {
			if v > z[label] || v == z[label] && j < label {
				above = append(above, v)
			}
		}
		// Prediction adds the probabilities in the same order, so the sums are equal to the
		// last bit.
		slices.Sort(above)
		p := softmax.New(z, 1)
		for _, v := range slices.Backward(above) {
			c.Above[i] += p.Of(v, 1)
		}
		c.True[i], c.Ranks[i], c.Top[i] = p.Of(z[label], 1), len(above), p.Largest()
		order.reset(z)
		for class := order.next(); class != label; class = order.next() {
			c.Grown[i] += p.Of(z[class], 1)
		}
	}
	return c, nil
}
