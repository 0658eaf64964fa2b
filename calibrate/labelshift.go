package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/dense"
	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	// minClassRows is the smallest number of calibration rows of each class, because the
	// probabilities of fewer rows vary too much.
	minClassRows = 10
	// maxShareError is the largest standard error of a class share that NewLabelShift accepts.
	// With a larger error, the rows hardly tell the shares.
	maxShareError = .1
	// maxCondition is the largest condition number of a confusion matrix that is inverted.
	maxCondition = 1e10
	// shiftComponents is the number of principal components of the features that are tested.
	shiftComponents = 5
	// shiftBlock is the number of rows that are in memory as float64 numbers at once.
	shiftBlock = 256
)

// LabelShift estimates how often each class occurs among new rows, if only these frequencies
// differ from the calibration rows. The distribution of the inputs of each class must be the
// same (label shift). For example, a disease is more frequent, but its symptoms are the same.
//
// Sets.WithClassWeights computes prediction sets with the weights of all classes. If Weights
// has the weight of each label, sets have the guarantee of WeightedConformal. Sets that are
// calibrated with SetOptions.ByClass need no weights: their guarantee holds for any shares.
type LabelShift struct {
	// Shares holds the estimated share of each class among new rows, and Errors the standard
	// errors of these shares. Both count the randomness of the calibration rows and of the
	// target rows.
	Shares []float64 `json:"shares"`
	Errors []float64 `json:"errors"`
	// Weights holds the share of each class, divided by its share among calibration rows. It
	// is bounded to 1/50 … 50.
	Weights []float64 `json:"weights"`
	// PValue is the p-value of a test that the inputs of each class have not changed. It is 1
	// without features. If it is small, a shift of the shares does not explain the target rows.
	// A large PValue is no proof, because some changes of inputs look like other shares.
	PValue float64 `json:"p_value"`
}

// NewLabelShift estimates the shares of classes among the target rows. It needs the logits of
// both batches, and the labels of the calibration rows. The features of both batches, if
// given, determine PValue. It returns an error in these cases:
//
//   - A class has fewer than 10 calibration rows.
//   - The standard error of a share is above 0.1, for example because the classifier confuses
//     two classes.
//   - The EffectiveSampleSize of the weights of the calibration rows is below 30.
//
// Let C be the matrix of the mean probabilities that calibration rows of each class get, and μ
// the mean probabilities of target rows. The shares q solve Cq = μ. If the shares are as
// assumed, this is true for any function of the logits in place of the probabilities, so
// probabilities need not be calibrated. NewLabelShift first uses probabilities with a
// temperature, and then multiplies them by the first estimates of the weights. For a calibrated
// classifier, the second estimate has about the smallest possible variance. Shares are projected
// onto the simplex, so that they are not negative and their sum is 1.
//
// PValue compares the means of at most 5 principal components of the features. Its test is an
// overidentification test (Hansen 1982) with the covariance that the estimates of the shares
// imply, and allows for the few rows that this covariance is estimated from. Errors are asymptotic.
// If a class with few calibration rows has a large share of the target rows, confidence
// intervals from Errors are too narrow.
//
// References: Lipton, Wang & Smola (2018), Detecting and Correcting for Label Shift with Black
// Box Predictors, for C; Garg, Wu, Balakrishnan & Lipton (2020), A Unified View of Label Shift
// Estimation, for the variance; Podkopaev & Ramdas (2021), Distribution-Free Uncertainty
// Quantification for Classification Under Label Shift, for sets.
func NewLabelShift(ctx context.Context, calibration, target ood.Batch) (LabelShift, error) {
	e := labelShift{calibration: calibration, target: target}
	if err := e.check(); err != nil {
		return LabelShift{}, err
	}
	temperature, err := Temperature(calibration.Logits, calibration.Labels)
	if err != nil {
		return LabelShift{}, err
	}
	e.temperature = cmp.Or(temperature, 1)
	s := LabelShift{Weights: slices.Repeat([]float64{1}, e.classes())}
	for range 2 {
		e.weights = s.Weights
		if err := e.solve(ctx); err != nil {
			return LabelShift{}, err
		}
		s.Shares = projectSimplex(e.solution)
		s.Weights = make([]float64, len(s.Shares))
		for k, q := range s.Shares {
			s.Weights[k] = min(max(q*float64(calibration.Len())/float64(e.counts[k]), 1./ratioLimit), ratioLimit)
		}
	}
	if s.Errors, s.PValue, err = e.errorsAndTest(ctx, s.Shares); err != nil {
		return LabelShift{}, err
	}
	for k, v := range s.Errors {
		if !(v <= maxShareError) {
			return LabelShift{}, fmt.Errorf("the share of class %d among the target rows has a standard error of %.2g, and at most %g is accepted: the classifier confuses this class with others, or rows are too few", k, v, maxShareError)
		}
	}
	if size := EffectiveSampleSize(rows.Pick(s.Weights, calibration.Labels)); size < minEffectiveSampleSize {
		return LabelShift{}, fmt.Errorf("the weighted calibration rows are worth only %.1f rows, and at least %d are needed: they have few rows of the classes that the target rows have, so calibrate with more rows of these",
			size, minEffectiveSampleSize)
	}
	return s, nil
}

// Logits returns the logarithms of the probabilities of a row in other units, as logits at
// temperature 1: the logits z, divided by the temperature, plus the logarithms of Weights.
// Their softmax are the probabilities among rows with the estimated shares (Saerens, Latinne &
// Decaestecker 2002). It panics if z does not have one logit for each class.
func (s LabelShift) Logits(z []float32, temperature float64) []float32 {
	if len(z) != len(s.Weights) {
		panic(fmt.Sprintf("calibrate: a row has %d logits and there are weights of %d classes", len(z), len(s.Weights)))
	}
	out := make([]float32, len(z))
	for k, v := range z {
		out[k] = float32(float64(v)/temperature + math.Log(s.Weights[k]))
	}
	return out
}

// labelShift holds what NewLabelShift computes.
type labelShift struct {
	calibration, target ood.Batch
	temperature         float64
	counts              []int     // number of calibration rows of each class
	weights             []float64 // weights of the classes, by which probabilities are multiplied
	inverse             mat.Dense // inverse of the matrix C
	solution            []float64 // shares before the projection
}

func (e *labelShift) classes() int { return e.calibration.Logits.Cols }

// check returns an error for rows that determine no shares. It also counts the rows of each
// class. Temperature checks the calibration rows.
func (e *labelShift) check() error {
	n, m, k := e.calibration.Logits.Rows, e.target.Logits.Rows, e.classes()
	features := [2]blas32.General{e.calibration.Features, e.target.Features}
	switch {
	case k < 2:
		return fmt.Errorf("there are logits of %d classes: shares of classes need at least 2", k)
	case e.target.Logits.Cols != k:
		return fmt.Errorf("calibration rows have %d logits and target rows have %d: they must be equal", k, e.target.Logits.Cols)
	case min(n, m) < minEffectiveSampleSize:
		return fmt.Errorf("there are %s and %s: shares of classes need at least %d of each", rows.Count(n, "calibration row"), rows.Count(m, "target row"), minEffectiveSampleSize)
	case features[0].Cols != features[1].Cols || features[0].Cols > 0 && (features[0].Rows != n || features[1].Rows != m):
		return errors.New("calibration rows and target rows need the same features, or none")
	}
	if err := cmp.Or(checkRows("logits", e.calibration.Logits, e.calibration.Labels), rows.CheckFinite("target rows: logits", e.target.Logits),
		rows.CheckFinite("features", features[0]), rows.CheckFinite("target rows: features", features[1])); err != nil {
		return err
	}
	e.counts = make([]int, k)
	for _, label := range e.calibration.Labels {
		e.counts[label]++
	}
	if few := slices.Min(e.counts); few < minClassRows {
		return fmt.Errorf("class %d has %s, and each class needs at least %d: calibrate with more rows of this class", slices.Index(e.counts, few), rows.Count(few, "calibration row"), minClassRows)
	}
	return nil
}

// each calls visit with the probabilities of each block of calibration rows, and then of target
// rows. The first row of the block has the number first, and the target rows follow the
// calibration rows.
func (e *labelShift) each(ctx context.Context, visit func(first int, probabilities blas64.General)) error {
	block, n, k := dense.New(shiftBlock, e.classes()), e.calibration.Logits.Rows, e.classes()
	offset := make([]float64, k)
	for c, w := range e.weights {
		offset[c] = math.Log(w)
	}
	for part, logits := range []blas32.General{e.calibration.Logits, e.target.Logits} {
		for first := 0; first < logits.Rows; first += shiftBlock {
			if err := ctx.Err(); err != nil {
				return err
			}
			block.Rows = min(shiftBlock, logits.Rows-first)
			for i := range block.Rows {
				p, largest, sum := dense.Row(block, i), math.Inf(-1), 0.
				for c, v := range rows.Row(logits, first+i) {
					p[c] = float64(v)/e.temperature + offset[c]
					largest = max(largest, p[c])
				}
				for c := range p {
					p[c] = math.Exp(p[c] - largest)
					sum += p[c]
				}
				for c := range p {
					p[c] /= sum
				}
			}
			visit(part*n+first, block)
		}
	}
	return nil
}

// class returns the label of calibration row i, or −1 for a target row.
func (e *labelShift) class(i int) int {
	if i < len(e.calibration.Labels) {
		return e.calibration.Labels[i]
	}
	return -1
}

// solve solves Cq = μ.
func (e *labelShift) solve(ctx context.Context) error {
	k, m := e.classes(), float64(e.target.Logits.Rows)
	confusion, mean := mat.NewDense(k, k, nil), make([]float64, k)
	err := e.each(ctx, func(first int, probabilities blas64.General) {
		for i := range probabilities.Rows {
			for c, p := range dense.Row(probabilities, i) {
				if label := e.class(first + i); label < 0 {
					mean[c] += p / m
				} else {
					confusion.RawRowView(c)[label] += p / float64(e.counts[label])
				}
			}
		}
	})
	if err != nil {
		return err
	}
	var lu mat.LU
	lu.Factorize(confusion)
	if !(lu.Cond() <= maxCondition) {
		return errors.New("the rows of some classes get the same probabilities, so the shares of these classes cannot be told apart: give logits of a classifier that recognises each class")
	}
	identity := mat.NewDiagDense(k, slices.Repeat([]float64{1}, k))
	e.inverse.Reset()
	if err := lu.SolveTo(&e.inverse, false, identity); err != nil {
		return fmt.Errorf("shares of classes: %w", err)
	}
	e.solution = make([]float64, k)
	blas64.Gemv(blas.NoTrans, 1, e.inverse.RawMatrix(), dense.Vector(mean), 0, dense.Vector(e.solution))
	return nil
}

// errorsAndTest returns the standard errors of the shares, and the p-value of the test that only
// the shares have changed.
//
// The vector v = C⁻¹g of a row with probabilities g has the mean q over target rows. Over the
// calibration rows of a class, its mean is 1 for this class and 0 for others. The variance of
// q is therefore the sum of the variances of means of v, with the squared shares as factors.
// Errors of the weights in g have no influence of first order. Components h of the features
// have the residuals h − Hv, whose mean over the rows of a class is 0. H are the means over
// classes. The mean residual of the target rows is 0 too if only shares have changed.
func (e *labelShift) errorsAndTest(ctx context.Context, shares []float64) (standard []float64, pValue float64, err error) {
	components, err := e.components(ctx)
	if err != nil {
		return nil, 0, err
	}
	k, n, m, r := e.classes(), e.calibration.Logits.Rows, float64(e.target.Logits.Rows), components.Cols
	means, difference := dense.New(max(r, 1), k), make([]float64, r) // H, and the mean residual of target rows
	for i := range components.Rows {
		for j, v := range rows.Row(components, i) {
			if label := e.class(i); label >= 0 {
				dense.Row(means, j)[label] += float64(v) / float64(e.counts[label])
			} else {
				difference[j] += float64(v) / m
			}
		}
	}
	for j := range difference {
		difference[j] -= blas64.Dot(dense.Vector(dense.Row(means, j)), dense.Vector(e.solution))
	}
	standard = make([]float64, k)
	parts := make([]covariancePart, k+1) // of the mean residual of each class, and of the target rows
	for c := range parts {
		parts[c] = covariancePart{mat.NewSymDense(max(r, 1), nil), int(m)}
		if c < k {
			parts[c].rows = e.counts[c]
		}
	}
	evidence, residual := dense.New(shiftBlock, k), make([]float64, r)
	err = e.each(ctx, func(first int, probabilities blas64.General) {
		evidence.Rows = probabilities.Rows
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, probabilities, e.inverse.RawMatrix(), 0, evidence)
		for i := range evidence.Rows {
			v, label, factor, part := dense.Row(evidence, i), e.class(first+i), 1/(m*(m-1)), parts[k]
			if label >= 0 {
				c := float64(e.counts[label])
				factor, part = shares[label]*shares[label]/(c*(c-1)), parts[label]
			}
			for j := range residual {
				residual[j] = float64(rows.Row(components, first+i)[j]) - blas64.Dot(dense.Vector(dense.Row(means, j)), dense.Vector(v))
				if label < 0 {
					residual[j] -= difference[j]
				}
			}
			if r > 0 {
				part.covariance.SymRankOne(part.covariance, factor, mat.NewVecDense(r, residual))
			}
			for c, d := range v {
				switch {
				case label < 0:
					d -= e.solution[c]
				case label == c:
					d--
				}
				standard[c] += factor * d * d
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	for c, variance := range standard {
		// If no row of a class is among m rows, its share can still be up to 3/m (rule of three).
		standard[c] = max(math.Sqrt(variance), 1.5/m)
	}
	if r == 0 {
		return standard, 1, nil
	}
	pValue, err = zeroMean(difference, parts, 1e-9*float64(n+int(m))/(m*m))
	return standard, pValue, err
}

// components returns the first principal components of the features of all rows, or no columns
// without features.
func (e *labelShift) components(ctx context.Context) (blas32.General, error) {
	if e.target.Features.Cols == 0 {
		return rows.New(e.calibration.Logits.Rows+e.target.Logits.Rows, 0), nil
	}
	all := stack(e.calibration.Features, e.target.Features)
	x, _, err := project(ctx, rows.NewScaling(all).Apply(all), min(shiftComponents, all.Cols))
	return x, err
}

// covariancePart is a part of an estimated covariance, and the number of rows that it was
// estimated from.
type covariancePart struct {
	covariance *mat.SymDense
	rows       int
}

// zeroMean returns the p-value of the test that a normal vector has mean 0, if its covariance is
// the sum of parts. Directions with a variance of at most least are left out.
//
// The statistic of few rows varies more than χ², because the covariance is estimated. It is
// compared with the distribution of Hotelling's T². Its degrees of freedom are those of Welch
// and Satterthwaite, with the fraction that each part has of the covariance.
//
// Reference: Krishnamoorthy & Yu (2004), Modified Nel and Van der Merwe Test for the Multivariate
// Behrens–Fisher Problem. The degrees of freedom are equal if parts differ by a factor only.
func zeroMean(v []float64, parts []covariancePart, least float64) (float64, error) {
	covariance := mat.NewSymDense(len(v), nil)
	for _, p := range parts {
		covariance.AddSym(covariance, p.covariance)
	}
	s, err := eigen.NewSpectrum(covariance)
	if err != nil {
		return 0, fmt.Errorf("test of the features: %w", err)
	}
	statistic, directions, fractions := 0., 0., make([]float64, len(parts))
	for j, variance := range s.Values {
		if variance <= least {
			continue
		}
		direction := s.Vectors.ColView(j)
		along := mat.Dot(direction, mat.NewVecDense(len(v), v))
		statistic, directions = statistic+along*along/variance, directions+1
		for k, p := range parts {
			fractions[k] += mat.Inner(direction, p.covariance, direction) / variance
		}
	}
	if directions == 0 {
		return 1, nil
	}
	inverse := 0. // of the degrees of freedom
	for k, p := range parts {
		f := fractions[k] / directions
		inverse += f * f / float64(p.rows-1)
	}
	last := 1/inverse - directions + 1
	return distuv.F{D1: directions, D2: last}.Survival(statistic * last / directions * inverse), nil
}

// projectSimplex returns the vector nearest to v with no negative number and the sum 1.
//
// Reference: Duchi, Shalev-Shwartz, Singer & Chandra (2008), Efficient Projections onto the
// ℓ1-Ball for Learning in High Dimensions, figure 1.
func projectSimplex(v []float64) []float64 {
	sorted := slices.Sorted(slices.Values(v))
	sum, shift := -1., 0.
	for i, x := range slices.Backward(sorted) {
		sum += x
		if mean := sum / float64(len(sorted)-i); x > mean {
			shift = mean
		}
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = max(x-shift, 0)
	}
	return out
}
