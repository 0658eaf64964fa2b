package baselines

import (
	"errors"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/dense"
	"github.com/attach-uncertainty/attach/internal/softmax"
	"github.com/attach-uncertainty/attach/ood"
)

// correctClasses returns the class that each training row is an example of: the
// one predicted for it, or −1 where its label says otherwise. Without labels
// predictions are believed.
func correctClasses(t ood.Training) ([]int, error) {
	classes := make([]int, t.Logits.Rows)
	right := 0
	for i := range classes {
		classes[i] = softmax.New(row(t.Logits, i), 1).Top
		if t.Labels != nil && t.Labels[i] != classes[i] {
			classes[i] = -1
			continue
		}
		right++
	}
	if right == 0 {
		return nil, errors.New("no training row is predicted as its label: are labels numbered as the network's outputs are? " +
			"Without labels, predictions are taken in their place")
	}
	return classes, nil
}

// classMeans are the mean rows of c classes; a class of −1 is none, and one
// without rows has a mean of zeros.
func classMeans(m blas32.General, classes []int, c int) blas64.General {
	means := dense.New(c, m.Cols)
	counts := make([]float64, c)
	for i, y := range classes {
		if y < 0 {
			continue
		}
		counts[y]++
		for j, v := range row(m, i) {
			means.Data[y*means.Stride+j] += float64(v)
		}
	}
	for y, n := range counts {
		for j := range m.Cols {
			means.Data[y*means.Stride+j] /= max(n, 1)
		}
	}
	return means
}
