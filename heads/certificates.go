package heads

import (
	"errors"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// CertificatesOptions says which linear orthonormal certificates to fit. The
// zero value is the exact solution of the squared loss on raw features; see
// DefaultCertificates for what is recommended.
type CertificatesOptions struct {
	// K is the number of certificates, 1 ≤ K ≤ h. 0 stands for DefaultK(h).
	K int
	// UnitNorm scales rows to Euclidean norm 1, in fit and score.
	UnitNorm bool
	// Centre subtracts the mean (of scaled rows, with UnitNorm).
	Centre bool

	// Loss compares certificates with the target 0. MSE, and "", are solved
	// exactly unless Trained is set; all other losses are trained.
	Loss train.Loss
	// Trained asks for stochastic gradient descent whatever the loss; then
	// "" stands for BCE.
	Trained bool
	// Lambda is the weight λ ≥ 0 of the penalty λ·mean((CᵀC−I)²). In training
	// 0 is no penalty. The exact solution takes 0 as the hard constraint
	// CᵀC = I, the limit of large λ.
	Lambda float64
	// Level is the level of the pinball loss; 0 stands for 0.5. Pinball at a
	// fresh level per row, as in quantile regression, is |Cᵀφ|/2 on average
	// for either sign, and so is pinball at 0.5, without the noise.
	Level float64

	Epochs       int     // passes over the rows; 0 stands for 10
	BatchSize    int     // 0 stands for 64
	LearningRate float64 // of Adam; 0 stands for 1e-3
	Seed         uint64

	// Progress, if not nil, is called with steps done and their total.
	Progress func(done, total int)
}

// DefaultCertificates is the recommended configuration: the exact solution
// on features of unit norm, with K relative to the number of features.
func DefaultCertificates() CertificatesOptions {
	return CertificatesOptions{UnitNorm: true}
}

// DefaultK is the default number of certificates on h features: 3h/4, at
// least 1.
func DefaultK(h int) int { return max(1, 3*h/4) }

// Certificates are k linear functions of features that are close to 0 on
// in-domain rows and hardly depend on each other. The further they are from 0
// together, the less a row looks like those of the fit.
type Certificates struct {
	C        blas32.General `state:"certificates[h,k]"`
	Mean     []float32      `state:"mean[h],optional"`           // subtracted from rows; nil if not centred
	UnitNorm bool           `state:"unit_norm"`                  // rows are scaled to Euclidean norm 1, before Mean is subtracted
	Loss     train.Loss     `state:"loss,of=bce|mse|l1|pinball"` // decides the score; see Score
	Exact    bool           `state:"exact"`                      // solved, not trained
	Lambda   float64        `state:"lambda,least=0"`             // weight of the penalty in the fit
}

// Width is the number of features h.
func (c *Certificates) Width() int { return c.C.Rows }

// K is the number of certificates.
func (c *Certificates) K() int { return c.C.Cols }

// scoreBlock is the number of rows scored by one product.
const scoreBlock = 1024

// Score writes one score per row of phi, n×h, to dst and returns it; a nil
// dst is allocated. Higher is more uncertain. With f the k certificates of a
// row, the score is mean sigmoid(f)² for certificates of the BCE loss and
// mean f² for all others: the paper's squared norm up to the constant 1/k. A
// row that holds NaN scores NaN.
//
// Score panics if dst or phi has the wrong size. It is safe for concurrent
// use.
func (c *Certificates) Score(dst []float64, phi blas32.General) []float64 {
	if phi.Rows > 0 && phi.Cols != c.Width() {
		panic(fmt.Sprintf("heads: certificates of %d features given %d", c.Width(), phi.Cols))
	}
	if dst == nil {
		dst = make([]float64, phi.Rows)
	}
	if len(dst) != phi.Rows {
		panic("heads: destination and rows differ in length")
	}
	out := rows.New(min(scoreBlock, phi.Rows), c.K())
	var prepared blas32.General
	if c.Mean != nil {
		prepared = rows.New(out.Rows, c.Width())
	}
	for lo := 0; lo < phi.Rows; lo += scoreBlock {
		hi := min(lo+scoreBlock, phi.Rows)
		block, f := rows.Slice(phi, lo, hi), rows.Slice(out, 0, hi-lo)
		if c.Mean != nil {
			c.prepare(rows.Slice(prepared, 0, hi-lo), block)
			blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, rows.Slice(prepared, 0, hi-lo), c.C, 0, f)
		} else {
			blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, block, c.C, 0, f)
		}
		for i := range block.Rows {
			scale := 1.0
			if c.UnitNorm && c.Mean == nil {
				scale = rows.InverseNorm(block.Data[i*block.Stride : i*block.Stride+block.Cols])
			}
			dst[lo+i] = c.reduce(f.Data[i*f.Stride:i*f.Stride+f.Cols], scale)
		}
	}
	return dst
}

// reduce is the score of one row from its certificates, which scale
// multiplies.
func (c *Certificates) reduce(f []float32, scale float64) float64 {
	var s float64
	if c.Loss == train.BCE {
		for _, v := range f {
			p := 1 / (1 + math.Exp(-scale*float64(v)))
			s += p * p
		}
		return s / float64(len(f))
	}
	for _, v := range f {
		s += float64(v) * float64(v)
	}
	return s * scale * scale / float64(len(f))
}

func (c *Certificates) prepare(dst, phi blas32.General) {
	for i := range phi.Rows {
		prepareRow(dst.Data[i*dst.Stride:i*dst.Stride+dst.Cols],
			phi.Data[i*phi.Stride:i*phi.Stride+phi.Cols], c.UnitNorm, c.Mean)
	}
}

// prepareRow writes a row as certificates see it: scaled, then centred.
func prepareRow(dst, row []float32, unitNorm bool, mean []float32) {
	scale := rowScale(row, unitNorm)
	for j, v := range row {
		v = float32(scale * float64(v))
		if mean != nil {
			v -= mean[j]
		}
		dst[j] = v
	}
}

// resolve fills in defaults and checks options for n rows of h features.
func (o CertificatesOptions) resolve(n, h int) (CertificatesOptions, error) {
	if o.K == 0 {
		o.K = DefaultK(h)
	}
	if o.Loss == "" {
		o.Loss = train.MSE
		if o.Trained {
			o.Loss = train.BCE
		}
	}
	o.Trained = o.Trained || o.Loss != train.MSE
	if o.Level == 0 {
		o.Level = 0.5
	}
	if o.Epochs == 0 {
		o.Epochs = 10
	}
	if o.BatchSize == 0 {
		o.BatchSize = 64
	}
	if o.LearningRate == 0 {
		o.LearningRate = 1e-3
	}
	switch {
	case n == 0:
		return o, &rows.TooFewRowsError{What: "certificates", Have: n, Need: 1}
	case h == 0:
		return o, errors.New("rows have no features")
	case o.K < 0 || o.K > h:
		return o, fmt.Errorf("%d certificates asked of %d features: k must lie between 1 and the number of features", o.K, h)
	case !(o.Lambda >= 0) || math.IsInf(o.Lambda, 0):
		return o, fmt.Errorf("lambda is %v: it must be zero or positive", o.Lambda)
	case !(o.Level > 0 && o.Level < 1):
		return o, fmt.Errorf("level of the pinball loss is %v: it must lie between 0 and 1", o.Level)
	case o.Epochs < 0 || o.BatchSize < 0 || !(o.LearningRate > 0):
		return o, fmt.Errorf("epochs %d, batch size %d, learning rate %v: all must be positive", o.Epochs, o.BatchSize, o.LearningRate)
	}
	switch o.Loss {
	case train.BCE, train.MSE, train.L1, train.Pinball:
	default:
		return o, fmt.Errorf("loss %q is not one of bce, mse, l1, pinball", o.Loss)
	}
	if need := rowsNeeded(h, o.K, o.Centre); n < need {
		return o, &rows.TooFewRowsError{What: fmt.Sprintf("%d certificates of %d features", o.K, h), Have: n, Need: need}
	}
	return o, nil
}

// rowsNeeded is the number of rows without which k certificates of h features
// are arbitrary: n rows span at most n directions, and if they leave more
// than k without any row, nothing decides which k to take.
func rowsNeeded(h, k int, centre bool) int {
	need := max(h-k, 1)
	if centre {
		need = max(h-k+1, 2)
	}
	return need
}
