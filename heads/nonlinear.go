package heads

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// NonlinearOptions says which non-linear certificates to fit. The zero value
// has no penalties, and nothing then keeps certificates from being 0
// everywhere: penalties of 1 on rows of unit norm are a start.
type NonlinearOptions struct {
	// K is the number of certificates. 0 stands for the number of features,
	// 32 at most.
	K int
	// Hidden are the widths of the layers that all certificates share; nil
	// stands for one of 64 ReLU units.
	Hidden []int
	// UnitNorm scales rows to Euclidean norm 1 first.
	UnitNorm bool

	// Loss compares certificates with the target 0: MSE, for which "" stands,
	// BCE or L1.
	Loss train.Loss
	// GradientPenalty and Diversity are the weights of the two penalties of
	// the same name in ModelConfig. 0 is none.
	GradientPenalty, Diversity float64

	Epochs       int     // passes over the rows; 0 stands for 10
	BatchSize    int     // 0 stands for 64
	LearningRate float64 // of Adam; 0 stands for 1e-3
	Seed         uint64

	// Progress, if not nil, is called with steps done and their total.
	Progress func(done, total int)
}

// NonlinearCertificates are the k outputs of a network that are close to 0 on
// in-domain rows, have a gradient of norm close to 1, and vary apart from each
// other on noise of the rows' size.
type NonlinearCertificates struct {
	Network  train.Network `state:"network"`
	UnitNorm bool          `state:"unit_norm"`          // rows are scaled to Euclidean norm 1
	Mean     []float32     `state:"mean[h]"`            // then subtracted
	Scale    float64       `state:"scale,positive"`     // that rows are then divided by, so that their features have variance 1 on average
	Loss     train.Loss    `state:"loss,of=mse|bce|l1"` // decides the score; see Score

	GradientPenalty float64 `state:"gradient_penalty,least=0"` // weights in the fit
	Diversity       float64 `state:"diversity,least=0"`
}

// Width is the number of features h.
func (c *NonlinearCertificates) Width() int { return len(c.Mean) }

// K is the number of certificates.
func (c *NonlinearCertificates) K() int { return c.Network.Out() }

// Score writes one score per row of phi, n×h, to dst and returns it; a nil
// dst is allocated. Higher is more uncertain. With f the k certificates of a
// row, the score is mean sigmoid(f)² for the BCE loss and mean f² for others,
// as for linear certificates. A row that holds NaN scores NaN.
//
// Score panics if dst or phi has the wrong size. It is safe for concurrent
// use.
func (c *NonlinearCertificates) Score(dst []float64, phi blas32.General) []float64 {
	if phi.Rows > 0 && phi.Cols != c.Width() {
		panic(fmt.Sprintf("heads: certificates of %d features given %d", c.Width(), phi.Cols))
	}
	if dst == nil {
		dst = make([]float64, phi.Rows)
	}
	if len(dst) != phi.Rows {
		panic("heads: destination and rows differ in length")
	}
	prepared := rows.New(min(scoreBlock, phi.Rows), c.Width())
	for lo := 0; lo < phi.Rows; lo += scoreBlock {
		hi := min(lo+scoreBlock, phi.Rows)
		block := rows.Slice(prepared, 0, hi-lo)
		c.prepare(block, rows.Slice(phi, lo, hi))
		f := c.Network.Apply(block)
		for i := range f.Rows {
			dst[lo+i] = meanSquare(f.Data[i*f.Stride:i*f.Stride+f.Cols], c.Loss)
		}
	}
	return dst
}

func (c *NonlinearCertificates) prepare(dst, phi blas32.General) {
	for i := range phi.Rows {
		out := dst.Data[i*dst.Stride : i*dst.Stride+dst.Cols]
		prepareRow(out, phi.Data[i*phi.Stride:i*phi.Stride+phi.Cols], c.UnitNorm, c.Mean)
		for j := range out {
			out[j] /= float32(c.Scale)
		}
	}
}

// meanSquare is the score of a row from its certificates.
func meanSquare(f []float32, loss train.Loss) float64 {
	var s float64
	for _, v := range f {
		p := float64(v)
		if loss == train.BCE {
			p = 1 / (1 + math.Exp(-p))
		}
		s += p * p
	}
	return s / float64(len(f))
}

// resolve fills in defaults and checks options for n rows of h features.
func (o NonlinearOptions) resolve(n, h int) (NonlinearOptions, error) {
	if o.K == 0 {
		o.K = min(h, 32)
	}
	if o.Hidden == nil {
		o.Hidden = []int{64}
	}
	if o.Loss == "" {
		o.Loss = train.MSE
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
	case n < 2:
		return o, &rows.TooFewRowsError{What: "non-linear certificates", Have: n, Need: 2}
	case h == 0:
		return o, fmt.Errorf("rows have no features")
	case o.K < 0:
		return o, fmt.Errorf("%d certificates: there must be at least one", o.K)
	case o.Loss != train.MSE && o.Loss != train.BCE && o.Loss != train.L1:
		return o, fmt.Errorf("loss %q is not one of mse, bce, l1", o.Loss)
	}
	for _, weight := range []float64{o.GradientPenalty, o.Diversity} {
		if !(weight >= 0) || math.IsInf(weight, 0) {
			return o, fmt.Errorf("a penalty is weighted with %v: it must be zero or positive", weight)
		}
	}
	return o, nil
}
