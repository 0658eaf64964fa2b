package table3

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// smoother regresses on one variable with cubic B-splines. It penalises second differences
// of their coefficients.
//
// Reference: Eilers & Marx (1996), Flexible smoothing with B-splines and penalties.
// Generalised cross-validation selects the weight of the penalty.
type smoother struct {
	basis   *mat.Dense // n rows × k splines
	gram    *mat.SymDense
	penalty *mat.SymDense
}

const splines = 20

func newSmoother(x []float64, k int) smoother {
	basis := bsplines(x, k)
	gram, penalty := mat.NewSymDense(k, nil), mat.NewSymDense(k, nil)
	gram.SymOuterK(1, basis.T())
	for i := range k - 2 {
		for a, u := range []float64{1, -2, 1} {
			for b, v := range []float64{1, -2, 1} {
				if a <= b {
					penalty.SetSym(i+a, i+b, penalty.At(i+a, i+b)+u*v)
				}
			}
		}
	}
	return smoother{basis, gram, penalty}
}

// bsplines evaluates k cubic B-splines with equally spaced knots over the range of x. Row i
// holds their values at x[i].
func bsplines(x []float64, k int) *mat.Dense {
	u := minMaxScaled(x)
	b := mat.NewDense(len(x), k, nil)
	for i, v := range u {
		position := v * float64(k-3)
		j := min(int(position), k-4)
		t := position - float64(j)
		s := 1 - t
		b.Set(i, j, s*s*s/6)
		b.Set(i, j+1, (3*t*t*t-6*t*t+4)/6)
		b.Set(i, j+2, (3*s*s*s-6*s*s+4)/6)
		b.Set(i, j+3, t*t*t/6)
	}
	return b
}

var errSingular = errors.New("a regression has no solution: the values of a variable are too few")

// residuals returns y minus its smooth fit. It chooses the penalty with the least
// generalised cross-validation error.
func (s smoother) residuals(y []float64) ([]float64, error) {
	bestResiduals, leastGCV := []float64(nil), math.Inf(1)
	for power := -4.; power <= 6; power++ {
		chol, err := s.factor(math.Pow(10, power))
		if err != nil {
			continue
		}
		residuals := s.penalisedResiduals(chol, y)
		var hat mat.Dense
		if err := chol.SolveTo(&hat, s.gram); err != nil {
			continue
		}
		n := float64(len(y))
		if gcv := floats.Dot(residuals, residuals) * n / math.Pow(n-mat.Trace(&hat), 2); gcv < leastGCV {
			bestResiduals, leastGCV = residuals, gcv
		}
	}
	if bestResiduals == nil {
		return nil, errSingular
	}
	return bestResiduals, nil
}

func (s smoother) factor(lambda float64) (*mat.Cholesky, error) {
	k := s.gram.SymmetricDim()
	a := mat.NewSymDense(k, nil)
	a.CopySym(s.gram)
	for i := range k {
		for j := i; j < k; j++ {
			a.SetSym(i, j, a.At(i, j)+lambda*s.penalty.At(i, j))
		}
		a.SetSym(i, i, a.At(i, i)+1e-9)
	}
	var chol mat.Cholesky
	if !chol.Factorize(a) {
		return nil, errSingular
	}
	return &chol, nil
}

// penalisedResiduals returns y minus its fit with a fixed penalty, which chol contains.
func (s smoother) penalisedResiduals(chol *mat.Cholesky, y []float64) []float64 {
	var right, beta, fitted mat.VecDense
	right.MulVec(s.basis.T(), mat.NewVecDense(len(y), y))
	_ = chol.SolveVecTo(&beta, &right) // the error only warns of a large condition number
	fitted.MulVec(s.basis, &beta)
	out := make([]float64, len(y))
	floats.SubTo(out, y, fitted.RawVector().Data)
	return out
}

// regress returns the residuals of y after a smooth fit on x.
func regress(x, y []float64) ([]float64, error) { return newSmoother(x, splines).residuals(y) }
