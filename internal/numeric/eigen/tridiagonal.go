package eigen

import (
	"gonum.org/v1/gonum/lapack/gonum"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// panelRows is the number of reflections that are collected before they are applied to the
// rest of the matrix.
const panelRows = 32

// updateRows is the largest number of rows that one matrix product updates. It is a multiple
// of diagonalBlock.
const updateRows = 256

// reduction is the decomposition A = Q·T·Qᵀ. T is tridiagonal, and Q = H₀·H₁⋯ is a product of
// reflections Hⱼ = I − τⱼvⱼvⱼᵀ.
type reduction struct {
	n    int
	v    []float64 // n×n; row j is vⱼ, with zeros up to column j and 1 in column j+1
	tau  []float64
	d, e []float64 // diagonal and off-diagonal of T
}

// tridiagonalize reduces a symmetric matrix to tridiagonal form. a is n×n and holds the upper
// triangle of the matrix. tridiagonalize overwrites a.
//
// The reflections of a panel are computed one after another. The rows that follow are then
// updated by the matrix products A ← A − VᵀW − WᵀV. Only square blocks on the diagonal and the
// elements to their right are kept up to date.
//
// Reference: Dongarra, Sorensen & Hammarling (1989), Block reduction of matrices
// to condensed forms for eigenvalue computations.
func tridiagonalize(a []float64, n int) *reduction {
	r := &reduction{n: n, v: a, tau: make([]float64, n-1), d: make([]float64, n), e: make([]float64, n-1)}
	for i := range n {
		for j := i - i%diagonalBlock; j < i; j++ {
			a[i*n+j] = a[j*n+i]
		}
	}
	w := make([]float64, panelRows*n)
	p := panel{reduction: r, w: w, scratch: make([]float64, 2*panelRows), product: newSymmetricProduct(a, n)}
	pairs := [2][]float64{make([]float64, 2*panelRows*n), make([]float64, 2*panelRows*n)}
	for j := 0; j < n-1; j += panelRows {
		next := min(j+panelRows, n-1)
		p.start = j
		for i := j; i < next; i++ {
			p.reflect(i)
		}
		p.update(next, pairs)
	}
	r.d[n-1] = a[n*n-1]
	return r
}

// panel holds reflections that have been computed but not yet applied to the following rows.
type panel struct {
	*reduction
	start   int       // index of the first reflection
	w       []float64 // row i is the w of reflection start+i, in the update A − vᵀw − wᵀv
	scratch []float64 // two vectors of panelRows elements
	product *symmetricProduct
}

// pending returns the v and w of those reflections of the panel that come before reflection
// j. It omits the columns before from.
func (p *panel) pending(j, from int) (v, w blas64.General) {
	n, rows := p.n, j-p.start
	v = blas64.General{Rows: rows, Cols: n - from, Stride: n, Data: p.v[p.start*n+from:]}
	w = blas64.General{Rows: rows, Cols: n - from, Stride: n, Data: p.w[from:]}
	return v, w
}

// reflect computes reflection j, and the elements dⱼ and eⱼ of T.
func (p *panel) reflect(j int) {
	n := p.n
	row := p.v[j*n : (j+1)*n]
	count := j - p.start
	x, y := vector(p.scratch[:count]), vector(p.scratch[panelRows:panelRows+count])
	if count > 0 {
		v, w := p.pending(j, j)
		for i := range count {
			x.Data[i], y.Data[i] = v.Data[i*n], w.Data[i*n]
		}
		current := vector(row[j:])
		blas64.Gemv(blas.Trans, -1, v, y, 1, current)
		blas64.Gemv(blas.Trans, -1, w, x, 1, current)
	}
	p.d[j] = row[j]
	clear(row[:j+1])
	v := row[j+1:]
	p.e[j], p.tau[j] = gonum.Implementation{}.Dlarfg(len(v), v[0], v[1:], 1)
	v[0] = 1
	wRow := p.w[count*n : (count+1)*n]
	clear(wRow)
	if p.tau[j] == 0 {
		return
	}
	u, wTail := vector(v), vector(wRow[j+1:])
	p.product.multiply(wTail.Data, v)
	if count > 0 {
		vs, ws := p.pending(j, j+1)
		blas64.Gemv(blas.NoTrans, 1, ws, u, 0, x)
		blas64.Gemv(blas.NoTrans, 1, vs, u, 0, y)
		blas64.Gemv(blas.Trans, -1, vs, x, 1, wTail)
		blas64.Gemv(blas.Trans, -1, ws, y, 1, wTail)
	}
	blas64.Scal(p.tau[j], wTail)
	blas64.Axpy(-p.tau[j]/2*blas64.Dot(wTail, u), u, wTail)
}

// update applies the panel to row next and the rows after it. pairs is memory for V above W
// and for W above V.
func (p *panel) update(next int, pairs [2][]float64) {
	n, rows, width := p.n, next-p.start, p.n-next
	v, w := p.pending(next, next)
	pair := func(k int, upper, lower blas64.General) blas64.General {
		g := blas64.General{Rows: 2 * rows, Cols: width, Stride: width, Data: pairs[k]}
		for i := range rows {
			copy(g.Data[i*width:(i+1)*width], upper.Data[i*n:])
			copy(g.Data[(rows+i)*width:(rows+i+1)*width], lower.Data[i*n:])
		}
		return g
	}
	vw, wv := pair(0, v, w), pair(1, w, v)
	for first := next; first < n; {
		// Blocks on the diagonal must not be split.
		end := min(first-first%diagonalBlock+updateRows, n)
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, columns(vw, first-next, end-first), columns(wv, first-next, n-first),
			1, blas64.General{Rows: end - first, Cols: n - first, Stride: n, Data: p.v[first*n+first:]})
		first = end
	}
}

// columns returns k columns of g, beginning with column j, without a copy.
func columns(g blas64.General, j, k int) blas64.General {
	return blas64.General{Rows: g.Rows, Cols: k, Stride: g.Stride, Data: g.Data[j:]}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
