package baselines

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// row is row i of m.
func row(m blas32.General, i int) []float32 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}

// scores returns dst, or a new slice of n scores where dst is nil.
func scores(dst []float64, n int) []float64 {
	if dst == nil {
		return make([]float64, n)
	}
	if len(dst) != n {
		panic(fmt.Sprintf("baselines: room for %d scores but %d rows", len(dst), n))
	}
	return dst
}

// checkWidth says what is wrong with rows to score, for a method fitted with
// want columns.
func checkWidth(m blas32.General, want int, what string) error {
	if m.Cols == 0 {
		return fmt.Errorf("the rows to score carry no %s", what)
	}
	if m.Cols != want {
		return fmt.Errorf("rows of %d %s, but the method was fitted with %d", m.Cols, what, want)
	}
	return nil
}

// checkRows says what is wrong with features to fit with.
func checkRows(phi blas32.General, method string) error {
	if phi.Rows == 0 {
		return &heads.TooFewRowsError{What: method, Need: 1}
	}
	return heads.CheckFinite("features", phi)
}

// checkLogitRows says what is wrong with logits to fit with.
func checkLogitRows(z blas32.General, method string) error {
	if z.Rows == 0 {
		return &heads.TooFewRowsError{What: method, Need: 1}
	}
	return heads.CheckFinite("logits", z)
}

// checkLayers says what is wrong with earlier layers to fit with.
func checkLayers(layers []blas32.General) error {
	for i, m := range layers {
		if err := heads.CheckFinite(fmt.Sprintf("layer %d", i), m); err != nil {
			return err
		}
	}
	return nil
}

// checkBoth says what is wrong with features and logits to fit with.
func checkBoth(t ood.Training, method string) error {
	for _, part := range []struct {
		need ood.Needs
		has  bool
	}{{ood.NeedFeatures, t.HasFeatures()}, {ood.NeedLogits, t.HasLogits()}} {
		if !part.has {
			return &ood.NeedError{Method: method, Need: part.need, Where: "the rows to fit with"}
		}
	}
	if err := checkRows(t.Features, method); err != nil {
		return err
	}
	if err := checkLogitRows(t.Logits, method); err != nil {
		return err
	}
	if t.Features.Rows != t.Logits.Rows {
		return fmt.Errorf("%d rows of features but %d of logits", t.Features.Rows, t.Logits.Rows)
	}
	return checkClasses(t.Logits.Cols)
}

// checkBothWidths says what is wrong with rows to score, for a method fitted
// with h features and c logits.
func checkBothWidths(b ood.Batch, h, c int) error {
	if err := checkWidth(b.Features, h, "features"); err != nil {
		return err
	}
	if err := checkWidth(b.Logits, c, "logits"); err != nil {
		return err
	}
	if b.Logits.Rows != b.Features.Rows {
		return fmt.Errorf("%d rows of features but %d of logits", b.Features.Rows, b.Logits.Rows)
	}
	return nil
}

// one is the single scorer of a grid of one.
func one(s []ood.Scorer, err error) (ood.Scorer, error) {
	if err != nil {
		return nil, err
	}
	return s[0], nil
}

// bank is the training features for a scorer to keep, which outlives them: a
// copy, unless they are said to stay.
func bank(t ood.Training) blas32.General {
	if t.Stays {
		return t.Features
	}
	return clone(t.Features)
}

// clone is a contiguous copy of m.
func clone(m blas32.General) blas32.General {
	return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: max(m.Cols, 1), Data: heads.ArrayOf(m).Data.([]float32)}
}

// stored is rows that stay as they are, as an array.
func stored(m blas32.General) heads.Array {
	if m.Stride == m.Cols {
		return heads.Array{Shape: []int{m.Rows, m.Cols}, Data: m.Data[:m.Rows*m.Cols]}
	}
	return heads.ArrayOf(m)
}

func squaredNorm(x []float64) float64 {
	v := vector64(x)
	return blas64.Dot(v, v)
}

// featureMeans are worked out once for all that are fitted to the rows of t.
func featureMeans(t ood.Training) []float64 {
	type key struct{}
	mean, _ := ood.Cached(t.Batch, key{}, func() ([]float64, error) { return columnMeans(t.Features), nil })
	return mean
}

func columnMeans(m blas32.General) []float64 {
	mean := make([]float64, m.Cols)
	for i := range m.Rows {
		for j, v := range row(m, i) {
			mean[j] += float64(v)
		}
	}
	for j := range mean {
		mean[j] /= float64(m.Rows)
	}
	return mean
}

// A single logit has a softmax of 1, whatever it is.
const leastLogits = 2
