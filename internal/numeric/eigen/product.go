package eigen

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

const (
	// diagonalBlock is the number of rows and columns of the blocks on the diagonal, which are
	// stored in full.
	diagonalBlock = 64
	// tileColumns is the number of columns in a tile. A tile is read twice, by rows and by
	// columns, so it must stay in the cache.
	tileColumns = 512
	// productParts is the number of partial sums. It is fixed, so that the result does not
	// depend on the number of processors.
	productParts = 4
	// minParallelProduct is the smallest size of a product that is worth several processors.
	minParallelProduct = 512
)

// symmetricProduct multiplies the last rows and columns of a symmetric matrix with a vector.
// Only the blocks on the diagonal and the elements to their right are stored.
type symmetricProduct struct {
	a   []float64 // n×n
	n   int
	sum [productParts][]float64
}

func newSymmetricProduct(a []float64, n int) *symmetricProduct {
	p := &symmetricProduct{a: a, n: n}
	for i := range p.sum {
		p.sum[i] = make([]float64, n)
	}
	return p
}

// multiply sets y to the product of the last len(x) rows and columns with x.
func (p *symmetricProduct) multiply(y, x []float64) {
	clear(y)
	if len(x) < minParallelProduct {
		p.part(y, x, 0, 1)
		return
	}
	parallel(productParts, 1, func(from, to int) {
		for i := from; i < to; i++ {
			sum := p.sum[i][:len(x)]
			clear(sum)
			p.part(sum, x, i, productParts)
		}
	})
	for i := range p.sum {
		blas64.Axpy(1, vector(p.sum[i][:len(x)]), vector(y))
	}
}

// part adds the products of every parts-th block row to y, beginning with block row index.
func (p *symmetricProduct) part(y, x []float64, index, parts int) {
	first := p.n - len(x)
	block := 0
	for i := first; i < p.n; block++ {
		next := min(i-i%diagonalBlock+diagonalBlock, p.n)
		if block%parts == index {
			p.blockRow(y, x, first, i, next)
		}
		i = next
	}
}

// blockRow adds the product of the rows and columns with indices in [from,to) to y. first is
// the index of the first row and column in the product.
func (p *symmetricProduct) blockRow(y, x []float64, first, from, to int) {
	segment := func(v []float64, i, j int) blas64.Vector { return vector(v[i-first : j-first]) }
	tile := func(j, k int) blas64.General {
		return blas64.General{Rows: to - from, Cols: k - j, Stride: p.n, Data: p.a[from*p.n+j:]}
	}
	for j := from; j < p.n; {
		k := min(j+tileColumns, p.n)
		blas64.Gemv(blas.NoTrans, 1, tile(j, k), segment(x, j, k), 1, segment(y, from, to))
		if j = max(j, to); j < k {
			blas64.Gemv(blas.Trans, 1, tile(j, k), segment(x, from, to), 1, segment(y, j, k))
		}
		j = k
	}
}
