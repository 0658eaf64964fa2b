package ort

import (
	"context"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// BLAS is gonum's implementation of the Basic Linear Algebra Subprograms, except that ONNX
// Runtime computes large real Gemm and Syrk products on the CPU. To install it, a program
// calls Runtime.UseBLAS. Results differ from gonum's in rounding.
//
// BLAS routines cannot report an error. If ONNX Runtime fails, or after the runtime was
// closed, gonum computes the result.
type BLAS struct {
	gonum.Implementation

	r        *Runtime
	mu       sync.RWMutex // read-locked during a product, write-locked while sessions are created or closed
	sessions map[operation]*Session
	closed   bool

	buffers32, buffers64 sync.Pool // hold *[]float32 and *[]float64: buffers for results and for packed operands
}

// getBuffer returns a buffer for n elements. release returns the buffer to a pool. Without
// the pool, products of many blocks would allocate as much memory as the garbage collector
// allows.
func getBuffer[T real](b *BLAS, n int) (buffer []T, release func()) {
	var z T
	pool := &b.buffers32
	if _, ok := any(z).(float64); ok {
		pool = &b.buffers64
	}
	p, ok := pool.Get().(*[]T)
	if !ok || cap(*p) < n {
		p = new([]T)
		*p = make([]T, n)
	}
	return (*p)[:n], func() { pool.Put(p) }
}

// operation identifies the session that computes a matrix product, by element type and by
// which operands are stored transposed.
type operation struct {
	dtype          pb.TensorProto_DataType
	transA, transB bool
}

var _ interface {
	blas.Float32
	blas.Float64
} = (*BLAS)(nil)

// BLAS returns an implementation of BLAS that uses the runtime until the runtime is closed.
func (r *Runtime) BLAS() *BLAS { return r.blas() }

// UseBLAS installs r.BLAS in gonum, for the whole process. stop reinstalls gonum's own
// implementation and closes the runtime.
func (r *Runtime) UseBLAS() (stop func()) {
	blas32.Use(r.BLAS())
	blas64.Use(r.BLAS())
	return func() {
		blas32.Use(gonum.Implementation{})
		blas64.Use(gonum.Implementation{})
		r.Close()
	}
}

// Products opens a runtime and installs its BLAS in gonum for the whole process. stop
// undoes this and closes the runtime.
func Products(ctx context.Context, o Options) (stop func(), err error) {
	r, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	lib := r.Library()
	o.log().Debug("runtime library", "path", lib.Path, "version", lib.Version, "from", lib.Source, "provider", r.Provider())
	return r.UseBLAS(), nil
}

// minProduct is the smallest number of multiplications m·n·k that ONNX Runtime computes.
// For smaller products, a call to the runtime costs more time than it saves.
const minProduct = 1 << 18

// Sgemm computes C = αAB + βC in float32. A and B may be transposed.
func (b *BLAS) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, x []float32, ldx int, y []float32, ldy int, beta float32, c []float32, ldc int) {
	full := product[float32]{alpha, matrix[float32]{m, k, x, ldx, tA}, matrix[float32]{k, n, y, ldy, tB}, beta, matrix[float32]{m, n, c, ldc, blas.NoTrans}, blas.All}
	run(b, full, func(p product[float32]) {
		b.Implementation.Sgemm(tA, tB, p.c.rows, n, p.x.cols, alpha, p.x.data, ldx, p.y.data, ldy, p.beta, p.c.data, ldc)
	})
}

// Dgemm computes C = αAB + βC in float64. A and B may be transposed.
func (b *BLAS) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, x []float64, ldx int, y []float64, ldy int, beta float64, c []float64, ldc int) {
	full := product[float64]{alpha, matrix[float64]{m, k, x, ldx, tA}, matrix[float64]{k, n, y, ldy, tB}, beta, matrix[float64]{m, n, c, ldc, blas.NoTrans}, blas.All}
	run(b, full, func(p product[float64]) {
		b.Implementation.Dgemm(tA, tB, p.c.rows, n, p.x.cols, alpha, p.x.data, ldx, p.y.data, ldy, p.beta, p.c.data, ldc)
	})
}

// Ssyrk computes one triangle of C = αAAᵀ + βC, or of C = αAᵀA + βC, in float32.
func (b *BLAS) Ssyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float32, x []float32, ldx int, beta float32, c []float32, ldc int) {
	a := matrix[float32]{n, k, x, ldx, tA}
	run(b, product[float32]{alpha, a, a.transposed(), beta, matrix[float32]{n, n, c, ldc, blas.NoTrans}, ul}, func(p product[float32]) {
		b.Implementation.Ssyrk(ul, tA, n, p.x.cols, alpha, p.x.data, ldx, p.beta, c, ldc)
	})
}

// Dsyrk computes one triangle of C = αAAᵀ + βC, or of C = αAᵀA + βC, in float64.
func (b *BLAS) Dsyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float64, x []float64, ldx int, beta float64, c []float64, ldc int) {
	a := matrix[float64]{n, k, x, ldx, tA}
	run(b, product[float64]{alpha, a, a.transposed(), beta, matrix[float64]{n, n, c, ldc, blas.NoTrans}, ul}, func(p product[float64]) {
		b.Implementation.Dsyrk(ul, tA, n, p.x.cols, alpha, p.x.data, ldx, p.beta, c, ldc)
	})
}

type real interface{ float32 | float64 }

// matrix is a matrix in memory. It has rows×cols elements after its transposition trans. In
// memory, a row begins ld elements after the row before it.
type matrix[T real] struct {
	rows, cols int
	data       []T
	ld         int
	trans      blas.Transpose
}

// storedShape returns the shape of the matrix in memory, before the transposition.
func (m matrix[T]) storedShape() (rows, cols int) {
	if m.trans == blas.NoTrans {
		return m.rows, m.cols
	}
	return m.cols, m.rows
}

// isValid reports whether the matrix has elements and a valid shape, slice and
// transposition. gonum ignores empty matrices and panics on invalid ones.
func (m matrix[T]) isValid() bool {
	rows, cols := m.storedShape()
	known := m.trans == blas.NoTrans || m.trans == blas.Trans || m.trans == blas.ConjTrans
	return known && rows > 0 && cols > 0 && m.ld >= cols && len(m.data) >= (rows-1)*m.ld+cols
}

// transposed returns the transpose of the matrix without copying its data.
func (m matrix[T]) transposed() matrix[T] {
	m.rows, m.cols = m.cols, m.rows
	switch m.trans {
	case blas.NoTrans:
		m.trans = blas.Trans
	case blas.Trans, blas.ConjTrans:
		m.trans = blas.NoTrans
	}
	return m
}

// rowRange returns the rows lo to hi−1 of the matrix.
func (m matrix[T]) rowRange(lo, hi int) matrix[T] {
	m.rows = hi - lo
	if m.trans == blas.NoTrans {
		lo *= m.ld
	}
	m.data = m.data[lo:]
	return m
}

// packed returns the elements without gaps between rows. The data is valid until release is
// called.
func (m matrix[T]) packed(b *BLAS) (data []T, release func()) {
	rows, cols := m.storedShape()
	if m.ld == cols {
		return m.data[:rows*cols], func() {}
	}
	out, release := getBuffer[T](b, rows*cols)
	for i := range rows {
		copy(out[i*cols:(i+1)*cols], m.data[i*m.ld:])
	}
	return out, release
}

// product describes C = αXY + βC. uplo selects all of C, its upper triangle or its lower
// triangle.
type product[T real] struct {
	alpha T
	x, y  matrix[T]
	beta  T
	c     matrix[T]
	uplo  blas.Uplo
}

// run computes a large product in ONNX Runtime, and a small or invalid one with fallback.
func run[T real](b *BLAS, p product[T], fallback func(product[T])) {
	m, n, k := p.c.rows, p.c.cols, p.x.cols
	if p.alpha == 0 || m*n*k < minProduct || !p.x.isValid() || !p.y.isValid() || !p.c.isValid() ||
		p.uplo != blas.All && p.uplo != blas.Upper && p.uplo != blas.Lower {
		fallback(p)
		return
	}
	// A matrix with gaps between its rows must be copied. Splitting the product limits the
	// size of each copy.
	parts := 1
	if _, cols := p.x.storedShape(); p.x.ld != cols {
		parts = (m*k + maxPanel - 1) / maxPanel
	}
	for i := range parts {
		q := p
		if p.uplo == blas.All && p.x.trans == blas.NoTrans {
			lo, hi := i*m/parts, (i+1)*m/parts
			q.x, q.c = p.x.rowRange(lo, hi), p.c.rowRange(lo, hi)
		} else if parts > 1 {
			lo, hi := i*k/parts, (i+1)*k/parts
			q.x, q.y = p.x.transposed().rowRange(lo, hi).transposed(), p.y.rowRange(lo, hi)
			if i > 0 {
				q.beta = 1
			}
		}
		if q.c.rows > 0 && q.x.cols > 0 && !computeInRuntime(b, q) {
			fallback(q)
		}
	}
}

// computeInRuntime computes p in ONNX Runtime. It returns false if that fails.
func computeInRuntime[T real](b *BLAS, p product[T]) bool {
	m, n := p.c.rows, p.c.cols
	direct := p.alpha == 1 && p.beta == 0 && p.c.ld == n && p.uplo == blas.All
	z := p.c.data
	if !direct {
		buffer, release := getBuffer[T](b, m*n)
		defer release()
		z = buffer
	}
	z = z[:m*n]
	if !multiply(b, p.x, p.y, z) {
		return false
	}
	for i := 0; i < m && !direct; i++ {
		from, to := 0, n
		switch p.uplo {
		case blas.Upper:
			from = i
		case blas.Lower:
			to = i + 1
		}
		accumulate(p.c.data[i*p.c.ld+from:i*p.c.ld+to], p.alpha, z[i*n+from:i*n+to], p.beta)
	}
	return true
}

// maxPanel is the largest number of elements of a matrix with gaps that are copied at once.
const maxPanel = 1 << 23

// accumulate sets c to αz + βc, element by element.
func accumulate[T real](c []T, alpha T, z []T, beta T) {
	c = c[:len(z)]
	if beta == 0 { // c may hold NaN, and BLAS must ignore it if β = 0
		for i, v := range z {
			c[i] = alpha * v
		}
		return
	}
	for i, v := range z {
		c[i] = alpha*v + beta*c[i]
	}
}

// multiply computes z = xy in ONNX Runtime. It returns false if that fails.
func multiply[T real](b *BLAS, x, y matrix[T], z []T) bool {
	left, releaseLeft := x.packed(b)
	defer releaseLeft()
	right, releaseRight := y.packed(b)
	defer releaseRight()
	var tensors [3]*Tensor
	for i, m := range []matrix[T]{{x.rows, x.cols, left, 0, x.trans}, {y.rows, y.cols, right, 0, y.trans}, {x.rows, y.cols, z, 0, blas.NoTrans}} {
		rows, cols := m.storedShape()
		t, err := NewTensor([]int64{int64(rows), int64(cols)}, m.data)
		if err != nil {
			return false
		}
		defer t.Close()
		tensors[i] = t
	}
	s, ok := b.session(operation{tensors[0].dtype, x.trans != blas.NoTrans, y.trans != blas.NoTrans})
	if !ok {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return !b.closed && s.RunInto(tensors[:2], tensors[2:]) == nil
}

// session returns the session for an operation, and creates it on first use. It returns
// false if that failed or if b is closed.
func (b *BLAS) session(p operation) (*Session, bool) {
	b.mu.RLock()
	s, ok := b.sessions[p]
	b.mu.RUnlock()
	if ok {
		return s, s != nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.sessions[p]; ok || b.closed {
		return s, s != nil
	}
	s, err := b.r.cpuSession(Model{Proto: p.model()})
	if err != nil {
		b.r.opts.log().Warn("matrix products run in Go", "reason", err)
	}
	b.sessions[p] = s
	return s, err == nil
}

func (b *BLAS) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		s.Close()
	}
	b.closed, b.sessions = true, nil
}

// model returns a model that computes the operation with a Gemm node.
func (p operation) model() *pb.ModelProto {
	matrix := func(name string) *pb.ValueInfoProto { return onnx.ValueInfo(name, p.dtype, -1, -1) }
	return modelOf(&pb.GraphProto{
		Input:  []*pb.ValueInfoProto{matrix("a"), matrix("b")},
		Output: []*pb.ValueInfoProto{matrix("c")},
		Node: []*pb.NodeProto{{OpType: proto.String("Gemm"), Input: []string{"a", "b"}, Output: []string{"c"},
			Attribute: []*pb.AttributeProto{onnx.Attr("transA", p.transA), onnx.Attr("transB", p.transB)}}},
	})
}

// cpuSession creates a session that takes all inputs and returns all outputs of m. It runs
// on the CPU even if the runtime uses another provider.
func (r *Runtime) cpuSession(m Model) (*Session, error) {
	so, err := r.newSessionOptions("cpu")
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	return newSession(m, nil, nil, so)
}
