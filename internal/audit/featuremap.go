package audit

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
)

// MapRow is an input at its position in a map of the features.
type MapRow struct {
	Row
	X, Y float64
	// ReasonGroup holds the reasons of the row without their values.
	ReasonGroup string
}

// Place returns the folder of the row if it is in the shard, and otherwise the shard.
func (r MapRow) Place() string {
	if Within(r.Folder, r.Shard) {
		return r.Folder
	}
	return r.Shard
}

// ClassText returns the name of the predicted class or its number, or an empty string if there
// is none.
func (r MapRow) ClassText() string {
	if r.Class == nil {
		return ""
	}
	return cmp.Or(r.ClassName, strconv.Itoa(*r.Class))
}

// mapRows returns the retained rows that a map shows, without repetitions and in the order of
// the inputs.
func (k *retainedRows) mapRows() []retainedRow {
	all := slices.Concat(k.Worst, k.Sample)
	slices.SortFunc(all, retainedRow.compare)
	return slices.CompactFunc(all, func(a, b retainedRow) bool { return a.compare(b) == 0 })
}

// normalised returns the features of rows, each divided by its norm. It leaves out rows whose
// features are not finite, and also returns the indices of the others.
func normalised(list []retainedRow) (x *mat.Dense, index []int) {
	for i, r := range list {
		if scale := rows.InverseNorm(r.Features); !slices.ContainsFunc(r.Features, func(v float32) bool { return math.IsNaN(scale*float64(v)) || math.IsInf(scale*float64(v), 0) }) {
			index = append(index, i)
		}
	}
	if len(index) == 0 || len(list[0].Features) == 0 {
		return nil, nil
	}
	x = mat.NewDense(len(index), len(list[0].Features), nil)
	for k, i := range index {
		scale := rows.InverseNorm(list[i].Features)
		for j, v := range list[i].Features {
			x.Set(k, j, scale*float64(v))
		}
	}
	return x, index
}

// Map returns the inputs with the highest scores and a random sample of all inputs, at the
// first two principal components of their normalised features. It returns nil if there are
// fewer than 3 rows or 2 features.
func (a *Audit) Map() ([]MapRow, error) {
	x, index := normalised(a.retained.mapRows())
	if x == nil || len(a.mapped) == 0 {
		return nil, nil
	}
	n, width := x.Dims()
	if n < 3 || width < 2 {
		return nil, nil
	}
	for j := range width {
		mean := mat.Sum(x.ColView(j)) / float64(n)
		for i := range n {
			x.Set(i, j, x.At(i, j)-mean)
		}
	}
	// The computation is in float64, because a float32 result would depend on the BLAS
	// library.
	gram := mat.NewSymDense(n, nil)
	gram.SymOuterK(1, x)
	values, vectors, err := eigen.Sym(gram)
	if err != nil {
		return nil, err
	}
	coordinate := func(k, i int) float64 {
		v := vectors.At(i, k) * math.Sqrt(max(values[k], 0))
		if vectors.At(0, k) < 0 { // the sign of an eigenvector is arbitrary, so fix it
			v = -v
		}
		return v
	}
	list := make([]MapRow, n)
	for k, i := range index {
		list[k] = a.mapped[i]
		list[k].X, list[k].Y = coordinate(n-1, k), coordinate(n-2, k)
	}
	return list, nil
}
