package ort

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// BLAS is gonum's implementation of the Basic Linear Algebra Subprograms with Gemm and Syrk of real matrices run in ONNX Runtime, on
// the CPU, where they are large. A program installs it with blas32.Use and blas64.Use. Results differ from gonum's in rounding.
//
// These routines cannot report an error: when ONNX Runtime fails, or after the runtime was closed, gonum computes the result.
type BLAS struct {
	gonum.Implementation

	r        *Runtime
	mu       sync.RWMutex // held for reading during a product, for writing to make or close sessions
	sessions map[product]*Session
	closed   bool

	spare32, spare64 sync.Pool // of *[]float32 and *[]float64, results on their way to a matrix and operands without gaps
}

// spare returns room for n elements, whose release gives it back. Products of block after block would else fill the memory that the
// garbage collector leaves beside large data.
func spare[T real](b *BLAS, n int) (room []T, release func()) {
	var z T
	pool := &b.spare32
	if _, ok := any(z).(float64); ok {
		pool = &b.spare64
	}
	p, ok := pool.Get().(*[]T)
	if !ok || cap(*p) < n {
		p = new([]T)
		*p = make([]T, n)
	}
	return (*p)[:n], func() { pool.Put(p) }
}

// product is what a session computes: op(A)·op(B).
type product struct {
	dtype          DType
	transA, transB bool
}

var _ interface {
	blas.Float32
	blas.Float64
} = (*BLAS)(nil)

// BLAS returns the runtime's implementation, which lives as long as the runtime.
func (r *Runtime) BLAS() *BLAS { return r.blas() }

// UseBLAS has the large products of the whole process computed by the runtime, until stop puts gonum's own implementation back and closes the
// runtime.
func (r *Runtime) UseBLAS() (stop func()) {
	blas32.Use(r.BLAS())
	blas64.Use(r.BLAS())
	return func() {
		blas32.Use(gonum.Implementation{})
		blas64.Use(gonum.Implementation{})
		r.Close()
	}
}

// minProduct is the least m·n·k that goes to ONNX Runtime: below, a call costs more than it gains.
const minProduct = 1 << 18

// Sgemm computes C = αAB + βC in float32, with A and B transposed as asked.
func (b *BLAS) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, x []float32, ldx int, y []float32, ldy int, beta float32, c []float32, ldc int) {
	gemm(b, b.Implementation.Sgemm, tA, tB, m, n, k, alpha, x, ldx, y, ldy, beta, c, ldc)
}

// Dgemm is Sgemm in float64.
func (b *BLAS) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, x []float64, ldx int, y []float64, ldy int, beta float64, c []float64, ldc int) {
	gemm(b, b.Implementation.Dgemm, tA, tB, m, n, k, alpha, x, ldx, y, ldy, beta, c, ldc)
}

// Ssyrk computes one triangle of C = αAAᵀ + βC, or of αAᵀA + βC, in float32.
func (b *BLAS) Ssyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float32, x []float32, ldx int, beta float32, c []float32, ldc int) {
	syrk(b, b.Implementation.Ssyrk, ul, tA, n, k, alpha, x, ldx, beta, c, ldc)
}

// Dsyrk is Ssyrk in float64.
func (b *BLAS) Dsyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float64, x []float64, ldx int, beta float64, c []float64, ldc int) {
	syrk(b, b.Implementation.Dsyrk, ul, tA, n, k, alpha, x, ldx, beta, c, ldc)
}

type real interface{ float32 | float64 }

type gemmFunc[T real] func(tA, tB blas.Transpose, m, n, k int, alpha T, x []T, ldx int, y []T, ldy int, beta T, c []T, ldc int)

type syrkFunc[T real] func(ul blas.Uplo, tA blas.Transpose, n, k int, alpha T, x []T, ldx int, beta T, c []T, ldc int)

func gemm[T real](b *BLAS, pure gemmFunc[T], tA, tB blas.Transpose, m, n, k int, alpha T, x []T, ldx int, y []T, ldy int, beta T, c []T, ldc int) {
	p, ok := newProduct[T](tA, tB)
	if !ok || m <= 0 || n <= 0 || k <= 0 || alpha == 0 || m*n*k < minProduct ||
		!holds(x, ldx, m, k, p.transA) || !holds(y, ldy, k, n, p.transB) || !holds(c, ldc, m, n, false) {
		pure(tA, tB, m, n, k, alpha, x, ldx, y, ldy, beta, c, ldc)
		return
	}
	if width := cols(m, k, p.transA); ldx != width && m*k > maxPanel {
		// A strided matrix is copied: in halves, to bound the copy.
		if p.transA {
			h := k / 2
			y2 := h * ldy
			if p.transB {
				y2 = h
			}
			gemm(b, pure, tA, tB, m, n, h, alpha, x, ldx, y, ldy, beta, c, ldc)
			gemm(b, pure, tA, tB, m, n, k-h, alpha, x[h*ldx:], ldx, y[y2:], ldy, 1, c, ldc)
			return
		}
		h := m / 2
		gemm(b, pure, tA, tB, h, n, k, alpha, x, ldx, y, ldy, beta, c, ldc)
		gemm(b, pure, tA, tB, m-h, n, k, alpha, x[h*ldx:], ldx, y, ldy, beta, c[h*ldc:], ldc)
		return
	}
	direct := alpha == 1 && beta == 0 && ldc == n
	z := c
	if !direct {
		room, release := spare[T](b, m*n)
		defer release()
		z = room
	}
	left, releaseLeft := panel(b, x, ldx, m, k, p.transA)
	defer releaseLeft()
	right, releaseRight := panel(b, y, ldy, k, n, p.transB)
	defer releaseRight()
	if !multiply(b, p, m, n, k, left, right, z[:m*n]) {
		pure(tA, tB, m, n, k, alpha, x, ldx, y, ldy, beta, c, ldc)
		return
	}
	if !direct {
		for i := range m {
			accumulate(c[i*ldc:i*ldc+n], alpha, z[i*n:(i+1)*n], beta)
		}
	}
}

func syrk[T real](b *BLAS, pure syrkFunc[T], ul blas.Uplo, tA blas.Transpose, n, k int, alpha T, x []T, ldx int, beta T, c []T, ldc int) {
	p, ok := newProduct[T](tA, tA)
	p.transB = !p.transA
	if !ok || (ul != blas.Upper && ul != blas.Lower) || n <= 0 || k <= 0 || alpha == 0 || n*n*k < minProduct ||
		!holds(x, ldx, n, k, p.transA) || !holds(c, ldc, n, n, false) {
		pure(ul, tA, n, k, alpha, x, ldx, beta, c, ldc)
		return
	}
	if width := cols(n, k, p.transA); ldx != width && n*k > maxPanel && k > 1 {
		h, x2 := k/2, k/2
		if p.transA {
			x2 = h * ldx
		}
		syrk(b, pure, ul, tA, n, h, alpha, x, ldx, beta, c, ldc)
		syrk(b, pure, ul, tA, n, k-h, alpha, x[x2:], ldx, 1, c, ldc)
		return
	}
	a, releaseA := panel(b, x, ldx, n, k, p.transA)
	defer releaseA()
	z, release := spare[T](b, n*n)
	defer release()
	if !multiply(b, p, n, n, k, a, a, z) {
		pure(ul, tA, n, k, alpha, x, ldx, beta, c, ldc)
		return
	}
	for i := range n {
		from, to := 0, i+1
		if ul == blas.Upper {
			from, to = i, n
		}
		accumulate(c[i*ldc+from:i*ldc+to], alpha, z[i*n+from:i*n+to], beta)
	}
}

// maxPanel is the most elements of a strided matrix that are copied at once.
const maxPanel = 1 << 23

func newProduct[T real](tA, tB blas.Transpose) (product, bool) {
	var z T
	p := product{dtype: Float32, transA: tA != blas.NoTrans, transB: tB != blas.NoTrans}
	if _, ok := any(z).(float64); ok {
		p.dtype = Float64
	}
	valid := func(t blas.Transpose) bool { return t == blas.NoTrans || t == blas.Trans || t == blas.ConjTrans }
	return p, valid(tA) && valid(tB)
}

func cols(rows, cols int, trans bool) int {
	if trans {
		return rows
	}
	return cols
}

// holds says whether x has the elements of a rows×cols matrix, stored transposed if trans.
func holds[T real](x []T, ld, rows, cols int, trans bool) bool {
	if trans {
		rows, cols = cols, rows
	}
	return ld >= cols && len(x) >= (rows-1)*ld+cols
}

// panel returns a matrix, stored transposed if trans, without gaps between its rows, until it is released.
func panel[T real](b *BLAS, x []T, ld, rows, cols int, trans bool) (m []T, release func()) {
	if trans {
		rows, cols = cols, rows
	}
	if ld == cols {
		return x[:rows*cols], func() {}
	}
	out, release := spare[T](b, rows*cols)
	for i := range rows {
		copy(out[i*cols:(i+1)*cols], x[i*ld:])
	}
	return out, release
}

// accumulate sets c to αz + βc.
func accumulate[T real](c []T, alpha T, z []T, beta T) {
	c = c[:len(z)]
	switch {
	case beta == 0 && alpha == 1:
		copy(c, z)
	case beta == 0: // C may hold NaN
		for i, v := range z {
			c[i] = alpha * v
		}
	case beta == 1 && alpha == 1:
		for i, v := range z {
			c[i] += v
		}
	case beta == 1 && alpha == -1:
		for i, v := range z {
			c[i] -= v
		}
	default:
		for i, v := range z {
			c[i] = alpha*v + beta*c[i]
		}
	}
}

// multiply computes z = op(x)·op(y), an m×n matrix, in ONNX Runtime; false if that fails.
func multiply[T real](b *BLAS, p product, m, n, k int, x, y, z []T) bool {
	s, ok := b.session(p)
	if !ok {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return false
	}
	var tensors [3]*Tensor
	for i, v := range []struct {
		rows, cols int
		trans      bool
		data       []T
	}{{m, k, p.transA, x}, {k, n, p.transB, y}, {m, n, false, z}} {
		if v.trans {
			v.rows, v.cols = v.cols, v.rows
		}
		t, err := NewTensor([]int64{int64(v.rows), int64(v.cols)}, v.data)
		if err != nil {
			return false
		}
		defer t.Close()
		tensors[i] = t
	}
	return s.RunInto(tensors[:2], tensors[2:]) == nil
}

// session returns the one that computes p, made at the first use.
func (b *BLAS) session(p product) (*Session, bool) {
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

func (p product) model() *pb.ModelProto {
	matrix := func(name string) *pb.ValueInfoProto {
		dims := []*pb.TensorShapeProto_Dimension{{}, {}}
		return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
			TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(p.dtype)), Shape: &pb.TensorShapeProto{Dim: dims}}}}}
	}
	flag := func(name string, on bool) *pb.AttributeProto {
		a := &pb.AttributeProto{Name: proto.String(name), Type: pb.AttributeProto_INT.Enum(), I: proto.Int64(0)}
		if on {
			a.I = proto.Int64(1)
		}
		return a
	}
	return modelOf(&pb.GraphProto{
		Input:  []*pb.ValueInfoProto{matrix("a"), matrix("b")},
		Output: []*pb.ValueInfoProto{matrix("c")},
		Node: []*pb.NodeProto{{OpType: proto.String("Gemm"), Input: []string{"a", "b"}, Output: []string{"c"},
			Attribute: []*pb.AttributeProto{flag("transA", p.transA), flag("transB", p.transB)}}},
	})
}

// cpuSession makes a session of all inputs and outputs on the CPU, whatever the runtime's provider.
func (r *Runtime) cpuSession(m Model) (*Session, error) {
	so, err := r.newSessionOptions("cpu")
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	return newSession(m, nil, nil, so)
}
