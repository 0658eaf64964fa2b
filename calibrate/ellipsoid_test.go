package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// TestEllipsoidAgreesWithNumPy compares shapes, scores, radii, volumes and membership with
// values from testdata/ellipsoid.py.
func TestEllipsoidAgreesWithNumPy(t *testing.T) {
	content, err := os.ReadFile("testdata/ellipsoid.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Shaping, Calibrating int
		Alpha, Radius        float64
		Grid                 [][][]float32
		Y                    [][]float32
		Scores, Direction    []float64
		Lower, Upper         []float64
		Inside               []bool
		LogVolume            []float64 `json:"log_volume"`
		Covariance           [][][]float64
	}
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	part := func(from, to int) []QuantileCalibration {
		targets := make([]QuantileCalibration, len(r.Y[0]))
		for k := range targets {
			targets[k].Levels = []float64{.1, .5, .9}
			for i := from; i < to; i++ {
				targets[k].Grid, targets[k].Y = append(targets[k].Grid, r.Grid[i][k]...), append(targets[k].Y, r.Y[i][k])
			}
		}
		return targets
	}
	first := r.Shaping + r.Calibrating
	e, err := newEllipsoids(part(0, r.Shaping), part(r.Shaping, first), r.Alpha)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for i, y := range r.Y {
		near("score", e.Score(r.Grid[i], y), r.Scores[i])
	}
	covered := 0
	for k, want := range r.Inside {
		i := first + k
		region := e.Predict(r.Grid[i])
		near("radius", region.Radius, r.Radius)
		near("log volume", region.LogVolume(), r.LogVolume[k])
		lower, upper := region.Interval(r.Direction)
		near("lower end", lower, r.Lower[k])
		near("upper end", upper, r.Upper[k])
		factor := region.Factor()
		for a := range factor {
			for b := range factor {
				sum := 0.
				for c := range factor {
					sum += factor[a][c] * factor[b][c]
				}
				near("covariance", sum, r.Covariance[k][a][b])
			}
		}
		got := region.Contains([]float64{float64(r.Y[i][0]), float64(r.Y[i][1]), float64(r.Y[i][2])})
		if got != want {
			t.Errorf("row %d is inside: %v, want %v", i, got, want)
		}
		if got {
			covered++
		}
	}
	if covered == 0 || covered == len(r.Inside) {
		t.Errorf("%d of %d rows are covered, which tests nothing", covered, len(r.Inside))
	}
}

// drawTargets returns n rows of two targets whose errors are correlated, skewed and larger than
// predicted. Targets are multiples of grain, if it is not 0.
func drawTargets(rng *rand.Rand, n int, grain float64) []QuantileCalibration {
	targets := []QuantileCalibration{{Levels: []float64{.1, .5, .9}}, {Levels: []float64{.1, .5, .9}}}
	for range n {
		common, scale := rng.ExpFloat64()-.5, 1+3*rng.Float64()
		for k := range targets {
			centre := 3 * rng.NormFloat64()
			y := centre + scale*(common+.4*rng.NormFloat64())
			if grain > 0 {
				centre, scale, y = grain*math.Round(centre/grain), grain*math.Round(scale/grain), grain*math.Round(y/grain)
			}
			targets[k].Y = append(targets[k].Y, float32(y))
			targets[k].Grid = append(targets[k].Grid, float32(centre-scale/2), float32(centre), float32(centre+scale/2))
		}
	}
	return targets
}

// rowOf returns the quantiles and the targets of a row.
func rowOf(targets []QuantileCalibration, i int) (quantiles [][]float32, y []float64) {
	for _, q := range targets {
		quantiles, y = append(quantiles, q.row(i)), append(y, float64(q.Y[i]))
	}
	return quantiles, y
}

// TestEllipsoidCoverage draws 1,000 calibration sets of 41 rows, 21 of which calibrate, with
// one new row each, and then the same with 20 new rows each.
func TestEllipsoidCoverage(t *testing.T) {
	const draws, n, each = 1000, 41, 20
	const alpha = .25
	rng := rand.New(rand.NewPCG(8, 3))
	covered, all := 0., 0.
	for draw := range draws {
		e, err := NewEllipsoids(drawTargets(rng, n, 0), alpha, uint64(draw))
		if err != nil {
			t.Fatal(err)
		}
		fresh := drawTargets(rng, each, 0)
		for i := range each {
			quantiles, y := rowOf(fresh, i)
			if !e.Predict(quantiles).Contains(y) {
				continue
			}
			if i == 0 {
				covered++
			}
			all++
		}
	}
	want := hypothesis.ExpectedCoverage(hypothesis.Halved(n), alpha)
	if se := math.Sqrt(want * (1 - want) / draws); math.Abs(covered/draws-want) > 2*se {
		t.Errorf("coverage %v, want %v ± %v", covered/draws, want, 2*se)
	}
	// The coverage of one calibration set has the distribution Beta(k, n+1−k), whose variance is
	// want·(1−want)/(n+2) for n rows that calibrate.
	variance := want * (1 - want) / float64(hypothesis.Halved(n)+2)
	variance += want * (1 - want) / each
	if se := math.Sqrt(variance / draws); math.Abs(all/draws/each-want) > 2*se {
		t.Errorf("coverage of %d rows each is %v, want %v ± %v", each, all/draws/each, want, 2*se)
	}
}

// TestEllipsoidContainsItsCalibrationRows checks that the number of calibration rows inside is
// exact, although many of them lie on the surface, and that points inside lie in every interval.
func TestEllipsoidContainsItsCalibrationRows(t *testing.T) {
	const n, alpha = 401, .3
	e, err := NewEllipsoids(drawTargets(rand.New(rand.NewPCG(1, 2)), n, 2), alpha, 3)
	if err != nil {
		t.Fatal(err)
	}
	inside, onSurface := 0, 0
	scores := e.CalibrationScores()
	for i, score := range scores {
		quantiles, y := rowOf(e.targets, i)
		region := e.Predict(quantiles)
		if region.Contains(y) != (score <= region.Radius) {
			t.Fatalf("row %d with the score %v and the radius %v: inside is %v", i, score, region.Radius, region.Contains(y))
		}
		if score == region.Radius {
			onSurface++
		}
		if !region.Contains(y) {
			continue
		}
		inside++
		for _, weights := range [][]float64{{1, 0}, {0, 1}, {1, 1}, {-1, 2}} {
			lower, upper := region.Interval(weights)
			if sum := weights[0]*y[0] + weights[1]*y[1]; sum < lower || sum > upper {
				t.Errorf("row %d: %v is outside [%v, %v]", i, sum, lower, upper)
			}
		}
	}
	if least := int(math.Ceil((1 - alpha) * float64(len(scores)+1))); inside < least || onSurface < 2 {
		t.Errorf("%d of %d rows are inside, of which %d are on the surface; want at least %d and 2", inside, len(scores), onSurface, least)
	}
}

func TestEllipsoidOfFewOrUnusualRows(t *testing.T) {
	levels := []float64{.1, .5, .9}
	row := [][]float32{{-1, 0, 1}, {4, 5, 6}}
	empty := []QuantileCalibration{{Levels: levels}, {Levels: levels}}
	e, err := NewEllipsoids(empty, .1, 0)
	if err != nil {
		t.Fatal(err)
	}
	region := e.Predict(row)
	lower, upper := region.Interval([]float64{1, 1})
	if !math.IsInf(region.LogVolume(), 1) || !region.Contains([]float64{1e9, -1e9}) || !math.IsInf(lower, -1) || !math.IsInf(upper, 1) {
		t.Errorf("without calibration rows, the region is %+v", region)
	}
	if region.Contains([]float64{math.NaN(), 0}) {
		t.Error("NaN is inside")
	}
	if f := region.Factor(); !math.IsInf(f[0][0], 1) || f[0][1] != 0 || math.IsNaN(f[1][0]) {
		t.Errorf("the factor of an unbounded ellipsoid is %v", f)
	}

	// Targets that are multiples of each other, and forecasts without a spread or without an error.
	rng := rand.New(rand.NewPCG(4, 4))
	same := []QuantileCalibration{{Levels: levels}, {Levels: levels}, {Levels: levels}}
	for range 200 {
		v := float32(rng.NormFloat64())
		same[0].Y, same[0].Grid = append(same[0].Y, v), append(same[0].Grid, 0, 0, 0)
		same[1].Y, same[1].Grid = append(same[1].Y, 2*v), append(same[1].Grid, 0, 0, 0)
		same[2].Y, same[2].Grid = append(same[2].Y, 7), append(same[2].Grid, 7, 7, 7)
	}
	if e, err = NewEllipsoids(same, .1, 0); err != nil {
		t.Fatal(err)
	}
	region = e.Predict([][]float32{{0, 0, 0}, {0, 0, 0}, {7, 7, 7}})
	if math.IsInf(region.LogVolume(), 0) || !region.Contains([]float64{1, 2, 7}) || region.Contains([]float64{1, 0, 7}) || region.Contains([]float64{1, 2, 8}) {
		t.Errorf("the region of equal targets is %+v", region)
	}

	// A quantile that is not finite makes the ellipsoid unbounded, and the score unknown.
	inf := float32(math.Inf(1))
	region = e.Predict([][]float32{{0, inf, inf}, {0, 0, 0}, {7, 7, 7}})
	if lower, upper := region.Interval([]float64{0, 1, 0}); !region.Contains([]float64{1, 2, 8}) || !math.IsInf(lower, -1) || !math.IsInf(upper, 1) {
		t.Errorf("with an infinite quantile, the region is %+v", region)
	}
	if s := e.Score([][]float32{{0, inf, inf}, {0, 0, 0}, {7, 7, 7}}, []float32{1, 2, 3}); !math.IsNaN(s) {
		t.Errorf("with an infinite quantile, the score is %v", s)
	}

	// A negative radius leaves nothing.
	region = e.PredictRadius([][]float32{{0, 0, 0}, {0, 0, 0}, {7, 7, 7}}, math.Inf(-1))
	if lower, upper := region.Interval([]float64{1, 1, 0}); region.Contains([]float64{0, 0, 7}) || lower <= upper || !math.IsInf(region.LogVolume(), -1) {
		t.Errorf("with a negative radius, the region is %+v", region)
	}

	for name, targets := range map[string][]QuantileCalibration{
		"no target":        nil,
		"different rows":   {{Levels: levels, Y: []float32{1}, Grid: []float32{1, 2, 3}}, {Levels: levels}},
		"NaN":              {{Levels: levels, Y: []float32{float32(math.NaN())}, Grid: []float32{1, 2, 3}}},
		"infinite median":  {{Levels: levels, Y: []float32{1}, Grid: []float32{1, inf, inf}}},
		"a quantile short": {{Levels: levels, Y: []float32{1}, Grid: []float32{1, 2}}},
	} {
		if _, err := NewEllipsoids(targets, .1, 0); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := NewEllipsoids(empty, 1.5, 0); err == nil {
		t.Error("α = 1.5 is accepted")
	}
}

// TestWeightedEllipsoid checks that equal weights change nothing, and that a row with a large
// weight gets an unbounded ellipsoid.
func TestWeightedEllipsoid(t *testing.T) {
	targets := drawTargets(rand.New(rand.NewPCG(5, 1)), 100, 0)
	plain, err := NewEllipsoids(targets, .1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for k := range targets {
		for range targets[k].Y {
			targets[k].Weights = append(targets[k].Weights, 2)
		}
	}
	weighted, err := NewEllipsoids(targets, .1, 0)
	if err != nil {
		t.Fatal(err)
	}
	quantiles, _ := rowOf(targets, 0)
	want := plain.Predict(quantiles).Radius
	if got := weighted.WithWeight(2).Predict(quantiles).Radius; got != want || math.IsInf(want, 0) {
		t.Errorf("with equal weights the radius is %v, want %v", got, want)
	}
	if got := weighted.WithWeight(1e6).Predict(quantiles).Radius; !math.IsInf(got, 1) {
		t.Errorf("with a large weight the radius is %v", got)
	}
}
