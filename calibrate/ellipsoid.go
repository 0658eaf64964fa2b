package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Ellipsoids computes calibrated ellipsoids, each of which contains all targets of a row at
// once with probability at least 1−α. Like the boxes of IntervalOptions.Joint, ellipsoids hold
// for any dependence between targets. If the errors of targets are correlated, an ellipsoid has
// a smaller volume, because it leaves out the corners of the box that no target reaches.
//
// An ellipsoid is centred at the medians of the row. Its size in the direction of each target
// is proportional to the row's spread of this target: the distance between its quantiles 0.1
// and 0.9, plus a fifth of the median distance. The shape is the same for all rows: it comes
// from second moments of the errors, in units of the spreads. Rows with very large errors weigh
// less. Half of the calibration rows, drawn by a seed, give the shape, and the other half
// calibrates the radius. Given the shape, the scores of this half and of a new row are
// exchangeable, so the guarantee is exact: a row is covered with probability ⌈(1−α)(n+1)⌉/(n+1)
// for n rows in this half, if scores do not tie.
//
// References: Johnstone & Cox (2021), Conformal Uncertainty Sets for Robust Optimization;
// Messoudi, Destercke & Rousseau (2022), Ellipsoidal Conformal Inference for Multi-target
// Regression, with the errors of each row in units of its own spreads instead of a covariance
// of its nearest rows; Lange, Little & Taylor (1989), Robust Statistical Modeling Using the t
// Distribution, for the weights of rows.
type Ellipsoids struct {
	alpha, weight float64
	targets       []QuantileCalibration // the rows that calibrate the radius
	added         []float64             // what is added to the spread of each target
	shape         [][]float64
	scores        []float64          // in increasing order
	weighted      *WeightedConformal // the same scores with their weights; nil without weights
}

const (
	// ellipsoidTail is the level of the lower of the two quantiles whose distance is the spread.
	ellipsoidTail = 0.1
	// addedSpread is the fraction of the median spread that is added to the spread of each row.
	// Predicted spreads are noisy, and a spread of 0, for example of a forest's leaf with equal
	// targets, would allow no error.
	addedSpread = 0.2
	// noError is the second moment of a target without errors. It makes the ellipsoid a millionth
	// of a spread wide in this direction.
	noError = 1e-12
	// tailDegrees is the number of degrees of freedom of the t distribution whose weights a row
	// with large errors gets, shapeSteps the number of steps that estimate these weights, and
	// maxShapeRows the largest number of rows that give the shape.
	tailDegrees  = 10
	shapeSteps   = 20
	maxShapeRows = 10_000
)

// NewEllipsoids calibrates ellipsoids that miss with probability at most α. All targets must
// have the same calibration rows. Without calibration rows, ellipsoids are unbounded. Seed
// draws the half of the calibration rows that gives the shape.
func NewEllipsoids(targets []QuantileCalibration, alpha float64, seed uint64) (e Ellipsoids, err error) {
	if err := checkLevel("α", alpha); err != nil {
		return e, err
	}
	if len(targets) == 0 {
		return e, errors.New("an ellipsoid needs at least one target")
	}
	if err := checkTargets(targets); err != nil {
		return e, err
	}
	for _, q := range targets {
		if err := q.check(); err != nil {
			return e, err
		}
	}
	for t, q := range targets {
		for i, y := range q.Y {
			if row := q.row(i); !isFinite(float64(y) + q.quantile(row, .5) + q.spread(row)) {
				return e, fmt.Errorf("calibration row %d, target %d: a quantile or the target is not finite", i, t)
			}
		}
	}
	shaping, calibrating, err := halve(targets, seed, ellipsoidStream)
	if err != nil {
		return e, err
	}
	return newEllipsoids(shaping, calibrating, alpha)
}

// newEllipsoids estimates the shape from some rows and calibrates the radius with others.
func newEllipsoids(shaping, calibrating []QuantileCalibration, alpha float64) (e Ellipsoids, err error) {
	e = Ellipsoids{alpha: alpha, weight: math.Inf(1), targets: calibrating}
	if err := e.fitShape(shaping); err != nil {
		return e, err
	}
	e.scores, e.weighted, err = sortWeighted(e.CalibrationScores(), calibrating[0].Weights)
	return e, err
}

// fitShape sets the added spreads and the shape from the errors of rows.
func (e *Ellipsoids) fitShape(targets []QuantileCalibration) error {
	d, n := len(targets), min(len(targets[0].Y), maxShapeRows)
	scaled := make([][]float64, n) // the errors of each row, in units of its spreads
	for i := range scaled {
		scaled[i] = make([]float64, d)
	}
	for t, q := range targets {
		spreads, squares := make([]float64, n), 0.
		for i := range n {
			spreads[i], scaled[i][t] = q.spread(q.row(i)), float64(q.Y[i])-q.quantile(q.row(i), .5)
			squares += scaled[i][t] * scaled[i][t]
		}
		added := 0.
		if n > 0 {
			added = addedSpread * slices.Sorted(slices.Values(spreads))[n/2]
			if added == 0 {
				added = math.Sqrt(squares / float64(n))
			}
		}
		if added == 0 { // there are no rows, or they have no errors
			added = 1
		}
		e.added = append(e.added, added)
		for i := range n {
			scaled[i][t] /= spreads[i] + added
		}
	}
	// The weights are those of a Student t distribution, so that no row dominates the shape.
	weights := slices.Repeat([]float64{1}, n)
	for range shapeSteps {
		var c mat.Cholesky
		if !c.Factorize(shrunkMoments(scaled, weights, d)) {
			return fmt.Errorf("the errors of the %d calibration rows that give the shape of ellipsoids are too large", n)
		}
		var lower mat.TriDense
		c.LTo(&lower)
		e.shape = make([][]float64, d)
		for t := range e.shape {
			e.shape[t] = make([]float64, d)
			for s := range t + 1 {
				e.shape[t][s] = lower.At(t, s)
			}
		}
		for i, row := range scaled {
			length := solveLength(e.shape, row)
			weights[i] = (tailDegrees + float64(d)) / (tailDegrees + length*length)
		}
	}
	return nil
}

// shrunkMoments returns the weighted second moments of rows with d numbers each. Moments between
// two numbers shrink towards 0. The matrix is then positive definite even if there are few rows,
// or if targets are multiples of each other.
func shrunkMoments(rows [][]float64, weights []float64, d int) *mat.SymDense {
	n := float64(len(rows))
	moments := mat.NewSymDense(d, nil)
	for t := range d {
		for s := range t + 1 {
			moment := 0.
			for i, row := range rows {
				moment += weights[i] * row[t] * row[s] / n
			}
			switch {
			case s < t:
				moment *= n / (n + float64(d))
			case moment == 0: // no row has an error
				moment = noError
			}
			moments.SetSym(t, s, moment)
		}
	}
	return moments
}

// solveLength returns the length of the vector u for which Lu = x, with the lower triangular
// matrix L. It allocates nothing for up to eight numbers.
func solveLength(lower [][]float64, x []float64) float64 {
	var buffer [8]float64
	u, squares := append(buffer[:0], x...), 0.
	for t, row := range lower {
		for s, v := range u[:t] {
			u[t] -= row[s] * v
		}
		u[t] /= row[t]
		squares += u[t] * u[t]
	}
	return math.Sqrt(squares)
}

// spread returns the distance between the two quantiles of a row in whose units ellipsoids
// measure errors.
func (q QuantileCalibration) spread(row []float32) float64 {
	return q.quantile(row, 1-ellipsoidTail) - q.quantile(row, ellipsoidTail)
}

// WithWeight returns the ellipsoids for a row with this weight: see Intervals.WithWeight.
func (e Ellipsoids) WithWeight(weight float64) Ellipsoids {
	e.weight = weight
	return e
}

// Predict returns the ellipsoid of a row. quantiles[t] holds the predicted quantiles of target
// t at its levels. The ellipsoid is unbounded if there are too few calibration rows for α, or
// if a quantile is not finite.
func (e Ellipsoids) Predict(quantiles [][]float32) Ellipsoid {
	return e.PredictRadius(quantiles, thresholdAt(e.scores, e.weighted, e.alpha, 0, e.weight).score)
}

// PredictRadius returns the ellipsoid of a row with the given radius instead of the calibrated
// one, for example the threshold of an Adaptive.
func (e Ellipsoids) PredictRadius(quantiles [][]float32, radius float64) Ellipsoid {
	out := Ellipsoid{Centre: make([]float64, len(e.targets)), Spread: make([]float64, len(e.targets)), Shape: e.shape, Radius: radius}
	for t, q := range e.targets {
		out.Centre[t], out.Spread[t] = q.quantile(quantiles[t], .5), q.spread(quantiles[t])+e.added[t]
		if !isFinite(out.Centre[t]) || !isFinite(out.Spread[t]) {
			out.Radius = math.Inf(1)
		}
	}
	return out
}

// Score returns the nonconformity score of a row with the true values y: the radius of the
// ellipsoid on whose surface y lies. It is NaN if a quantile is not finite or a value is NaN.
func (e Ellipsoids) Score(quantiles [][]float32, y []float32) float64 {
	at := make([]float64, len(y))
	for t, v := range y {
		at[t] = float64(v)
	}
	if p := e.PredictRadius(quantiles, 0); !math.IsInf(p.Radius, 1) {
		return p.score(at)
	}
	return math.NaN()
}

// CalibrationScores returns the scores of the calibration rows that did not give the shape, in
// the order of the rows.
func (e Ellipsoids) CalibrationScores() []float64 {
	scores := make([]float64, len(e.targets[0].Y))
	quantiles, y := make([][]float32, len(e.targets)), make([]float32, len(e.targets))
	for i := range scores {
		for t, q := range e.targets {
			quantiles[t], y[t] = q.row(i), q.Y[i]
		}
		scores[i] = e.Score(quantiles, y)
	}
	return scores
}

// Ellipsoid is a region for all targets of a row. It holds the points c + r·s∘Lu for all
// vectors u with length 1 or less. In this formula, c is Centre, r is Radius, s is Spread, L is
// Shape, and ∘ multiplies element by element. With a radius of +Inf it holds all points, and
// with a negative radius none.
type Ellipsoid struct {
	Centre []float64
	Spread []float64
	Shape  [][]float64 // a lower triangular matrix, which all rows of one calibration share
	Radius float64
}

// score returns the length of u, if y is the point c + s∘Lu.
func (e Ellipsoid) score(y []float64) float64 {
	scaled := make([]float64, len(y))
	for t, v := range y {
		scaled[t] = (v - e.Centre[t]) / e.Spread[t]
	}
	return solveLength(e.Shape, scaled)
}

// Contains reports whether the targets y lie inside the ellipsoid or on its surface. It returns
// false if one of them is NaN.
func (e Ellipsoid) Contains(y []float64) bool {
	if math.IsInf(e.Radius, 1) {
		return !slices.ContainsFunc(y, math.IsNaN)
	}
	return e.score(y) <= e.Radius
}

// LogVolume returns the natural logarithm of the volume. It is +Inf if the ellipsoid is
// unbounded, and −Inf if it has no volume.
func (e Ellipsoid) LogVolume() float64 {
	if math.IsInf(e.Radius, 1) {
		return e.Radius
	}
	d := float64(len(e.Centre))
	gamma, _ := math.Lgamma(d/2 + 1)
	sum := d/2*math.Log(math.Pi) - gamma + d*math.Log(max(0, e.Radius))
	for t, spread := range e.Spread {
		sum += math.Log(spread) + math.Log(e.Shape[t][t])
	}
	return sum
}

// Interval returns the smallest and the largest value of Σ weights[t]·y[t] in the ellipsoid,
// for example of the sum of all targets. With probability at least 1−α, such intervals hold for
// all weights at once.
func (e Ellipsoid) Interval(weights []float64) (lower, upper float64) {
	if e.Radius < 0 {
		return math.Inf(1), math.Inf(-1)
	}
	centre, reach := 0., make([]float64, len(weights)) // reach is Lᵀ(s∘weights)
	for t, w := range weights {
		if w == 0 {
			continue // a centre of an unbounded ellipsoid may be NaN
		}
		centre += w * e.Centre[t]
		for s := range t + 1 {
			reach[s] += w * e.Spread[t] * e.Shape[t][s]
		}
	}
	length := 0.
	for _, v := range reach {
		length = math.Hypot(length, v)
	}
	switch {
	case length == 0:
		return centre, centre
	case math.IsInf(e.Radius, 1):
		return math.Inf(-1), math.Inf(1)
	}
	half := e.Radius * length * (1 + 1e-12) // so that rounding leaves no point outside
	return centre - half, centre + half
}

// Factor returns the lower triangular matrix F for which the ellipsoid holds the points c + Fu
// for all vectors u with length 1 or less. A vector y lies inside if F⁻¹(y − c) has length 1 or
// less, up to rounding. The covariance matrix FFᵀ describes the same ellipsoid.
func (e Ellipsoid) Factor() [][]float64 {
	out := make([][]float64, len(e.Shape))
	for t, row := range e.Shape {
		out[t] = make([]float64, len(row))
		for s := range t + 1 {
			if row[s] != 0 { // because an infinite radius times 0 is NaN
				out[t][s] = e.Radius * e.Spread[t] * row[s]
			}
		}
	}
	return out
}
